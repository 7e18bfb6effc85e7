"""Custom commands: prompts that people keep in Markdown files and send by name, with arguments.

    ---
    description: Reviews a file.
    arguments: [FILE, DEPTH=thorough, FOCUS?]      (a default or a question mark makes one optional)
    ---
    Review $FILE, be $DEPTH. $FOCUS

The head may be missing; then every `$NAME` in the text is an argument that has to be given. `$ARGUMENTS` is all that was typed.
A folder becomes a part of the name: `git/review.md` is `git:review`. Nothing in a file is run or included, and a project's command
is only used if it is trusted.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from bullpen.config.skills import front_lists, front_matter, project_bounds, split_head
from bullpen.errors import BadRequest
from bullpen.schema.agent import CommandArgument, CommandInfo

PROJECT_DIRS = (".bullpen/commands", ".agents/commands", ".crush/commands", ".claude/commands")
ALL = "ARGUMENTS"
"""The placeholder for whatever was typed."""

MAX_FILES = 500
MAX_BYTES = 256 * 1024
MAX_DESCRIPTION = 200

Source = Literal["user", "project"]

_PLACEHOLDER = re.compile(r"\$(?:\{([A-Z][A-Z0-9_]*)\}|([A-Z][A-Z0-9_]*))")
_ARGUMENT = re.compile(r"([A-Z][A-Z0-9_]*)(?:(\?)|=(.*))?", re.DOTALL)
_PART = re.compile(r"[\w.-]+")


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One file. `error` says why it cannot be used."""

    name: str
    source: Source
    path: Path
    description: str = ""
    arguments: tuple[CommandArgument, ...] = ()
    body: str = ""
    trusted: bool = True
    error: str = ""

    @property
    def id(self) -> str:
        return f"{self.source}:{self.name}"

    @property
    def usage(self) -> str:
        return " ".join([f"/{self.name}", *(a.name if a.required else f"[{a.name}]" for a in self.arguments)])


def user_directories(config: Path, home: Path) -> list[Path]:
    """Where a person keeps their own, in the order of precedence; `config` is our own directory."""
    return [
        config / "commands",
        config.parent / "crush" / "commands",
        home / ".crush" / "commands",
        home / ".claude" / "commands",
    ]


def project_directories(root: Path) -> list[Path]:
    return [bound / name for bound in project_bounds(root) for name in PROJECT_DIRS]


def project_files(root: Path) -> list[tuple[Path, str, str]]:
    """The files of a project's own commands, each with the command's name and the hash of its content."""
    found: list[tuple[Path, str, str]] = []
    for directory in project_directories(root):
        for file in _files_below(directory):
            try:
                digest = hashlib.sha256(_content(file, project_bounds(root))).hexdigest()
            except (OSError, ValueError) as exc:
                digest = str(exc)
            found.append((file, _name(directory, file), digest))
    return found


def watched_folders(directories: Iterable[Path]) -> list[Path]:
    """The folders in which a command may come, go or change."""
    searched = list(directories)
    inside = (Path(folder) for top in searched for folder, _, _ in os.walk(top))
    return list(dict.fromkeys([*searched, *itertools.islice(inside, MAX_FILES)]))


def discover(root: Path, user_dirs: Iterable[Path], *, trusted: Callable[[Path], bool]) -> list[Command]:
    """All commands by id, those with an error too. Of several with one id the first counts. Blocking."""
    found: dict[str, Command] = {}
    bounds = project_bounds(root)
    for directory in project_directories(root):
        for file in _files_below(directory):
            command = load(file, _name(directory, file), "project", trusted=trusted(file), within=bounds)
            found.setdefault(command.id, command)
    for directory in user_dirs:
        for file in _files_below(directory):
            command = load(file, _name(directory, file), "user", trusted=True)
            found.setdefault(command.id, command)
    return [found[key] for key in sorted(found)]


def load(file: Path, name: str, source: Source, *, trusted: bool, within: Iterable[Path] = ()) -> Command:
    """Read one command. A mistake in the file is told in `error`, never raised."""
    try:
        text = _content(file, within).decode("utf-8").removeprefix("\ufeff").replace("\r\n", "\n")
        if not all(map(_PART.fullmatch, name.split(":"))):
            raise ValueError("its name may have letters, digits, _, - and . only")
        head, listed, body = _taken_apart(text)
        if not body.strip():
            raise ValueError("it has no text")
        arguments = _arguments(body, listed)
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
        return Command(name=name, source=source, path=file, trusted=trusted, error=reason)
    return Command(
        name=name,
        source=source,
        path=file,
        description=head.get("description", "")[:MAX_DESCRIPTION] or _first_line(body),
        arguments=arguments,
        body=body.strip(),
        trusted=trusted,
    )


def info(command: Command) -> CommandInfo:
    """As clients see it."""
    return CommandInfo(
        id=command.id,
        name=command.name,
        source=command.source,
        description=command.description,
        usage=command.usage,
        arguments=command.arguments,
        untrusted=not command.trusted,
        error=command.error,
    )


def expand(command: Command, given: Mapping[str, str], typed: str) -> str:
    """The prompt that a command stands for. `typed` is what a person wrote behind its name; what is given by name counts before it.

    Raises `BadRequest` that says what is missing.
    """
    if command.error:
        raise BadRequest(f"the command {command.id} cannot be used: {command.error}")
    if not command.trusted:
        raise BadRequest(
            f"the command {command.id} is the project's and not trusted; 'bullpen trust' shows it"
        )
    known = {argument.name for argument in command.arguments} | {ALL}
    unknown = sorted(set(given) - known)
    if unknown:
        raise BadRequest(f"{command.usage} has no argument {', '.join(unknown)}")
    values, rest = _read_typed(command, typed)
    values |= given
    missing = [a.name for a in command.arguments if a.required and not values.get(a.name)]
    if missing:
        raise BadRequest(f"{', '.join(missing)} is missing: {command.usage}")
    defaults = {a.name: a.default for a in command.arguments}
    filled = {**defaults, ALL: typed.strip(), **values}
    text = _PLACEHOLDER.sub(lambda found: filled.get(found[1] or found[2], found[0]), command.body)
    return f"{text}\n\n{rest}" if rest else text


def _read_typed(command: Command, typed: str) -> tuple[dict[str, str], str]:
    """Arguments as a person types them, by name or by place, and what is left over. The last one by place takes all words."""
    uses_all = any((m[1] or m[2]) == ALL for m in _PLACEHOLDER.finditer(command.body))
    names = [argument.name for argument in command.arguments]
    if not names:
        return {}, "" if uses_all else typed.strip()
    try:
        words = shlex.split(typed)
    except ValueError as exc:
        raise BadRequest(f"{command.usage}: {exc}") from exc
    values: dict[str, str] = {}
    plain: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name in names:
            values[name] = value
        else:
            plain.append(word)
    open_names = [name for name in names if name not in values]
    if not open_names:
        return values, "" if uses_all else " ".join(plain)
    for name in open_names[:-1]:
        if plain:
            values[name] = plain.pop(0)
    if plain:
        values[open_names[-1]] = plain[0] if uses_all else " ".join(plain)
    return values, ""


def _taken_apart(text: str) -> tuple[dict[str, str], list[str] | None, str]:
    """The head's values, its list of arguments if it has one, and the text below it."""
    if text.split("\n", 1)[0].rstrip() != "---":
        return {}, None, text
    head = front_matter(text)
    listed = front_lists(text).get("arguments")
    if listed is None and "arguments" in head:
        listed = re.split(r"[\s,]+", head["arguments"])
    return head, listed, split_head(text)[1]


def _arguments(body: str, listed: list[str] | None) -> tuple[CommandArgument, ...]:
    used = dict.fromkeys(m[1] or m[2] for m in _PLACEHOLDER.finditer(body))
    if listed is None:
        return tuple(CommandArgument(name=name, required=True) for name in used if name != ALL)
    arguments: dict[str, CommandArgument] = {}
    for entry in filter(None, listed):
        found = _ARGUMENT.fullmatch(entry)
        if found is None or found[1] == ALL:
            raise ValueError(
                f"{entry!r} is no argument: write NAME, NAME? or NAME=default, in capital letters"
            )
        if found[1] not in used:
            raise ValueError(f"the argument {found[1]} does not stand in its text")
        optional = bool(found[2]) or found[3] is not None
        arguments[found[1]] = CommandArgument(name=found[1], required=not optional, default=found[3] or "")
    return tuple(arguments.values())


def _first_line(body: str) -> str:
    line = next((line.strip(" #*\t") for line in body.split("\n") if line.strip(" #*\t")), "")
    return line[:MAX_DESCRIPTION]


def _files_below(directory: Path) -> Iterator[Path]:
    """At most MAX_FILES, in the order of their names; no folder is followed through a link."""
    found = (
        Path(folder) / name
        for folder, folders, names in os.walk(directory)
        for name in _sorted(folders, names)
        if name.endswith(".md")
    )
    return itertools.islice(found, MAX_FILES)


def _sorted(folders: list[str], names: list[str]) -> list[str]:
    folders.sort()
    return sorted(names)


def _name(directory: Path, file: Path) -> str:
    return ":".join(file.relative_to(directory).with_suffix("").parts)


def _content(file: Path, within: Iterable[Path]) -> bytes:
    """Raises `ValueError` for what is no ordinary file, or leads out of the bounds."""
    bounds = list(within)
    real = Path(os.path.realpath(file))
    if bounds and not any(real.is_relative_to(bound) for bound in bounds):
        raise ValueError("leads out of the project")
    if not real.is_file():
        raise ValueError("not a regular file")
    with real.open("rb") as opened:
        raw = opened.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES} bytes")
    return raw
