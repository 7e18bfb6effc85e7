from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.providers.messages_format import (
    CALLS,
    WORDS,
    arguments,
    begin,
    call,
    end,
    event,
    say,
    start,
    stop,
    text,
    thought,
)

from bullpen.errors import ProviderError
from bullpen.providers.anthropic_stream import AnthropicStream
from bullpen.providers.base import (
    ModelEvent,
    Native,
    ReasoningDelta,
    ReasoningDone,
    StepDone,
    TextDelta,
    ToolCallDone,
    ToolCallStarted,
    Usage,
)
from bullpen.providers.reading import MAX_CALLS

USAGE = Usage(input=12, output=187, cache_write=2048, cache_read=30500)


def read(*pieces: bytes, form: str = "anthropic") -> list[ModelEvent]:
    stream = AnthropicStream(form=form)
    events = [event for piece in pieces for event in stream.feed(piece)]
    return events + stream.end()


def last(*pieces: bytes, form: str = "anthropic") -> StepDone:
    done = read(*pieces, form=form)[-1]
    assert isinstance(done, StepDone)
    return done


def native(*pieces: bytes, form: str = "anthropic") -> Any:
    kept = last(*pieces, form=form).native
    return None if kept is None else json.loads(kept.content)


def test_recorded_words() -> None:
    """Words and counts; nothing needs to be kept beside them."""
    usage = Usage(input=12, output=9, cache_write=2048, cache_read=30500)
    assert read(WORDS) == [TextDelta("Good"), TextDelta(" day, wörld 🙂"), StepDone("end_turn", usage)]


def test_recorded_thoughts_and_calls() -> None:
    """Thoughts, hidden thoughts, words and calls are told as they come, and kept word for word."""
    *events, done = read(CALLS)
    one = "EqQBCgIYAhIM1gbcDa9GJwZA2b3h"
    two = "EuYBCkQYAiJAgCs1le6/Pol5Z4/JMomVOouGrWhYNsH3ukzUECbB6iWrSQtsQuRHJID6lWV"
    ls, view = "toolu_01T1x1fJ34qAmk2tNTrN7Up6", "toolu_01NRLabsLyVHZPKxbKvkfSMn"
    assert events == [
        ReasoningDelta("Two places"),
        ReasoningDelta(" to look."),
        ReasoningDone(one),
        TextDelta("I'll look"),
        TextDelta(" in both."),
        ReasoningDelta("\n\n"),
        ReasoningDelta("The sources first."),
        ReasoningDone(two),
        ToolCallStarted(ls, "ls"),
        ToolCallDone(ls, "ls", '{"path": "srç"}'),
        ToolCallStarted(view, "view"),
        ToolCallDone(view, "view", '{"file_path": "README.md", "limit": 20}'),
    ]
    assert isinstance(done, StepDone)
    assert (done.reason, done.usage) == ("tool_use", USAGE)
    assert done.native is not None
    assert done.native.form == "anthropic"
    assert json.loads(done.native.content) == [
        {"type": "thinking", "thinking": "Two places to look.", "signature": one},
        {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix/LafPsn4a"},
        {"type": "text", "text": "I'll look in both."},
        {"type": "thinking", "thinking": "The sources first.", "signature": two},
        {"type": "tool_use", "id": ls, "name": "ls", "input": {"path": "srç"}},
        {"type": "tool_use", "id": view, "name": "view", "input": {"file_path": "README.md", "limit": 20}},
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_any_cut_of_the_bytes_gives_the_same_events(size: int) -> None:
    assert read(*(CALLS[i : i + size] for i in range(0, len(CALLS), size))) == read(CALLS)


def test_an_answer_that_ends_at_any_byte_has_failed() -> None:
    """R-22: what came before is a beginning of the whole, and the step may be tried again."""
    whole = read(CALLS)
    for at in range(len(CALLS) - 2):
        stream = AnthropicStream()
        events = stream.feed(CALLS[:at])
        assert events == whole[: len(events)]
        with pytest.raises(ProviderError, match=r"ended early|cannot be read") as caught:
            stream.end()
        assert caught.value.retryable


@pytest.mark.parametrize("ending", [b"\r\n", b"\n"])
def test_line_endings(ending: bytes) -> None:
    assert read(WORDS.replace(b"\n", ending)) == read(WORDS)


@pytest.mark.parametrize(
    ("wire", "reason"),
    [
        ("end_turn", "end_turn"),
        ("stop_sequence", "end_turn"),
        ("max_tokens", "max_tokens"),
        ("model_context_window_exceeded", "max_tokens"),
        ("refusal", "content_filter"),
        ("pause_turn", "unknown"),
        ("whatever", "unknown"),
    ],
)
def test_stop_reasons(wire: str, reason: str) -> None:
    assert last(begin(), say("x"), end(wire)).reason == reason


def test_the_last_event_and_a_reason_are_both_needed() -> None:
    with pytest.raises(ProviderError, match="without its last event"):
        read(begin(), say("x"), event("message_delta", delta={"stop_reason": "end_turn"}))
    with pytest.raises(ProviderError, match="without a stop reason"):
        read(begin(), say("x"), end(None))


def test_interleaved_blocks_keep_their_pieces() -> None:
    pieces = [
        start(0, "tool_use", id="a", name="ls", input={}),
        start(1, "tool_use", id="b", name="view", input={}),
        arguments(0, '{"x"'),
        arguments(1, '{"y"'),
        arguments(0, ": 1}"),
        arguments(1, ": 2}"),
        stop(0),
        stop(1),
    ]
    events = read(begin(), *pieces, end("tool_use"))
    assert events[2:4] == [ToolCallDone("a", "ls", '{"x": 1}'), ToolCallDone("b", "view", '{"y": 2}')]


def test_no_arguments_are_an_empty_object_unless_the_answer_was_cut_there() -> None:
    """R-22: a call whose arguments never came is not complete."""
    one, two = call(0, "a", "ls"), call(1, "b", "ls")
    assert ToolCallDone("a", "ls", "{}") in read(begin(), one, end("tool_use"))
    events = read(begin(), one, two, end("max_tokens"))
    assert [e for e in events if isinstance(e, ToolCallDone)] == [ToolCallDone("a", "ls", "{}")]


def test_arguments_that_are_given_whole() -> None:
    head = start(0, "tool_use", id="a", name="ls", input={"path": "."})
    assert read(head, stop(0), end("tool_use"))[1] == ToolCallDone("a", "ls", '{"path":"."}')


def test_missing_and_repeated_ids_are_made_up() -> None:
    """Results are paired by id, also in what is kept."""
    pieces = [call(0, "x", "ls"), call(1, "x", "ls"), call(2, "", "ls"), say("so", index=3)]
    events = read(*pieces, end("tool_use"))
    ids = [e.id for e in events if isinstance(e, ToolCallStarted)]
    assert len(set(ids)) == 3
    assert ids[0] == "x"
    assert all(ids)
    assert [block["id"] for block in native(*pieces, end("tool_use"))[:1]] == ["x"]


def test_ids_are_sound_in_the_call_and_in_what_is_kept() -> None:
    pieces = (call(0, "ls:0", "ls", "{}"), say("so", index=1), end("tool_use"))
    assert read(*pieces)[0] == ToolCallStarted("ls_0", "ls")
    assert native(*pieces)[0]["id"] == "ls_0"


def test_a_head_that_is_said_twice_is_one_call() -> None:
    head = start(0, "tool_use", id="a", name="ls", input={})
    events = read(head, head, arguments(0, "{}"), stop(0), stop(0), end("tool_use"))
    assert events[:2] == [ToolCallStarted("a", "ls"), ToolCallDone("a", "ls", "{}")]


def test_counts_are_merged_and_never_erased() -> None:
    """They come in two events, and some hosts fill the second with zeros."""
    first = begin(input_tokens=7, cache_creation_input_tokens=3, cache_read_input_tokens=5, output_tokens=1)
    zeros: dict[str, Any] = {
        "input_tokens": 0,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": None,
    }
    expected = Usage(input=7, output=20, cache_write=3, cache_read=5)
    assert last(first, say("x"), end(output_tokens=20, **zeros)).usage == expected
    late: dict[str, Any] = {"input_tokens": 7, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 3}
    assert last(begin(input_tokens=0), say("x"), end(output_tokens=20.0, **late)).usage == expected


def test_only_what_parts_cannot_say_is_kept() -> None:
    """Words and then calls need nothing; thoughts do, and so does another order."""
    assert native(begin(), say("x"), call(1, "a", "ls"), call(2, "b", "ls"), end("tool_use")) is None
    assert native(begin(), say(""), call(1, "a", "ls"), end("tool_use")) is None
    after = native(begin(), call(0, "a", "ls", "{}"), say("then", index=1), end("tool_use"))
    assert [block["type"] for block in after] == ["tool_use", "text"]


def test_what_would_be_refused_is_not_kept() -> None:
    """Empty words, arguments that are no object, and a thought that was cut off before its signature."""
    pieces = (
        start(0, "thinking", thinking="", signature=""),
        thought(0, "hm", signature="s"),
        stop(0),
        say(" ", index=1),
        call(2, "a", "ls", "[1"),
        start(3, "thinking", thinking="", signature=""),
        thought(3, "and"),
        end("max_tokens"),
    )
    kept = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "tool_use", "id": "a", "name": "ls", "input": {}},
    ]
    assert native(*pieces) == kept
    unsigned = {"type": "thinking", "thinking": "and", "signature": ""}
    assert native(*pieces, form="anthropic:other") == [*kept, unsigned]


def test_blocks_that_nobody_here_knows_are_kept() -> None:
    """Such as the results of a vendor's own tools, which belong to the answer."""
    found = {"tool_use_id": "s", "content": [{"title": "x"}]}
    pieces = (
        start(0, "server_tool_use", id="s", name="web_search", input={}),
        arguments(0, '{"query": "x"}'),
        stop(0),
        start(1, "web_search_tool_result", **found),
        stop(1),
        start(2, "text", text="", citations=[]),
        text(2, "found"),
        event("content_block_delta", index=2, delta={"type": "citations_delta", "citation": {"url": "u"}}),
        stop(2),
    )
    assert native(*pieces, end()) == [
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}},
        {"type": "web_search_tool_result"} | found,
        {"type": "text", "text": "found", "citations": [{"url": "u"}]},
    ]


def test_a_host_that_leaves_out_beginnings_and_indices() -> None:
    loose = event("content_block_delta", delta={"type": "thinking_delta", "thinking": "hm"})
    words = event("content_block_delta", index=1, delta={"type": "text_delta", "text": "so"})
    assert read(loose, words, end(), form="anthropic:x") == [
        ReasoningDelta("hm"),
        TextDelta("so"),
        ReasoningDone(),
        StepDone(
            "end_turn",
            Usage(),
            Native("anthropic:x", '[{"type":"thinking","thinking":"hm"},{"type":"text","text":"so"}]'),
        ),
    ]


def test_an_answer_in_one_piece() -> None:
    message = {
        "type": "message",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "so"},
            {"type": "tool_use", "id": "a", "name": "ls", "input": {}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "output_tokens": 4},
    }
    events = AnthropicStream().whole(json.dumps(message).encode())
    kept = Native("anthropic", msgspec.json.encode(message["content"]).decode())
    assert events == [
        ReasoningDelta("hm"),
        ReasoningDone("s"),
        TextDelta("so"),
        ToolCallStarted("a", "ls"),
        ToolCallDone("a", "ls", "{}"),
        StepDone("tool_use", Usage(input=3, output=4), kept),
    ]


@pytest.mark.parametrize(
    ("kind", "retryable", "trouble"),
    [
        ("overloaded_error", True, "overloaded"),
        ("api_error", True, ""),
        ("rate_limit_error", True, "limit"),
        ("timeout_error", True, ""),
        ("invalid_request_error", False, ""),
        ("authentication_error", False, "auth"),
    ],
)
def test_an_error_in_the_stream(kind: str, retryable: bool, trouble: str) -> None:
    with pytest.raises(ProviderError, match="Overloaded") as caught:
        read(begin(), say("x"), event("error", error={"type": kind, "message": "Overloaded"}))
    assert (caught.value.retryable, caught.value.kind) == (retryable, trouble)


def test_unknown_events_and_fields_are_passed_over() -> None:
    new = event("message_note", note=1) + event("ping") + b": comment\n\ndata:\n\ndata: [DONE]\n\n"
    odd = event("content_block_delta", index=0, delta={"type": "new_delta", "new": 1})
    assert read(begin(), start(0, "text"), new, odd, text(0, "a"), stop(0), end())[0] == TextDelta("a")


def test_half_characters_do_not_reach_the_store() -> None:
    half = (
        b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\\ud83d"}}\n\n'
    )
    first = read(begin(), half, end())[0]
    assert isinstance(first, TextDelta)
    first.text.encode()


GARBAGE = [
    b"data: {nope}\n",
    b'data: {"type": "content_block_delta"\n',
    b"data: 5\n",
    b"data: [1]\n",
    b"data: \xff\xfe\n",
    b"data: " + b"[" * 100_000 + b"\n",
    b'data: {"type": "x", "delta": 1, "x": ' + b"[" * 500 + b"]" * 500 + b"}\n",
    start(0, "tool_use", id="a", input={}),
    arguments(5, "{}"),
    b"".join(call(i, f"c{i}", "ls", "{}") for i in range(MAX_CALLS + 1)),
]


@pytest.mark.parametrize("piece", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_is_an_error_and_may_be_tried_again(piece: bytes) -> None:
    """R-21"""
    with pytest.raises(ProviderError) as caught:
        read(begin(), say("x", index=9), piece, end())
    assert caught.value.retryable


odd: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, -1, 10**30, 1.5, "", "x", "text", "tool_use", "\ud800", [], {}, [{}], {"text": "x"}]
)
"""What a host may put where something else belongs."""

kinds = st.sampled_from(["content_block_start", "content_block_delta", "content_block_stop", "message_delta"])


def objects(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return odd | st.fixed_dictionaries({}, optional={name: odd | inner for name, inner in fields.items()})


block_kinds = st.sampled_from(["text", "thinking", "tool_use", "redacted_thinking", "new"])
shapes = objects(
    type=kinds,
    index=st.integers(0, 2),
    delta=objects(text=odd, thinking=odd, signature=odd, partial_json=odd, stop_reason=odd, citation=odd),
    content_block=objects(type=block_kinds, id=odd, name=odd, input=odd, text=odd, thinking=odd),
    usage=objects(input_tokens=odd, output_tokens=odd),
    message=objects(usage=objects(input_tokens=odd)),
    error=odd,
)


@given(st.lists(shapes, max_size=6))
def test_any_events_give_events_or_a_provider_error(values: list[Any]) -> None:
    try:
        events = read(*(f"data: {json.dumps(value)}\n\n".encode() for value in values), end())
    except ProviderError:
        return
    assert isinstance(events[-1], StepDone)
    msgspec.json.encode(events)


@given(objects(content=st.lists(shapes, max_size=3), stop_reason=odd, usage=odd, error=odd))
def test_any_whole_answer_gives_events_or_a_provider_error(value: Any) -> None:
    try:
        events = AnthropicStream().whole(json.dumps(value).encode())
    except ProviderError:
        return
    msgspec.json.encode(events)


@given(st.lists(st.binary(max_size=40), max_size=10))
def test_any_bytes_give_events_or_a_provider_error(pieces: list[bytes]) -> None:
    try:
        read(*pieces, b"\n", end())
    except ProviderError:
        return
