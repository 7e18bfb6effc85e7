"""Public addresses, and those that only look so."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from bullpen.net.addresses import is_public, parse


@pytest.mark.parametrize(
    "text",
    [
        "8.8.8.8",
        "93.184.216.34",
        "172.32.0.1",
        "100.128.0.1",
        "192.0.1.1",
        "2606:4700::1111",
        "2a00:1450:4001::8a",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
    ],
)
def test_public(text: str) -> None:
    assert is_public(ip_address(text))


@pytest.mark.parametrize("octet", [0, 10, 127, *range(224, 256)])
def test_whole_blocks_are_not_public(octet: int) -> None:
    assert not any(is_public(ip_address(f"{octet}.{n}.{255 - n}.1")) for n in range(256))


def test_never_more_than_the_standard_library_grants() -> None:
    """Two tables: what ours lets through is global there too, tried all over both spaces."""
    for n in range(0, 2**32, 2**32 // 20_011):
        address = ip_address(n)
        assert not is_public(address) or address.is_global, address
    for n in range(0, 2**128, 2**128 // 20_011):
        wide = ip_address(n)
        assert not is_public(wide) or wide.is_global, wide


def test_only_the_usual_form_is_an_address() -> None:
    assert parse("127.1") is None
    assert parse("0x7f000001") is None
    assert parse("localhost") is None
