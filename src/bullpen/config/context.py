"""The instruction files that become part of the system prompt.

Order is stable, so that providers can cache the prompt, and sizes are bounded. The names everybody uses are
looked up in the workspace and nowhere else: a link that leads out of it is not followed, since a cloned
repository could point it at somebody's keys. Paths that the config names may lie anywhere.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from bullpen.config.places import Places
from bullpen.config.shape import Options

BUILT_IN = (
    "AGENTS.md",
    "agents.md",
    "Agents.md",
    "BULLPEN.md",
    "BULLPEN.local.md",
    "CLAUDE.md",
    "CLAUDE.local.md",
    "CRUSH.md",
    "CRUSH.local.md",
    "Crush.md",
    "Crush.local.md",
    "crush.md",
    "crush.local.md",
    "GEMINI.md",
    "gemini.md",
    ".cursorrules",
    ".cursor/rules/",
    ".github/copilot-instructions.md",
)

FILE_LIMIT_BYTES = 64 * 1024
TOTAL_LIMIT_BYTES = 256 * 1024
"""Past these a file says less the longer it is, and every step pays for it."""

MAX_FILES = 200

Found = list[tuple[Path, str]]


def project_context(root: Path, options: Options, *, home: Path, env: Mapping[str, str]) -> Found:
    """The project's files: the well-known names first, then the configured ones, each once."""
    inside = ((file, root) for name in BUILT_IN for file in _files(root / name))
    named = (
        (file, None) for path in options.context_paths for file in _files(resolved(path, root, home, env))
    )
    return _read((*inside, *named))


def personal_context(options: Options, places: Places, *, root: Path, env: Mapping[str, str]) -> Found:
    """The user's own files; naming any replaces the two standard ones."""
    default = (str(places.config / "BULLPEN.md"), str(places.config.parent / "AGENTS.md"))
    paths = options.global_context_paths or default
    return _read((file, None) for path in paths for file in _files(resolved(path, root, places.home, env)))


def resolved(path: str, root: Path, home: Path, env: Mapping[str, str]) -> Path:
    """A configured path: `~` and a leading variable are expanded, relative ones belong to the workspace."""
    if path == "~" or path.startswith("~/"):
        return home / path[2:]
    variable = re.match(r"\$(?:\{(\w+)\}|(\w+))", path)
    if variable:
        path = env.get(variable[1] or variable[2], "") + path[variable.end() :]
    return root / path


def _files(path: Path) -> Iterator[Path]:
    """The file itself, or all files below a directory in the order of their names."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return
    if stat.S_ISREG(mode):
        yield path
    if not stat.S_ISDIR(mode):
        return
    for directory, folders, files in os.walk(path):
        folders.sort()
        yield from (Path(directory, name) for name in sorted(files))


def _read(candidates: Iterable[tuple[Path, Path | None]]) -> Found:
    found: Found = []
    seen: set[str] = set()
    left = TOTAL_LIMIT_BYTES
    for file, boundary in candidates:
        name = str(file).lower()
        if name in seen or left <= 0 or len(found) >= MAX_FILES:
            continue
        seen.add(name)
        text = _text(file, boundary, min(left, FILE_LIMIT_BYTES))
        if text:
            found.append((file, text))
            left -= len(text.encode())
    return found


def _text(file: Path, boundary: Path | None, limit: int) -> str:
    """The start of a text file, "" for what is not one, cannot be read or lies outside its boundary."""
    try:
        real = file.resolve(strict=True)
        if boundary is not None and not real.is_relative_to(boundary.resolve()):
            return ""
        if not real.is_file():
            return ""
        with real.open("rb") as opened:
            raw = opened.read(limit + 1)
    except OSError:
        return ""
    if b"\0" in raw:
        return ""
    text = raw[:limit].decode("utf-8", "ignore" if len(raw) > limit else "replace")
    return f"{text}\n[cut here: the file is longer]" if len(raw) > limit else text
