"""Logins: the token record of a provider in the machine-written config, and the lock under which it is renewed.

The file is shared by every process of the user. Whoever renews a token holds the provider's lock and writes what it got
before anybody uses it, so a refresh token that is good only once is never used twice and never lost.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from bullpen.config import write
from bullpen.config.jsonc import read_object
from bullpen.config.keys import Token, token_of
from bullpen.config.machine_file import change_file
from bullpen.errors import ConfigError


def read(file: Path, provider_id: str) -> Token | None:
    """The login of a provider as it is on disk now."""
    try:
        return _login_in(read_object(file) or {}, provider_id)
    except ConfigError:
        return None


def store(file: Path, provider_id: str, token: Token) -> None:
    """On disk when this returns. Raises `OSError`, `ConfigError`."""
    write.set_provider_key(file, provider_id, "oauth", msgspec.to_builtins(token))


def replace(file: Path, provider_id: str, old: Token, fresh: Token) -> Token | None:
    """Put a token in the place of the one that it was exchanged for, and give back the login that is on disk then.

    Whoever logged out meanwhile stays logged out, and a new login stays. Raises `OSError`, `ConfigError`."""
    there: Token | None = None

    def change(content: dict[str, Any]) -> None:
        nonlocal there
        there = _login_in(content, provider_id)
        if there is not None and there.refresh_token == old.refresh_token:
            there = fresh
            content["providers"][provider_id]["oauth"] = msgspec.to_builtins(fresh)

    change_file(file, change)
    return there


def remove(file: Path, provider_id: str) -> bool:
    """Forget the key and the login of a provider; whether there was one."""
    entry = ((read_object(file) or {}).get("providers") or {}).get(provider_id) or {}
    had = bool(entry.get("api_key") or entry.get("oauth"))
    name = provider_id.replace(".", "\\.")
    for field in ("api_key", "oauth"):
        write.remove_value(file, f"providers.{name}.{field}")
    return had


def _login_in(content: Mapping[str, Any], provider_id: str) -> Token | None:
    found: Any = content
    for step in ("providers", provider_id, "oauth"):
        found = found.get(step) if isinstance(found, Mapping) else None
    return token_of(found) if isinstance(found, Mapping) else None


def of_editor(home: Path) -> str:
    """The GitHub token that an editor's Copilot plug-in keeps; empty when there is none."""
    for name in ("apps.json", "hosts.json"):
        try:
            accounts = read_object(home / ".config/github-copilot" / name) or {}
        except ConfigError:
            continue
        for host, account in accounts.items():
            token = account.get("oauth_token") if isinstance(account, Mapping) else None
            if host.partition(":")[0] == "github.com" and isinstance(token, str) and token:
                return token
    return ""


@contextlib.contextmanager
def lock_file(file: Path, provider_id: str) -> Iterator[int]:
    """The descriptor of the provider's lock file, beside the config. It is never removed: others may wait on it."""
    directory = file.parent / "locks"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = "".join(c if c.isalnum() or c in "-_" else "_" for c in provider_id)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(directory / f"{name}.refresh.lock", flags, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Whether the lock is ours now. It is also exclusive between two tasks of one process that opened it each."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
