"""The files that a command runs, as far as its words name them, and what is in them.

Whoever approves a command approves what it runs: a script that says something else later is another command.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from bullpen.system.paths import joined
from bullpen.system.shell_grammar import read
from bullpen.system.shell_wrappers import SHELLS, Part, take_apart

_LANGUAGES = """python python3 node deno bun ruby perl php lua Rscript osascript awk sed"""
_INTERPRETERS = frozenset(_LANGUAGES.split()) | SHELLS | {".", "source", "xargs", "env"}
_BUILD_FILES = {
    "make": ("GNUmakefile", "makefile", "Makefile"),
    **dict.fromkeys(("npm", "pnpm", "yarn", "npx", "bun"), ("package.json",)),
    "just": ("justfile", "Justfile", ".justfile"),
    "tox": ("tox.ini", "pyproject.toml"),
    "nox": ("noxfile.py",),
    "rake": ("Rakefile",),
    "invoke": ("tasks.py",),
    "cargo": ("Cargo.toml", "build.rs"),
    "go": ("go.mod",),
    "ant": ("build.xml",),
    "mvn": ("pom.xml",),
    "gradle": ("build.gradle", "build.gradle.kts"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "meson": ("meson.build",),
    "cmake": ("CMakeLists.txt",),
}
_MAX_SCRIPT_BYTES = 64 << 20


class Script(msgspec.Struct, frozen=True):
    """A file that a command runs, and what was in it."""

    path: str
    digest: str


def run_files(parts: Sequence[Part], bases: Sequence[Path]) -> tuple[Script, ...]:
    """The files of a command that was taken apart; relative words are meant in any of the bases."""
    found = (
        Script(str(path), digest)
        for path in _all_candidates(parts, bases)
        if (digest := digest_of(path)) is not None
    )
    return tuple(dict.fromkeys(found))


def own_paths(command: str, directory: Path, *, within: Path) -> list[Path]:
    """The files within a directory that a command may run when it is started there or below; nothing is opened."""
    inside = os.path.join(os.path.realpath(within), "")
    found = dict.fromkeys(_all_candidates(take_apart(read(command)).parts, (directory,)))
    return [path for path in found if os.path.realpath(path).startswith(inside) and path.is_file()]


def _all_candidates(parts: Sequence[Part], bases: Sequence[Path]) -> Iterator[Path]:
    for part in parts:
        for inner in part.every():
            for base in bases:
                yield from _candidates(inner, base)


def digest_of(path: Path) -> str | None:
    """What is in a file; None when there is none to run."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            facts = os.fstat(file.fileno())
            if facts.st_size > _MAX_SCRIPT_BYTES:
                return f"{facts.st_dev}:{facts.st_ino}:{facts.st_size}:{facts.st_mtime_ns}"
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError):
        return "unreadable"


def _candidates(part: Part, base: Path) -> Iterator[Path]:
    program = part.words[0] if part.words else None
    if program and "/" in program:
        yield joined(base, program)
    if part.name.rstrip("0123456789.") in _INTERPRETERS or part.name in _INTERPRETERS or part.is_wrapper:
        yield from (joined(base, word) for word in part.words[1:] if word and not word.startswith("-"))
    yield from (base / name for name in _BUILD_FILES.get(part.name, ()))
    if "-f" in part.words and part.name in _BUILD_FILES:
        yield from (joined(base, word) for word in part.words[1:] if word)
