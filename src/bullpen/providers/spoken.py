"""Text at a readable pace, for the models that are not models."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import anyio

from bullpen.providers.base import ModelRequest, TextDelta, Usage, UserTurn

_WORD = re.compile(r"\S+\s*|\s+")


def words_of(text: str) -> list[str]:
    """The text in pieces of one word with the white space after it; joined they are the text."""
    return _WORD.findall(text)


async def spoken(text: str, pace_s: float) -> AsyncIterator[TextDelta]:
    for word in words_of(text):
        await anyio.sleep(pace_s)
        yield TextDelta(word)


def last_prompt(request: ModelRequest) -> str:
    """What the person said last."""
    return next((t.text for t in reversed(request.turns) if isinstance(t, UserTurn)), "")


def title_of(request: ModelRequest) -> str:
    """A title made of the first words of the prompt."""
    return " ".join(last_prompt(request).split()[:6])[:50] or "A conversation"


def usage_of(request: ModelRequest, said: str) -> Usage:
    """Counts that look like tokens: a word is about one."""
    heard = sum(len(t.text.split()) for t in request.turns if isinstance(t, UserTurn))
    return Usage(input=heard + sum(len(s.split()) for s in request.system), output=len(said.split()))
