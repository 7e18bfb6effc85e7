"""The dialogs beside asks: sessions, models, queue, changes, jobs, people, cost, notices, free mode, leaving, the first time."""

from pathlib import Path
from typing import Any

import pytest
from tests.journeys.model_host import model_host
from tests.journeys.server import config
from tests.tui.conftest import Desks, Sitting
from textual.widgets import Input, TextArea

from bullpen.tui.dialogs.picker import Picker
from bullpen.tui.dialogs.viewer import Viewer

pytestmark = pytest.mark.anyio

SMALL = (80, 24)
FREE = {"permissions": {"allowed_tools": ["edit", "view", "bash"]}}


async def back(sitting: Sitting) -> None:
    """Close whatever is open."""
    while isinstance(sitting.app.screen, (Picker, Viewer)):
        await sitting.pilot.press("escape")


async def test_sessions_are_found_by_what_was_said_renamed_exported_and_deleted(
    desks: Desks, tmp_path: Path
) -> None:
    project = desks.project({"when": "one", "say": "about mountains"}, {"when": "two", "say": "about rivers"})
    async with desks.sit(project, size=SMALL) as ana:
        for word in ("one", "two"):
            await ana.chat.open_new(f"Session {word}")
            await ana.room.wait_for(await ana.room.prompt(word))
        second = ana.room.current_session
        await ana.pilot.press("ctrl+s")
        await ana.until_shown("Session one", "Session two (here)", "2 messages")
        await ana.type("mountains")
        await ana.until_shown("[mountains]", "in Session one")
        await ana.pilot.press("ctrl+r")
        await ana.until_shown("Rename")
        await ana.pilot.press(*"Peaks", "enter")
        await ana.until_shown("in Peaks")
        file = tmp_path / "peaks.md"
        await ana.pilot.press("ctrl+e")
        await ana.until_shown("where to")
        ana.app.screen.query_one(Input).value = str(file)
        await ana.pilot.press("enter")
        await ana.until_shown("written:")
        assert "about mountains" in file.read_text()
        await ana.pilot.press("enter")
        await ana.until(
            lambda: ana.room.current_session != second and ana.chat.is_active, "the other session"
        )
        await ana.pilot.press("ctrl+s")
        await ana.until_shown("Peaks (here)")
        await ana.pilot.press("ctrl+x")
        await ana.until_shown("Delete this session?")
        await ana.pilot.press("n", "ctrl+x")
        await ana.until_shown("Delete this session?")
        await ana.pilot.press("y")
        await ana.until(lambda: [s.title for s in ana.room.sessions] == ["Session two"], "the end of it")


async def test_a_change_is_undone_place_by_place_and_redone(desks: Desks) -> None:
    edit = {"name": "edit", "input": {"file_path": "a.py", "old_string": "one = 1", "new_string": "one = 2"}}
    view = {"name": "view", "input": {"file_path": "a.py"}}
    project = desks.project({"calls": [view]}, {"calls": [edit]}, {"say": "changed"}, **FREE)
    file = project / "a.py"
    file.write_text("one = 1\n")
    async with desks.sit(project, size=SMALL) as ana:
        await ana.chat.open_new()
        await ana.room.wait_for(await ana.room.prompt("go"))
        assert file.read_text() == "one = 2\n"
        await ana.pilot.press("alt+u")
        await ana.until_shown("Changed files", "a.py")
        await ana.pilot.press("enter")
        await ana.until_shown("all of it", "@@")
        await ana.pilot.press("down", "down", "enter")
        await ana.until_shown("Undo this?", "+ one = 1")
        await ana.pilot.press("y")
        await ana.until_shown("undid turn 1")
        assert file.read_text() == "one = 1\n"
        await ana.pilot.press("escape")
        await ana.until_shown("undone")
        await ana.pilot.press("ctrl+r")
        await ana.until_shown("Redo this?", "+ one = 2")
        await ana.pilot.press("y")
        await ana.until_shown("redid turn 1")
        assert file.read_text() == "one = 2\n"


async def test_what_waits_is_changed_moved_and_taken_back(desks: Desks) -> None:
    async with desks.sit(desks.project({"when": "stay", "say": "well", "hang": True}), size=SMALL) as ana:
        await ana.chat.open_new()
        await ana.room.prompt("stay")
        for text in ("first", "second", "third"):
            await ana.room.prompt(text, when="after")
        await ana.pilot.press("alt+q")
        await ana.until_shown("1 first", "2 second", "3 third", "ana")
        await ana.pilot.press("down", "alt+up")
        await ana.until_shown("1 second", "2 first")
        await ana.pilot.press("enter")
        await ana.until_shown("Change the prompt")
        await ana.pilot.press("!", "enter")
        await ana.until_shown("1 second!")
        await ana.pilot.press("ctrl+x")
        await ana.until_shown("1 first", "2 third")
        await ana.pilot.press("ctrl+d")
        await ana.until_shown("Take all of them back?")
        await ana.pilot.press("y")
        await ana.until_shown("nothing waits")
        await back(ana)
        await ana.room.cancel()


async def test_a_job_is_followed_and_ended(desks: Desks) -> None:
    run = {"description": "tick", "command": "echo begun; sleep 600", "run_in_background": True}
    project = desks.project({"calls": [{"name": "bash", "input": run}]}, {"say": "started"}, **FREE)
    async with desks.sit(project, size=SMALL) as ana:
        await ana.chat.open_new()
        await ana.room.wait_for(await ana.room.prompt("go"))
        await ana.pilot.press("alt+j")
        await ana.until_shown("echo begun; sleep 600", "runs")
        await ana.pilot.press("enter")
        await ana.until_shown("c copy", "begun")
        await ana.pilot.press("escape")
        await ana.until_shown("ctrl+x end it")
        await ana.pilot.press("ctrl+x")
        await ana.until_shown("End this job?")
        await ana.pilot.press("y")
        await ana.until(lambda: " runs " not in ana.screen and "echo begun" in ana.screen, "its end")


def two_models(**more: Any) -> dict[str, Any]:
    made = config([{"say": "well"}])
    made["providers"]["script"]["models"].append({"id": "spare", "name": "Spare", "context_window": 9_000})
    return {"providers": made["providers"]} | more


async def test_a_model_is_chosen_for_the_session_and_as_default(desks: Desks) -> None:
    async with desks.sit(desks.project(**two_models()), size=SMALL) as ana:
        await ana.chat.open_new()
        await ana.pilot.press("ctrl+l")
        await ana.until_shown("▸● Player", "Spare")
        await ana.type("spa")
        await ana.until_shown("▸  Spare")
        await ana.pilot.press("enter")
        await ana.until_shown("this session: script/spare")
        chosen = await ana.room.choices(ana.room.current_session)
        assert chosen.large
        assert chosen.large.model == "spare"
        assert not chosen.small
        await ana.pilot.press("ctrl+l")
        await ana.until_shown("▸● Spare")
        await ana.pilot.press("ctrl+t")
        await ana.until_shown("Recent and favourite")
        await ana.pilot.press("ctrl+d")
        await ana.until_shown("every session that chose none: script/spare")
        assert (await ana.room.agent()).model_cfg.model == "spare"
        await ana.pilot.press("ctrl+l")
        await ana.until_shown("Models · for the work", "▸● Spare")
        await ana.pilot.press("tab")
        await ana.until_shown("Models · for titles and summaries", "▸● Spare")
        await ana.pilot.press("enter")
        await ana.until(lambda: ana.chat.is_active, "the conversation")
        chosen = await ana.room.choices(ana.room.current_session)
        assert chosen.small
        assert chosen.small.model == "spare"


async def test_without_a_model_the_tour_is_one_key_away_and_keys_are_typed_unseen_and_checked(
    desks: Desks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that the provider refuses is kept only on purpose; one that it cannot be asked about is, and that is said."""
    with model_host() as host:
        host.answers["/v1/models?limit=1000"] = lambda headers, _: (
            {"data": []} if headers["x-api-key"] == "sk-good" else 401
        )
        monkeypatch.setenv("ANTHROPIC_API_ENDPOINT", host.url)
        monkeypatch.setenv("OPENAI_API_ENDPOINT", "http://127.0.0.1:1/v1")
        await first_model(desks)
        used = [headers["x-api-key"] for _, headers, _ in host.asked]
    assert used[:4] == ["sk-secret", "sk-secret", "sk-secret", "sk-good"]


async def give(sitting: Sitting, key: str, *, is_open: bool = False) -> None:
    """Type a key for the provider that is chosen."""
    if not is_open:
        await sitting.pilot.press("ctrl+k")
    await sitting.until_shown("check and keep it")
    await sitting.type(f"{key}\n")


async def first_model(desks: Desks) -> None:
    async with desks.sit(desks.project(options={}, models={}, providers={}), size=SMALL) as ana:
        await ana.until_shown("Welcome to Bullpen", "t try the guided tour", "esc look around")
        await ana.pilot.press("m")
        await ana.until_shown("Models", "Not set up yet")
        await ana.type("anthropic")
        await ana.until_shown("▸… Anthropic")
        await ana.pilot.press("enter")
        await ana.until_shown("Key of Anthropic")
        await ana.type("sk-secret")
        assert "secret" not in ana.screen
        await ana.pilot.press("enter")
        await ana.until_shown("Anthropic refused the key (401). Nothing is kept yet.", "k keep it anyway")
        await ana.pilot.press("escape")
        await ana.until_shown("▸… Anthropic", "ctrl+k key")
        await give(ana, "sk-secret")
        await ana.until_shown("k keep it anyway")
        await ana.pilot.press("k")
        await ana.until_shown("the key of Anthropic is kept, although it was refused", "▸● Claude")
        await give(ana, "sk-secret")
        await ana.until_shown("t type it again")
        await ana.pilot.press("t")
        await give(ana, "sk-good", is_open=True)
        await ana.until_shown("the key of Anthropic is kept; it works", "▸● Claude")
        await ana.type("openai")
        await ana.until_shown("▸… OpenAI")
        await give(ana, "sk-1")
        await ana.until_shown("the key of OpenAI is kept, untested: OpenAI at http://127.0.0.1:1/v1")
        await back(ana)
        await ana.pilot.press("ctrl+p", *"first model", "enter")
        await ana.until_shown("t try the guided tour", "esc look around")
        await ana.pilot.press("t")
        await ana.until_shown("model: demo/")
        assert (await ana.room.agent()).is_ready


async def test_people_cost_notices_long_texts_and_an_ask_that_waits_until_they_are_closed(
    desks: Desks,
) -> None:
    call = {"name": "bash", "input": {"description": "make it", "command": "touch x"}}
    steps: list[dict[str, Any]] = [
        {"say": "well"},
        {"when": "make", "calls": [call]},
        {"when": "make", "say": "made"},
    ]
    async with desks.sit(desks.project(*steps), size=SMALL) as ana:
        await ana.chat.open_new("Here")
        await ana.room.wait_for(await ana.room.prompt("go"))
        await ana.pilot.press("alt+p")
        await ana.until_shown("ana (you) in “Here”")
        await back(ana)
        await ana.pilot.press("alt+c")
        await ana.until_shown("By model", "script/player", "By person")
        await back(ana)
        ana.chat.notice("something \x1b[31mlong\x1b[0m happened", "warning")
        await ana.pilot.press("alt+m")
        await ana.until_shown("! something ␛[31mlong")
        await ana.pilot.press("enter")
        await ana.until_shown("n next")
        await ana.pilot.press("slash", *"happ", "enter")
        area = ana.app.screen.query_one(TextArea)
        await ana.until(lambda: area.selected_text == "happ", "the word")
        await ana.pilot.press("slash", *"zzz", "enter")
        await ana.until_shown("it does not stand here")
        await ana.room.prompt("make")
        await ana.until(lambda: ana.room.asks, "the ask")
        assert "May it?" not in ana.screen
        await back(ana)
        await ana.until_shown("May it?", "esc later")
        await ana.pilot.press("a")
        await ana.until_shown("made")


async def test_everything_is_allowed_only_after_a_yes_and_everybody_sees_it(desks: Desks) -> None:
    project = desks.project()
    async with desks.sit(project, size=SMALL) as ana:
        await ana.pilot.press("ctrl+y")
        await ana.until_shown("Allow everything?")
        await ana.pilot.press("escape", "ctrl+y")
        await ana.until_shown("Allow everything?")
        await ana.pilot.press("y")
        await ana.until_shown("! nothing is asked: ctrl+y ends that")
        async with desks.sit(project, size=SMALL, name="ben") as ben:
            await ben.until_shown("! nothing is asked", "Everything is allowed.")
            await ben.pilot.press("ctrl+y")
            await ben.until_shown("it asks again from now on")
            await ana.until_shown("it asks again from now on, says ben")
            await ana.until(lambda: "! nothing is asked" not in ana.screen, "the row to go")
            await ana.pilot.press("ctrl+y")
            await ana.until_shown("Allow everything?")
            await ana.pilot.press("y")
            await ben.until_shown("everything is allowed from now on, says ana", "! nothing is asked", "»")


async def test_leaving_says_what_goes_on_and_the_second_press_leaves(desks: Desks) -> None:
    async with desks.sit(desks.project({"say": "well", "hang": True}), size=SMALL) as ana:
        await ana.chat.open_new("Long work")
        await ana.room.prompt("go")
        await ana.until(lambda: ana.room.sessions[0].is_busy, "the turn")
        await ana.pilot.press("ctrl+c")
        await ana.until_shown("“Long work” goes on without you")
        await ana.pilot.press("escape")
        await ana.until(lambda: ana.chat.is_active, "the conversation")
        await ana.pilot.press("ctrl+c", "ctrl+c")
        await ana.until(lambda: ana.app.return_code == 0, "the end")
