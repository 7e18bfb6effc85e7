"""Variables and commands in config values, by the rules of the shell, without word splitting.

    $VAR  ${VAR}         the variable, empty when unset
    ${VAR:-x} ${VAR:+x}  a default, an alternative
    ${VAR:?why}          an error when unset or empty
    $(command)           what the command prints, without trailing newlines
    \\$  '…'  "…"          quoting; a dollar sign that starts nothing is an error

Whoever calls decides whether commands may run: they must come from a trusted file. No error text holds a
value, a command or the template, since any of them may be a secret.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from bullpen.errors import ConfigError

COMMAND_LIMIT_S = 30.0
"""How long one command may take: a password manager asks the person first, a hanging one must not hang us."""

MAX_OUTPUT_BYTES = 64 * 1024
MAX_DEPTH = 20
"""Nested defaults past this are an accident."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_USED_NAME = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)")
_SPECIAL = re.compile(r"[\\'\"$]")

Run = Callable[[str], str]
"""Runs a command and gives back what it printed. Raises `ConfigError`."""


class Expanded(msgspec.Struct, frozen=True):
    """The value, and the variables it was made from, also those that a command named."""

    value: str
    names: frozenset[str] = frozenset()


def expand(template: str, env: Mapping[str, str], run: Run | None = None) -> Expanded:
    """The value that a template stands for. Raises `ConfigError`; without `run` for any command, too."""
    if not _SPECIAL.search(template):
        return Expanded(template)
    names: set[str] = set()
    value = _Expansion(env, run, names).text(template, 0)
    return Expanded(value, frozenset(names))


def escape(text: str) -> str:
    """A template that expands to exactly this text."""
    return _SPECIAL.sub(lambda m: "\\" + m[0], text)


def is_reference(text: str) -> bool:
    """Whether the whole text is one variable or one command, so that a person meant a template by it."""
    return bool(re.fullmatch(r"\$[A-Za-z_][A-Za-z0-9_]*|\$\{[A-Za-z_][^{}]*\}|\$\(.*\)", text, re.DOTALL))


def commands_in(template: str) -> list[str]:
    """The commands that expanding a template may run: rather one too many than one too few."""
    found: list[str] = []
    at = template.find("$(")
    while at >= 0:
        try:
            end = _closing(template, at + 1, "(", ")")
        except ConfigError:
            end = len(template)
        found.append(template[at + 2 : end])
        at = template.find("$(", end)
    return found


def shell(cwd: Path, env: Mapping[str, str]) -> Run:
    """Runs commands with `/bin/sh` in a directory and an environment."""

    def run(command: str) -> str:
        try:
            process = subprocess.Popen(
                ["/bin/sh", "-c", command],
                cwd=cwd,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as exc:
            raise ConfigError(f"its command cannot be started: {exc.strerror}") from exc
        late = threading.Event()

        def give_up() -> None:
            late.set()
            _kill(process)

        timer = threading.Timer(COMMAND_LIMIT_S, give_up)
        timer.start()
        with process:
            assert process.stdout is not None
            output = process.stdout.read(MAX_OUTPUT_BYTES + 1)
            if len(output) > MAX_OUTPUT_BYTES:
                _kill(process)
            process.wait()
        timer.cancel()
        if late.is_set():
            raise ConfigError(f"its command took longer than {COMMAND_LIMIT_S:.0f} s")
        if len(output) > MAX_OUTPUT_BYTES:
            raise ConfigError(f"its command printed more than {MAX_OUTPUT_BYTES} bytes")
        if process.returncode:
            raise ConfigError(f"its command failed with exit code {process.returncode}")
        return output.decode("utf-8", "replace").rstrip("\n")

    return run


class Remembering:
    """Runs a command once and remembers what it printed: a password manager is not asked again for every saved file."""

    def __init__(self, run: Run, printed: dict[str, str]) -> None:
        self._run = run
        self._printed = printed

    def __call__(self, command: str) -> str:
        return self._printed[command] if command in self._printed else self.anew(command)

    def anew(self, command: str) -> str:
        """Run it whatever it printed before, because that was refused."""
        self._printed[command] = self._run(command)
        return self._printed[command]


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the command and its children; it leads a process group of its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


class _Expansion:
    """One pass over one template and the templates inside it."""

    def __init__(self, env: Mapping[str, str], run: Run | None, names: set[str]) -> None:
        self.env = env
        self.run = run
        self.names = names

    def text(self, template: str, depth: int) -> str:
        if depth > MAX_DEPTH:
            raise ConfigError("it is nested too deeply")
        out: list[str] = []
        at, quoted = 0, False
        while match := _SPECIAL.search(template, at):
            out.append(template[at : match.start()])
            at = match.end()
            match match[0]:
                case "\\":
                    piece, at = _escaped(template, at, quoted)
                case '"':
                    piece, quoted = "", not quoted
                case "'" if quoted:
                    piece = "'"
                case "'":
                    end = _found(template, "'", at, "a single quote is not closed")
                    piece, at = template[at:end], end + 1
                case _:
                    piece, at = self.dollar(template, at, depth)
            out.append(piece)
        if quoted:
            raise ConfigError("a double quote is not closed")
        return "".join(out) + template[at:]

    def dollar(self, template: str, at: int, depth: int) -> tuple[str, int]:
        """What the dollar sign before `at` starts, and where it ends."""
        if template.startswith("(", at):
            end = _closing(template, at, "(", ")")
            return self.command(template[at + 1 : end]), end + 1
        if template.startswith("{", at):
            end = _closing(template, at, "{", "}")
            return self.braces(template[at + 1 : end], depth), end + 1
        name = _NAME.match(template, at)
        if name is None:
            raise ConfigError("a '$' stands alone; write '\\$' for a dollar sign")
        return self.variable(name[0]), name.end()

    def variable(self, name: str) -> str:
        self.names.add(name)
        return self.env.get(name, "")

    def braces(self, inside: str, depth: int) -> str:
        name = _NAME.match(inside)
        if name is None:
            raise ConfigError("'${…}' names no variable")
        value, rest = self.variable(name[0]), inside[name.end() :]
        match rest[:2]:
            case "":
                return value
            case ":-":
                return value or self.text(rest[2:], depth + 1)
            case ":+":
                return self.text(rest[2:], depth + 1) if value else ""
            case ":?":
                if not value:
                    raise ConfigError(f"{name[0]} is not set" + (f": {rest[2:]}" if rest[2:] else ""))
                return value
        raise ConfigError(f"only :-, :+ and :? may follow {name[0]} inside '${{…}}'")

    def command(self, command: str) -> str:
        if self.run is None:
            raise ConfigError("it may not run a command")
        self.names.update(_USED_NAME.findall(command))
        return self.run(command)


def _escaped(template: str, at: int, quoted: bool) -> tuple[str, int]:
    """The character after a backslash; inside double quotes most keep the backslash."""
    if at == len(template):
        return "\\", at
    character = template[at]
    return ("\\" + character if quoted and character not in '$"\\`' else character), at + 1


def _closing(template: str, at: int, opening: str, closing: str) -> int:
    """Where the bracket at `at` is closed; brackets in quotes do not count."""
    depth, quote = 0, ""
    position = at
    while position < len(template):
        character = template[position]
        if character == "\\" and quote != "'":
            position += 1
        elif quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character == opening:
            depth += 1
        elif character == closing:
            depth -= 1
            if depth == 0:
                return position
        position += 1
    raise ConfigError(f"'${opening}' is not closed")


def _found(template: str, mark: str, at: int, why: str) -> int:
    end = template.find(mark, at)
    if end < 0:
        raise ConfigError(why)
    return end
