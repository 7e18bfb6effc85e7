from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.providers.conftest import call, delta, done, line, say

from bullpen.errors import ProviderError
from bullpen.providers.base import (
    ModelEvent,
    ReasoningDelta,
    ReasoningDone,
    StepDone,
    TextDelta,
    ToolCallDone,
    ToolCallStarted,
    Usage,
)
from bullpen.providers.chat_stream import ChatStream
from bullpen.providers.reading import MAX_CALLS

USAGE = Usage(input=100, output=10)


def read(*pieces: bytes) -> list[ModelEvent]:
    stream = ChatStream()
    events = [event for piece in pieces for event in stream.feed(piece)]
    return events + stream.end()


def test_any_cut_of_the_bytes_gives_the_same_events() -> None:
    """Lines do not care where the network cut them."""
    whole = (
        say("one ", "tŵo ", "🙂")
        + call(0, call_id="a", name="ls")
        + call(0, '{"p": "ŵ"}')
        + done("tool_calls")
    )
    expected = read(whole)
    assert expected[-1] == StepDone("tool_use", USAGE)
    for size in (1, 2, 3, 7, 64):
        assert read(*(whole[i : i + size] for i in range(0, len(whole), size))) == expected


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_line_endings(ending: bytes) -> None:
    assert read((say("a") + done()).replace(b"\n", ending))[0] == TextDelta("a")


def test_the_space_after_the_colon_is_optional() -> None:
    assert read((say("a") + done()).replace(b"data: ", b"data:"))[0] == TextDelta("a")


@pytest.mark.parametrize(
    ("wire", "reason"),
    [
        ("stop", "end_turn"),
        ("tool_calls", "tool_use"),
        ("length", "max_tokens"),
        ("content_filter", "content_filter"),
        ("whatever", "unknown"),
    ],
)
def test_finish_reasons(wire: str, reason: str) -> None:
    assert read(say("x"), done(wire))[-1] == StepDone(reason, USAGE)  # type: ignore[arg-type]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thinking_ends_where_speaking_begins(field: str) -> None:
    events = read(delta({field: "hm "}), delta({field: "yes"}), say("so"), done())
    thoughts = [ReasoningDelta("hm "), ReasoningDelta("yes"), ReasoningDone()]
    assert events == [*thoughts, TextDelta("so"), StepDone("end_turn", USAGE)]


def test_thinking_alone_is_closed_at_the_end() -> None:
    assert read(delta({"reasoning": "hm"}), done())[:2] == [ReasoningDelta("hm"), ReasoningDone()]


def test_a_call_starts_at_once_and_is_done_at_the_end() -> None:
    stream = ChatStream()
    assert stream.feed(call(0, call_id="a", name="ls")) == [ToolCallStarted("a", "ls")]
    assert stream.feed(call(0, '{"path"') + call(0, ': "."}') + done("tool_calls")) == []
    assert stream.end() == [ToolCallDone("a", "ls", '{"path": "."}'), StepDone("tool_use", USAGE)]


def test_any_call_means_tool_use() -> None:
    """Hosts say `stop` although there are calls."""
    assert read(call(0, "{}", call_id="a", name="ls"), done("stop"))[-1] == StepDone("tool_use", USAGE)


def test_interleaved_calls_keep_their_arguments() -> None:
    pieces = [
        call(0, call_id="a", name="ls"),
        call(1, call_id="b", name="view"),
        call(0, '{"x"'),
        call(1, '{"y"'),
        call(0, ": 1}"),
        call(1, ": 2}"),
    ]
    events = read(*pieces, done("tool_calls"))
    assert events[2:4] == [ToolCallDone("a", "ls", '{"x": 1}'), ToolCallDone("b", "view", '{"y": 2}')]


def test_calls_that_share_an_index_are_told_apart_by_id() -> None:
    pieces = [call(0, "{}", call_id="a", name="ls"), call(0, '{"n": 2}', call_id="b", name="ls")]
    events = read(*pieces, done("tool_calls"))
    assert events[2:4] == [ToolCallDone("a", "ls", "{}"), ToolCallDone("b", "ls", '{"n": 2}')]


def test_calls_without_an_index() -> None:
    pieces = [
        call(None, '{"a"', call_id="a", name="ls"),
        call(None, ": 1}"),
        call(None, "{}", call_id="b", name="ls"),
    ]
    events = read(*pieces, done("tool_calls"))
    assert events[2:4] == [ToolCallDone("a", "ls", '{"a": 1}'), ToolCallDone("b", "ls", "{}")]


def test_a_repeated_head_is_the_same_call() -> None:
    pieces = [call(0, '{"a"', call_id="a", name="ls"), call(0, ": 1}", call_id="a", name="ls")]
    assert read(*pieces, done("tool_calls"))[:2] == [
        ToolCallStarted("a", "ls"),
        ToolCallDone("a", "ls", '{"a": 1}'),
    ]


def test_missing_and_repeated_ids_are_made_up() -> None:
    """Results are paired by id, so every call has one of its own."""
    pieces = [
        call(0, "{}", name="ls"),
        call(1, "{}", call_id="x", name="ls"),
        call(2, "{}", call_id="x", name="ls"),
    ]
    started = [e for e in read(*pieces, done("tool_calls")) if isinstance(e, ToolCallStarted)]
    ids = [e.id for e in started]
    assert len(set(ids)) == 3
    assert all(ids)
    assert "x" in ids


def test_no_arguments_are_an_empty_object_unless_the_answer_was_cut() -> None:
    head = call(0, call_id="a", name="ls")
    assert read(head, done("tool_calls"))[1] == ToolCallDone("a", "ls", "{}")
    assert read(head, done("length"))[1] == ToolCallDone("a", "ls", "")
    # So that the engine does not take it for a whole call.
    last = read(head, done("length"))[-1]
    assert isinstance(last, StepDone)
    assert last.reason == "max_tokens"


def test_a_later_chunk_without_counts_erases_nothing() -> None:
    cached = {"prompt_tokens_details": {"cached_tokens": 20}}
    counts = line({"choices": [], "usage": {"prompt_tokens": 50, "completion_tokens": 5} | cached})
    empty = line({"choices": [], "usage": {}})
    zeros = line({"choices": [], "usage": {"prompt_tokens": 0, "completion_tokens": 0}})
    bare = line({"choices": [], "usage": {"prompt_tokens": 50, "completion_tokens": 6}})
    done = read(say("x"), delta({}, "stop"), counts, empty, zeros, bare, line({"choices": []}))[-1]
    assert done == StepDone("end_turn", Usage(input=30, output=6, cache_read=20))


@pytest.mark.parametrize(
    ("cost", "told"), [(0.0125, 0.0125), (0, 0.0), (-1.0, None), ("dear", None), ({"usd": 1}, None)]
)
def test_what_an_answer_cost_where_the_host_says_it_in_dollars(cost: Any, told: float | None) -> None:
    for prices, expected in ((True, told), (False, None)):
        stream = ChatStream(prices=prices)
        usage = {"prompt_tokens": 50, "completion_tokens": 5, "cost": cost}
        stream.feed(say("x") + done("stop", usage))
        assert stream.end()[-1] == StepDone("end_turn", Usage(input=50, output=5, cost=expected))


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 50, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 20}},
        {"prompt_tokens": 50, "completion_tokens": 5, "prompt_cache_hit_tokens": 20},
        {"prompt_tokens": 50.0, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 20}},
    ],
)
def test_cached_tokens_are_not_input(usage: dict[str, Any]) -> None:
    assert read(done("stop", usage))[-1] == StepDone("end_turn", Usage(input=30, output=5, cache_read=20))


def test_unusual_types_are_understood() -> None:
    """Lists of text parts, arguments as objects, nulls everywhere."""
    parts = {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    whole_call = {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "ls", "arguments": {"p": 1}}}]}
    nulls = {"content": None, "tool_calls": None, "reasoning": None}
    events = read(delta(parts), delta(nulls), delta(whole_call), line({"choices": None}), done())
    assert events[:3] == [TextDelta("ab"), ToolCallStarted("a", "ls"), ToolCallDone("a", "ls", '{"p":1}')]


def test_half_characters_do_not_reach_the_store() -> None:
    event = read(line(b'{"choices": [{"delta": {"content": "a\\ud83d"}}]}'), done())[0]
    assert isinstance(event, TextDelta)
    event.text.encode()


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        ({"message": "overloaded", "type": "overloaded_error"}, True),
        ({"message": "overloaded", "code": 502}, True),
        ({"message": "overloaded", "code": "invalid"}, False),
        ("overloaded", False),
    ],
)
def test_an_error_in_the_stream(error: Any, retryable: bool) -> None:
    with pytest.raises(ProviderError, match="overloaded") as caught:
        read(say("x"), line({"error": error}))
    assert caught.value.retryable is retryable


GARBAGE = [
    b"data: {nope}\n",
    b'data: {"choices": [\n',
    b"data: 5\n",
    b"data: [1]\n",
    b"data: \xff\xfe\n",
    b"data: " + b"[" * 100_000 + b"\n",
    call(0, "{}", call_id="a") + done("tool_calls"),
    b"".join(call(i, "{}", call_id=f"c{i}", name="ls") for i in range(MAX_CALLS + 1)),
]


@pytest.mark.parametrize("piece", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_is_an_error_and_may_be_tried_again(piece: bytes) -> None:
    """R-21"""
    with pytest.raises(ProviderError) as caught:
        read(say("x"), piece, done())
    assert caught.value.retryable


def test_unknown_lines_and_fields_are_passed_over() -> None:
    assert read(b"event: x\nid: 4\nretry: 5\n: c\n\ndata:\n", say("a"), line({"new": 1}), done())[
        0
    ] == TextDelta("a")


odd: st.SearchStrategy[Any] = st.sampled_from(
    [
        None,
        True,
        0,
        -1,
        10**30,
        1.5,
        "",
        "x",
        "stop",
        "\ud800",
        [],
        {},
        [{}],
        [None],
        {"text": "x"},
        [{"text": 1}],
    ]
)
"""What a host may put where something else belongs."""


def objects(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return odd | st.fixed_dictionaries({}, optional={name: odd | inner for name, inner in fields.items()})


def lists(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=2)


functions = objects(name=odd, arguments=odd)
deltas = objects(content=odd, reasoning=odd, tool_calls=lists(objects(index=odd, id=odd, function=functions)))
shapes = objects(
    choices=lists(objects(delta=deltas, finish_reason=odd)),
    usage=objects(prompt_tokens=odd, completion_tokens=odd, prompt_tokens_details=objects(cached_tokens=odd)),
    error=odd,
)


@given(st.lists(shapes, max_size=5))
def test_any_chunks_give_events_or_a_provider_error(chunks: list[Any]) -> None:
    try:
        events = read(*(line(json.dumps(chunk).encode()) for chunk in chunks), done())
    except ProviderError:
        return
    assert isinstance(events[-1], StepDone)
    msgspec.json.encode(events)


@given(st.lists(st.binary(max_size=40), max_size=10))
def test_any_bytes_give_events_or_a_provider_error(pieces: list[bytes]) -> None:
    try:
        read(*pieces, b"\n", done())
    except ProviderError:
        return
