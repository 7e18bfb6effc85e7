"""A tool asks: every key of the dialog, who answers first, and what is put aside."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.tui.conftest import Desks, Sitting

pytestmark = pytest.mark.anyio

SMALL = (80, 24)


class Way(NamedTuple):
    """Keys pressed in the dialog, and what comes of them."""

    keys: tuple[str, ...]
    ran: bool
    goes_on: bool
    kept: str = ""
    """How far what was allowed reaches beyond this once."""


WAYS = (
    Way(("a",), ran=True, goes_on=True),
    Way(("e",), ran=True, goes_on=True, kept="exact"),
    Way(("r", "space", "*", "enter"), ran=True, goes_on=True, kept="rule"),
    Way(("d",), ran=False, goes_on=False),
    Way(("n", *"why", "enter"), ran=False, goes_on=True),
    Way(("enter", "r", "escape", "up", "up", "enter"), ran=False, goes_on=False),
    Way(("n", "enter", "x", "escape", "f", "q", "down", "enter"), ran=True, goes_on=True),
    Way(("s",), ran=True, goes_on=True, kept="session"),
)


def asking(name: str) -> list[dict[str, Any]]:
    """A model that wants to touch a file of that name, and says so when it could go on."""
    call = {"name": "bash", "input": {"description": f"make {name}", "command": f"touch {name}"}}
    return [{"when": f"make {name}!", "calls": [call]}, {"when": f"make {name}!", "say": f"{name} is over"}]


def script(names: Iterable[str]) -> list[dict[str, Any]]:
    return [step for name in names for step in asking(name)]


async def until_asked(sitting: Sitting, what: str) -> None:
    """Wait until it asks, and until keys count."""
    await sitting.until_shown("May it?", what, "esc later")


async def test_every_way_through_the_dialog(desks: Desks) -> None:
    names = [f"way{chr(97 + number)}" for number in range(len(WAYS))]
    project = desks.project(*script(names))
    async with desks.sit(project, size=SMALL) as ana:
        await ana.chat.open_new()
        for name, way in zip(names, WAYS, strict=True):
            before = {grant.id for grant in await ana.room.grants()} | {r.id for r in await ana.room.rules()}
            run = await ana.room.prompt(f"make {name}!")
            await until_asked(ana, f"touch {name}")
            await ana.pilot.press(*way.keys)
            end = await ana.room.wait_for(run)
            await ana.until(lambda: ana.chat.is_active, f"the end of {way}")
            assert (project / name).exists() == way.ran, way
            assert (f"{name} is over" in end.text) == way.goes_on, way
            assert await kept(ana, before) == way.kept, way


async def kept(sitting: Sitting, before: set[str]) -> str:
    grants = [grant.scope for grant in await sitting.room.grants() if grant.id not in before]
    rules = ["rule" for rule in await sitting.room.rules() if rule.id not in before]
    return " ".join([*grants, *rules])


async def test_it_is_put_aside_called_back_and_clicked(desks: Desks) -> None:
    async with desks.sit(desks.project(*script(["aside"])), size=SMALL) as ana:
        await ana.chat.open_new()
        asking_session = ana.room.current_session
        run = await ana.room.prompt("make aside!")
        await until_asked(ana, "touch aside")
        await ana.pilot.press("escape")
        await ana.until_shown("1 ask waits, alt+a shows it")
        await ana.pilot.press("ctrl+n")
        await ana.until_shown("1 ask in other sessions")
        await ana.chat.open(asking_session)
        await ana.pilot.press("alt+a")
        await until_asked(ana, "allow once")
        row = next(y for y, line in enumerate(ana.screen.split("\n")) if "allow once" in line)
        await ana.pilot.click(offset=(20, row))
        await ana.until(lambda: ana.room.end_of(run), "the end")
        assert "ask waits" not in ana.screen


async def test_one_answers_and_the_others_dialog_closes_and_says_who(desks: Desks) -> None:
    project = desks.project(*script(["both"]))
    async with desks.sit(project, size=SMALL, name="ana") as ana:
        await ana.chat.open_new()
        async with desks.sit(project, size=SMALL, name="ben", session=ana.room.current_session) as ben:
            await ana.room.prompt("make both!")
            await until_asked(ana, "touch both")
            await until_asked(ben, "touch both")
            await ana.pilot.press("a")
            await ben.until(lambda: ben.chat.is_active, "the conversation")
            assert ("info", "ana allowed it") in ben.chat.notices
            await ana.until_shown("both is over")


async def test_what_is_asked_is_shown_as_what_it_does(desks: Desks) -> None:
    """A change as what differs, a new file as lines that come, and what is hidden as a risk, in words."""
    view = {"name": "view", "input": {"file_path": "a.py"}}
    edit = {"name": "edit", "input": {"file_path": "a.py", "old_string": "one = 1", "new_string": "one = 2"}}
    new = {"name": "write", "input": {"file_path": "new.txt", "content": "one line\n"}}
    odd = {"name": "bash", "input": {"description": "list", "command": "touch a\u202eb"}}
    project = desks.project(*({"calls": [call]} for call in (view, edit, new, odd)), {"say": "over"})
    Path(project, "a.py").write_text("# head\none = 1\n")
    async with desks.sit(project, size=SMALL) as ana:
        await ana.chat.open_new()
        await ana.room.prompt("go")
        await until_asked(ana, "- one = 1")
        await ana.pilot.press("t")
        await ana.until(lambda: "- one = 1" in ana.screen and "│ 2 + one = 2" in ana.screen, "two columns")
        await ana.pilot.press("a")
        await until_asked(ana, "+ one line")
        assert "one = 2" in Path(project, "a.py").read_text()
        await ana.pilot.press("a")
        await until_asked(ana, "! risk: it")
        assert "\u202e" not in ana.screen
        await ana.pilot.press("d")
        await ana.until(lambda: ana.chat.is_active, "the conversation")
