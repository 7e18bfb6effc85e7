"""Writing a prompt: what each key does, and that nothing that was typed is lost."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tests.journeys.server import config, gate
from tests.tui.conftest import Desks, Sitting
from textual.events import Paste

from bullpen.schema.message import BinaryPart, ShellCommandPart
from bullpen.tui.editor.editor import Editor
from bullpen.tui.preferences import Preferences

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
        await ana.pilot.press("z", "backspace")
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
    async with desks.sit(project) as ana:
        assert editor(ana).value == ""
        while editor(ana).value != "unfinished 漢字":  # All sessions' prompts are on their way.
            await ana.pilot.press("up")


async def test_a_long_paste_is_a_chip_that_can_be_unfolded_or_sent(desks: Desks) -> None:
    async with desks.sit(desks.project(ANYTHING)) as ana:
        await paste(ana, "short\r\nand\rnormal")
        assert editor(ana).value == "short\nand\nnormal"
        await ana.pilot.press("ctrl+underscore")
        assert editor(ana).value == ""
        long = "\r".join(f"line {n}" for n in range(30))
        await paste(ana, long)
        await ana.until_shown("paste_1.txt 30 lines ✕")
        await ana.pilot.press("alt+e")
        assert editor(ana).value.count("\n") == 29
        await ana.pilot.press("ctrl+underscore")
        assert editor(ana).value == ""
        await paste(ana, long)
        await ana.pilot.press("alt+x")
        await ana.until(lambda: "paste_1" not in ana.screen, "the chip to go")
        await paste(ana, long)
        await ana.type("see this\n")
        await ana.until(lambda: prompts(ana) == ["see this"], "the prompt")
        [message] = [m for m in ana.room.messages(ana.room.current_session) if m.role == "user"]
        [pasted] = [part.data for part in message.parts if isinstance(part, BinaryPart)]
        assert pasted.data.endswith(b"line 29")


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


async def test_a_shell_command_is_run_without_the_agent(desks: Desks) -> None:
    project = desks.project(ANYTHING)
    async with desks.sit(project) as ana:
        await ana.type("!x")
        await ana.until_shown("! x")
        await ana.pilot.press("backspace", "backspace")
        assert not editor(ana).is_shell
        await ana.type("!echo a\n")
        await ana.type("next")
        await ana.until(lambda: len(ana.room.messages(ana.room.current_session)) == 1, "the command")
        await ana.until(lambda: editor(ana).value == "next", "what was typed since")
        await ana.pilot.press("ctrl+u", "up")
        assert editor(ana).value == "!echo a"
        assert editor(ana).is_shell
        await ana.pilot.press("ctrl+u")
        await ana.type("touch here; sleep 60\n")
        await ana.until((project / "here").exists, "the command to run")
        await ana.chat.cancel()
        await ana.until(lambda: len(ana.room.messages(ana.room.current_session)) == 2, "its end")
        [part, _] = ana.room.messages(ana.room.current_session)[-1].parts
        assert isinstance(part, ShellCommandPart)
        assert part.data.exit_code == 130


async def test_commands_are_completed_run_and_explained(desks: Desks) -> None:
    project = desks.project(ANYTHING)
    (project / ".bullpen/commands").mkdir(parents=True)
    (project / ".bullpen/commands/review.md").write_text("Review $FILE.")
    async with desks.sit(project) as ana:
        await ana.type("/ne")
        await ana.pilot.press("tab")
        assert editor(ana).value == "/new "
        await ana.until_shown("/new [title]")
        await ana.type("Named\n")
        await ana.until(lambda: ana.chat.session is not None and ana.chat.session.title == "Named")
        await ana.until(lambda: editor(ana).session == ana.room.current_session, "the editor to be there too")
        await ana.type("/rev")
        await ana.until_shown("/review")
        await ana.pilot.press("enter")
        assert editor(ana).value == "/review "
        await ana.type("a.py\n")
        await ana.until(lambda: prompts(ana) == ["Review a.py."], "the command's prompt")
        await ana.type("/nothing\n")
        await ana.until_shown("there is no command /nothing")
        assert editor(ana).value == "/nothing"
        await ana.pilot.press("ctrl+u")
        await ana.type("//nothing\n")
        await ana.until(lambda: prompts(ana)[-1] == "/nothing", "the text with a slash")
        await ana.type("/sideb\n")
        assert editor(ana).value == ""


async def test_mentioned_files_are_attached_while_the_text_names_them(desks: Desks) -> None:
    project = desks.project(ANYTHING)
    (project / "src").mkdir()
    (project / "src/main.py").write_text("".join(f"line {n}\n" for n in range(1, 31)))
    (project / "src/domain.py").write_text("d")
    async with desks.sit(project) as ana:
        await ana.type("see @main")
        await ana.until_shown("src/domain.py", "src/main.py")
        rows = ana.screen.split("\n")
        assert next(n for n, row in enumerate(rows) if "domain" in row) < next(
            n for n, row in enumerate(rows) if "src/main" in row
        ), "the best is nearest"
        await ana.pilot.press("escape")
        assert "domain" not in ana.screen
        await ana.pilot.press(".", "backspace", "ctrl+p", "enter")
        assert editor(ana).value == "see @src/domain.py "
        await ana.until_shown("@ src/domain.py ✕")
        await ana.pilot.press(*["backspace"] * 4)
        await ana.until(lambda: "✕" not in ana.screen, "the chip to go with the mention")
        await ana.pilot.press("ctrl+u")
        # The answer comes after the keys, and counts all the same.
        await ana.pilot.press(*"@main:10-12", "enter")
        await ana.until(lambda: editor(ana).value == "@src/main.py:10-12 ", "the path with its lines")
        await ana.pilot.press("enter")
        await ana.until(lambda: prompts(ana) == ["@src/main.py:10-12"], "the prompt")
        [message] = [m for m in ana.room.messages(ana.room.current_session) if m.role == "user"]
        [lines] = [part.data for part in message.parts if isinstance(part, BinaryPart)]
        assert (lines.path, lines.data) == ("src/main.py:10-12", b"line 10\nline 11\nline 12")


async def test_images_come_as_paths_or_from_the_clipboard_for_a_model_that_sees_them(
    desks: Desks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = tmp_path / "a picture.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(2000))
    (tmp_path / "fake.png").write_text("no image")
    provider = config([ANYTHING])["providers"]["script"]
    provider["models"][0]["supports_attachments"] = True
    async with desks.sit(desks.project(ANYTHING, providers={"script": provider})) as ana:
        await paste(ana, str(tmp_path / "fake.png"))
        await ana.until_shown("fake.png has not the content of an image")
        await paste(ana, str(picture).replace(" ", "\\ "))
        await ana.until_shown("■ a picture.png 2 kB ✕")
        row = next(n for n, line in enumerate(ana.screen.split("\n")) if "✕" in line)
        await ana.pilot.click(offset=(ana.screen.split("\n")[row].index("✕"), row))
        await ana.until(lambda: "✕" not in ana.screen, "the chip to be clicked away")
        monkeypatch.setenv("PATH", str(tmp_path))
        await ana.pilot.press("ctrl+v")
        await ana.until_shown("no program here reads the clipboard")
        (tmp_path / "wl-paste").write_text(f'#!/bin/sh\n/bin/cat "{picture}"\n')
        (tmp_path / "wl-paste").chmod(0o755)
        await ana.pilot.press("ctrl+v")
        await ana.until_shown("■ clipboard_1.png")
        await ana.pilot.press("alt+x")
        await paste(ana, f"'{picture}'")
        await ana.until_shown("a picture.png")
        await ana.type("look\n")
        await ana.until(lambda: prompts(ana) == ["look"], "the prompt")
        [message] = [m for m in ana.room.messages(ana.room.current_session) if m.role == "user"]
        assert [part.data.mime_type for part in message.parts if isinstance(part, BinaryPart)] == [
            "image/png"
        ]
    own = Preferences(motion="reduced", keys={"external": "f5"}, editor="vi")
    async with desks.sit(desks.project(ANYTHING), preferences=own) as ana:
        await paste(ana, str(picture))
        await ana.until_shown("Player takes no images")
        await ana.pilot.press("f5")
        await ana.until_shown("this terminal cannot be lent to another program")
        await ana.type("quit\n")
        await ana.until(lambda: not ana.app.is_running, "the terminal to close")


async def test_what_tool_servers_keep_is_mentioned_and_their_prompts_are_commands(desks: Desks) -> None:
    probe = {
        "command": sys.executable,
        "args": ["-m", "tests.mcp.server"],
        "env": {"PYTHONPATH": os.getcwd()},
    }
    async with desks.sit(desks.project(ANYTHING, mcp={"probe": probe})) as ana:
        states = await ana.room.call("GET", "/mcp/resources")
        while not states.read(list[dict[str, str]]):
            await ana.pilot.pause(0.05)
            states = await ana.room.call("GET", "/mcp/resources")
        await ana.type("/probe:review a.py\n")
        await ana.until(lambda: prompts(ana) == ["Please review a.py"], "the server's prompt")
        await ana.type("read @toda")
        await ana.until_shown("probe/today")
        await ana.pilot.press("tab", "enter")
        await ana.until(lambda: len(prompts(ana)) == 2, "the prompt")
        message = [m for m in ana.room.messages(ana.room.current_session) if m.role == "user"][-1]
        [resource] = [part.data for part in message.parts if isinstance(part, BinaryPart)]
        assert (resource.path, resource.mime_type) == ("note://today", "text/plain")
