"""Sitting down: the first screen, a prompt, an answer, and leaving."""

import pytest
from tests.cli.conftest import Open, env, home, terminal
from tests.tui.conftest import Desks

from bullpen.client.workspace import attach
from bullpen.tui.tabs import Tabs

__all__ = ("env", "home", "terminal")

pytestmark = pytest.mark.anyio


async def test_a_prompt_is_typed_and_answered(desks: Desks) -> None:
    project = desks.project({"when": "hello", "say": "Hello to you."})
    async with desks.sit(project) as ana:
        await ana.type("hello there\n")
        await ana.until_shown("hello there", "Hello to you.")


async def test_sessions_stand_in_tabs_that_are_stepped_clicked_and_closed(desks: Desks) -> None:
    """At 80 columns, where a heading stands for the sidebar."""
    async with desks.sit(desks.project({"say": "Well."}), size=(80, 24)) as ana:
        await ana.chat.open_new("One")
        await ana.chat.open_new("Two")
        await ana.until_shown("1  One", "2  Two")
        await ana.pilot.press("alt+left")
        await ana.until(lambda: ana.chat.session and ana.chat.session.title == "One", "the first tab")
        await ana.pilot.click(Tabs, offset=(12, 0))
        await ana.until(lambda: ana.chat.session and ana.chat.session.title == "Two", "the tab clicked at")
        await ana.pilot.press("alt+w")
        await ana.until(lambda: "2  Two" not in ana.screen, "the tab to be gone")
        assert ana.chat.session
        assert ana.chat.session.title == "One"


async def test_a_session_that_somebody_deletes_leaves_its_tab(desks: Desks, terminal: Open) -> None:
    """On the screen and in lines; who did it is said, and how it is had back."""
    project = desks.project()
    host = f"unix://{desks.server.socket}"
    async with desks.sit(project, size=(100, 24)) as ana, attach(project, host=host, name="ben") as ben:
        for title in ("One", "Two", "Three"):
            await ana.chat.open_new(title)
        one, two, three = (
            next(s.id for s in ana.room.sessions if s.title == t) for t in ("One", "Two", "Three")
        )
        await ana.until_shown("1  One", "2  Two", "3  Three")
        cat = terminal("attach", str(project), "--plain", "--session", one, "--host", host, columns=120)
        await cat.until("— session “One”")
        await ana.type("half a thought")
        await ben.delete_session(three)
        await ana.until_shown("“Three” was deleted by ben: /trash has it back")
        assert ana.room.current_session == two
        assert "half a thought" not in ana.screen
        await ben.delete_session(one)
        await ana.until_shown("“One” was deleted by ben")
        assert ana.room.current_session == two
        await cat.until("“One” was deleted by ben (/trash and /restore have it back)")
        await ana.room.delete_session(two)
        await ana.until_shown("“Two” was deleted: /trash has it back")
        await ana.until(lambda: not ana.room.current_session and not ana.chat.session, "the empty page")
        await ben.library.restore(three)
        await ana.until(lambda: ana.room.session(three), "the session")
        await ana.chat.open(three)
        await ana.until_shown("half a thought")
        cat.type("/quit")
        await cat.until("[status 0]")


async def test_a_command_of_ones_own_is_seen_while_it_runs(desks: Desks, terminal: Open) -> None:
    """By everybody in the session; then it stands in the conversation as a whole, once."""
    project = desks.project()
    host = f"unix://{desks.server.socket}"
    async with desks.sit(project, size=(100, 24)) as ana:
        await ana.chat.open_new("One")
        cat = terminal("attach", str(project), "--plain", "--host", host, columns=120)
        await cat.until("— session “One”")
        await ana.type("!echo begun; until [ -e go ]; do sleep 0.05; done; echo over; exit 3\n")
        await ana.until_shown("$ echo begun;", "     begun", "● runs")
        await cat.until("echo begun;", "runs …", "│ begun")
        (project / "go").touch()
        await ana.until_shown("     begun\n     over", "exit 3  exit 3")
        await ana.until(lambda: "● runs" not in ana.screen, "the end")
        assert ana.screen.count("$ echo begun;") == 1
        await cat.until("$ echo begun;", "\nbegun\nover")
        await ana.type("!sleep 60\n")
        await ana.until_shown("$ sleep 60  ● runs")
        await ana.pilot.press("escape")
        await ana.until_shown("$ sleep 60  exit 130")
        await ana.until(lambda: "● runs" not in ana.screen, "the end")
