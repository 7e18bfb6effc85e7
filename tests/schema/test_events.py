"""Events: the frames of one turn as the wire describes them, and every kind both ways."""

from __future__ import annotations

import msgspec
import pytest
from tests.schema.golden import both_ways, names
from tests.schema.test_session import SESSION

from bullpen.schema.agent import QueuedPrompt, SkillState
from bullpen.schema.asks import (
    PermissionNotification,
    PermissionRequest,
    PermissionsSkip,
    QuestionBatch,
    QuestionBatchNotification,
)
from bullpen.schema.changes import TurnChanges
from bullpen.schema.choices import Budget, SessionChoices
from bullpen.schema.events import (
    CLASSES,
    KINDS,
    AgentEvent,
    Compacted,
    ConfigChanged,
    HookDecided,
    HookSaid,
    LspEvent,
    McpEvent,
    MessageDelta,
    Payload,
    QueueChanged,
    Resync,
    RunComplete,
    RunWaiting,
    SkillsEvent,
    UpdateAvailable,
    agent_error,
    agent_finished,
    frame,
)
from bullpen.schema.jobs import CommandOutput, Job, SandboxState
from bullpen.schema.message import (
    BORN_FINISHED,
    EMPTY_MESSAGE,
    Finish,
    FinishPart,
    Message,
    Text,
    TextPart,
    ToolCall,
    ToolCallPart,
    ToolResult,
    ToolResultPart,
)
from bullpen.schema.session import FileVersion, Pin
from bullpen.schema.wire import Wire, encode

AT = 1794703735
EMPTY = (
    '{"parts":[],"id":"","role":"","session_id":"","model":"","provider":"","created_at":0,"updated_at":0}'
)
WRITE = '{"file_path":"/x/n.txt","content":"one\\n"}'
WRITE_QUOTED = r"{\"file_path\":\"/x/n.txt\",\"content\":\"one\\n\"}"


def message(number: int, role: str, *parts: object) -> Message:
    model = ("m", "p") if role == "assistant" else ("", "")
    raw = {
        "parts": parts,
        "id": f"M{number}",
        "role": role,
        "session_id": "S1",
        "model": model[0],
        "provider": model[1],
        "created_at": AT,
        "updated_at": AT,
    }
    return msgspec.convert(raw, Message, from_attributes=True)


def tail(number: int, role: str) -> str:
    model = '"m","provider":"p"' if role == "assistant" else '"","provider":""'
    return f'"id":"M{number}","role":"{role}","session_id":"S1","model":{model},"created_at":{AT},"updated_at":{AT}}}'


CALL = ToolCallPart(data=ToolCall(id="call_3", name="write", input=WRITE, finished=True))
CALL_TEXT = (
    '{"type":"tool_call","data":{"id":"call_3","name":"write","input":"'
    + WRITE_QUOTED
    + '","finished":true}}'
)
STOP_TEXT = '{"type":"finish","data":{"reason":"stop","time":0}}'

TURN: list[tuple[str, Wire, str]] = [
    # One prompt with one tool call, as any stream sees it: wire.md, section 11.
    (
        "created",
        message(1, "user", TextPart(data=Text(text="…")), BORN_FINISHED),
        '{"parts":[{"type":"text","data":{"text":"…"}},' + STOP_TEXT + "]," + tail(1, "user"),
    ),
    ("created", message(2, "assistant"), '{"parts":[],' + tail(2, "assistant")),
    (
        "updated",
        message(2, "assistant", ToolCallPart(data=ToolCall(id="call_3", name="write", input=""))),
        '{"parts":[{"type":"tool_call","data":{"id":"call_3","name":"write","input":""}}],'
        + tail(2, "assistant"),
    ),
    ("updated", message(2, "assistant", CALL), '{"parts":[' + CALL_TEXT + "]," + tail(2, "assistant")),
    (
        "created",
        PermissionNotification(tool_call_id="call_3", granted=False, denied=False),
        '{"tool_call_id":"call_3","granted":false,"denied":false}',
    ),
    (
        "created",
        PermissionRequest(
            id="P1",
            session_id="S1",
            tool_call_id="call_3",
            tool_name="write",
            description="Create file /x/n.txt",
            action="write",
            params={"file_path": "/x/n.txt", "new_content": "one\n"},
            path="/x",
        ),
        (
            '{"id":"P1","session_id":"S1","tool_call_id":"call_3","tool_name":"write",'
            '"description":"Create file /x/n.txt","action":"write",'
            r'"params":{"file_path":"/x/n.txt","new_content":"one\n"},"path":"/x"}'
        ),
    ),
    (
        "created",
        PermissionNotification(tool_call_id="call_3", granted=True, denied=False),
        '{"tool_call_id":"call_3","granted":true,"denied":false}',
    ),
    (
        "created",
        FileVersion(
            id="F0", session_id="S1", path="/x/n.txt", content="", version=0, created_at=AT, updated_at=AT
        ),
        (
            '{"id":"F0","session_id":"S1","path":"/x/n.txt","content":"","version":0,'
            f'"created_at":{AT},"updated_at":{AT}}}'
        ),
    ),
    (
        "created",
        message(
            3,
            "tool",
            ToolResultPart(
                data=ToolResult(
                    tool_call_id="call_3",
                    name="write",
                    content="…",
                    metadata='{"additions":1,"removals":0}',
                    is_error=False,
                )
            ),
            BORN_FINISHED,
        ),
        '{"parts":[{"type":"tool_result","data":{"tool_call_id":"call_3","name":"write","content":"…",'
        r'"metadata":"{\"additions\":1,\"removals\":0}","is_error":false}},'
        + STOP_TEXT
        + "],"
        + tail(3, "tool"),
    ),
    (
        "updated",
        SESSION,
        (
            '{"id":"S1","parent_session_id":"","title":"New Session","message_count":3,"prompt_tokens":100,'
            '"completion_tokens":10,"summary_message_id":"","cost":0.25,"created_at":1794703735,'
            '"updated_at":1794703736,"is_busy":false,"attached_clients":0}'
        ),
    ),
    (
        "updated",
        message(2, "assistant", CALL, FinishPart(data=Finish(reason="tool_use", time=AT))),
        '{"parts":['
        + CALL_TEXT
        + f',{{"type":"finish","data":{{"reason":"tool_use","time":{AT}}}}}],'
        + tail(2, "assistant"),
    ),
    (
        "updated",
        message(
            4,
            "assistant",
            TextPart(data=Text(text="done")),
            FinishPart(data=Finish(reason="end_turn", time=AT)),
        ),
        '{"parts":[{"type":"text","data":{"text":"done"}},'
        f'{{"type":"finish","data":{{"reason":"end_turn","time":{AT}}}}}],' + tail(4, "assistant"),
    ),
    (
        "created",
        agent_finished("S1", "…"),
        f'{{"type":"agent_finished","message":{EMPTY},"session_id":"S1","session_title":"…"}}',
    ),
    (
        "updated",
        RunComplete(session_id="S1", run_id="r1", message_id="M4", text="done"),
        '{"session_id":"S1","run_id":"r1","message_id":"M4","text":"done"}',
    ),
]

OTHERS: list[tuple[str, Wire, str]] = [
    (
        "updated",
        RunComplete(session_id="S1", message_id="", error="boom", cancelled=True, run_ids=("r2", "r3")),
        '{"session_id":"S1","message_id":"","error":"boom","cancelled":true,"run_ids":["r2","r3"]}',
    ),
    (
        "created",
        agent_error("S1", "r1", "boom"),
        f'{{"type":"error","message":{EMPTY},"error":"boom","run_id":"r1","session_id":"S1"}}',
    ),
    (
        "created",
        QuestionBatch(id="B1", session_id="S1", tool_call_id="c", questions=()),
        '{"id":"B1","session_id":"S1","tool_call_id":"c","questions":[]}',
    ),
    ("created", QuestionBatchNotification(batch_id="B1"), '{"batch_id":"B1"}'),
    ("updated", ConfigChanged(workspace_id="W1"), '{"workspace_id":"W1"}'),
    (
        "updated",
        ConfigChanged(workspace_id="W1", reason="files", error="e", warnings=("w",)),
        '{"workspace_id":"W1","reason":"files","error":"e","warnings":["w"]}',
    ),
    (
        "updated",
        SkillsEvent(states=(SkillState(name="k", path="/k", state=0),)),
        '{"states":[{"name":"k","path":"/k","state":0}]}',
    ),
    (
        "updated",
        LspEvent(type="state_changed", name="gopls", state=2),
        '{"type":"state_changed","name":"gopls","state":2}',
    ),
    (
        "updated",
        McpEvent(type="tools_list_changed", name="docs", state="connected", tool_count=3),
        '{"type":"tools_list_changed","name":"docs","state":"connected","tool_count":3}',
    ),
    (
        "updated",
        UpdateAvailable(current_version="1", latest_version="2", is_development=False),
        '{"current_version":"1","latest_version":"2","is_development":false}',
    ),
    (
        "updated",
        MessageDelta(session_id="S1", message_id="M2", part="text", offset=0, text="do"),
        '{"session_id":"S1","message_id":"M2","part":"text","offset":0,"text":"do"}',
    ),
    ("created", Resync(reason="too old", cursor="e-9"), '{"reason":"too old","cursor":"e-9"}'),
    (
        "updated",
        QueueChanged(
            session_id="S1",
            prompts=(QueuedPrompt(seq=7, session_id="S1", run_id="r", text="later", created_at=5),),
        ),
        '{"session_id":"S1","prompts":[{"seq":7,"session_id":"S1","run_id":"r","text":"later","created_at":5}]}',
    ),
    (
        "updated",
        SessionChoices(session_id="S1", budget=Budget(run=2)),
        '{"session_id":"S1","budget":{"run":2}}',
    ),
    (
        "updated",
        RunWaiting(session_id="S1", reason="busy", until=9.5, attempt=1),
        '{"session_id":"S1","reason":"busy","until":9.5,"attempt":1}',
    ),
    (
        "created",
        Compacted(session_id="S1", message_id="M9", reason="full", tokens_before=900, tokens_after=90),
        '{"session_id":"S1","message_id":"M9","reason":"full","tokens_before":900,"tokens_after":90}',
    ),
    (
        "created",
        Pin(id="P1", session_id="S1", text="mind the gap", created_at=5),
        '{"id":"P1","session_id":"S1","text":"mind the gap","created_at":5}',
    ),
    (
        "created",
        HookDecided(
            session_id="S1",
            event="PreTurn",
            decision="deny",
            reason="late",
            hooks=(HookSaid(name="hours", decision="deny", reason="late"),),
        ),
        (
            '{"session_id":"S1","event":"PreTurn","decision":"deny","reason":"late",'
            '"hooks":[{"name":"hours","decision":"deny","reason":"late"}]}'
        ),
    ),
    (
        "updated",
        Job(
            id="00A",
            session_id="S1",
            command="make",
            working_dir="/x",
            running=False,
            exit_code=2,
            output_bytes=7,
            started_at=1.5,
            ended_at=2.5,
        ),
        (
            '{"id":"00A","session_id":"S1","command":"make","working_dir":"/x","running":false,"exit_code":2,'
            '"output_bytes":7,"started_at":1.5,"ended_at":2.5}'
        ),
    ),
    (
        "updated",
        CommandOutput(session_id="S1", tool_call_id="c1", offset=3, text="50 %"),
        '{"session_id":"S1","tool_call_id":"c1","offset":3,"text":"50 %"}',
    ),
    (
        "created",
        TurnChanges(
            session_id="S1",
            turn=7,
            action="undone",
            created=0,
            modified=1,
            deleted=0,
            paths=("a",),
            author="ana",
        ),
        '{"session_id":"S1","turn":7,"action":"undone","created":0,"modified":1,"deleted":0,"paths":["a"],"author":"ana"}',
    ),
    (
        "updated",
        SandboxState(mode="auto", network=False, why="no such thing"),
        '{"mode":"auto","network":false,"why":"no such thing"}',
    ),
    (
        "updated",
        PermissionsSkip(skip=False, changed_by="ana"),
        '{"skip":false,"changed_by":"ana"}',
    ),
]


@pytest.mark.parametrize(
    ("action", "payload", "text"), TURN + OTHERS, ids=names([t[1] for t in TURN + OTHERS])
)
def test_an_event_both_ways(action: str, payload: Wire, text: str) -> None:
    """Payload and frame, to the byte."""
    both_ways(payload, text)
    kind = KINDS[type(payload)]
    line = f'{{"type":"{kind}","payload":{{"type":"{action}","payload":{text}}}}}'
    assert frame("e1-5", kind, action, encode(payload)).decode() == f"id: e1-5\ndata: {line}\n\n"


def test_every_kind_is_in_these_tests() -> None:
    assert {type(payload) for _, payload, _ in TURN + OTHERS} == set(KINDS)


def test_kinds_and_payloads_name_the_same_classes() -> None:
    """A new event is entered in both."""
    assert set(KINDS) == set(Payload.__args__)
    assert {cls: kind for kind, cls in CLASSES.items()} == KINDS


def test_an_agent_event_always_carries_a_message_with_parts() -> None:
    """A client of the reference loses the whole event otherwise."""
    assert agent_finished("S1", "").message == EMPTY_MESSAGE
    assert AgentEvent.__struct_encode_fields__.index("message") == 1
