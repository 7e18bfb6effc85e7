"""Which server is meant, and what it wants to see from us. Standard library alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from bullpen.system.address import Address, UnixAddress, default_socket_path, parse_host

HOST_NAME = "bullpen"
"""Our `Host` on a unix socket. It must not be the reference client's, which is never allowed to stop a server."""


def find_address(host: str | None, env: Mapping[str, str] = os.environ) -> Address:
    """The server meant by `host`, by `BULLPEN_HOST` when there is none, else this user's own socket.

    Raises `BadHost` when the text makes no sense.
    """
    text = host or env.get("BULLPEN_HOST", "")
    return parse_host(text) if text else UnixAddress(default_socket_path(env))


def find_token(address: Address, env: Mapping[str, str] = os.environ) -> str:
    """The token for a TCP server: `BULLPEN_TOKEN`, else the file in which a server of this user keeps its own."""
    if isinstance(address, UnixAddress):
        return ""
    if token := env.get("BULLPEN_TOKEN", "").strip():
        return token
    try:
        return token_path(env).read_text().strip()
    except OSError:
        return ""


def token_path(env: Mapping[str, str] = os.environ) -> Path:
    """Where a server of this user keeps the token of its TCP ports."""
    return user_directory(env, "BULLPEN_GLOBAL_DATA", "XDG_DATA_HOME", ".local/share") / "token"


def user_directory(env: Mapping[str, str], own: str, xdg: str, default: str) -> Path:
    """A directory of ours: what our own variable says, else below what the XDG one says, else below the home."""
    if os.path.isabs(env.get(own, "")):
        return Path(env[own])
    named = env.get(xdg, "")
    root = Path(named) if os.path.isabs(named) else Path(env.get("HOME") or os.path.expanduser("~")) / default
    return root / "bullpen"
