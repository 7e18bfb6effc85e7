"""Which addresses belong to the public internet, and which lead inside.

A machine that runs an agent stands in a network with things that trust whoever can reach them: other services of the
same machine, routers, a cloud's metadata service with its credentials. Only an address that is known to be public is
reached. The tables are ours, from the IANA registries of special addresses: those of the standard library differ between
releases of Python, and know nothing of the addresses that carry another one inside.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Ip = IPv4Address | IPv6Address

_NOT_PUBLIC_4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this host, this network
            "10.0.0.0/8",
            "100.64.0.0/10",  # between a provider and its customers; also a metadata service (100.100.100.200)
            "127.0.0.0/8",
            "168.63.129.16/32",  # a cloud's host, as its guests see it, on an address that looks public
            "169.254.0.0/16",  # the local link, with the metadata services of most clouds
            "172.16.0.0/12",
            "192.0.0.0/24",  # protocol assignments; also a metadata service (192.0.0.192)
            "192.0.2.0/24",  # documentation
            "192.52.193.0/24",  # tunnels for multicast
            "192.88.99.0/24",  # relays of 6to4
            "192.168.0.0/16",
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)

_UNICAST_6 = IPv6Network("2000::/3")
"""All global unicast addresses that were ever given out; what lies outside is local, multicast or unknown."""

_NOT_PUBLIC_6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments, among them Teredo, which carries an IPv4 address
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4, which carries an IPv4 address
            "3fff::/20",  # documentation
        ),
    )
)

_NAT64 = IPv6Network("64:ff9b::/96")
"""The well-known prefix through which hosts without IPv4 reach it. The local one, 64:ff9b:1::/48, leads inside."""

_ISATAP = (0x00005EFE, 0x02005EFE)
"""The upper half of an interface id whose lower half is an IPv4 address to tunnel to."""


def parse(text: str) -> Ip | None:
    """The address that the text is in its usual form, or None."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def is_public(address: Ip) -> bool:
    """Whether the address is one of the public internet, however it is written and whatever it carries."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_4)
    if address.scope_id is not None:
        return False
    carried = address.ipv4_mapped or (_last_four(address) if address in _NAT64 else None)
    if carried is not None:
        return is_public(carried)
    if address not in _UNICAST_6 or any(address in network for network in _NOT_PUBLIC_6):
        return False
    return (int(address) >> 32) & 0xFFFFFFFF not in _ISATAP


def _last_four(address: IPv6Address) -> IPv4Address:
    return IPv4Address(int(address) & 0xFFFFFFFF)
