"""The rules of the wire for reading and writing JSON."""

from __future__ import annotations

import contextlib
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from bullpen.errors import UndecodableBody
from bullpen.schema.api import (
    Attachment,
    ConfigSet,
    GrantedPermission,
    NewPrompt,
    NewSession,
    NewWorkspace,
    PermissionAnswer,
    QuestionAnswer,
    SessionChange,
    Skip,
)
from bullpen.schema.asks import QuestionResponse
from bullpen.schema.session import Todo
from bullpen.schema.wire import INT64_MAX, Wire, decode_body, encode

BODIES: list[type[Wire]] = [
    NewPrompt,
    NewSession,
    NewWorkspace,
    PermissionAnswer,
    QuestionAnswer,
    SessionChange,
    ConfigSet,
]


class Sample(Wire, frozen=True, kw_only=True):
    always: str
    seldom: str = ""
    many: tuple[int, ...] = ()
    known: bool = False


def test_a_field_with_a_default_is_left_out_while_it_has_it() -> None:
    assert encode(Sample(always="")) == b'{"always":""}'
    full = Sample(always="a", seldom="b", many=(1,), known=True)
    assert encode(full) == b'{"always":"a","seldom":"b","many":[1],"known":true}'


def test_a_json_value_is_one_line() -> None:
    """A frame of the stream is one line: no text may break it."""
    assert b"\n" not in encode(Sample(always="a\nb\r\u2028c"))


@pytest.mark.parametrize(
    ("raw", "title"),
    [
        (b'{"title":"plain"}', "plain"),
        (b'{"TITLE":"capitals"} x', "capitals"),
        (b'{"Title":"mixed","other":1} x', "mixed"),
        (b'{"title":"first"} trailing', "first"),
        (b'{"title":"first"}{"title":"second"}', "first"),
        (b'  \r\n\t{"title":"blanks"}\n', "blanks"),
        (b'{"title":null}', ""),
        (b"{}", ""),
        (b"null", ""),
        (b'{"title":"\\ud800"}', "?"),
        (b'{"title":"a\xff"} x', "a\ufffd"),
    ],
)
def test_what_the_wire_forgives(raw: bytes, title: str) -> None:
    """Case of keys, unknown keys, null, text after the value, and bytes that are no text."""
    assert decode_body(raw, NewSession) == NewSession(title=title)


def test_an_underscore_in_a_key_counts() -> None:
    assert decode_body(b'{"SESSIONID":"a"} x', NewPrompt) == NewPrompt()


def test_forgiveness_reaches_into_lists_and_objects() -> None:
    raw = b"""{"Permission": {"ID": "p", "params": {"Keep": null, "CASE": 1}}, "action": "deny", "reason": null}"""
    assert decode_body(raw, PermissionAnswer) == PermissionAnswer(
        permission=GrantedPermission(id="p", params={"Keep": None, "CASE": 1}), action="deny"
    )
    raw = b"""{"responses": [{"REQUEST_ID": "q", "selected_ids": null, "notes": {"ID": "n"}}]}"""
    assert decode_body(raw, QuestionAnswer) == QuestionAnswer(
        responses=(QuestionResponse(request_id="q", notes={"ID": "n"}),)
    )


def test_forgiveness_reaches_into_optional_lists() -> None:
    raw = b"""{"Todos": [{"Content": "c", "status": "pending", "ACTIVE_FORM": "f"}]} x"""
    assert decode_body(raw, SessionChange) == SessionChange(
        todos=(Todo(content="c", status="pending", active_form="f"),)
    )


@pytest.mark.parametrize("raw", [b'{"TITLE":"t"}', b'{"Title":"t","other":1}'])
def test_the_case_of_a_key_alone_is_forgiven(raw: bytes) -> None:
    """Also where nothing else is wrong with the body, so that the strict decoder does not complain."""
    assert decode_body(raw, NewSession) == NewSession(title="t")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b" ",
        b"{",
        b"[",
        b"{nope",
        b"[]",
        b"5",
        b'"text"',
        b'{"title":5}',
        b'{"title":["a"]}',
        b'{"title":NaN}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"title":"\xff',
    ],
)
def test_what_the_wire_does_not_forgive(raw: bytes) -> None:
    with pytest.raises(UndecodableBody, match="failed to decode request"):
        decode_body(raw, NewSession)


def test_bad_base64_is_refused() -> None:
    with pytest.raises(UndecodableBody):
        decode_body(b'{"attachments":[{"content":"!"}]}', NewPrompt)
    assert decode_body(b'{"attachments":[{"content":"aGk="}]}', NewPrompt) == NewPrompt(
        attachments=(Attachment(content=b"hi"),)
    )


@pytest.mark.parametrize("number", [INT64_MAX + 1, -INT64_MAX - 2, 10**30])
def test_a_number_past_64_bits_is_refused(number: int) -> None:
    """SQLite would not take it."""
    with pytest.raises(UndecodableBody):
        decode_body(b'{"scope":%d}' % number, ConfigSet)


def test_zero_values_are_written_where_the_wire_has_them() -> None:
    assert encode(Skip()) == b'{"skip":false}'


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode), st.sampled_from(BODIES))
def test_any_bytes_are_a_body_or_undecodable(raw: bytes, kind: type[Wire]) -> None:
    """Nothing else is ever raised, so that no bytes make a 500."""
    with contextlib.suppress(UndecodableBody):
        assert isinstance(decode_body(raw, kind), kind)


FIELDS = st.sampled_from(
    [
        "title",
        "TODOS",
        "content",
        "status",
        "session_id",
        "Prompt",
        "attachments",
        "responses",
        "notes",
        "yes",
    ]
)
JSON: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12) | FIELDS, inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON, st.sampled_from(BODIES))
def test_any_json_is_a_body_or_undecodable(value: Any, kind: type[Wire]) -> None:
    """And what was taken can be written again."""
    try:
        body = decode_body(encode(value), kind)
    except UndecodableBody:
        return
    assert decode_body(encode(body), kind) == body
