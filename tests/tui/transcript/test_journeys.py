"""Reading a conversation at a real terminal: scrolling, folding, following, finding, copying, at every size."""

import re
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.journeys.server import gate, open_gate
from tests.tui.conftest import Desks, Sitting
from textual.widgets import Input

from bullpen.tui.transcript.lines import Lines

pytestmark = pytest.mark.anyio

LONG = "\n\n".join(f"Paragraph {n} of a long answer." for n in range(60))
OUTPUT = "for n in $(seq 1 30); do echo row $n; done; exit 3"

SCRIPT: tuple[dict[str, Any], ...] = (
    {"when": "long", "say": LONG},
    {
        "when": "work",
        "think": "one\ntwo\nthree\nfour",
        "say": "On it.",
        "calls": [
            {"name": "bash", "input": {"command": OUTPUT, "description": "rows"}, "id": "rows"},
            {"name": "agent", "input": {"prompt": "count the sheep"}, "id": "sheep"},
        ],
    },
    {"when": "work", "say": "It **failed**."},
    {"when": "count", "calls": [{"name": "glob", "input": {"pattern": "*"}, "id": "g"}]},
    {"when": "count", "say": "Seven."},
    {"when": "slowly", "say": "word " * 400, "pace_ms": 1},
)
ALLOWED = {"allowed_tools": ["bash", "agent", "glob"]}


async def ask(ana: Sitting, words: str, answer: str) -> None:
    """Have a turn, up to the end of its answer."""
    await ana.type(f"{words}\n")
    await ana.until_shown(answer, "◇ player")


def top_row(ana: Sitting) -> str:
    """The first paragraph that can be seen."""
    return re.findall(r"Paragraph \d+ ", ana.screen)[0]


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_scrolling_keeps_its_place_when_the_window_changes(desks: Desks, size: tuple[int, int]) -> None:
    async with desks.sit(desks.project(*SCRIPT, permissions=ALLOWED), size=size) as ana:
        await ask(ana, "long", "Paragraph 59")
        assert "Paragraph 0 " not in ana.screen
        await ana.pilot.press("tab", "g")
        await ana.until_shown("long", "Paragraph 0 ")
        await ana.pilot.press("f")
        before = top_row(ana)
        assert "Paragraph 0 " not in before
        await ana.pilot.resize_terminal(size[0] - 10, size[1] - 4)
        await ana.until(lambda: top_row(ana) == before, "the same row at the top")
        await ana.pilot.press("G")
        await ana.until_shown("◇ player")


async def test_work_is_shown_folded_and_unfolded(desks: Desks) -> None:
    async with desks.sit(desks.project(*SCRIPT, permissions=ALLOWED)) as ana:
        await ask(ana, "work", "It failed.")
        await ana.pilot.press("tab", "g")
        await ana.until_shown("✗ Bash", "exit 3", "row 1", "… 20 more lines, space shows them")
        await ana.until_shown("✓ Agent  count the sheep", "└ ✓ Glob", "Seven.")
        assert "row 30" not in ana.screen
        # From the last item up to the command: the ending, the words, the sub-agent.
        await ana.pilot.press("G", "K", "K", "K", "K", "space")
        await ana.until_shown("row 30")
        await ana.pilot.press("c")
        await ana.until(lambda: "## Bash" in ana.app.clipboard and "row 30" in ana.app.clipboard, "a copy")
        await ana.until_shown("copied")
        await ana.pilot.press("space", "J", "enter")
        await ana.until(lambda: "$$sheep" in ana.room.current_session, "the sub-agent's session")
        await ana.until_shown("count the sheep", "✓ Glob", "Seven.")


async def test_finding_words_also_where_they_are_folded(desks: Desks) -> None:
    async with desks.sit(desks.project(*SCRIPT, permissions=ALLOWED)) as ana:
        await ask(ana, "work", "It failed.")
        await ana.pilot.press("ctrl+f")
        await ana.until(lambda: isinstance(ana.app.focused, Input), "the bar")
        await ana.type("ROW 29")
        await ana.until_shown("row 29", "1/1")
        await ana.pilot.press("escape")
        await ana.until(lambda: isinstance(ana.app.focused, Lines), "the conversation")


async def test_the_end_is_followed_until_somebody_scrolls_up(desks: Desks) -> None:
    async with desks.sit(desks.project(*SCRIPT, permissions=ALLOWED), size=(80, 24)) as ana:
        await ask(ana, "long", "Paragraph 59")
        await ana.pilot.press("tab", "u")
        before = top_row(ana)
        await ana.room.prompt("slowly")
        await ana.until_shown("new lines (ctrl+end)")
        assert top_row(ana) == before
        await ana.pilot.press("ctrl+end")
        await ana.until_shown("word word", "◇ player")
        assert "new lines" not in ana.screen


async def test_a_running_command_is_seen_and_selected_text_is_copied(desks: Desks, tmp_path: Path) -> None:
    held = gate(tmp_path / "held")
    held["input"]["command"] = f"echo begun; {held['input']['command']}"
    project = desks.project({"calls": [held]}, {"say": "Over."}, permissions=ALLOWED)
    async with desks.sit(project) as ana:
        await ana.type("go\n")
        await ana.until_shown("● Bash", "begun")
        await anyio.to_thread.run_sync(open_gate, tmp_path / "held")
        await ana.until_shown("✓ Bash", "Over.")
        rows = ana.screen.split("\n")
        y = next(n for n, row in enumerate(rows) if "Over." in row)
        x = rows[y].index("Over.")
        await ana.pilot.mouse_down(offset=(x, y))
        await ana.pilot.hover(offset=(x + 3, y))
        await ana.pilot.mouse_up(offset=(x + 3, y))
        await ana.until(lambda: ana.app.clipboard == "Over", "the selected text")
        await ana.pilot.click(offset=(x, y), times=2)
        await ana.until(lambda: ana.app.clipboard == "Over.", "the word that was clicked on twice")


async def test_a_call_that_waits_for_a_person_and_a_host_that_refuses(desks: Desks) -> None:
    busy = {"message": "too many at once", "status": 429, "retry_after_s": 60, "times": 1}
    project = desks.project(
        {
            "when": "go",
            "calls": [{"name": "bash", "input": {"command": "touch made", "description": "d"}, "id": "b"}],
        },
        {"when": "go", "say": "Over."},
        {"when": "busy", "fail": busy, "calls": [{"name": "glob", "input": {"pattern": "*"}, "id": "g"}]},
        {"when": "busy", "say": "At last."},
    )
    async with desks.sit(project) as ana:
        await ana.type("go\n")
        await ana.until(lambda: ana.room.asks, "the ask")
        await ana.until_shown("May it?")
        # The dialog waits until the keyboard has been quiet.
        while "May it?" in ana.screen:
            await ana.pilot.press("escape")
            await ana.pilot.pause(0.1)
        await ana.until_shown("? Bash  touch made  waits for your answer")
        await ana.room.grant(ana.room.asks[0], "allow")  # type: ignore[arg-type]
        await ana.until_shown("✓ Bash  touch made", "Over.")
        await ana.room.prompt("busy")
        await ana.until_shown("too many at once", "attempt", "(r asks now)")
        ana.chat.transcript.focus()
        await ana.pilot.press("r")
        await ana.until_shown("At last.")
        assert "asks now" not in ana.screen
