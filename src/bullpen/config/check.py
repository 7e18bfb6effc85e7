"""Holds a file's content against `shape` and says what it gets wrong, with the place of each mistake.

A key that is not known is kept, because another client may understand it, but somebody is told, with the key that
was probably meant. A value that cannot be used is left out and told; the rest of the file counts. Only where the value
would have forbidden something, leaving it out would be dangerous: an entry of a map (a provider, a tool server) is
then left out as a whole, in outer files too, and anything else `blocks`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from bullpen.config.merge import REPLACE
from bullpen.config.shape import File, fields_of, is_section, item_of, origin_of
from bullpen.config.spans import seconds

MAX_DEPTH = 50
"""Nesting past this is an attack or an accident."""

Steps = tuple[str | int, ...]
"""The way to a value: keys and indexes."""


class Complaint(msgspec.Struct, frozen=True):
    """One mistake. One that `blocks` may be a restriction that is not in force."""

    steps: Steps
    sentence: str
    blocks: bool = False


class Checked(msgspec.Struct, frozen=True):
    """A file's content without what cannot be used, and what is to be said about the rest."""

    content: dict[str, Any]
    complaints: tuple[Complaint, ...]

    @property
    def wrong(self) -> frozenset[Complaint]:
        """The complaints about values; the others are about keys."""
        return frozenset(c for c in self.complaints if not c.sentence.startswith(UNKNOWN))


UNKNOWN = "unknown key "


def check(content: dict[str, Any]) -> Checked:
    complaints: list[Complaint] = []
    clean = _Check(complaints).section(content, File, (), 0)
    return Checked(clean if isinstance(clean, dict) else {}, tuple(complaints))


def dotted(steps: Iterable[str | int]) -> str:
    """The way as it is written: `hooks.PreToolUse[0].command`; a dot inside a name is `\\.`."""
    text = ""
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else f".{_escaped(step)}" if text else _escaped(step)
    return text


def folded(name: str) -> str:
    """Names of events match whatever their case and underscores."""
    return name.replace("_", "").lower()


_DROP = object()


class _Check:
    def __init__(self, complaints: list[Complaint]) -> None:
        self.complaints = complaints

    def section(self, value: Any, kind: type[msgspec.Struct], steps: Steps, depth: int) -> Any:
        if not isinstance(value, dict):
            return self.refuse(steps, "an object is wanted", blocks=_can_restrict(kind))
        fields = fields_of(kind)
        in_list = bool(steps) and isinstance(steps[-1], int)
        clean: dict[str, Any] = {}
        for key, inner in value.items():
            if inner is None:
                # Takes a key of an outer file away. Nothing reaches into a list, so there it means "not given".
                clean |= {} if in_list else {key: None}
                continue
            field = fields.get(key.removesuffix(REPLACE))
            if field is None:
                self.unknown((*steps, key), fields)
                clean[key] = inner
                continue
            checked = self.value(inner, field.typed, field.extra, (*steps, key), depth + 1)
            if checked is not _DROP:
                clean[key] = checked
        missing = [f.name for f in fields.values() if f.is_required and not clean.get(f.name)]
        return self.refuse(steps, f"{missing[0]!r} is missing") if missing else clean

    def value(self, value: Any, kind: Any, extra: dict[str, Any], steps: Steps, depth: int) -> Any:
        """The value without its bad parts, or `_DROP`."""
        before = len(self.complaints)
        checked = self.typed(value, kind, extra, steps, depth)
        if extra.get("restricts"):
            self.complaints[before:] = [
                c if c.sentence.startswith(UNKNOWN) else msgspec.structs.replace(c, blocks=True)
                for c in self.complaints[before:]
            ]
        return checked

    def typed(self, value: Any, kind: Any, extra: dict[str, Any], steps: Steps, depth: int) -> Any:
        if depth > MAX_DEPTH:
            return self.refuse(steps, "nested too deeply")
        item = item_of(kind)
        if is_section(kind):
            return self.section(value, kind, steps, depth)
        if origin_of(kind) is dict and item is not Any:
            return self.mapping(value, item, extra, steps, depth)
        if origin_of(kind) is tuple and item is not str:
            if not isinstance(value, list):
                return self.refuse(steps, "a list is wanted")
            items = [
                self.typed(v, item, {}, (*steps, i), depth + 1) for i, v in enumerate(value) if v is not None
            ]
            return [v for v in items if v is not _DROP]
        return self.plain(value, kind, extra, steps)

    def mapping(self, value: Any, item: Any, extra: dict[str, Any], steps: Steps, depth: int) -> Any:
        if not isinstance(value, dict):
            return self.refuse(steps, "an object is wanted")
        known = extra.get("keys", ())
        clean: dict[str, Any] = {}
        for key, inner in value.items():
            here = (*steps, key)
            if known and folded(key.removesuffix(REPLACE)) not in map(folded, known):
                if extra.get("restricts"):
                    self.refuse(here, f"there is no such event; known: {', '.join(known)}")
                    continue
                self.unknown(here, known)
            checked = None if inner is None else self.entry(inner, item, here, depth)
            if checked is not _DROP:
                clean[key] = checked
        return clean

    def entry(self, value: Any, item: Any, steps: Steps, depth: int) -> Any:
        """One entry of a map. Without its restrictions it is not wanted at all, not even from an outer file."""
        before = len(self.complaints)
        checked = self.typed(value, item, {}, steps, depth + 1)
        if not is_section(item) or not any(c.blocks for c in self.complaints[before:]):
            return checked
        self.complaints[before:] = [
            msgspec.structs.replace(c, sentence=f"{c.sentence}; {dotted(steps)} is left out", blocks=False)
            if c.blocks
            else c
            for c in self.complaints[before:]
        ]
        return None

    def plain(self, value: Any, kind: Any, extra: dict[str, Any], steps: Steps) -> Any:
        try:
            if extra.get("span"):
                seconds(value)
            else:
                msgspec.convert(value, type=kind)
            if extra.get("regex"):
                re.compile(value)
        except msgspec.ValidationError as exc:
            return self.refuse(steps, str(exc).partition(" - at ")[0])
        except re.error as exc:
            return self.refuse(steps, f"{value!r} is no regular expression: {exc}")
        except (ValueError, OverflowError) as exc:
            return self.refuse(steps, str(exc))
        return value

    def unknown(self, steps: Steps, known: Iterable[str]) -> None:
        near = difflib.get_close_matches(str(steps[-1]).removesuffix(REPLACE), list(known), 1)
        hint = f", did you mean {dotted((*steps[:-1], near[0]))!r}?" if near else ""
        self.complaints.append(Complaint(steps, f"{UNKNOWN}{dotted(steps)!r}{hint}"))

    def refuse(self, steps: Steps, why: str, *, blocks: bool = False) -> Any:
        self.complaints.append(Complaint(steps, f"{dotted(steps)}: {why[:1].lower()}{why[1:]}", blocks))
        return _DROP


def _can_restrict(kind: type[msgspec.Struct]) -> bool:
    """Whether anything directly below the section forbids something."""
    return any(
        field.extra.get("restricts") or (is_section(field.kind) and _can_restrict(field.kind))
        for field in fields_of(kind).values()
    )


def _escaped(step: str) -> str:
    return step.replace(".", "\\.")
