"""Messages: every part type, to the byte."""

from __future__ import annotations

import msgspec
import pytest
from tests.schema.golden import both_ways, names

from bullpen.schema.api import Attachment
from bullpen.schema.message import (
    BORN_FINISHED,
    EMPTY_MESSAGE,
    Binary,
    BinaryPart,
    Finish,
    FinishPart,
    ImageUrl,
    ImageUrlPart,
    Message,
    Part,
    Reasoning,
    ReasoningPart,
    ShellCommand,
    ShellCommandPart,
    Text,
    TextPart,
    ToolCall,
    ToolCallPart,
    ToolResult,
    ToolResultPart,
    decode_message,
    user_parts,
)

PARTS: list[tuple[Part, str]] = [
    (TextPart(data=Text(text="done")), '{"type":"text","data":{"text":"done"}}'),
    (
        ReasoningPart(data=Reasoning(thinking="hm", signature="")),
        '{"type":"reasoning","data":{"thinking":"hm","signature":""}}',
    ),
    (
        ReasoningPart(data=Reasoning(thinking="hm", signature="s", started_at=1, finished_at=2)),
        '{"type":"reasoning","data":{"thinking":"hm","signature":"s","started_at":1,"finished_at":2}}',
    ),
    (
        ToolCallPart(data=ToolCall(id="call_3", name="write", input="")),
        '{"type":"tool_call","data":{"id":"call_3","name":"write","input":""}}',
    ),
    (
        ToolCallPart(data=ToolCall(id="call_3", name="write", input='{"a":1}', finished=True)),
        r'{"type":"tool_call","data":{"id":"call_3","name":"write","input":"{\"a\":1}","finished":true}}',
    ),
    (
        ToolResultPart(
            data=ToolResult(tool_call_id="call_3", name="write", content="ok", metadata="", is_error=False)
        ),
        (
            '{"type":"tool_result","data":{"tool_call_id":"call_3","name":"write","content":"ok","metadata":"",'
            '"is_error":false}}'
        ),
    ),
    (
        ToolResultPart(
            data=ToolResult(
                tool_call_id="c",
                name="view",
                content="",
                data="aGk=",
                mime_type="image/png",
                metadata="{}",
                is_error=True,
            )
        ),
        (
            '{"type":"tool_result","data":{"tool_call_id":"c","name":"view","content":"","data":"aGk=",'
            '"mime_type":"image/png","metadata":"{}","is_error":true}}'
        ),
    ),
    (BORN_FINISHED, '{"type":"finish","data":{"reason":"stop","time":0}}'),
    (
        FinishPart(data=Finish(reason="error", time=5, message="Bad Request", details="why")),
        '{"type":"finish","data":{"reason":"error","time":5,"message":"Bad Request","details":"why"}}',
    ),
    (
        BinaryPart(data=Binary(path="/x/a.png", mime_type="image/png", data=b"hi")),
        '{"type":"binary","data":{"Path":"/x/a.png","MIMEType":"image/png","Data":"aGk="}}',
    ),
    (ImageUrlPart(data=ImageUrl(url="https://i")), '{"type":"image_url","data":{"url":"https://i"}}'),
    (
        ShellCommandPart(data=ShellCommand(command="ls", output="a\n", exit_code=0)),
        r'{"type":"shell_command","data":{"command":"ls","output":"a\n","exit_code":0}}',
    ),
]


@pytest.mark.parametrize(("part", "text"), PARTS, ids=names([part for part, _ in PARTS]))
def test_a_part_both_ways(part: Part, text: str) -> None:
    both_ways(part, text)


def test_a_message_both_ways() -> None:
    message = Message(
        parts=tuple(part for part, _ in PARTS),
        id="M2",
        role="assistant",
        session_id="S1",
        model="m",
        provider="p",
        created_at=1794703735,
        updated_at=1794703736,
        is_summary_message=True,
    )
    parts = ",".join(text for _, text in PARTS)
    both_ways(
        message,
        f'{{"parts":[{parts}],"id":"M2","role":"assistant","session_id":"S1","model":"m","provider":"p",'
        '"created_at":1794703735,"updated_at":1794703736,"is_summary_message":true}',
    )


def test_the_empty_message_has_parts() -> None:
    """Without them a client of the reference loses the whole event."""
    both_ways(
        EMPTY_MESSAGE,
        '{"parts":[],"id":"","role":"","session_id":"","model":"","provider":"","created_at":0,"updated_at":0}',
    )


def test_an_unknown_part_type_is_an_error() -> None:
    """The list is closed: a new type would cost other clients the whole message."""
    with pytest.raises(msgspec.ValidationError):
        decode_message(b'{"parts":[{"type":"video","data":{}}]}')


def test_an_unknown_field_is_skipped() -> None:
    """An older client reads what a newer server adds."""
    raw = b'{"type":"text","data":{"text":"a","colour":"red"},"more":1}'
    assert msgspec.json.decode(raw, type=TextPart) == TextPart(data=Text(text="a"))


def test_a_prompt_becomes_text_files_and_a_finish() -> None:
    file = Attachment(file_path="/x/a.txt", file_name="a.txt", mime_type="text/plain", content=b"hi")
    assert user_parts("go", (file,)) == (
        TextPart(data=Text(text="go")),
        BinaryPart(data=Binary(path="/x/a.txt", mime_type="text/plain", data=b"hi")),
        BORN_FINISHED,
    )


def test_a_message_is_asked_for_its_parts() -> None:
    message = EMPTY_MESSAGE.with_parts(tuple(part for part, _ in PARTS), updated_at=9)
    assert (message.text, message.reasoning, message.updated_at) == ("done", "hmhm", 9)
    assert [call.input for call in message.tool_calls] == ["", '{"a":1}']
    assert [result.name for result in message.tool_results] == ["write", "view"]
    assert message.finish == Finish(reason="error", time=5, message="Bad Request", details="why")
    assert EMPTY_MESSAGE.finish is None
