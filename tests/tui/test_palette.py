"""The list of all commands, the list of all keys, and commands by name."""

import pytest
from tests.tui.conftest import Desks

from bullpen.tui.preferences import Preferences

pytestmark = pytest.mark.anyio

SMALL = (80, 24)


async def test_the_list_is_filtered_goes_round_and_does_what_was_taken(desks: Desks) -> None:
    async with desks.sit(desks.project(), size=SMALL) as ana:
        await ana.pilot.press("ctrl+p", "up")
        await ana.until_shown("▸", "Skills")
        await ana.pilot.press("down")
        await ana.until_shown("▸  All commands", "f1")
        await ana.pilot.press(*"qq")
        await ana.until_shown("nothing fits what you typed")
        await ana.pilot.press("escape")
        await ana.until_shown("▸  All commands")
        await ana.pilot.press("escape")
        await ana.until(lambda: ana.chat.is_active, "the conversation")
        # Whoever knows what comes types on: nothing of it lands in the prompt.
        await ana.pilot.press("ctrl+p", *"nwses", "enter")
        await ana.until(lambda: ana.chat.is_active and ana.room.current_session, "the new session")


async def test_commands_with_words_ask_for_them(desks: Desks) -> None:
    project = desks.project({"when": "Review it", "say": "Looks fine."})
    commands = project / ".bullpen" / "commands"
    commands.mkdir(parents=True)
    (commands / "review.md").write_text("Review $AREA thoroughly.")
    async with desks.sit(project, size=SMALL) as ana:
        await ana.pilot.press("ctrl+p", *"review")
        await ana.until_shown("review", "project")
        await ana.pilot.press("enter")
        await ana.until_shown("AREA")
        await ana.pilot.press(*"it", "enter")
        await ana.until_shown("Review it thoroughly.", "Looks fine.")
        await ana.pilot.press("ctrl+p", *"rename", "enter")
        await ana.until_shown("title (needed)")
        await ana.pilot.press("enter")
        await ana.until_shown("title is needed")
        await ana.pilot.press("B", "enter")
        await ana.until(lambda: ana.room.sessions[0].title == "B", "another title")
        await ana.chat.do("nonsense", "words")
        await ana.until_shown("there is no /nonsense; Ctrl+P lists what there is")


async def test_the_help_tells_ones_own_keys_and_the_mouse_chooses(desks: Desks) -> None:
    own = Preferences(motion="reduced", keys={"theme": "f9"})
    async with desks.sit(desks.project(), size=SMALL, preferences=own) as ana:
        await ana.pilot.press("f1")
        await ana.until_shown("Keys", "Everywhere", "all commands")
        await ana.pilot.press(*"theme")
        await ana.until_shown("next theme", "f9")
        await ana.pilot.press("escape", "n", "o", "n", "e")
        await ana.until_shown("answer none of it", "ctrl+x")
        await ana.pilot.press("escape", "escape", "ctrl+p")
        await ana.until_shown("Past notices")
        row = next(y for y, line in enumerate(ana.screen.split("\n")) if "Past notices" in line)
        await ana.pilot.click(offset=(20, row))
        await ana.until_shown("▸  Past notices")
        await ana.pilot.click(offset=(20, row), times=2)
        await ana.until_shown("nothing was told yet")
