"""What a command prints, handed on while it runs: a few times a second, and of much at once only the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import anyio

from bullpen.system.spool import Piece, Tape

SHOW_EVERY_S = 0.2
SHOWN_BYTES = 8 * 1024
"""How often clients are shown what a command prints, and how much of it at most."""


class Printing(Protocol):
    tape: Tape

    @property
    def done(self) -> bool: ...
    async def wait(self) -> None: ...


async def follow(job: Printing, show: Callable[[Piece], None]) -> None:
    """Until the command has ended. `show` gets what is new each time, and nothing of a command that ends at once."""
    shown = 0
    while True:
        with anyio.move_on_after(SHOW_EVERY_S):
            await job.wait()
        if job.done:
            return
        piece = job.tape.read(max(shown, job.tape.total - SHOWN_BYTES), SHOWN_BYTES)
        shown = piece.next_offset
        show(piece)
