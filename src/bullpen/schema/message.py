"""Messages and their parts.

A part is `{"type": T, "data": {…}}`. The reference's client drops a whole message when it meets a part
type it does not know, so this list is closed; new facts become new fields of `data`.
"""

from __future__ import annotations

import uuid
from typing import Any, Literal

import msgspec

from bullpen.schema.wire import Wire

Role = Literal["user", "assistant", "tool", "system"]
FinishReason = Literal[
    "end_turn", "tool_use", "max_tokens", "canceled", "error", "content_filter", "unknown", "stop"
]

CANCELLED_BY_USER = "User canceled request"
"""The `message` of every `canceled` finish; clients compare it."""


class Text(Wire, frozen=True, kw_only=True):
    text: str


class Reasoning(Wire, frozen=True, kw_only=True):
    thinking: str
    signature: str
    started_at: int = 0
    finished_at: int = 0


class ToolCall(Wire, frozen=True, kw_only=True):
    """`input` is JSON text and stays empty until the call is complete."""

    id: str
    name: str
    input: str
    finished: bool = False


class ToolResult(Wire, frozen=True, kw_only=True):
    """`metadata` is JSON text for display; the model never sees it."""

    tool_call_id: str
    name: str
    content: str
    data: str = ""
    mime_type: str = ""
    metadata: str
    is_error: bool


class Finish(Wire, frozen=True, kw_only=True):
    reason: FinishReason
    time: int
    message: str = ""
    details: str = ""


class Binary(
    Wire, frozen=True, kw_only=True, rename={"path": "Path", "mime_type": "MIMEType", "data": "Data"}
):
    path: str
    mime_type: str
    data: bytes


class ImageUrl(Wire, frozen=True, kw_only=True):
    url: str
    detail: str = ""


class ShellCommand(Wire, frozen=True, kw_only=True):
    command: str
    output: str
    exit_code: int


class TextPart(Wire, frozen=True, kw_only=True, tag_field="type", tag="text"):
    data: Text


class ReasoningPart(Wire, frozen=True, kw_only=True, tag_field="type", tag="reasoning"):
    data: Reasoning


class ToolCallPart(Wire, frozen=True, kw_only=True, tag_field="type", tag="tool_call"):
    data: ToolCall


class ToolResultPart(Wire, frozen=True, kw_only=True, tag_field="type", tag="tool_result"):
    data: ToolResult


class FinishPart(Wire, frozen=True, kw_only=True, tag_field="type", tag="finish"):
    data: Finish


class BinaryPart(Wire, frozen=True, kw_only=True, tag_field="type", tag="binary"):
    data: Binary


class ImageUrlPart(Wire, frozen=True, kw_only=True, tag_field="type", tag="image_url"):
    data: ImageUrl


class ShellCommandPart(Wire, frozen=True, kw_only=True, tag_field="type", tag="shell_command"):
    data: ShellCommand


Part = (
    TextPart
    | ReasoningPart
    | ToolCallPart
    | ToolResultPart
    | FinishPart
    | BinaryPart
    | ImageUrlPart
    | ShellCommandPart
)

BORN_FINISHED = FinishPart(data=Finish(reason="stop", time=0))
"""User and tool messages are complete from birth and carry this last part."""


class Message(Wire, frozen=True, kw_only=True):
    parts: tuple[Part, ...]
    id: str
    role: Role | Literal[""]
    session_id: str
    model: str
    provider: str
    created_at: int
    updated_at: int
    is_summary_message: bool = False
    author: str = ""
    """Who sent it, as they named themselves; ours, and only on what people wrote."""

    @property
    def text(self) -> str:
        return "".join(p.data.text for p in self.parts if isinstance(p, TextPart))

    @property
    def reasoning(self) -> str:
        return "".join(p.data.thinking for p in self.parts if isinstance(p, ReasoningPart))

    @property
    def finish(self) -> Finish | None:
        return next((p.data for p in reversed(self.parts) if isinstance(p, FinishPart)), None)

    @property
    def tool_calls(self) -> list[ToolCall]:
        return [p.data for p in self.parts if isinstance(p, ToolCallPart)]

    @property
    def tool_results(self) -> list[ToolResult]:
        return [p.data for p in self.parts if isinstance(p, ToolResultPart)]

    def with_parts(self, parts: tuple[Part, ...], updated_at: int) -> Message:
        return msgspec.structs.replace(self, parts=parts, updated_at=updated_at)


def new_message(
    role: Role,
    session_id: str,
    parts: tuple[Part, ...],
    now: int,
    *,
    model: str = "",
    provider: str = "",
    author: str = "",
    is_summary: bool = False,
) -> Message:
    """A message that has just come into being."""
    return Message(
        parts=parts,
        id=str(uuid.uuid4()),
        role=role,
        session_id=session_id,
        model=model,
        provider=provider,
        created_at=now,
        updated_at=now,
        is_summary_message=is_summary,
        author=author,
    )


EMPTY_MESSAGE = Message(
    parts=(), id="", role="", session_id="", model="", provider="", created_at=0, updated_at=0
)
"""Fills `agent_event.message`, which clients insist on decoding."""

decode_message = msgspec.json.Decoder(Message).decode


def user_parts(text: str, attachments: tuple[Any, ...]) -> tuple[Part, ...]:
    """The parts of a stored prompt: its text, then one binary part per attachment."""
    files = (
        BinaryPart(data=Binary(path=a.file_path, mime_type=a.mime_type, data=a.content)) for a in attachments
    )
    return (TextPart(data=Text(text=text)), *files, BORN_FINISHED)
