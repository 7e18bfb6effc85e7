"""Who may talk to us over TCP.

A unix socket is private and its peer is checked by the kernel's word, so nothing is asked there. On TCP,
loopback included, every request but those to open endpoints (`GET /v1/health`) shows the token; then come the checks against web
pages: whose name we were called by, where the page came from, and what kind of body it sends. A request
that does not say what connection it came over is taken for TCP.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import re
import secrets
import stat
from collections.abc import Collection
from pathlib import Path

from starlette.types import Scope

from bullpen.errors import ConfigError, Forbidden, Unauthorized
from bullpen.server.link import EXTENSION

TOKEN_BYTES = 32
"""256 bits: nobody guesses it, so a wrong one needs no counting."""

_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{1,5})?", re.ASCII)
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43,}", re.ASCII)
_SAME_SITE = {"same-origin", "none"}
"""`none` is a person at the address line. `same-site` is another port of this machine, so another origin."""


class Guard:
    """Checks each request before anything else looks at it."""

    def __init__(self, token: str | None, names: Collection[str] = ()) -> None:
        """`names` are the host names, beside loopback, that the server is reached by.

        Without a token nobody gets in over TCP: what is not set never means open.
        """
        self._token = (token or "").encode()
        self._names = {name.lower() for name in names}

    def check(self, scope: Scope, *, is_open: bool) -> None:
        """Raises `Unauthorized`, but not where `is_open`, then `Forbidden`."""
        link = scope.get("extensions", {}).get(EXTENSION, {})
        if link.get("unix") is True:
            return
        headers = _by_name(scope)
        if not is_open and not self._is_known(headers.get(b"authorization", [])):
            raise Unauthorized
        self._check_host(headers.get(b"host", []))
        self._check_origin(scope, headers)
        self._check_body(headers)

    def _is_known(self, values: list[bytes]) -> bool:
        if not self._token or len(values) != 1:
            return False
        scheme, _, shown = values[0].partition(b" ")
        return hmac.compare_digest(shown.strip(), self._token) and scheme.lower() == b"bearer"

    def _check_host(self, values: list[bytes]) -> None:
        if len(values) != 1 or not self._is_ours(values[0].decode("latin-1")):
            raise Forbidden("this server does not go by the name in the Host header")

    def _is_ours(self, host: str) -> bool:
        match = _HOST.fullmatch(host.lower())
        if match is None:
            return False
        name = match["name"]
        return name == "localhost" or name in self._names or _is_loopback(name)

    def _check_origin(self, scope: Scope, headers: dict[bytes, list[bytes]]) -> None:
        sites = headers.get(b"sec-fetch-site", [])
        if any(site.decode("latin-1").lower() not in _SAME_SITE for site in sites):
            raise Forbidden("requests from other sites are refused")
        own = f"{scope.get('scheme', 'http')}://".encode() + headers[b"host"][0]
        if any(origin.lower() != own.lower() for origin in headers.get(b"origin", [])):
            raise Forbidden("requests from other origins are refused")

    def _check_body(self, headers: dict[bytes, list[bytes]]) -> None:
        kinds = headers.get(b"content-type", [])
        has_body = b"transfer-encoding" in headers or headers.get(b"content-length", [b"0"]) != [b"0"]
        if (kinds or has_body) and not (len(kinds) == 1 and _is_json(kinds[0])):
            raise Forbidden("a body has to be application/json")


def _by_name(scope: Scope) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name, []).append(value)
    return found


def _is_loopback(name: str) -> bool:
    """Only the plain spellings: no short forms, no IPv4 dressed as IPv6."""
    if name == "[::1]":
        return True
    try:
        return ipaddress.IPv4Address(name).is_loopback
    except ValueError:
        return False


def _is_json(kind: bytes) -> bool:
    return kind.partition(b";")[0].strip().lower() == b"application/json"


def load_or_create_token(path: Path) -> str:
    """The token kept at `path`; made there on first use, for this user's eyes only.

    Two servers that start at once end up with the same token. Raises `ConfigError` when the file is a
    link, belongs to somebody else, can be read by others, or holds no token; `OSError` when it cannot be
    read or made.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        return _read_token(path)
    except FileNotFoundError:
        pass
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    _write_token(draft, secrets.token_urlsafe(TOKEN_BYTES))
    try:
        # A link appears whole or not at all, and never replaces what is there.
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    return _read_token(path)


def _write_token(path: Path, token: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="ascii") as file:
        file.write(token + "\n")
        file.flush()
        os.fsync(descriptor)


def _read_token(path: Path) -> str:
    if path.is_symlink():
        raise ConfigError(f"the token file {path} is a symbolic link; remove it to get a new token")
    # Without O_NONBLOCK a pipe put there by somebody would hold the server up.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise ConfigError(
                f"the token file {path} is not a file of this user; remove it to get a new token"
            )
        if stat.S_IMODE(found.st_mode) & 0o077:
            raise ConfigError(f"the token file {path} can be read by others; remove it to get a new token")
        token = file.read(1024).decode("ascii", "replace").strip()
    if not _TOKEN.fullmatch(token):
        raise ConfigError(f"the token file {path} holds no token; remove it to get a new one")
    return token
