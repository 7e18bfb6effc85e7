"""Writing a prompt: what each key does, and that nothing that was typed is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.journeys.server import gate
from tests.tui.conftest import Desks, Sitting
from textual.events import Paste

from bullpen.schema.message import BinaryPart
from bullpen.tui.editor.editor import Editor

pytestmark = pytest.mark.anyio

ANYTHING = {"say": "Noted."}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Drafts lie in a place of their own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "bullpen" / "drafts"


def editor(ana: Sitting) -> Editor:
    return ana.chat.editor


def prompts(ana: Sitting) -> list[str]:
    """What was said in the session one is in."""
    return [m.text for m in ana.room.messages(ana.room.current_session) if m.role == "user"]


async def paste(ana: Sitting, text: str) -> None:
    ana.app.post_message(Paste(text))
    await ana.pilot.pause()


async def test_lines_are_joined_history_walked_and_the_draft_kept(desks: Desks) -> None:
    """One sitting: new lines, sending, ↑ and ↓, search, and the draft that waits below."""
    async with desks.sit(desks.project(ANYTHING)) as ana:
        await ana.type("one")
        await ana.pilot.press("ctrl+j")
        await ana.type("two\\\nthree")
        assert editor(ana).value == "one\ntwo\nthree"
        await ana.pilot.press("enter", "up")
        assert editor(ana).value == "one\ntwo\nthree", "what was just sent is there at once"
        await ana.pilot.press("escape")
        assert editor(ana).value == ""
        await ana.until(lambda: prompts(ana) == ["one\ntwo\nthree"], "the prompt")

        await ana.type("second\n")
        await ana.until(lambda: len(prompts(ana)) == 2, "the second prompt")
        await ana.type("a draft")
        await ana.pilot.press("home", "up")
        assert editor(ana).value == "second"
        await ana.type("!")
        await ana.pilot.press("home", "up", "end", "down", "end", "down")
        assert editor(ana).value == "a draft"
        await ana.pilot.press("ctrl+a", "ctrl+k", "ctrl+r")
        await ana.type("two")
        await ana.until_shown("one two three")
        await ana.pilot.press("enter")
        assert editor(ana).value == "one\ntwo\nthree"


async def test_a_draft_belongs_to_its_session_and_outlives_the_terminal(desks: Desks, state: Path) -> None:
    project = desks.project(ANYTHING)
    async with desks.sit(project) as ana:
        await ana.type("first\n")
        await ana.until(lambda: prompts(ana) == ["first"], "the prompt")
        first = ana.room.current_session
        await ana.type("unfinished 漢字")
        await ana.chat.open_new("other")
        assert editor(ana).value == ""
        await ana.type("elsewhere")
        await ana.chat.open(first)
        assert editor(ana).value == "unfinished 漢字"
    assert all(file.stat().st_mode & 0o077 == 0 for file in state.iterdir())
    async with desks.sit(project, session=first) as ana:
        await ana.until(lambda: editor(ana).value == "unfinished 漢字", "the draft")
        await ana.pilot.press("enter")
        await ana.until(lambda: prompts(ana)[-1] == "unfinished 漢字", "the prompt")
    async with desks.sit(project, session=first) as ana:
        assert editor(ana).value == ""


async def test_a_long_paste_is_a_chip_that_can_be_unfolded_or_sent(desks: Desks) -> None:
    async with desks.sit(desks.project(ANYTHING)) as ana:
        await paste(ana, "short\r\nand\rnormal")
        assert editor(ana).value == "short\nand\nnormal"
        await ana.pilot.press("ctrl+underscore")
        assert editor(ana).value == ""
        long = "\r".join(f"line {n}" for n in range(12))
        await paste(ana, long)
        await ana.until_shown("paste_1.txt 12 lines ✕")
        await ana.pilot.press("alt+e")
        assert editor(ana).value.count("\n") == 11
        await ana.pilot.press("ctrl+underscore")
        await paste(ana, long)
        await ana.pilot.press("alt+x")
        await ana.until(lambda: "paste_1" not in ana.screen, "the chip to go")
        await paste(ana, long)
        await ana.type("see this\n")
        await ana.until(lambda: prompts(ana) == ["see this"], "the prompt")
        [message] = [m for m in ana.room.messages(ana.room.current_session) if m.role == "user"]
        [pasted] = [part.data for part in message.parts if isinstance(part, BinaryPart)]
        assert pasted.data.endswith(b"line 11")


async def test_while_it_works_a_prompt_waits_or_is_heard_at_once(desks: Desks, tmp_path: Path) -> None:
    door = tmp_path / "door"
    project = desks.project(
        {"when": "begin", "say": "Waiting.", "calls": [gate(door)]},
        ANYTHING,
        permissions={"allowed_tools": ["bash"]},
    )
    async with desks.sit(project) as ana:
        await ana.type("begin\n")
        await ana.until_shown("Alt+Enter: it is heard at once")
        await ana.type("later\n")
        await ana.until(lambda: [p.text for p in ana.room.waiting(ana.room.current_session)] == ["later"])
        await ana.type("stop that")
        await ana.pilot.press("alt+enter")
        await ana.until(lambda: "stop that" in prompts(ana), "to be heard")
