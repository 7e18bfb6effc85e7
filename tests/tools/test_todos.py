"""The session's list of things to do."""

from __future__ import annotations

import pytest
from tests.tools.conftest import Bench

from bullpen.schema.session import Todo
from bullpen.tools.todos import MAX_TEXT, MAX_TODOS


def entry(content: str, status: str) -> dict[str, str]:
    return {"content": content, "status": status, "active_form": f"{content}ing"}


async def test_a_new_list_is_kept_and_counted(bench: Bench) -> None:
    outcome = await bench.call("todos", todos=[entry("Read", "in_progress"), entry("Test", "pending")])
    assert outcome.content == "The list has 2 entries: 0 completed, 1 in progress, 1 pending."
    kept = [
        Todo(content="Read", status="in_progress", active_form="Reading"),
        Todo(content="Test", status="pending", active_form="Testing"),
    ]
    assert list(bench.todos) == kept
    assert outcome.metadata == {
        "is_new": True,
        "todos": kept,
        "just_completed": [],
        "just_started": "Reading",
        "completed": 0,
        "total": 2,
    }


async def test_what_changed_is_told(bench: Bench) -> None:
    await bench.call("todos", todos=[entry("Read", "in_progress"), entry("Test", "pending")])
    outcome = await bench.call("todos", todos=[entry("Read", "completed"), entry("Test", "in_progress")])
    assert outcome.metadata is not None
    assert outcome.metadata | {"todos": []} == {
        "is_new": False,
        "todos": [],
        "just_completed": ["Read"],
        "just_started": "Testing",
        "completed": 1,
        "total": 2,
    }
    assert (await bench.call("todos", todos=[])).content == "The list is empty now."
    assert bench.todos == ()


async def test_two_at_a_time_are_kept_with_a_word(bench: Bench) -> None:
    """The list is the model's own; it is told how it is meant."""
    outcome = await bench.call("todos", todos=[entry("Read", "in_progress"), entry("Test", "in_progress")])
    assert outcome.content.endswith("Work on one at a time.")
    assert len(bench.todos) == 2


async def test_without_an_active_form_the_content_is_shown(bench: Bench) -> None:
    await bench.call("todos", todos=[{"content": "Read", "status": "pending"}])
    assert bench.todos[0].active_form == "Read"


@pytest.mark.parametrize(
    ("todos", "words"),
    [
        ([entry(" ", "pending")], "entry 1 is empty"),
        ([entry("x" * (MAX_TEXT + 1), "pending")], "say it in one line"),
        ([entry("x", "pending")] * (MAX_TODOS + 1), "put small steps together"),
    ],
)
async def test_what_is_no_list_leaves_the_old_one(
    bench: Bench, todos: list[dict[str, str]], words: str
) -> None:
    await bench.call("todos", todos=[entry("Read", "pending")])
    outcome = await bench.call("todos", todos=todos)
    assert outcome.is_error
    assert words in outcome.content
    assert [each.content for each in bench.todos] == ["Read"]
