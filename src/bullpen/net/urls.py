"""Web addresses, read exactly.

Readers of addresses differ in what they forgive, and every difference is a way to show one host and to reach another.
So there is one reader here, it forgives nothing that could be read in two ways, and what it gives back is
what is shown, checked and sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import NamedTuple
from urllib.parse import quote, urljoin

from bullpen.errors import ToolFailed

MAX_LENGTH = 8192
"""Longer than any address that servers take."""

DEFAULT_PORTS = {"http": 80, "https": 443}

REFUSED_PORTS = frozenset(
    {
        1,
        7,
        9,
        11,
        13,
        15,
        17,
        19,
        20,
        21,
        22,
        23,
        25,
        37,
        42,
        43,
        53,
        69,
        77,
        79,
        87,
        95,
        101,
        102,
        103,
        104,
        109,
    }
    | {
        110,
        111,
        113,
        115,
        117,
        119,
        123,
        135,
        137,
        139,
        143,
        161,
        179,
        389,
        427,
        465,
        512,
        513,
        514,
        515,
        526,
        530,
    }
    | {
        531,
        532,
        540,
        548,
        554,
        556,
        563,
        587,
        601,
        636,
        989,
        990,
        993,
        995,
        1719,
        1720,
        1723,
        2049,
        3659,
        4045,
    }
    | {4190, 5060, 5061, 6000, 6379, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080, 11211}
)
"""Where something else listens that may take a web request for its own words: mail, shells, IRC, key-value stores. The list
is that of browsers, with two stores added."""

_WHOLE = re.compile(r"(https?)://([^/?#]*)([^#]*)(?:#.*)?", re.IGNORECASE | re.DOTALL)
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_KEPT = "!#$%&'()*+,-./:;=?@[]_~"
"""What stays as it is behind the host; everything else is escaped."""

_PACKED = re.compile(r"[A-Za-z0-9+/_=-]{40,}|(?:%[0-9A-Fa-f]{2}){12,}")
"""A long run without a word's end, as encoded data has it."""

_EVERYDAY = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}|[A-Za-z0-9]+(?:[-_][A-Za-z0-9]+){3,}")

LONG_QUERY = 100
LONG_PATH = 300
LONG_LABEL = 30


class UrlRefused(ToolFailed):
    """The text is no web address that could be reached, with the reason for the model."""

    def __init__(self, text: str, why: str) -> None:
        shown = text if len(text) <= 200 else f"{text[:200]}…"
        super().__init__(f"The address {shown!r} was refused: {why}")


class Url(NamedTuple):
    """An address in its one normal form: lower-case ASCII host, port as a number, and the rest as it is sent."""

    scheme: str
    host: str
    port: int
    target: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"

    @property
    def authority(self) -> str:
        """As in the `Host` header: the port only where it is not the usual one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def place(self) -> tuple[str, int]:
        return self.host, self.port


def parse(text: str) -> Url:
    """Raises `UrlRefused`."""
    stripped = text.strip(" \t\r\n")
    if not stripped:
        raise UrlRefused(text, "it is empty.")
    if len(stripped) > MAX_LENGTH:
        raise UrlRefused(text, f"it has more than {MAX_LENGTH} characters.")
    _check_characters(text, stripped)
    whole = _WHOLE.fullmatch(stripped)
    if whole is None:
        raise UrlRefused(text, _what_is_missing(stripped))
    scheme = whole[1].lower()
    host, port = _authority(text, whole[2], scheme)
    return Url(scheme, host, port, _target(text, whole[3]))


def follow(base: Url, location: str) -> Url:
    """Where a redirect leads. Raises `UrlRefused`."""
    _check_characters(location, location)
    if not location or len(location) > MAX_LENGTH:
        raise UrlRefused(location, "a redirect leads nowhere, or further than an address reaches.")
    if (scheme := _SCHEME.match(location)) and scheme[1].lower() not in DEFAULT_PORTS:
        raise UrlRefused(location, "a redirect leads to something other than http or https.")
    return parse(urljoin(str(base), location))


def cargo(url: Url) -> str:
    """What may be data that leaves with the address, in a sentence for whoever is asked; "" for an ordinary address."""
    path, _, query = url.target.partition("?")
    found: list[str] = []
    if len(query) > LONG_QUERY:
        found.append(f"a query of {len(query)} characters")
    if len(path) > LONG_PATH:
        found.append(f"a path of {len(path)} characters")
    elif any(_looks_packed(segment) for segment in path.split("/")) or _PACKED.search(query):
        found.append("a long run that may be encoded data")
    if any(len(label) > LONG_LABEL for label in url.host.split(".")) or url.host.count(".") > 5:
        found.append("an unusually long host name")
    return f"Careful, it carries {' and '.join(found)}, and all of it leaves this machine." if found else ""


def cargo_of(query: str) -> str:
    """The same for words that are sent to a search engine."""
    found: list[str] = []
    if len(query) > LONG_QUERY:
        found.append(f"{len(query)} characters")
    if _PACKED.search(query):
        found.append("a long run that may be encoded data")
    return (
        f"Careful, the query has {' and '.join(found)}, and all of it leaves this machine." if found else ""
    )


def _looks_packed(segment: str) -> bool:
    """A title in an address has its words apart; hashes of forty digits, as of commits, are ordinary."""
    run = _PACKED.search(segment)
    return run is not None and not _EVERYDAY.fullmatch(run[0])


def _check_characters(text: str, inner: str) -> None:
    if any(c <= " " or c == "\x7f" or "\x80" <= c <= "\xa0" for c in inner):
        raise UrlRefused(text, "it has spaces or control characters in it; escape them with %XX.")
    if "\\" in inner:
        raise UrlRefused(text, "it has a backslash in it.")
    if not inner.isprintable():
        raise UrlRefused(text, "it has invisible characters in it.")


def _what_is_missing(text: str) -> str:
    scheme = _SCHEME.match(text)
    if scheme is None or (scheme[1].lower() not in DEFAULT_PORTS and "://" not in text and "." in scheme[1]):
        return "it has to begin with https:// or http://."
    if scheme[1].lower() in DEFAULT_PORTS:
        return "the scheme has to be followed by // and a host."
    return f"only http and https are fetched, not {scheme[1].lower()}."


def _authority(text: str, authority: str, scheme: str) -> tuple[str, int]:
    if "@" in authority:
        raise UrlRefused(text, "names and passwords do not belong into an address.")
    if authority.startswith("["):
        inner, bracket, rest = authority[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise UrlRefused(text, "its brackets hold no host.")
        return _ipv6(text, inner), _port(text, rest, scheme)
    host, colon, port = authority.partition(":")
    return _host(text, host), _port(text, colon + port, scheme)


def _port(text: str, part: str, scheme: str) -> int:
    if not part:
        return DEFAULT_PORTS[scheme]
    digits = part[1:]
    if not re.fullmatch(r"[0-9]{1,5}", digits) or not 0 < int(digits) < 65536:
        raise UrlRefused(text, "its port is no number from 1 to 65535.")
    if int(digits) in REFUSED_PORTS:
        raise UrlRefused(text, f"port {int(digits)} is not one that web pages are served from.")
    return int(digits)


def _ipv6(text: str, inner: str) -> str:
    try:
        address = IPv6Address(inner)
    except AddressValueError:
        raise UrlRefused(text, "its brackets hold no IPv6 address.") from None
    if address.scope_id is not None:
        raise UrlRefused(text, "an address with a zone is one of a local network.")
    return address.compressed


def _host(text: str, host: str) -> str:
    if not host.isascii():
        host = _ascii_host(text, host)
    host = host.lower().removesuffix(".")
    labels = host.split(".")
    if not host or len(host) > 253 or not all(map(_LABEL.fullmatch, labels)):
        raise UrlRefused(text, f"{host!r} is no host name.")
    if _NUMBER.fullmatch(labels[-1]):
        # Systems read 127.1, 0x7f.1, 0177.0.0.1 and 2130706433 as addresses, each in its own way.
        try:
            return str(IPv4Address(host))
        except AddressValueError:
            raise UrlRefused(text, "an IPv4 address is written as four decimal numbers.") from None
    return host


def _ascii_host(text: str, host: str) -> str:
    """The host as name servers know it. Characters that only look like others must not become a number or a dot."""
    import idna  # noqa: PLC0415  # Its tables take time to load, and hardly any address needs them.

    try:
        found = idna.encode(host, uts46=True, std3_rules=True).decode("ascii")
    except (idna.IDNAError, UnicodeError):
        raise UrlRefused(text, f"{host!r} is no host name.") from None
    if _NUMBER.fullmatch(found.lower().removesuffix(".").rpartition(".")[2]):
        raise UrlRefused(text, "an IPv4 address is written as four decimal numbers.")
    return found


def _target(text: str, rest: str) -> str:
    if _ESCAPE.search(rest):
        raise UrlRefused(text, "it has a % in it that is not followed by two hexadecimal digits; write %25.")
    if not rest.startswith("/"):
        rest = f"/{rest}"
    return quote(rest, safe=_KEPT)


def places(rules: Iterable[str]) -> frozenset[tuple[str, int]]:
    """The places of `host:port` rules; both have to fit exactly. Raises `UrlRefused` for what is no such rule."""
    return frozenset(map(_place, rules))


def _place(rule: str) -> tuple[str, int]:
    if any(c in rule for c in "/?#*@"):
        raise UrlRefused(rule, "a rule names one place, as host:port.")
    url = parse(f"http://{rule}/")
    if not rule.endswith(f":{url.port}"):
        raise UrlRefused(rule, "a rule names the port too, as host:port.")
    return url.place
