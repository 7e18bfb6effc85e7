"""Messages and a scene to draw them in, for tests that need no server."""

from __future__ import annotations

import json
from typing import Any

from rich.style import Style

from bullpen.schema.message import (
    BORN_FINISHED,
    Finish,
    FinishPart,
    FinishReason,
    Message,
    Part,
    Text,
    TextPart,
    ToolCall,
    ToolCallPart,
    ToolResult,
    ToolResultPart,
    new_message,
)
from bullpen.tui.themes import DARK
from bullpen.tui.transcript.drawing import draw
from bullpen.tui.transcript.items import Book, Item
from bullpen.tui.transcript.palette import Palette, palette
from bullpen.tui.transcript.scene import Scene


def colours() -> Palette:
    """The dark theme."""
    return palette(Style.null(), {**DARK.to_color_system().generate(), **DARK.variables})


def scene(width: int = 80, **more: Any) -> Scene:
    return Scene(width, colours(), me="ana", **more)


def prompt(text: str, *more: Part, author: str = "ana", at: int = 100) -> Message:
    return new_message("user", "s", (TextPart(data=Text(text=text)), *more, BORN_FINISHED), at, author=author)


def answer(*parts: Part, reason: FinishReason | None = "end_turn", time: int = 112, **told: str) -> Message:
    """An answer; without a reason one that still grows."""
    end = (FinishPart(data=Finish(reason=reason, time=time, **told)),) if reason else ()
    return new_message("assistant", "s", (*parts, *end), 105, model="player", provider="script")


def said(text: str) -> TextPart:
    return TextPart(data=Text(text=text))


def call(name: str, arguments: Any = None, call_id: str = "c1", *, finished: bool = True) -> ToolCallPart:
    given = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return ToolCallPart(data=ToolCall(id=call_id, name=name, input=given, finished=finished))


def result(
    content: str,
    about: Any = None,
    call_id: str = "c1",
    *,
    name: str = "",
    is_error: bool = False,
    **more: str,
) -> Message:
    told = about if isinstance(about, str) else json.dumps(about) if about else ""
    data = ToolResult(
        tool_call_id=call_id, name=name, content=content, metadata=told, is_error=is_error, **more
    )
    return new_message("tool", "s", (ToolResultPart(data=data), BORN_FINISHED), 110)


def items(*messages: Message) -> list[Item]:
    book = Book()
    book.load(messages)
    return book.items


def shown(*messages: Message, **more: Any) -> str:
    """What can be read of the items of these messages."""
    at = scene(**more)
    return "\n".join(strip.text.rstrip() for item in items(*messages) for strip in draw(item, at)).rstrip()


def used(
    name: str, arguments: Any, content: str, about: Any = None, *, is_error: bool = False, **more: Any
) -> str:
    """A call and its result as they are shown."""
    asked = answer(call(name, arguments), reason="tool_use")
    return shown(asked, result(content, about, is_error=is_error), **more)
