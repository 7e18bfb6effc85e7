"""Messages as running text, whatever way they arrive."""

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.client.standin import message

from bullpen.plain.transcript import Transcript
from bullpen.present.describe import describe_hooks, hook_lines
from bullpen.schema.events import HookDecided, HookSaid
from bullpen.schema.message import Message, ToolResult


def a_message(
    message_id: str, text: str = "", parts: list[dict[str, Any]] | None = None, **fields: Any
) -> Message:
    raw = message(message_id, text, **fields)
    if parts:
        raw["parts"] = [*parts, *raw["parts"]]
    return msgspec.convert(raw, Message)


def shown(*messages: Message) -> str:
    transcript = Transcript()
    return "".join(transcript.show(m, author="ana", width=40) for m in messages)


CALL = {
    "type": "tool_call",
    "data": {"id": "c1", "name": "bash", "input": '{"command":"ls\\n-la"}', "finished": True},
}
OPEN_CALL = {"type": "tool_call", "data": {"id": "c1", "name": "bash", "input": ""}}
RESULT = {
    "type": "tool_result",
    "data": {"tool_call_id": "c1", "name": "bash", "content": "one\ntwo", "metadata": "", "is_error": False},
}


def test_a_turn_reads_from_top_to_bottom() -> None:
    """Prompt, answer, call, result, answer."""
    assert (
        shown(
            a_message("1", "list it\nplease", role="user"),
            a_message("2", "Sure."),
            a_message("2", "Sure.", [OPEN_CALL]),
            a_message("2", "Sure.", [CALL], finish="tool_use"),
            a_message("3", "", [RESULT], role="tool"),
            a_message("4", "Done.", finish="end_turn"),
        )
        == "ana › list it\n  please\n\nSure.\n→ bash ls -la\n  ✓ one  (+1 lines)\n\nDone."
    )


@given(st.lists(st.integers(0, 11)))
def test_text_is_printed_once_however_it_grew(cuts: list[int]) -> None:
    """Also when an older state comes after a newer one."""
    text = "Hello, Ana."
    states = [text[:n] for n in cuts]
    assert shown(*(a_message("1", t) for t in [*states, text])) == text


def test_an_answer_that_begins_anew_is_printed_anew() -> None:
    """A provider that failed half-way is asked again, and the half it sent is void."""
    assert shown(a_message("1", "Hel"), a_message("1"), a_message("1", "Good")) == "Hel\n\nGood"


def test_an_end_that_is_not_well_is_said() -> None:
    failed = a_message("1", "half", finish="error")
    cancelled = a_message("2", "hal", finish="canceled")
    assert shown(failed, cancelled) == "half\n— error\n\nhal\n— cancelled\n"


def test_foreign_text_does_nothing() -> None:
    assert shown(a_message("1", "\x1b[2J", role="user")) == "ana › ␛[2J\n"


def test_what_hooks_made_of_a_call_stands_below_its_result() -> None:
    """Also the call as it really ran, when a hook changed it."""
    rewrote = {"name": "tidy", "decision": "none", "reason": "", "input_rewrite": True}
    failed = {"name": "broken", "decision": "none", "reason": "", "error": "failed with exit code 1"}
    quiet = {"name": "quiet", "decision": "none", "reason": "", "input_rewrite": False}
    before = {"hooks": [rewrote, quiet], "updated_input": {"command": "ls -a"}}
    metadata = json.dumps({"hook": before, "hook_after": {"hooks": [failed]}})
    result = ToolResult(tool_call_id="c", name="bash", content="a", metadata=metadata, is_error=False)
    assert hook_lines(result) == [
        "⚑ hook tidy: changed the call",
        "⚑ what ran: bash ls -a",
        "⚑ hook broken: failed with exit code 1",
    ]


def test_what_hooks_did_elsewhere_is_one_line() -> None:
    decided = HookDecided(
        session_id="s",
        event="PrePrompt",
        decision="deny",
        hooks=(HookSaid(name="manners", decision="deny", reason="be\nkind"),),
    )
    assert describe_hooks(decided) == "PrePrompt: ⚑ hook manners: refused, be kind"
