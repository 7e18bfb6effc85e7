"""Asks and their answers, to the byte."""

from __future__ import annotations

from typing import Any

import pytest
from tests.schema.golden import both_ways, names

from bullpen.schema.asks import (
    Choice,
    Grant,
    PermissionNotification,
    PermissionRequest,
    Question,
    QuestionBatch,
    QuestionBatchNotification,
    QuestionResponse,
)

ASKED: dict[str, Any] = {
    "id": "P1",
    "session_id": "S1",
    "tool_call_id": "call_3",
    "description": "d",
    "action": "run",
    "path": "/x",
}
HEAD = '{"id":"P1","session_id":"S1","tool_call_id":"call_3"'

NOUNS: list[tuple[Any, str]] = [
    (
        PermissionRequest(**ASKED, tool_name="bash", params={"command": "ls"}),
        HEAD + ',"tool_name":"bash","description":"d","action":"run","params":{"command":"ls"},"path":"/x"}',
    ),
    (
        PermissionRequest(**ASKED, tool_name="mcp_docs_find", params='{"q":1}'),
        HEAD
        + r',"tool_name":"mcp_docs_find","description":"d","action":"run","params":"{\"q\":1}","path":"/x"}',
    ),
    (
        PermissionRequest(**ASKED, tool_name="x", params=None),
        HEAD + ',"tool_name":"x","description":"d","action":"run","params":null,"path":"/x"}',
    ),
    (
        PermissionNotification(tool_call_id="call_3", granted=False, denied=False),
        '{"tool_call_id":"call_3","granted":false,"denied":false}',
    ),
    (
        PermissionNotification(tool_call_id="call_3", granted=True, denied=False, answered_by="ana"),
        '{"tool_call_id":"call_3","granted":true,"denied":false,"answered_by":"ana"}',
    ),
    (
        QuestionBatch(
            id="B1",
            session_id="S1",
            tool_call_id="call_4",
            questions=(
                Question(id="q1", type="yes_no", question="Go?"),
                Question(
                    id="q2",
                    type="single_choice",
                    label="Colour",
                    question="Which?",
                    description="d",
                    choices=(Choice(id="r", label="Red"), Choice(id="b", label="Blue", description="sky")),
                ),
            ),
            confirm_title="Ready to go?",
            confirm_description="Review your answers above and confirm.",
        ),
        (
            '{"id":"B1","session_id":"S1","tool_call_id":"call_4","questions":['
            '{"id":"q1","type":"yes_no","question":"Go?"},'
            '{"id":"q2","type":"single_choice","label":"Colour","question":"Which?","description":"d",'
            '"choices":[{"id":"r","label":"Red"},{"id":"b","label":"Blue","description":"sky"}]}],'
            '"confirm_title":"Ready to go?","confirm_description":"Review your answers above and confirm."}'
        ),
    ),
    (QuestionBatchNotification(batch_id="B1"), '{"batch_id":"B1"}'),
    (
        QuestionResponse(request_id="q2", selected_ids=("r",), fill_in_text="t", yes=False, notes={"r": "n"}),
        '{"request_id":"q2","selected_ids":["r"],"fill_in_text":"t","yes":false,"notes":{"r":"n"}}',
    ),
    (QuestionResponse(), "{}"),
    (
        Grant(
            id="G", scope="session", session_id="S1", tool_name="bash", action="run", path="/x", created_at=5
        ),
        '{"id":"G","scope":"session","session_id":"S1","tool_name":"bash","action":"run","path":"/x","created_at":5}',
    ),
]


@pytest.mark.parametrize(("noun", "text"), NOUNS, ids=names([noun for noun, _ in NOUNS]))
def test_an_ask_both_ways(noun: Any, text: str) -> None:
    both_ways(noun, text)
