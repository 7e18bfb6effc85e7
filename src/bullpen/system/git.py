"""What git knows of a directory, asked in a way that runs nothing of the repository's.

A repository's own settings can name programs for nearly everything: a file monitor, hooks, filters, a pager, a signature check,
a transport. Every call here goes through `_git`, which overrules them all from the environment, where a name may hold any
character, reads neither system nor personal settings, forbids every transport, takes no locks and passes names as
arguments. Filters are the one kind without a switch: whoever compares files asks for their names first and empties each.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

LIMIT_S = 1.0
"""For all calls of a look together; in a repository that needs longer, less is known."""

MOST_BYTES = 64 * 1024
COMMITS = 3

_OVERRULED = (
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("core.editor", "false"),
    ("core.sshCommand", "false"),
    ("core.gitProxy", ""),
    ("core.askPass", "false"),
    ("core.alternateRefsCommand", "false"),
    ("core.attributesFile", "/dev/null"),
    ("core.quotePath", "false"),
    ("credential.helper", ""),
    ("diff.external", ""),
    ("gpg.program", "false"),
    ("gpg.ssh.program", "false"),
    ("gpg.x509.program", "false"),
    ("log.showSignature", "false"),
    ("protocol.allow", "never"),
    ("safe.bareRepository", "explicit"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
)

_FILTER_KEYS = (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))


class Snapshot(NamedTuple):
    """A work tree at some moment: its branch, what is changed in it as `git status --short` says, and the last commits."""

    branch: str
    changes: tuple[str, ...]
    commits: tuple[str, ...]


def look(directory: Path, env: Mapping[str, str], *, limit_s: float = LIMIT_S) -> Snapshot | None:
    """None outside a work tree, without git, and when git does not answer in time. Blocks: call it in a thread."""
    if not _is_below_a_repository(directory):
        return None
    deadline = time.monotonic() + limit_s
    names = _git(directory, ("config", "-z", "--name-only", "--get-regexp", r"^filter\."), env, deadline)
    if names is None:
        return None
    status = _git(
        directory,
        (
            *("status", "--porcelain", "--branch", "--no-ahead-behind", "--no-renames"),
            *("--untracked-files=normal", "--ignore-submodules=all", "--", "."),
        ),
        env,
        deadline,
        overruled=_without_filters(names.split("\0")),
    )
    if not status or not status.startswith("## "):
        return None
    head, *changes = status.splitlines()
    commits = _git(
        directory,
        (
            *("log", f"--max-count={COMMITS}", "--format=%h %s", "--no-patch", "--no-color", "--no-decorate"),
            *("--no-show-signature", "--no-ext-diff", "--no-textconv", "--no-notes", "--no-mailmap"),
        ),
        env,
        deadline,
    )
    return Snapshot(_branch(head), tuple(changes), tuple((commits or "").splitlines()))


def _branch(head: str) -> str:
    """The name in the first line of a status; empty when no branch is checked out."""
    name = head.removeprefix("## ").removeprefix("No commits yet on ").partition("...")[0]
    return "" if name == "HEAD (no branch)" else name


def _is_below_a_repository(directory: Path) -> bool:
    return any(os.path.exists(place / ".git") for place in (directory, *directory.parents))


def _without_filters(names: Iterable[str]) -> list[tuple[str, str]]:
    """Empties the commands of every filter that the repository's settings name, each as `filter.NAME.KEY`."""
    filters = dict.fromkeys(name.rpartition(".")[0] for name in names if name)
    return [(f"{name}.{key}", value) for name in filters for key, value in _FILTER_KEYS]


def _git(
    directory: Path,
    arguments: Sequence[str],
    env: Mapping[str, str],
    deadline: float,
    *,
    overruled: Sequence[tuple[str, str]] = (),
) -> str | None:
    """What git prints, up to MOST_BYTES; empty when it complains, None when it cannot be had in time."""
    path = ":".join(entry for entry in env.get("PATH", "").split(":") if entry.startswith("/"))
    program = shutil.which("git", path=path)
    left_s = deadline - time.monotonic()
    if program is None or left_s <= 0:
        return None
    try:
        done = subprocess.run(
            [program, "--no-pager", "--no-optional-locks", "--literal-pathspecs", *arguments],
            cwd=directory,
            env=_environment(env, path, (*_OVERRULED, *overruled)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=left_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return "" if done.returncode else done.stdout[:MOST_BYTES].decode("utf-8", "replace")


def _environment(env: Mapping[str, str], path: str, settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Nothing is taken over but where programs and a person's ignore file are."""
    ours = {
        "PATH": path,
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_ALLOW_PROTOCOL": "",
        "GIT_PROTOCOL_FROM_USER": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_CONFIG_COUNT": str(len(settings)),
    }
    for number, (key, value) in enumerate(settings):
        ours |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return {name: env[name] for name in ("HOME", "XDG_CONFIG_HOME") if name in env} | ours
