"""X-20 at a real terminal, and by the many: what models, files and people write moves no cursor, names no window, rings no bell."""

from __future__ import annotations

import random
import subprocess

import pytest
from tests.campaign import sized
from tests.cli.conftest import Open, env, home, terminal
from tests.conftest import Figure
from tests.tui.conftest import Desks
from tests.tui.transcript.test_hostile import CORPUS, UNSAFE

from bullpen.present.inert import inert, inert_line
from bullpen.tui.outside import Outside

__all__ = ("env", "home", "terminal")

PIECES = [
    *("\x1b[", "\x1b]", "\x1bP", "\x1b^", "\x1b_", "\x1bX", "\x1b\\", "\x07", "\x9b", "\x9d", "\x90", "\x9c"),
    *("2J", "31m", "?1049l", "8;;http://x", "52;c;eA==", "0;title", "6n", "c", "!p", "\x08", "\r", "\x0b"),
    *("\u202e", "\u2066", "\u200b", "\ufeff", "\U000e0041", "\ud800", "\x00", "\x7f", "\x85", "\u2028"),
    *("word", " ", "漢", "🙂", "é", "\t", "`", "*", "[a](b)"),
]


def test_no_string_gives_an_order(figure: Figure) -> None:
    """As text, as a line, and as a title or a notice for the terminal itself."""
    count = sized(20_000, 1_000_000)
    rng = random.Random(20)
    said: list[str] = []
    outside = Outside(said.append, "osc", {})
    outside.is_looked_at = False
    for _ in range(count):
        text = "".join(rng.choices(PIECES, k=rng.randint(1, 12)))
        assert not UNSAFE.search(inert(text).replace("\n", ""))
        assert not UNSAFE.search(inert_line(text))
        said.clear()
        outside.call(text)
        outside.title(text)
        notice, title = said
        assert not UNSAFE.search(notice.removeprefix("\x1b]9;").removesuffix("\x1b\\"))
        assert not UNSAFE.search(title.removeprefix("\x1b]2;").removesuffix("\x1b\\"))
    figure("X-20", "ATTK", f"{count:,} hostile strings as text, line, title and notice: 0 control characters")


@pytest.mark.anyio
async def test_a_terminal_obeys_nothing_of_it(desks: Desks, terminal: Open, figure: Figure) -> None:
    """The corpus as an answer, as a command's output and as a prompt, drawn by the real program at a real terminal."""
    hostile = "\n\n".join(text for text in CORPUS.values() if len(text) < 200 and "\ud800" not in text)
    call = {"name": "bash", "input": {"command": "cat hostile.txt", "description": "read it"}}
    project = desks.project(
        {"when": "go", "say": hostile, "calls": [call]}, {"when": "go", "say": "The very end."}
    )
    (project / "hostile.txt").write_text(hostile)
    screen = terminal(
        "attach", str(project), "--new", "--host", f"unix://{desks.server.socket}", columns=100, rows=40
    )
    await screen.until("connected")
    screen.type("go")
    await screen.until("The very end.", "connected")
    told = subprocess.run(
        [
            *screen.tmux,
            "display-message",
            "-p",
            "-t",
            screen.name,
            "#{alternate_on} #{window_bell_flag} #{pane_title}",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert told.startswith("1 0 bullpen ")
    assert "owned" not in told
    clips = subprocess.run([*screen.tmux, "list-buffers"], capture_output=True, text=True, check=True).stdout
    assert clips == ""
    figure(
        "X-20",
        "ATTK",
        f"{len(CORPUS)} kinds of sequences drawn in tmux: no title, bell, clipboard or screen changed",
    )
