"""Slips of a model are put right where the meaning is certain, and nowhere else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.bench import Bench

from bullpen.engine.repair import as_object, known_name


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("", {}),
        ('{"a": 1}', {"a": 1}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('{"a": [1, 2,], }', {"a": [1, 2]}),
        ('{"a": {"b": [1]}', {"a": {"b": [1]}}),
        ('{"a": "x" ', {"a": "x"}),
        ("{'a': True, 'b': None}", {"a": True, "b": None}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        ('{"a": "two\nlines"}', {"a": "two\nlines"}),
        ('{"a": "},{,]"}', {"a": "},{,]"}),
    ],
)
def test_what_was_meant(text: str, meant: dict[str, Any]) -> None:
    repaired = as_object(text)
    assert repaired is not None
    assert json.loads(repaired) == meant


@pytest.mark.parametrize(
    "text",
    [
        '{"file_path": "a", "content": "half a fi',
        '{"a": "x\\',
        '{"a": "x",',
        '{"a": ["x"',
        '{"a": 12',
        "[1, 2]",
        "rm -rf /",
        '{"a": 1]',
        "{'a': __import__('os')}",
        '{"a"',
        '{"a":',
        "[" * 100_000,
        "null",
        '"just words"',
    ],
)
def test_what_is_not_certain_is_left_alone(text: str) -> None:
    assert as_object(text) is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), VALUES, max_size=5), st.data())
def test_no_cut_text_means_something_else(value: dict[str, Any], data: st.DataObject) -> None:
    """Cut anywhere, the text is refused, or it has some of the whole's fields as they are in the whole."""
    whole = json.dumps(value, ensure_ascii=False)
    cut = whole[: data.draw(st.integers(1, len(whole) - 1))]
    repaired = as_object(cut)
    if repaired is not None:
        assert all(value[key] == found for key, found in json.loads(repaired).items())


@given(st.text())
def test_any_text_is_an_object_or_nothing(text: str) -> None:
    repaired = as_object(text)
    assert repaired is None or isinstance(json.loads(repaired), dict)


def test_names() -> None:
    tools = ["view", "job_kill", "mcp_a_view", "Mcp_A_View"]
    assert known_name("View", tools) == "view"
    assert known_name("functions.job-kill", tools) == "job_kill"
    assert known_name("mcp-a-view", tools) == "mcp-a-view"
    assert known_name("nothing", tools) == "nothing"


async def test_a_call_with_slips_is_run(bench: Bench) -> None:
    await bench.prompt("go", run_id="r")
    step = await bench.puppet.next()
    step.call("c1", "Echo", "{'name': 'hello',}")
    step.finish(reason="tool_use")
    (await bench.puppet.next()).finish("done")
    await bench.watcher.run_complete("r")
    assert (await bench.rows())[2][3] == [("c1", "hello")]


@pytest.mark.parametrize("arguments", ["", '{"name": "half"'])
async def test_an_answer_that_was_cut_runs_nothing_that_was_guessed(bench: Bench, arguments: str) -> None:
    await bench.prompt("go", run_id="r")
    step = await bench.puppet.next()
    step.call("c1", "act", arguments)
    step.finish(reason="max_tokens")
    (await bench.puppet.next()).finish("done")
    await bench.watcher.run_complete("r")
    [(_, result)] = (await bench.rows())[2][3]
    assert "not a JSON object" in result
    assert bench.gate.effects == []


@pytest.mark.parametrize("text", ['{"a": "' + '\\"x' * 15_000, "{" + "," * 60_000, "{'a': " + "[" * 60_000])
def test_what_is_broken_at_length_takes_no_time(text: str) -> None:
    """Without the bound on its length, and with a square in it, this would take minutes."""
    assert as_object(text) is None
