"""What is kept of output: a fixed amount, by offset."""

from __future__ import annotations

import errno
import os

import anyio
import pytest

from bullpen.system.spool import MEMORY_BYTES, Piece, Tape


def test_a_tape_is_read_from_any_offset() -> None:
    """In pieces, each of which says where the next begins."""
    tape = Tape()
    tape.add(b"one\ntwo\n")
    assert tape.read(0, 4) == Piece(0, "one\n", 4)
    assert tape.read(4, 100) == Piece(4, "two\n", 8)
    assert tape.read(99, 100) == Piece(8, "", 8)
    assert tape.tail(4) == Piece(4, "two\n", 8)


def test_a_long_tape_keeps_its_beginning_and_its_end() -> None:
    """What lay between is a hole, and reading goes on behind it."""
    tape = Tape(head_bytes=300_000, ring_bytes=1_000)
    for number in range(100_000):
        tape.add(b"%07d\n" % number)
    assert tape.total == 800_000 > MEMORY_BYTES
    assert tape.read(299_992, 100).text == "0037499\n"
    behind = tape.read(300_000, 100_000)
    assert (behind.offset, behind.text[:8], behind.text[-8:]) == (799_000, "0099875\n", "0099999\n")
    assert behind.next_offset == 800_000


def test_a_character_is_not_cut_in_two() -> None:
    """A reader that goes on from where it was gets all of it; what is no character at all is marked."""
    tape = Tape()
    tape.add("aé".encode()[:2])
    assert tape.read(0, 100) == Piece(0, "a", 1)
    tape.add("é".encode()[1:] + b"\xff\0")
    assert tape.read(1, 100) == Piece(1, "é�\0", 5)
    tape.add("é".encode()[:1])
    tape.end()
    assert tape.read(5, 100) == Piece(5, "�", 6)


def test_what_the_disk_does_not_take_is_a_hole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The beginning stays, later output is kept again, and nobody has to care."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    tape = Tape()
    tape.add(b"begin\n")
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        tape.add(b"x" * MEMORY_BYTES)
    assert tape.read(0, 100) == Piece(0, "begin\n", 6)
    assert tape.read(6, 100) == Piece(6 + MEMORY_BYTES, "", 6 + MEMORY_BYTES)
    tape.add(b"end\n")
    assert tape.read(0, 100) == Piece(0, "begin\n", 6)
    assert tape.read(6, 100) == Piece(6 + MEMORY_BYTES, "end\n", 10 + MEMORY_BYTES)


async def test_following_waits_for_more() -> None:
    """Until there is something, or nothing will come."""
    tape = Tape()
    async with anyio.create_task_group() as tasks:

        async def write() -> None:
            await anyio.lowlevel.checkpoint()
            tape.add(b"x")
            await anyio.lowlevel.checkpoint()
            tape.end()

        tasks.start_soon(write)
        await tape.grown(0)
        assert tape.total == 1
        await tape.grown(1)
        assert tape.has_ended
