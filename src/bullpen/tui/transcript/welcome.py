"""What stands where nothing has been said yet."""

from __future__ import annotations

from textual.strip import Strip

from bullpen.tui.transcript.flow import Run, blank, strip, wrap
from bullpen.tui.transcript.palette import Palette

LINES: tuple[tuple[str, str], ...] = (
    ("", "Say what is to be done. Everybody who is attached here sees it."),
    ("", ""),
    ("@", "attach a file"),
    ("/", "a command"),
    ("!", "run a shell command"),
    ("ctrl+s", "sessions"),
    ("ctrl+l", "models"),
    ("ctrl+p", "everything else"),
    ("f1", "all keys"),
)

COLUMN = 10


def welcome(width: int, height: int, palette: Palette) -> list[Strip]:
    """A calm page in the middle of the window."""
    rows: list[list[Run]] = [[("bullpen", palette.heading)], []]
    for key, words in LINES:
        told = [(f"{key:<{COLUMN}}", palette.accent)] if key else []
        rows.append([*told, (words, palette.faint if key else palette.text)])
    left = max((width - 62) // 2, 2)
    drawn = [blank(width, palette.text)] * max((height - len(rows)) // 3, 0)
    for runs in rows:
        for row in wrap([(" " * left, palette.text), *runs], width, at="cut"):
            drawn.append(strip(row, width, palette.text))
    return drawn[:height]
