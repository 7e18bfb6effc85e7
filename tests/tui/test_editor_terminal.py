"""The editor in a real terminal: where the caret is, what a paste becomes, a program of one's own, and a crash."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from tests.cli.conftest import Open, Screen, env, home, terminal
from tests.tui.conftest import Desks

__all__ = ("env", "home", "terminal")

pytestmark = pytest.mark.anyio

LIMIT_S = 20


async def until(holds: Callable[[], object], screen: Screen) -> None:
    with anyio.move_on_after(LIMIT_S):
        while not holds():  # noqa: ASYNC110 (another process)
            await anyio.sleep(0.05)
        return
    raise AssertionError(screen.text())


def caret_behind(screen: Screen, text: str, width: int) -> bool:
    """Whether the terminal's cursor stands right behind a text, which is so many columns wide."""
    rows = screen.text().split("\n")
    column, row = screen.cursor()
    return row < len(rows) and text in rows[row] and column == rows[row].index(text) + width


async def test_the_caret_a_paste_a_program_and_a_crash(desks: Desks, terminal: Open, tmp_path: Path) -> None:
    project = desks.project({"say": "Noted."})
    program = tmp_path / "program"
    program.write_text('#!/bin/sh\nprintf "\\nby hand" >> "$1"\n')
    program.chmod(0o755)
    where = ("attach", str(project), "--new", "--host", f"unix://{desks.server.socket}")
    screen = terminal(*where, columns=100, VISUAL=str(program))
    await screen.until("connected")

    screen.send("漢字 🙂 é")
    await until(lambda: caret_behind(screen, "漢字 🙂 é", 9), screen)
    screen.send("C-j", "C-j", "C-j", "C-j", "x")
    await until(lambda: caret_behind(screen, "x", 1), screen)

    screen.paste("one\rtwo\rthree")
    await screen.until("two")
    screen.paste("\r".join(f"row {n}" for n in range(20)))
    await screen.until("paste_1.txt 20 lines")
    screen.send("C-o")
    await screen.until("by hand")

    [running] = [
        pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _is_attached(pid, project)
    ]
    os.kill(running, signal.SIGKILL)
    await screen.until("[status 137]")
    again = terminal(*where, columns=100)
    await again.until("paste_1.txt 20 lines", "by hand", "漢字")
    # Keys that come faster than the screen is drawn keep their order.
    again.send("C-a", "C-u", "M-x", "C-e", "!echo ", "hi-there", "Enter", "typed meanwhile")
    await again.until("typed meanwhile")


def _is_attached(pid: int, project: Path) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"attach" in words and str(project).encode() in words and b"sh" not in words
