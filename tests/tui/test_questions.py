"""The agent asks: every key of every kind of question, pages, notes, and declining."""

from typing import Any, NamedTuple

import pytest
from tests.tui.conftest import Desks, Sitting

pytestmark = pytest.mark.anyio

FRUIT = [{"id": "a", "label": "Apples", "description": "red"}, {"id": "p", "label": "Pears"}]


def asked(kind: str, label: str = "It", **more: Any) -> dict[str, Any]:
    choices = FRUIT if kind.endswith("choice") else []
    return {
        "type": kind,
        "label": label,
        "question": f"{label}?",
        "description": "It matters.",
        "choices": choices,
    } | more


class Way(NamedTuple):
    """Keys pressed, and what the model is told."""

    kind: str
    keys: tuple[str, ...]
    told: str


WAYS = (
    Way("yes_no", ("y",), "Answer: yes"),
    Way("yes_no", ("n",), "Answer: no"),
    Way("yes_no", ("left",), "Answer: yes"),
    Way("yes_no", ("up", "enter"), "Answer: no"),
    Way("yes_no", ("alt+n", *"so", "enter", "y"), "Answer: yes\nNote: so"),
    Way("single_choice", ("2", "enter"), "Answer: p (Pears)"),
    Way("single_choice", ("j", "j", "k", "enter"), "Answer: a (Apples)"),
    Way("single_choice", ("3", *"figs", "enter"), "Answer: figs"),
    Way("single_choice", ("3", *"figs", "escape", "2", "enter"), "Answer: p (Pears)"),
    Way(
        "single_choice", ("2", "alt+n", *"ripe", "enter", "2", "enter"), "Answer: p (Pears)\nNote on p: ripe"
    ),
    Way("multi_choice", ("1", "2", "enter"), "Answer: a (Apples), p (Pears)"),
    Way("multi_choice", ("down", "space", "down", "space", "1", "enter"), "Answer: p (Pears)"),
    Way("multi_choice", ("2", "3", *"figs", "enter", "enter"), "Answer: p (Pears), figs"),
    Way("free_text", ("a", "shift+enter", "b", "enter"), "Answer: a\nb"),
    Way("free_text", ("enter", "c", "enter"), "Answer: c"),
)


PAGES = 5
"""So many questions may be asked at once."""


def script(name: str, *questions: dict[str, Any]) -> list[dict[str, Any]]:
    call = {"name": "question", "input": {"questions": list(questions)}}
    return [{"when": f"ask {name}!", "calls": [call]}, {"when": f"ask {name}!", "say": f"{name} is over"}]


def told(sitting: Sitting) -> str:
    """What the model was answered last."""
    messages = sitting.room.messages(sitting.room.current_session)
    return [result.content for message in messages for result in message.tool_results][-1]


async def test_every_way_through_every_kind_of_question(desks: Desks) -> None:
    batches = [WAYS[at : at + PAGES] for at in range(0, len(WAYS), PAGES)]
    steps = [
        step
        for number, batch in enumerate(batches)
        for step in script(f"n{number}", *(asked(way.kind, f"p{n}") for n, way in enumerate(batch)))
    ]
    async with desks.sit(desks.project(*steps), size=(80, 24)) as ana:
        await ana.chat.open_new()
        for number, batch in enumerate(batches):
            run = await ana.room.prompt(f"ask n{number}!")
            await ana.until_shown("p0?", "esc later")
            for page, way in enumerate(batch):
                await ana.until_shown(f"p{page}?")
                await ana.pilot.press(*way.keys)
            await ana.until_shown("send them")
            await ana.pilot.press("enter")
            await ana.room.wait_for(run)
            for page, way in enumerate(batch):
                assert f"Q{page + 1}: p{page}?\n{way.told}" in told(ana), way


async def test_pages_are_summed_up_put_aside_clicked_and_declined(desks: Desks) -> None:
    several = [asked("yes_no", "Go"), asked("multi_choice", "Fruit"), asked("free_text", "Reason")]
    steps = [*script("all", *several), *script("click", asked("yes_no")), *script("none", asked("yes_no"))]
    async with desks.sit(desks.project(*steps), size=(80, 24)) as ana:
        await ana.chat.open_new()
        run = await ana.room.prompt("ask all!")
        await ana.until_shown("Go?", "summary", "esc later")
        await ana.pilot.press("n")
        await ana.until_shown("Fruit?", "✓ Go")
        await ana.pilot.press("right_square_bracket")
        await ana.until_shown("Reason?")
        await ana.pilot.press(*"why", "enter")
        await ana.until_shown("→ no", "→ (skipped)", "→ why", "send them, 1 skipped")
        await ana.pilot.press("ctrl+left", "ctrl+left")
        await ana.until_shown("Fruit?")
        await ana.pilot.press("1", "enter")
        await ana.until_shown("Reason?", "why")
        await ana.pilot.press("ctrl+right")
        await ana.until_shown("→ Apples")
        await ana.pilot.press("enter")
        await ana.until(lambda: ana.room.end_of(run), "the end")
        assert [line for line in told(ana).split("\n") if line.startswith("Answer")] == [
            "Answer: no",
            "Answer: a (Apples)",
            "Answer: why",
        ]
        run = await ana.room.prompt("ask click!")
        await ana.until_shown("It?", "esc later")
        row = next(y for y, line in enumerate(ana.screen.split("\n")) if "y yes" in line)
        await ana.pilot.click(offset=(20, row))
        await ana.until(lambda: ana.room.end_of(run), "the end")
        assert "Answer: yes" in told(ana)
        await ana.room.prompt("ask none!")
        await ana.until_shown("It?", "esc later")
        await ana.pilot.press("escape")
        await ana.until_shown("1 ask waits, alt+a shows it")
        await ana.pilot.press("alt+a")
        await ana.until_shown("It?", "esc later")
        await ana.pilot.press("ctrl+x")
        await ana.until_shown("ctrl+x again answers none of it")
        assert len(ana.room.asks) == 1
        await ana.pilot.press("ctrl+x")
        await ana.until(lambda: not ana.room.asks and ana.chat.is_active, "the end of it")
