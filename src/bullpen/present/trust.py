"""What the files of a project would do, in lines."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from bullpen.present.inert import inert_line

if TYPE_CHECKING:
    from bullpen.schema.api import TrustEffect

VERBS = {
    "runs": "runs",
    "connects": "connects to",
    "sets": "sets",
    "allows": "allows without asking",
    "reads": "gives the model",
    "instructs": "instructs the model",
    "broken": "cannot be read",
}

MARKS = {"trusted": "  trusted", "changed": "  CHANGED since it was trusted"}


def summary(states: Collection[str]) -> str:
    """What is made of it all, in a sentence."""
    if set(states) == {"trusted"}:
        return "this is trusted"
    changed = "; what has changed since it was is marked" if "changed" in states else ""
    part = "a part of this is not trusted" if "trusted" in states else "this is not trusted"
    return part + changed


def lines(effects: Iterable[TrustEffect], only: Collection[str] = ()) -> Iterator[str]:
    """What the files of a project would do, for people, by file; each line with its place and its item."""
    file = ""
    for effect in effects:
        if only and effect.item not in only:
            continue
        if effect.file != file:
            file = effect.file
            yield inert_line(file)
        place = inert_line(effect.setting) + (f":{effect.line}" if effect.line else "")
        item = f", of {inert_line(effect.item)}" if effect.item != effect.setting else ""
        mark = MARKS.get(effect.state, "")
        yield f"  {VERBS.get(effect.kind, effect.kind)}  {inert_line(effect.detail)}  ({place}{item}){mark}"
