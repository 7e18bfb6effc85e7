"""Logins to servers elsewhere: what is kept of them, and where.

The file lies outside every project and is 0600. A login belongs to the address that it was made for, and is sent to no
other: a project that gives its own server the name of one of yours gets nothing by it.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from bullpen.config.jsonc import read_object
from bullpen.config.keys import Token
from bullpen.config.machine_file import change_file
from bullpen.config.shape import McpServer
from bullpen.errors import ConfigError


class Login(Token, frozen=True, kw_only=True):
    """A token, with all that renewing and revoking it takes."""

    client_secret: str = ""
    auth_method: str = ""
    """How the client shows who it is when it asks for tokens: `client_secret_post`, `client_secret_basic` or nothing."""
    resource: str = ""
    revocation_url: str = ""

    def __repr__(self) -> str:
        """Without what is secret."""
        return f"Login(client_id={self.client_id!r}, expires_at={self.expires_at})"


def login_key(server: McpServer) -> str:
    """What a login belongs to: an address, and a client if one was registered beforehand."""
    return hashlib.sha256(json.dumps([server.url, server.oauth_client_id]).encode()).hexdigest()


def can_log_in(server: McpServer) -> bool:
    """Whether a login is of any use: a header in the configuration would be sent instead."""
    return server.type != "stdio" and not any(
        name.lower() == "authorization" and value for name, value in server.headers.items()
    )


def is_private(url: str) -> bool:
    """Whether nobody in between can read what is sent there: encrypted, or not leaving this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_this_machine(host)))


def is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class LoginBook:
    """The file. It is read anew each time: another process may have written to it. Its calls block."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def read(self, key: str) -> Login | None:
        try:
            return _login_in(read_object(self.file) or {}, key)
        except ConfigError:
            return None

    def store(self, key: str, login: Login) -> None:
        """On disk when this returns. Raises `OSError`, `ConfigError`."""
        change_file(self.file, lambda content: _logins(content).update({key: msgspec.to_builtins(login)}))

    def replace(self, key: str, old: Login, fresh: Login) -> Login | None:
        """Put a login in the place of the one that it was exchanged for, and give back what is on disk then.

        Whoever logged out meanwhile stays logged out, and a new login stays. Raises `OSError`, `ConfigError`."""
        there: Login | None = None

        def change(content: dict[str, Any]) -> None:
            nonlocal there
            there = _login_in(content, key)
            if there is not None and there.refresh_token == old.refresh_token:
                there = fresh
                _logins(content)[key] = msgspec.to_builtins(fresh)

        change_file(self.file, change)
        return there

    def remove(self, key: str) -> Login | None:
        """Forget a login; gives back what it was. Raises `OSError`, `ConfigError`."""
        was = self.read(key)
        if was is not None:
            change_file(self.file, lambda content: _logins(content).pop(key, None))
        return was


def _logins(content: dict[str, Any]) -> dict[str, Any]:
    logins = content.setdefault("logins", {})
    if not isinstance(logins, dict):
        logins = content["logins"] = {}
    return logins


def _login_in(content: Mapping[str, Any], key: str) -> Login | None:
    logins = content.get("logins")
    try:
        return msgspec.convert(logins[key], Login) if isinstance(logins, dict) and key in logins else None
    except msgspec.ValidationError:
        return None
