"""Finding by a few letters: every word of what was typed has to be found, in one piece or letter after letter."""

from __future__ import annotations

from typing import NamedTuple


class Found(NamedTuple):
    """How well a text fits, more is better, and which of its letters were meant."""

    score: int
    places: frozenset[int]


def find(query: str, text: str, also: str = "") -> Found | None:
    """How the text fits the query; `also` is looked through as well, but not letter by letter, and nothing of it is marked."""
    letters = _letters(text)
    beside = also.lower()
    score = 0
    places: set[int] = set()
    for word in query.split():
        found = _word("".join(_letters(word)), letters)
        if found is not None:
            score += found.score
            places |= found.places
        elif word.lower() not in beside:
            return None
    return Found(score, frozenset(places))


def _letters(text: str) -> str:
    """In small letters, one for one: places in it are places in the text."""
    return "".join(character.lower()[:1] for character in text)


def _word(word: str, text: str) -> Found | None:
    at = _best_piece(word, text)
    if at >= 0:
        return Found(200 + 100 * _begins_word(text, at) - min(at, 99), frozenset(range(at, at + len(word))))
    places: list[int] = []
    for letter in word:
        start = places[-1] + 1 if places else 0
        place = text.find(letter, start)
        if place < 0:
            return None
        places.append(place)
    spread = places[-1] - places[0] - len(word) if places else 0
    return Found(100 - min(spread, 99), frozenset(places))


def _best_piece(word: str, text: str) -> int:
    """Where the word stands in one piece, at the beginning of another word if it does that anywhere."""
    first = at = text.find(word)
    while at >= 0:
        if _begins_word(text, at):
            return at
        at = text.find(word, at + 1)
    return first


def _begins_word(text: str, at: int) -> bool:
    return at == 0 or not text[at - 1].isalnum()
