"""The list of all commands, the list of all keys, and commands by name."""

import pytest
from tests.tui.conftest import Desks

from bullpen.tui.preferences import Preferences

pytestmark = pytest.mark.anyio


async def test_what_is_typed_finds_a_command_and_enter_does_it(desks: Desks) -> None:
    async with desks.sit(desks.project()) as ana:
        await ana.pilot.press("ctrl+p")
        await ana.until_shown("Commands", "New session [title]", "ctrl+n")
        await ana.type("nw ses")
        await ana.until_shown("▸  New session")
        assert "Next theme" not in ana.screen
        await ana.pilot.press("enter")
        await ana.until(lambda: ana.chat.is_active and ana.room.current_session, "the new session")


async def test_keys_that_follow_at_once_go_into_the_list(desks: Desks) -> None:
    """Whoever knows what comes types on: nothing of it lands in the prompt."""
    async with desks.sit(desks.project(), size=(80, 24)) as ana:
        await ana.pilot.press("ctrl+p", *"theme")
        await ana.until_shown("▸  Next theme")
        before = ana.app.theme
        await ana.pilot.press("enter")
        await ana.until(lambda: ana.app.theme != before, "another theme")


async def test_the_list_goes_round_and_says_when_nothing_fits(desks: Desks) -> None:
    async with desks.sit(desks.project(), size=(80, 24)) as ana:
        await ana.pilot.press("ctrl+p", "up")
        await ana.until_shown("▸", "Skills")
        await ana.pilot.press("down")
        await ana.until_shown("▸  All commands")
        await ana.type("qqqq")
        await ana.until_shown("nothing fits what you typed")
        await ana.pilot.press("escape")
        await ana.until_shown("▸  All commands")
        await ana.pilot.press("escape")
        await ana.until(lambda: ana.chat.is_active, "the conversation")


async def test_the_mouse_chooses_and_takes(desks: Desks) -> None:
    async with desks.sit(desks.project()) as ana:
        await ana.pilot.press("ctrl+p")
        await ana.until_shown("Past notices")
        row = next(y for y, line in enumerate(ana.screen.split("\n")) if "Past notices" in line)
        await ana.pilot.click(offset=(40, row))
        await ana.until_shown("▸  Past notices")
        await ana.pilot.click(offset=(40, row), times=2)
        await ana.until_shown("nothing was told yet")


async def test_a_command_of_ones_own_asks_for_its_arguments(desks: Desks) -> None:
    project = desks.project({"when": "Review engine", "say": "Looks fine."})
    commands = project / ".bullpen" / "commands"
    commands.mkdir(parents=True)
    (commands / "review.md").write_text("Review $AREA thoroughly.")
    async with desks.sit(project) as ana:
        await ana.pilot.press("ctrl+p", *"review")
        await ana.until_shown("review", "project")
        await ana.pilot.press("enter")
        await ana.until_shown("AREA")
        await ana.type("engine\n")
        await ana.until_shown("Review engine thoroughly.", "Looks fine.")


async def test_a_command_that_needs_words_asks_for_them(desks: Desks) -> None:
    async with desks.sit(desks.project(), size=(80, 24)) as ana:
        await ana.chat.open_new("Before")
        await ana.pilot.press("ctrl+p", *"rename this", "enter")
        await ana.until_shown("title (needed)")
        await ana.pilot.press("enter")
        await ana.until_shown("title is needed")
        await ana.type("After\n")
        await ana.until(lambda: ana.room.sessions[0].title == "After", "another title")


async def test_a_name_that_nothing_has_says_where_to_look(desks: Desks) -> None:
    async with desks.sit(desks.project()) as ana:
        await ana.chat.do("nonsense", "words")
        await ana.until_shown("there is no /nonsense; Ctrl+P lists what there is")


async def test_the_help_tells_every_key_as_this_person_has_it(desks: Desks) -> None:
    own = Preferences(motion="reduced", keys={"theme": "f9"})
    async with desks.sit(desks.project(), preferences=own) as ana:
        await ana.pilot.press("f1")
        await ana.until_shown("Keys", "Everywhere", "all commands")
        await ana.type("theme")
        await ana.until_shown("next theme", "f9")
        await ana.pilot.press("escape")
        await ana.type("none of")
        await ana.until_shown("end the turn", "ctrl+x")
