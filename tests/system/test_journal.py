"""The last lines of the log, whole and one line each."""

from __future__ import annotations

import logging
import sys

from bullpen.system.journal import LONGEST_CHARS, MOST, Journal


def record(message: str, *values: object, level: int = logging.INFO) -> logging.LogRecord:
    return logging.LogRecord("bullpen.test", level, "", 0, message, values, sys.exc_info())


def test_the_newest_are_kept_whole() -> None:
    """However long they are together: nothing is read back from a file in blocks."""
    journal = Journal()
    for n in range(MOST + 10):
        journal.handle(record("%d %s", n, "x" * 1000))
    kept = journal.last(MOST * 2)
    assert [entry.message.split()[0] for entry in kept] == [str(n) for n in range(10, MOST + 10)]
    assert {len(entry.message.split()[1]) for entry in kept} == {1000}
    assert journal.last(0) == []


def test_an_entry_is_one_line_with_its_error_and_has_an_end() -> None:
    journal = Journal()
    try:
        raise ValueError("a\nb")
    except ValueError:
        journal.handle(record("it %s", "broke\u202e", level=logging.ERROR))
    journal.handle(record("y" * 10_000))
    first, second = journal.last(2)
    assert (first.level, first.source) == ("ERROR", "bullpen.test")
    assert first.message == "it broke\\u202e (ValueError: a\\u000ab)"
    assert str(first).endswith("ERROR bullpen.test: it broke\\u202e (ValueError: a\\u000ab)")
    assert len(second.message) == LONGEST_CHARS + 1
