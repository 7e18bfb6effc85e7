"""The checks of `bullpen doctor`. Each looks and changes nothing; one that breaks is itself a finding."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from bullpen import __version__
from bullpen.cli import checks_around
from bullpen.cli.calls import get
from bullpen.cli.checks_around import SMALLEST_SPACE_BYTES
from bullpen.cli.findings import Finding
from bullpen.client.locate import token_path
from bullpen.client.process import server_pid
from bullpen.errors import BullpenError, ServerUnreachable, Unauthorized
from bullpen.system.address import Address, UnixAddress

OLDEST_PYTHON = (3, 11)
OLDEST_SQLITE = (3, 51, 3)
"""Earlier ones can damage a database in rare cases."""


def all_checks(root: Path, address: Address) -> list[Finding]:
    """Everything there is to look at, in the order in which it would matter."""
    checks: list[tuple[str, Callable[[], Iterator[Finding]]]] = [
        ("python", _python),
        ("libraries", _libraries),
        ("sqlite", _sqlite),
        ("programs", _programs),
        ("terminal", checks_around.terminal),
        ("socket", lambda: _socket(address)),
        ("data", _data),
        ("token", _token),
        ("server", lambda: _server(address)),
        ("disk", lambda: checks_around.disk(root)),
        ("config", lambda: _config(root)),
    ]
    findings: list[Finding] = []
    for name, check in checks:
        try:
            findings += check()
        except Exception as exc:
            findings.append(Finding(name, "fail", f"could not be checked: {type(exc).__name__}: {exc}"))
    return findings


def _python() -> Iterator[Finding]:
    version = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info < OLDEST_PYTHON:
        yield Finding("python", "fail", version, "Bullpen needs Python 3.11 or newer")
    else:
        yield Finding("python", "ok", f"{version}, bullpen {__version__}")


def _libraries() -> Iterator[Finding]:
    """What the package's own metadata asks for, compared with what is installed."""
    needed = [text for text in importlib.metadata.requires("bullpen") or () if "extra ==" not in text]
    wrong = [complaint for text in needed if (complaint := _complaint(text))]
    if wrong:
        yield Finding("libraries", "fail", "; ".join(wrong), "install Bullpen again")
    else:
        yield Finding("libraries", "ok", f"all {len(needed)} are there")


def _complaint(requirement: str) -> str:
    """What is wrong with a library, by its name and its oldest version; nothing when it is well."""
    found = re.match(r"([\w.-]+)(?:.*?(?:>=|==)([\d.]+))?", requirement)
    if not found:
        return ""
    try:
        version = importlib.metadata.version(found[1])
    except importlib.metadata.PackageNotFoundError:
        return f"{found[1]} is missing"
    oldest = found[2] or "0"
    return f"{found[1]} is {version}, older than {oldest}" if _numbers(version) < _numbers(oldest) else ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", version)[:3])


def _sqlite() -> Iterator[Finding]:
    import apsw

    version = apsw.sqlite_lib_version()
    if _numbers(version) < OLDEST_SQLITE:
        yield Finding(
            "sqlite", "fail", version, "a newer apsw brings SQLite 3.51.3 or later: install Bullpen again"
        )
    else:
        yield Finding("sqlite", "ok", version)


def _programs() -> Iterator[Finding]:
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    for name, why in (
        ("rg", "searching falls back to a slow way"),
        ("git", "nothing is known of your branches"),
    ):
        if shutil.which(name, path=beside):
            yield Finding("programs", "ok", name)
        else:
            yield Finding("programs", "warn", f"{name} was not found: {why}", f"install {name}")


def _socket(address: Address) -> Iterator[Finding]:
    if not isinstance(address, UnixAddress):
        return
    directory = address.path.parent
    try:
        found = directory.lstat()
    except FileNotFoundError:
        yield _makeable("socket", directory)
        return
    if stat.S_ISLNK(found.st_mode) or not stat.S_ISDIR(found.st_mode):
        yield Finding("socket", "fail", f"{directory} is no directory of its own", f"remove {directory}")
    elif found.st_uid != os.geteuid():
        yield Finding(
            "socket", "fail", f"{directory} belongs to another user", "set XDG_RUNTIME_DIR, or use --host"
        )
    elif found.st_mode & 0o022:
        yield Finding("socket", "fail", f"others can write to {directory}", f"chmod 700 {directory}")
    else:
        yield Finding("socket", "ok", str(address))


def _data() -> Iterator[Finding]:
    from bullpen.config.places import Places
    from bullpen.store.lock import read_owner

    directory = Places.of(os.environ).data
    if not directory.exists():
        yield _makeable("data", directory)
        return
    if not os.access(directory, os.W_OK | os.X_OK):
        yield Finding("data", "fail", f"{directory} is not writable", f"chown or chmod {directory}")
        return
    owner = read_owner(directory)
    used = f", in use by pid {owner.pid} ({owner.version})" if owner.pid and _is_alive(owner.pid) else ""
    free = shutil.disk_usage(directory).free
    if free < SMALLEST_SPACE_BYTES:
        yield Finding("data", "warn", f"{directory}: only {free // 2**20} MiB free", "free some disk space")
    else:
        yield Finding("data", "ok", f"{directory}{used}, {free // 2**30} GiB free")


def _token() -> Iterator[Finding]:
    path = token_path()
    if not path.exists():
        return
    if path.stat().st_mode & 0o077:
        yield Finding(
            "token", "fail", f"others can read {path}", f"remove {path}; the next TCP server makes a new one"
        )
    else:
        yield Finding("token", "ok", str(path))


def _server(address: Address) -> Iterator[Finding]:
    try:
        version = get(address, "/version")["version"]
    except ServerUnreachable as exc:
        if isinstance(address, UnixAddress) and address.path.exists():
            left = "the next client that needs a server takes the place over"
            yield Finding("server", "warn", f"{address.path} is left over from a server that died", left)
        elif isinstance(address, UnixAddress):
            yield Finding("server", "ok", "not running; it starts by itself when a client needs it")
        else:
            yield Finding("server", "fail", exc.message, f"start it there: bullpen server --host {address}")
        return
    except Unauthorized:
        yield Finding(
            "server", "fail", f"{address} wants another token", "set BULLPEN_TOKEN to the server's token"
        )
        return
    except BullpenError as exc:
        yield Finding("server", "fail", f"{address} answers: {exc.message}", "look into its log")
        return
    pid = server_pid(address) if isinstance(address, UnixAddress) else None
    told = f"{version} at {address}" + (f", pid {pid}" if pid else "")
    if version != __version__:
        yield Finding(
            "server",
            "warn",
            f"{told}, but this is {__version__}",
            "'bullpen stop' lets the next one be this version",
        )
    else:
        yield Finding("server", "ok", told)


def _config(root: Path) -> Iterator[Finding]:
    from bullpen.cli.effective import config_files, settings_of

    settings, places = settings_of(root)
    files = config_files(root, places)
    listed = ", ".join(map(str, files)) or f"no config file (yours would be {places.user_file})"
    yield Finding("config", "ok", listed)
    for problem in settings.problems:
        yield Finding("config", "fail", problem, "mend the file; until then no prompt is answered")
    for warning in settings.warnings:
        yield Finding("config", "warn", warning)
    if settings.untrusted:
        held = ", ".join(settings.untrusted)
        yield Finding(
            "trust", "warn", f"not in force: {held}", "'bullpen trust' shows what it would do, and asks"
        )
    else:
        yield Finding("trust", "ok", "nothing in this project waits for trust")
    yield from checks_around.language_servers(root, settings)
    yield from checks_around.tool_servers(root, settings)
    yield from _models(settings.large is not None, sorted(settings.providers), settings.keys_found)


def _models(has_model: bool, providers: list[str], keys: tuple[str, ...]) -> Iterator[Finding]:
    known = f"providers: {', '.join(providers)}" if providers else "no provider is configured"
    found = f"; keys found for {', '.join(keys)}" if keys else ""
    if has_model:
        yield Finding("models", "ok", known + found)
    else:
        advice = "run 'bullpen' and choose one; the built-in demo needs no key"
        yield Finding("models", "warn", f"no model is configured for all workspaces ({known}{found})", advice)


def _makeable(check: str, directory: Path) -> Finding:
    """Whether a directory that is not there yet can be made."""
    parent = next((p for p in directory.parents if p.exists()), Path("/"))
    if os.access(parent, os.W_OK | os.X_OK):
        return Finding(check, "ok", f"{directory} will be made when it is needed")
    return Finding(
        check, "fail", f"{directory} cannot be made: {parent} is not writable", f"make {directory} yours"
    )


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
