"""Our conversation in the library's words, and an answer's way back to its vendor.

Answers that came through the library are kept whole, as the library writes them: signed thoughts, encrypted
reasoning, ids and their order are in there. What another interface said is told in plain text and calls.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable

import msgspec
from pydantic import ValidationError
from pydantic_ai.messages import (
    BinaryContent,
    InstructionPart,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from bullpen.providers import base
from bullpen.providers.base import AssistantTurn, Native, ToolTurn, Turn, UserTurn
from bullpen.schema.message import Binary, ToolCall, ToolResult

SEEN = ("image/", "application/pdf")
"""What models take as it is; of anything else they are told the name."""


def parameters_of(request: base.ModelRequest) -> ModelRequestParameters:
    """System prompt and tools."""
    return ModelRequestParameters(
        function_tools=[
            ToolDefinition(
                name=tool.name,
                description=tool.description,
                parameters_json_schema=tool.parameters,
                strict=False,
            )
            for tool in request.tools
        ],
        instruction_parts=[InstructionPart(content=text) for text in request.system if text],
    )


def messages_of(turns: Iterable[Turn], form: str) -> list[ModelMessage]:
    """The conversation. Answers of the same form are sent as they came."""
    messages: list[ModelMessage] = []
    waiting: list[ModelRequestPart] = []
    for turn in turns:
        match turn:
            case UserTurn(text=text, files=files):
                waiting.append(UserPromptPart(content=[text, *map(_file, files)] if files else text))
            case ToolTurn(result=result):
                waiting.append(_result(result))
            case AssistantTurn():
                answer = _answer(turn, form)
                if answer is not None:
                    if waiting:
                        messages.append(ModelRequest(parts=waiting))
                        waiting = []
                    messages.append(answer)
    if waiting:
        messages.append(ModelRequest(parts=waiting))
    return messages


def native_of(response: ModelResponse, form: str) -> Native | None:
    """The answer for the next request, if plain parts cannot say all of it."""
    if not any(_is_more_than_plain(part) for part in response.parts):
        return None
    return Native(form, ModelMessagesTypeAdapter.dump_json([response], exclude_none=True).decode())


def _is_more_than_plain(part: ModelResponsePart) -> bool:
    return isinstance(part, ThinkingPart) or bool(getattr(part, "provider_details", None))


def _answer(turn: AssistantTurn, form: str) -> ModelResponse | None:
    if turn.native is not None and turn.native.form == form:
        kept = _restored(turn.native.content)
        if kept is not None:
            return kept
    parts: list[ModelResponsePart] = [TextPart(turn.text)] if turn.text else []
    parts += map(_call, turn.tool_calls)
    return ModelResponse(parts=parts) if parts else None


def _restored(content: str) -> ModelResponse | None:
    """What was kept; nothing if it was written by a library that this one does not understand."""
    try:
        (message,) = ModelMessagesTypeAdapter.validate_json(content)
    except (ValidationError, ValueError):
        return None
    return message if isinstance(message, ModelResponse) else None


def _call(call: ToolCall) -> ToolCallPart:
    try:
        msgspec.json.decode(call.input, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeError):
        # Hosts refuse a whole conversation for one call whose arguments are no object.
        return ToolCallPart(call.name, "{}", call.id)
    return ToolCallPart(call.name, call.input, call.id)


def _result(result: ToolResult) -> ToolReturnPart:
    text = result.content or "(no output)"
    media = _media(result)
    return ToolReturnPart(
        tool_name=result.name,
        content=[text, media] if media is not None else text,
        tool_call_id=result.tool_call_id,
        outcome="failed" if result.is_error else "success",
    )


def _media(result: ToolResult) -> BinaryContent | None:
    """The picture in a tool result; what is not base64 is left out."""
    if not result.data or not result.mime_type.startswith(SEEN):
        return None
    try:
        return BinaryContent(base64.b64decode(result.data, validate=True), media_type=result.mime_type)
    except ValueError:
        return None


def _file(file: Binary) -> UserContent:
    if file.mime_type.startswith(SEEN):
        return BinaryContent(file.data, media_type=file.mime_type)
    name = file.path.rpartition("/")[2] or "file"
    return f"[{name}, {file.mime_type}, cannot be shown to this model]"
