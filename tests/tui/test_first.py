"""Sitting down: the first screen, a prompt, an answer, and leaving."""

import pytest
from tests.tui.conftest import Desks

from bullpen.tui.tabs import Tabs

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
