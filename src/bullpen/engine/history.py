"""The stored conversation as the model is to see it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from bullpen.providers.base import AssistantTurn, ToolTurn, Turn, UserTurn
from bullpen.schema.message import (
    Binary,
    BinaryPart,
    Message,
    ReasoningPart,
    ShellCommandPart,
    ToolCall,
    ToolResult,
)

NOT_RUN = "This call was interrupted and has no result; it may be tried again if it is still needed."

_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-_]")


def to_turns(messages: Sequence[Message], *, summary_id: str, images: bool) -> list[Turn]:
    """From the summary on, if there is one; it is presented as something the user said."""
    turns: list[Turn] = []
    for n, message in enumerate(messages):
        match message.role:
            case "user":
                turns.append(user_turn(message, images=images))
            case "assistant" if message.id == summary_id:
                turns.append(UserTurn(message.text))
            case "assistant" if message.is_summary_message:
                pass
            case "assistant":
                turns.extend(_assistant(message, _results(messages, n)))
            case _:
                pass
    return turns


def user_turn(message: Message, *, images: bool) -> UserTurn:
    """Words, attached text files and shell commands as one text; other files beside it."""
    pieces = [message.text.strip()]
    files: list[Binary] = []
    for part in message.parts:
        if isinstance(part, BinaryPart):
            if part.data.mime_type.startswith("text/"):
                pieces.append(_inlined(part.data))
            elif images:
                files.append(part.data)
        elif isinstance(part, ShellCommandPart):
            shell = part.data
            output = _ANSI.sub("", shell.output).rstrip()
            pieces.append(
                f"The user ran this in a shell:\n$ {shell.command}\n{output}\n(exit code {shell.exit_code})"
            )
    return UserTurn("\n\n".join(p for p in pieces if p), tuple(files))


def _inlined(file: Binary) -> str:
    text = file.data.decode("utf-8", "replace")
    return f"The user attached a file:\n<file path='{file.path}'>\n{text}\n</file>"


def _assistant(message: Message, results: dict[str, ToolResult]) -> Iterable[Turn]:
    text, calls = message.text.strip(), tuple(message.tool_calls)
    if not text and not calls and not message.reasoning:
        return
    yield AssistantTurn(text, message.reasoning, _signature(message), calls)
    for call in calls:
        yield ToolTurn(results.get(call.id) or _missing(call))


def _signature(message: Message) -> str:
    return next((p.data.signature for p in message.parts if isinstance(p, ReasoningPart)), "")


def _results(messages: Sequence[Message], index: int) -> dict[str, ToolResult]:
    """The results that belong to the message at `index`: in the rows before the next answer."""
    found: dict[str, ToolResult] = {}
    for n in range(index + 1, len(messages)):
        if messages[n].role == "assistant":
            break
        found.update({r.tool_call_id: r for r in messages[n].tool_results})
    return found


def _missing(call: ToolCall) -> ToolResult:
    return ToolResult(tool_call_id=call.id, name=call.name, content=NOT_RUN, metadata="", is_error=True)
