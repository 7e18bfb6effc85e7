"""Commands that run other commands: `sudo`, `env`, `timeout`, `xargs`, `find -exec`, `sh -c` and their like.

Whoever forbids a command forbids it behind a wrapper too, and whoever allows a wrapper has not allowed what it runs.
So a line is taken apart into `Part`s: a simple command, and the commands it runs as far as its words say.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import msgspec

from bullpen.system.shell_grammar import Line, Word, read

MAX_DEPTH = 4

_OPERANDS: Mapping[str, int] = {"timeout": 1, "chroot": 1, "flock": 1, "taskset": 1, "chrt": 1, "runuser": 0}
"""How many words of its own a wrapper takes before the command, besides options."""

_WITH_VALUE: Mapping[str, frozenset[str]] = {
    "env": frozenset({"-u", "--unset", "-C", "--chdir"}),
    "timeout": frozenset({"-k", "--kill-after", "-s", "--signal"}),
    "nice": frozenset({"-n", "--adjustment"}),
    "ionice": frozenset({"-c", "-n", "-p"}),
    "stdbuf": frozenset({"-i", "-o", "-e"}),
    "sudo": frozenset({"-u", "-g", "-h", "-p", "-C", "-r", "-t", "-T", "-U", "-D", "-R"}),
    "doas": frozenset({"-u", "-C"}),
    "xargs": frozenset({"-I", "-n", "-P", "-L", "-s", "-d", "-E", "-a", "--arg-file", "--delimiter"}),
    "time": frozenset({"-f", "-o"}),
    "exec": frozenset({"-a"}),
    "watch": frozenset({"-n"}),
    "strace": frozenset({"-o", "-e", "-p", "-s", "-u"}),
    "flock": frozenset({"-w", "-E"}),
    "unshare": frozenset(),
    "nsenter": frozenset({"-t"}),
    "chroot": frozenset(),
    "taskset": frozenset(),
    "chrt": frozenset(),
    "runuser": frozenset({"-u"}),
    "script": frozenset({"-c"}),
    **dict.fromkeys(
        (
            "nohup",
            "setsid",
            "command",
            "builtin",
            "busybox",
            "toybox",
            "parallel",
            "entr",
            "ltrace",
            "fakeroot",
        ),
        frozenset[str](),
    ),
}
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "rbash", "fish", "su"})
_FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})


class Part(msgspec.Struct, frozen=True):
    """A simple command. `inner` are the commands it runs; `at` is the word with which the first of them begins, 0 when it
    is written within a word. `is_wrapper` holds for all that may run others, whether or not we can see which."""

    words: tuple[Word, ...]
    inner: tuple[Part, ...] = ()
    at: int = 0
    is_wrapper: bool = False

    @property
    def name(self) -> str:
        """The program, wherever it lies."""
        return os.path.basename(self.words[0] or "") if self.words else ""

    def every(self) -> Iterator[Part]:
        """This one and all that it runs."""
        yield self
        for part in self.inner:
            yield from part.every()


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """A line taken apart. `why` says what keeps the parts from being all that it does, "" if they are."""

    parts: tuple[Part, ...]
    why: str


def take_apart(line: Line, depth: int = 0) -> Taken:
    whys = [line.why]
    parts = tuple(_part(command.words, depth, whys) for command in line.commands)
    return Taken(parts=parts, why=next(filter(None, whys), ""))


def _part(words: tuple[Word, ...], depth: int, whys: list[str]) -> Part:
    name = os.path.basename(words[0] or "") if words else ""
    if depth >= MAX_DEPTH:
        whys.append("it is wrapped too deeply")
        return Part(words, is_wrapper=True)
    if name == "eval" or name in SHELLS:
        return _script(words, name, depth, whys)
    if name == "find":
        return _find(words, depth, whys)
    if name not in _WITH_VALUE:
        return Part(words)
    at = _inner_start(words, name)
    if at >= len(words):
        return Part(words, is_wrapper=True)
    return Part(words, (_part(words[at:], depth + 1, whys),), at, is_wrapper=True)


def _inner_start(words: tuple[Word, ...], name: str) -> int:
    """Where a wrapper's own words end."""
    at, own = 1, _OPERANDS.get(name, 0)
    while at < len(words):
        word = words[at] or ""
        if word == "--":
            at += 1
        elif word.startswith("-") and len(word) > 1:
            at += 2 if word in _WITH_VALUE[name] else 1
        elif name in {"env", "sudo"} and "=" in word:
            at += 1
        elif own:
            own -= 1
            at += 1
        else:
            break
    return at


def _script(words: tuple[Word, ...], name: str, depth: int, whys: list[str]) -> Part:
    """A shell that is given its commands as text. One that is given a file, or nothing, shows none of what it runs."""
    if name == "eval":
        texts = words[1:]
    else:
        flags = [
            n for n, w in enumerate(words) if w and w.startswith("-") and not w.startswith("--") and "c" in w
        ]
        texts = words[flags[0] + 1 : flags[0] + 2] if flags else ()
    if not texts or any(text is None for text in texts):
        return Part(words, is_wrapper=True)
    taken = take_apart(read(" ".join(filter(None, texts))), depth + 1)
    whys.append(taken.why)
    return Part(words, taken.parts, 0, is_wrapper=True)


def _find(words: tuple[Word, ...], depth: int, whys: list[str]) -> Part:
    runs: list[Part] = []
    first = 0
    for at, word in enumerate(words):
        if word in _FIND_RUNS:
            rest = words[at + 1 :]
            end = next((n for n, w in enumerate(rest) if w in {";", "+"}), len(rest))
            runs.append(_part(rest[:end], depth + 1, whys))
            first = first or at + 1
    return Part(words, tuple(runs), first, is_wrapper=bool(runs) or "-delete" in words)
