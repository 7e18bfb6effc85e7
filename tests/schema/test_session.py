"""Sessions and file versions, to the byte."""

from __future__ import annotations

from tests.schema.golden import both_ways

from bullpen.schema.session import FileVersion, HistoryItem, SearchHit, Session, Todo

SESSION = Session(
    id="S1",
    parent_session_id="",
    title="New Session",
    message_count=3,
    prompt_tokens=100,
    completion_tokens=10,
    summary_message_id="",
    cost=0.25,
    created_at=1794703735,
    updated_at=1794703736,
    is_busy=False,
    attached_clients=0,
)


def test_a_session_both_ways() -> None:
    """Everything is there, zero or not; only empty todos are left out."""
    both_ways(
        SESSION,
        '{"id":"S1","parent_session_id":"","title":"New Session","message_count":3,"prompt_tokens":100,'
        '"completion_tokens":10,"summary_message_id":"","cost":0.25,"created_at":1794703735,'
        '"updated_at":1794703736,"is_busy":false,"attached_clients":0}',
    )


def test_a_todo_both_ways() -> None:
    both_ways(
        Todo(content="Build it", status="in_progress", active_form="Building it"),
        '{"content":"Build it","status":"in_progress","active_form":"Building it"}',
    )


FILE = {"id": "F1", "session_id": "S1", "path": "/x/n.txt", "content": "one\n"}


def test_a_file_version_both_ways() -> None:
    both_ways(
        FileVersion(**FILE, version=1, created_at=5, updated_at=6),
        r'{"id":"F1","session_id":"S1","path":"/x/n.txt","content":"one\n","version":1,"created_at":5,"updated_at":6}',
    )


def test_history_has_the_capitals_of_the_reference() -> None:
    both_ways(
        HistoryItem(**FILE, version=0, created_at=5, updated_at=6),
        r'{"ID":"F1","SessionID":"S1","Path":"/x/n.txt","Content":"one\n","Version":0,"CreatedAt":5,"UpdatedAt":6}',
    )


def test_a_search_hit_both_ways() -> None:
    both_ways(
        SearchHit(session_id="S1", message_id="M1", role="user", snippet="a [word]", created_at=5),
        '{"session_id":"S1","message_id":"M1","role":"user","snippet":"a [word]","created_at":5}',
    )
