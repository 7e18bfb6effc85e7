"""Comparing a value with its JSON, in both directions."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bullpen.schema.wire import Wire, encode


def both_ways(value: Wire, text: str) -> None:
    """The value becomes exactly this text, and the text exactly this value."""
    assert encode(value).decode() == text
    assert msgspec.json.decode(text, type=type(value)) == value


def names(values: Sequence[object]) -> list[str]:
    """What to call the cases of a test: the class, and a number where a class has several."""
    return [f"{type(value).__name__} {number}" for number, value in enumerate(values)]
