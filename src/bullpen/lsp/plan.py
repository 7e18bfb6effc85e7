"""How a language server is to be started: what the config says on top of what is known of it."""

from __future__ import annotations

import functools
import os
import shutil
import sys
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from bullpen.config.shape import LspServer
from bullpen.errors import LanguageServerFailed
from bullpen.lsp import known
from bullpen.lsp.known import Known
from bullpen.system import paths


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One server, put together. `filetypes` and `root_markers` that are empty match everything."""

    name: str
    command: str
    args: tuple[str, ...]
    env: dict[str, str]
    filetypes: tuple[str, ...]
    root_markers: tuple[str, ...]
    init_options: dict[str, Any]
    options: dict[str, Any]
    timeout_s: float
    family: str
    trusted: bool
    """Whether it may be a program from the workspace, and be told to use what lies there."""
    disabled: bool = False
    install: str = ""
    problem: str = ""
    """Why it cannot be started as it is configured."""

    def knows(self, path: Path) -> bool:
        """Whether it is for files of this name."""
        if not self.filetypes:
            return True
        wanted = {kind.removeprefix(".") for kind in self.filetypes}
        return bool({known.ending_of(path.name), known.language_of(path.name), path.name} & wanted)

    def belongs(self, root: Path) -> bool:
        """Whether the workspace has one of its marks."""
        return not self.root_markers or has_marker(root, self.root_markers)


def has_marker(root: Path, markers: tuple[str, ...]) -> bool:
    try:
        names = os.listdir(root)
    except OSError:
        return False
    return any(fnmatch(name, marker) for marker in markers for name in names)


def configured(name: str, entry: LspServer, *, trusted: bool) -> Plan:
    """The plan of an entry of the config; what it leaves open comes from the catalogue."""
    model = known.find(name, entry.command)
    base = from_catalogue(model, trusted=trusted) if model is not None else None
    return Plan(
        name=name,
        command=entry.command or (base.command if base else ""),
        args=entry.args or (base.args if base else ()),
        env=entry.env,
        filetypes=entry.filetypes or (base.filetypes if base else ()),
        root_markers=entry.root_markers or (base.root_markers if base else ()),
        init_options=_merged(base.init_options if base else {}, entry.init_options),
        options=_merged(base.options if base else {}, entry.options),
        timeout_s=entry.timeout if entry.timeout > 0 else 30.0,
        family=base.family if base else name,
        trusted=trusted,
        disabled=entry.disabled,
        install=base.install if base else "",
    )


def unusable(name: str, problem: str) -> Plan:
    """The plan of an entry that cannot be read; it holds the place of a known server of that name."""
    return structs.replace(configured(name, LspServer(), trusted=False), problem=problem)


@functools.cache
def catalogue(*, trusted: bool) -> tuple[tuple[Known, Plan], ...]:
    """All known servers with their plans, which every view of a file is held against."""
    return tuple((model, from_catalogue(model, trusted=trusted)) for model in known.KNOWN)


def from_catalogue(model: Known, *, trusted: bool) -> Plan:
    return Plan(
        name=model.name,
        command=model.command,
        args=model.args,
        env={},
        filetypes=model.filetypes,
        root_markers=model.root_markers,
        init_options=dict(model.init_options),
        options=_merged(model.options, {} if trusted else model.careful_options),
        timeout_s=30.0,
        family=model.family,
        trusted=trusted,
        install=model.install,
    )


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """A plan on this machine."""

    argv: tuple[str, ...]
    env: dict[str, str]
    settings: dict[str, Any]


def launch(plan: Plan, root: Path, env: Mapping[str, str]) -> Launch:
    """Find the program. Raises `LanguageServerFailed` with the next step when it is not there, or not to be run."""
    if plan.problem:
        raise LanguageServerFailed(plan.problem, server=plan.name)
    full = {**env, **plan.env}
    full["PATH"] = _search_path(full.get("PATH", os.defpath), root, trusted=plan.trusted)
    if not plan.command:
        raise LanguageServerFailed("has no command; set one in the config", server=plan.name)
    wanted = str(root / plan.command) if "/" in plan.command else plan.command
    found = shutil.which(wanted, path=full["PATH"])
    if found is None:
        hint = f"; to get it: {plan.install}" if plan.install else ""
        raise LanguageServerFailed(
            f"cannot be started: {plan.command} is not there or not executable{hint}", server=plan.name
        )
    if not plan.trusted and paths.is_inside(root, Path(found)):
        raise LanguageServerFailed(
            f"is not started: {found} lies in the workspace, which is not trusted", server=plan.name
        )
    return Launch(argv=(found, *plan.args), env=full, settings=_filled(plan.options, full["PATH"]))


def _search_path(path: str, root: Path, *, trusted: bool) -> str:
    """Directories by absolute path; from a workspace that is not trusted, nothing is started by way of a script either."""
    entries = [entry for entry in path.split(os.pathsep) if entry.startswith("/")]
    return os.pathsep.join(e for e in entries if trusted or not paths.is_inside(root, Path(e)))


def _filled(options: Any, path: str) -> Any:
    if isinstance(options, Mapping):
        return {key: _filled(value, path) for key, value in options.items()}
    if options == known.PYTHON:
        return shutil.which("python3", path=path) or sys.executable
    return options


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Objects within objects; the second one counts, whole lists and nulls too, which mean something to a server."""
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            result[key] = _merged(below, value)
        else:
            result[key] = value
    return result
