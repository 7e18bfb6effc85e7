"""What a call would do, as rules see it: made once per call, before anybody is asked.

Everything here that needs the disk (links, scripts, what exists) is looked up by `look`, which belongs into a thread. What is
left for the decision is comparing texts, so that it can be made within the transaction that writes it down.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from bullpen.asks import protected
from bullpen.system import shell_safety
from bullpen.system.paths import is_inside, joined, real
from bullpen.system.scripts import Script, run_files
from bullpen.system.shell_grammar import Word, read
from bullpen.system.shell_wrappers import Part, take_apart

_URL_HOST = re.compile(r"(?<=[a-z0-9+.-])://(?:[^/@\s]*+@)?(\[[0-9a-f:.]+\]|[^/:?#\s]+)", re.IGNORECASE)
"""Begins at the colon: to look for the scheme first would take the square of a long word's length."""
_MOVES = frozenset({"cd", "pushd", "popd"})


class Touch(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool says about a call of it. Paths are real, links followed; `is_read` is known to only read there."""

    tool: str
    action: str
    root: Path
    directory: Path
    command: str = ""
    paths: tuple[Path, ...] = ()
    hosts: tuple[str, ...] = ()
    is_read: bool = False


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """One call. `paths` are real. With a `command`, `parts` are the commands in it, `known` those of them that only read
    within the workspace, `targets` the files it redirects to, and `mentioned` all paths that its words name.

    `why` says what keeps a command from being read whole. `protects` says why only an exact approval will do.
    """

    tool: str
    action: str
    root: Path
    directory: Path
    command: str = ""
    parts: tuple[Part, ...] = ()
    known: frozenset[int] = frozenset()
    targets: tuple[Path | None, ...] = ()
    mentioned: tuple[Path, ...] = ()
    why: str = ""
    paths: tuple[Path, ...] = ()
    hosts: tuple[str, ...] = ()
    is_read: bool = False
    moves: bool = False
    protects: str = ""
    scripts: tuple[Script, ...] = ()

    @property
    def goes_out(self) -> bool:
        """Whether it talks to hosts, and says to which. What was allowed for one is not allowed for another."""
        return bool(self.hosts) and not self.command


def look(touch: Touch, guarded: Sequence[Path] = ()) -> Subject:
    """Everything about a call that decides whether it may run. Reads files; for a thread."""
    root, directory = real(touch.root), real(touch.directory)
    hosts = tuple(host.lower().rstrip(".") for host in touch.hosts)
    if not touch.command:
        return Subject(
            tool=touch.tool,
            action=touch.action,
            root=root,
            directory=directory,
            paths=touch.paths,
            hosts=hosts,
            is_read=touch.is_read,
            protects=""
            if touch.is_read
            else protected.by_paths(touch.paths, touch.action, root=root, guarded=guarded),
        )
    command = touch.command
    line = read(command)
    taken = take_apart(line)
    bases = _bases(directory, taken.parts)
    words = [word for part in taken.parts for inner in part.every() for word in inner.words[1:] if word]
    mentioned = tuple(dict.fromkeys(path for word in words for path in _named(word, bases)))
    moves = len(bases) > 1
    targets = tuple(None if word is None or moves else real(joined(directory, word)) for word in line.targets)
    written = [real(joined(base, word)) for word in line.targets if word for base in bases]
    return Subject(
        tool=touch.tool,
        action=touch.action,
        root=root,
        directory=directory,
        command=command,
        parts=taken.parts,
        known=frozenset(
            n for n, part in enumerate(taken.parts) if _is_known(part, directory, root) and not moves
        ),
        targets=targets,
        mentioned=mentioned,
        why=taken.why,
        hosts=(*hosts, *(host.lower().strip("[]") for host in _URL_HOST.findall(command))),
        is_read=touch.is_read,
        moves=moves,
        protects=""
        if touch.is_read
        else protected.by_command(
            command,
            taken.parts,
            written=written,
            mentioned=mentioned,
            directory=directory,
            root=root,
            guarded=guarded,
        ),
        scripts=run_files(taken.parts, bases),
    )


def _bases(directory: Path, parts: Sequence[Part]) -> tuple[Path, ...]:
    """Where relative words may be meant: a `cd` anywhere in the line moves what follows."""
    moved = [
        joined(directory, word)
        for part in parts
        for inner in part.every()
        if inner.name in _MOVES or inner.name in {"git", "make", "tar", "env"}
        for word in inner.words[1:]
        if word and not word.startswith("-") and (inner.name in _MOVES or "-C" in inner.words)
    ]
    if any(inner.name in _MOVES for part in parts for inner in part.every()) and not moved:
        moved = [Path.home()]
    return tuple(dict.fromkeys((directory, *moved)))


def _named(word: str, bases: Sequence[Path]) -> Iterator[Path]:
    """The paths a word may name: itself, or what follows the `=` of an option or of `dd of=`."""
    for text in (word, word.partition("=")[2], word[2:] if word.startswith("-") else ""):
        if text and not text.startswith("-") and "\0" not in text and len(text) < 4096:
            for base in bases:
                path = joined(base, text)
                if "/" in text or text.startswith(("~", ".")) or os.path.lexists(path):
                    yield real(path)


def _is_known(part: Part, directory: Path, root: Path) -> bool:
    words = _literal(part.words)
    found = None if words is None else shell_safety.paths_of_words(words)
    return found is not None and all(is_inside(root, directory / path) for path in found)


def _literal(words: Sequence[Word]) -> tuple[str, ...] | None:
    literal = tuple(word for word in words if word is not None)
    return literal if len(literal) == len(words) else None
