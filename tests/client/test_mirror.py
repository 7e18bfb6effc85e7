"""What a client knows, event by event."""

from typing import Any

import msgspec
import pytest
from tests.client.standin import message, session

from bullpen.client.mirror import Mirror, grow
from bullpen.client.stream import Frame, decode_event
from bullpen.schema.events import Event, MessageDelta
from bullpen.schema.message import Message
from bullpen.schema.session import Session


def event(kind: str, payload: dict[str, Any], action: str = "created", event_id: str = "e-9") -> Event:
    envelope = {"type": kind, "payload": {"type": action, "payload": payload}}
    found = decode_event(Frame(event_id, msgspec.json.encode(envelope)))
    assert found
    return found


def a_message(text: str = "", **fields: Any) -> Message:
    return msgspec.convert(message("m1", text, **fields), Message)


def a_delta(offset: int, text: str) -> MessageDelta:
    return MessageDelta(session_id="s1", message_id="m1", part="text", offset=offset, text=text)


def loaded(*messages: Message, cursor: str = "e-5") -> Mirror:
    mirror = Mirror()
    with mirror.loading("s1") as hold:
        hold(messages, cursor)
    return mirror


@pytest.mark.parametrize(
    ("have", "offset", "text", "then"),
    [
        ("", 0, "ab", "ab"),
        ("ab", 2, "cd", "abcd"),
        ("ab", 0, "ab", "ab"),
        ("abc", 1, "bcd", "abcd"),
        ("äö", 2, "ü", "äöü"),
        ("ab", 3, "d", None),
        ("ab", 1, "xy", None),
    ],
)
def test_text_grows_where_it_fits(have: str, offset: int, text: str, then: str | None) -> None:
    """What is there already is no error; a hole or another text is."""
    grown = grow(a_message(have), a_delta(offset, text))
    assert (grown.text if grown else None) == then


def test_reasoning_grows_in_a_part_of_its_own() -> None:
    """Both parts appear with their first piece."""
    thought = MessageDelta(session_id="s1", message_id="m1", part="reasoning", offset=0, text="hm")
    first = grow(a_message(), thought)
    assert first
    second = grow(first, a_delta(0, "so"))
    assert second
    assert (second.reasoning, second.text) == ("hm", "so")


def test_a_finished_message_does_not_grow() -> None:
    """Then something is wrong, and the message is read again."""
    assert grow(a_message("ab", finish="end_turn"), a_delta(2, "c")) is None


def test_a_misfit_names_the_session_to_read_again() -> None:
    """An unknown message is a misfit as well."""
    mirror = loaded(a_message("ab"))
    told = [mirror.apply(event("message_delta", msgspec.to_builtins(a_delta(5, "x")), "updated", "e-5.1"))]
    told.append(
        Mirror().apply(event("message_delta", msgspec.to_builtins(a_delta(5, "x")), "updated", "e-5.1"))
    )
    assert told == ["s1", ""]


def test_an_older_event_does_not_undo_an_answer() -> None:
    """The answer held everything up to its cursor."""
    mirror = loaded(a_message("all of it", finish="end_turn"))
    mirror.apply(event("message", message("m1"), "created", "e-4"))
    mirror.apply(event("message", message("m1", "all"), "updated", "e-5.3"))
    assert mirror.messages("s1") == [a_message("all of it", finish="end_turn")]


def test_what_happens_while_an_answer_is_under_way_is_not_lost() -> None:
    """The stream may be ahead of an answer that is read late."""
    mirror = Mirror()
    with mirror.loading("s1") as hold, mirror.loading("s1") as hold_again:
        mirror.apply(event("message", message("m0", "in it", role="user"), "created", "e-5"))
        mirror.apply(event("message", message("m2", "after it", role="user"), "created", "e-6"))
        mirror.apply(event("message_delta", msgspec.to_builtins(a_delta(1, "b")), "updated", "e-6.1"))
        hold([a_message("a")], "e-5")
        first = [m.text for m in mirror.messages("s1")]
        hold_again([a_message("ab")], "e-5")
    assert (first, [m.text for m in mirror.messages("s1")]) == (["ab", "after it"], ["ab", "after it"])


def test_a_newer_event_replaces_the_message() -> None:
    mirror = loaded(a_message("a"))
    mirror.apply(event("message", message("m1", "other", finish="error"), "updated", "e-6"))
    mirror.apply(event("message", message("m2", "hi", role="user"), "created", "e-7"))
    assert [m.text for m in mirror.messages("s1")] == ["other", "hi"]


def test_a_session_seen_from_its_beginning_needs_no_loading() -> None:
    """Its messages are complete without a call."""
    mirror = Mirror()
    mirror.apply(event("session", session("s1", "new")))
    mirror.apply(event("message", message("m1", "hi", role="user"), event_id="e-10"))
    assert [m.text for m in mirror.messages("s1")] == ["hi"]


def test_sessions_are_listed_by_last_use_without_those_of_sub_agents() -> None:
    mirror = Mirror()
    rows = [session("old"), session("new", updated_at=5), session("sub", parent_session_id="new")]
    mirror.hold_sessions([msgspec.convert(row, Session) for row in rows], "e-1")
    assert [s.id for s in mirror.sessions] == ["new", "old"]


def test_a_deleted_session_takes_everything_along() -> None:
    mirror = loaded(a_message("a"))
    mirror.apply(event("session", session("s1")))
    mirror.apply(event("permission_request", permission("p1")))
    mirror.apply(event("session", session("s1"), "deleted", "e-10"))
    assert (mirror.sessions, mirror.messages("s1"), mirror.asks) == ([], [], {})


def permission(ask_id: str, call: str = "c1") -> dict[str, Any]:
    told = {"session_id": "s1", "tool_call_id": call, "tool_name": "bash", "action": "execute", "path": "/"}
    return {"id": ask_id, "description": "", "params": {}, **told}


def test_an_ask_is_open_from_its_request_to_its_notice() -> None:
    """Shown again after a reconnect it is still one ask; "asked" notices end nothing."""
    mirror = Mirror()
    notice = {"tool_call_id": "c1", "granted": False, "denied": False}
    mirror.apply(event("permission_notification", notice))
    mirror.apply(event("permission_request", permission("p1")))
    mirror.apply(event("permission_request", permission("p1"), event_id="e-9.1"))
    assert list(mirror.asks) == ["p1"]
    mirror.apply(event("permission_notification", {**notice, "denied": True}))
    assert mirror.asks == {}


def test_questions_end_by_their_batch() -> None:
    mirror = Mirror()
    mirror.apply(
        event(
            "question_batch_request", {"id": "q1", "session_id": "s1", "tool_call_id": "c", "questions": []}
        )
    )
    assert list(mirror.asks) == ["q1"]
    mirror.apply(event("question_batch_notification", {"batch_id": "q1"}))
    assert mirror.asks == {}


def test_a_run_that_was_folded_ends_with_its_turn() -> None:
    mirror = Mirror()
    end = {"session_id": "s1", "run_id": "a", "message_id": "m", "run_ids": ["b", "c"]}
    mirror.apply(event("run_complete", end, "updated"))
    assert {mirror.end_of(run) is None for run in ("a", "b", "c")} == {False}
    assert mirror.end_of("") is None
