"""What a project asks for, item by item: what a person trusts or does not.

An item is one hook, one server, one provider, one setting, one skill, one sub-agent, one command, or the `.env` file. Its hash
covers its content and the files of the project that it runs, so a script that was changed is another item although the config
reads as before.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from bullpen.config.check import Steps
from bullpen.config.expand import commands_in
from bullpen.config.merge import REPLACE
from bullpen.config.places import git_root
from bullpen.config.trust import DOTENV, split
from bullpen.config.wanted import HookPins, Item, State, Wanted
from bullpen.errors import BadRequest
from bullpen.system.scripts import Script, digest_of, own_paths

HOOKS = "hooks"

MAX_SCRIPTS = 100
TOO_MANY = "not looked at: the project names too many scripts"
"""What runs one of those cannot be trusted: nobody would notice that it changes."""

_deterministic = msgspec.json.Encoder(order="deterministic")


class TrustedItems(msgspec.Struct, frozen=True):
    """The hashes that a person trusts in one project, by file and name."""

    files: dict[str, dict[str, str]] = {}

    def state(self, item: Item) -> State:
        known = self.files.get(item.file, {})
        if any(script.digest == TOO_MANY for script in item.files):
            return "new"
        # By content and not by name: a hook that moved up in its list is the same hook.
        if item.hash in known.values():
            return "trusted"
        return "changed" if item.name in known else "new"


Trusted = bool | TrustedItems
"""What of a project counts: all, nothing, or what a person trusts of it."""


def items_of(wanted: Iterable[Wanted], root: Path, trusted: Trusted) -> list[Item]:
    """Everything the project asks for, each with what a person makes of it. Blocking: it reads scripts."""
    found: list[Item] = []
    reader = _Reader(root)
    for each in wanted:
        for steps, content in _parts(each.content):
            files = reader.files_of(steps, content)
            item = Item(
                file=each.file, steps=steps, content=content, hash=_hash(steps, content, files), files=files
            )
            state = ("trusted" if trusted else "new") if isinstance(trusted, bool) else trusted.state(item)
            found.append(msgspec.structs.replace(item, state=state))
    return found


def fingerprint(items: Iterable[Item]) -> str:
    """The hash of all of it, "" when there is nothing."""
    listed = [[item.file, item.name, item.hash] for item in items]
    return hashlib.sha256(_encoded(listed)).hexdigest() if listed else ""


def in_force(content: Mapping[str, Any], file: str, items: Iterable[Item]) -> dict[str, Any]:
    """What of a file counts: the harmless, what is trusted, and hooks that must not be missed although they changed.

    The places of untrusted hooks are kept empty, so that what is told of the others names the right line.
    """
    counts = split(content)[0]
    for item in items:
        if item.file != file or not (item.is_trusted or is_withdrawn(item)):
            continue
        if len(item.steps) == 1:
            counts[str(item.steps[0])] = item.content
            continue
        section, name, *place = item.steps
        here = counts[str(section)] = {**counts.get(str(section), {})}
        if place and isinstance(place[0], int):
            entries = [*here.get(str(name), ())]
            entries += [None] * (place[0] + 1 - len(entries))
            entries[place[0]] = item.content
            here[str(name)] = entries
        else:
            here[str(name)] = item.content
    return counts


def is_withdrawn(item: Item) -> bool:
    """Whether this is a hook that was trusted, has changed, and may not be missed: it is not run, and refuses."""
    return (
        item.state == "changed"
        and item.steps[0] == HOOKS
        and isinstance(item.content, Mapping)
        and item.content.get("fail_closed") is True
    )


def picked(items: Iterable[Item], names: Collection[str]) -> list[Item]:
    """The items with these names, all without any. Raises `BadRequest` for a name that none has."""
    chosen = [item for item in items if not names or item.name in names]
    missing = sorted(set(names) - {item.name for item in chosen})
    if missing:
        raise BadRequest(f"the project asks for nothing called {', '.join(missing)}")
    return chosen


def hook_pins(items: Iterable[Item]) -> HookPins:
    hooks = [item for item in items if str(item.steps[0]).removesuffix(REPLACE) == HOOKS]
    trusted = {command: i.files for i in hooks if i.is_trusted and i.files for command in _told(i.content)}
    withdrawn = (command for i in hooks if is_withdrawn(i) for command in _told(i.content))
    return HookPins(trusted, frozenset(withdrawn))


def _told(content: Any) -> Iterator[str]:
    """The commands of the hooks in there."""
    if isinstance(content, Mapping):
        if isinstance(command := content.get("command"), str):
            yield command
        for inner in content.values():
            yield from _told(inner)
    elif isinstance(content, list):
        for inner in content:
            yield from _told(inner)


def _parts(content: Mapping[str, Any]) -> Iterator[tuple[Steps, Any]]:
    for key, value in content.items():
        if not isinstance(value, Mapping) or not value or key == DOTENV or key.endswith(REPLACE):
            yield (key,), value
            continue
        for name, inner in value.items():
            if key == HOOKS and isinstance(inner, list) and not name.endswith(REPLACE):
                yield from (((key, name, number), hook) for number, hook in enumerate(inner))
            else:
                yield (key, name), inner


def _hash(steps: Steps, content: Any, files: Iterable[Script]) -> str:
    named = [step for step in steps if isinstance(step, str)]
    runs = [[script.path, script.digest] for script in files]
    return hashlib.sha256(_encoded([named, content, runs])).hexdigest()


def _encoded(value: Any) -> bytes:
    try:
        return _deterministic.encode(value)
    except (UnicodeError, RecursionError):  # Half characters, or nested without end: legal JSON all the same.
        return repr(value).encode("utf-8", "backslashreplace")


class _Reader:
    """Reads each script once, and not any number of them: a project must not keep us busy by naming files."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._within = git_root(root.resolve()) or root
        self._known: dict[Path, str | None] = {}

    def files_of(self, steps: Steps, content: Any) -> tuple[Script, ...]:
        found: dict[Path, Script] = {}
        for command in _commands(str(steps[0]).removesuffix(REPLACE), content):
            for path in own_paths(command, self._root, within=self._within):
                digest = self._digest(path)
                if digest is not None:
                    found[path] = Script(str(path), digest)
        return tuple(found.values())

    def _digest(self, path: Path) -> str | None:
        if path not in self._known:
            self._known[path] = digest_of(path) if len(self._known) < MAX_SCRIPTS else TOO_MANY
        return self._known[path]


def _commands(section: str, content: Any) -> Iterator[str]:
    """The commands that an item runs as they are, and those in its values."""
    if isinstance(content, Mapping):
        plain = {str(key).removesuffix(REPLACE): value for key, value in content.items()}
        command, words = plain.get("command"), plain.get("args")
        if isinstance(command, str) and section == HOOKS:
            yield command
        elif isinstance(command, str) and section in {"mcp", "lsp"}:
            yield shlex.join(
                [command, *(w for w in words if isinstance(w, str))] if isinstance(words, list) else [command]
            )
        if isinstance(refresh := plain.get("aws_auth_refresh"), str):
            yield refresh
        for inner in plain.values():
            yield from _commands(section, inner)
    elif isinstance(content, list):
        for inner in content:
            yield from _commands(section, inner)
    elif isinstance(content, str):
        yield from commands_in(content)
