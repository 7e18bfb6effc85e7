"""Sessions as a library: forked, found in other projects, thrown away and had back, rewound with and without the files."""

from typing import Any

import pytest
from tests.tui.conftest import Desks

pytestmark = pytest.mark.anyio

SMALL = (80, 24)


async def test_sessions_are_forked_found_in_other_projects_and_had_back_from_the_trash(desks: Desks) -> None:
    other = desks.project({"say": "about glaciers"})
    async with desks.sit(other, size=SMALL) as ben:
        await ben.chat.open_new("Far away")
        await ben.room.wait_for(await ben.room.prompt("go"))
        elsewhere = ben.room.current_session
    async with desks.sit(desks.project({"say": "about mountains"})) as ana:
        await ana.chat.open_new("Peaks")
        first = ana.room.current_session
        await ana.room.wait_for(await ana.room.prompt("go"))

        await ana.pilot.press("ctrl+s")
        await ana.until_shown("✓ Peaks (here)", "player 2 messages")
        await ana.pilot.press("ctrl+f")
        await ana.until(lambda: ana.room.current_session != first and ana.chat.is_active, "the fork")
        await ana.until_shown("2  Peaks (fork)", "about mountains")
        fork = ana.room.current_session

        await ana.pilot.press("ctrl+s")
        await ana.until_shown("Peaks (fork) (here)")
        assert "Far away" not in ana.screen
        await ana.pilot.press("tab", *"glaciers")
        await ana.until_shown("Sessions of all projects", "[glaciers]", "in Far away")
        await ana.pilot.press("ctrl+r")
        await ana.until_shown("it belongs to another project")
        await ana.pilot.press("enter")
        command = f"bullpen attach {other} --session {elsewhere[:12]}"
        await ana.until(lambda: ana.app.clipboard.startswith(command), "the command to be copied")
        await ana.until_shown("copied: bullpen attach")

        await ana.pilot.press("ctrl+s")
        await ana.until_shown("Peaks (fork) (here)")
        await ana.pilot.press("down", "ctrl+x")
        await ana.until_shown("Delete this session?", "“Peaks”")
        await ana.pilot.press("y")
        await ana.until_shown("/trash has it back")
        await ana.pilot.press("escape", *"/trash", "enter")
        await ana.until_shown("Trash", "▸  Peaks", "2 messages deleted now kept 29d")
        await ana.pilot.press("enter")
        await ana.until(lambda: ana.room.current_session == first and ana.chat.is_active, "the session")
        await ana.until_shown("about mountains")
        await ana.room.delete_session(fork)
        await ana.pilot.press(*"/trash", "enter")
        await ana.until_shown("▸  Peaks (fork)")
        await ana.pilot.press("ctrl+x")
        await ana.until_shown("Delete it for good?")
        await ana.pilot.press("y")
        await ana.until_shown("the trash is empty")


async def test_a_session_is_rewound_with_the_files_or_goes_on_in_a_copy(desks: Desks) -> None:
    edit = {"name": "edit", "input": {"file_path": "a.py", "old_string": "one = 1", "new_string": "one = 2"}}
    view = {"name": "view", "input": {"file_path": "a.py"}}
    steps: list[dict[str, Any]] = [{"when": "hello", "say": "Good morning."}]
    steps += [
        {"when": "change", **step} for step in ({"calls": [view]}, {"calls": [edit]}, {"say": "changed"})
    ]
    project = desks.project(*steps, permissions={"allowed_tools": ["edit", "view"]})
    file = project / "a.py"
    file.write_text("one = 1\n")
    async with desks.sit(project, size=SMALL) as ana:
        await ana.chat.open_new("Numbers")
        session = ana.room.current_session
        for words in ("hello there", "change it"):
            await ana.room.wait_for(await ana.room.prompt(words))
        assert file.read_text() == "one = 2\n"

        # A copy of what stood before it: the session and the file stay.
        await ana.pilot.press(*"/rewind", "enter")
        await ana.until_shown("Back to before which prompt?", "▸  change it", "hello there")
        await ana.pilot.press("enter")
        await ana.until_shown("1 prompt, 3 answers, 2 results go", "change  a.py  (+1 −1)", "- one = 2")
        await ana.pilot.press("k")
        await ana.until(lambda: ana.room.current_session != session and ana.chat.is_active, "the copy")
        assert ana.chat.editor.value == "change it"
        assert [message.text for message in ana.room.messages(ana.room.current_session)] == [
            "hello there",
            "Good morning.",
        ]
        assert file.read_text() == "one = 2\n"

        # Back from the preview to the list; then all of it, with the file.
        await ana.chat.open(session)
        await ana.pilot.press(*"/rewind", "enter")
        await ana.until_shown("▸  change it")
        await ana.pilot.press("down", "enter")
        await ana.until_shown("“hello there”")
        await ana.pilot.press("escape")
        await ana.until_shown("▸  hello there")
        await ana.pilot.press("up", "enter")
        await ana.until_shown("“change it”", "r rewind the conversation")
        await ana.pilot.press("f")
        await ana.until_shown("rewound: 6 messages are in the trash (/trash), 1 path", "> change it")
        assert file.read_text() == "one = 1\n"
        assert ana.room.current_session == session
        await ana.until(lambda: "changed" not in ana.screen, "the end of what was cut off")
        assert ana.chat.editor.value == "change it"
