"""Messages as running text: each call prints what has come since the last one.

It keeps what was printed of each message, so it may be shown any state of it at any time, in pieces or whole,
after a reconnect or a reload, and nothing is printed twice or left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bullpen.present.describe import describe_call, describe_finish, describe_result, hook_lines
from bullpen.present.inert import cut, inert, inert_line
from bullpen.schema.message import (
    BinaryPart,
    Message,
    ReasoningPart,
    ShellCommandPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)


@dataclass(slots=True)
class _Shown:
    text: str = ""
    parts: set[str] = field(default_factory=set)


class Transcript:
    """What of a session has been printed."""

    def __init__(self) -> None:
        self._shown: dict[str, _Shown] = {}
        self._is_mid_line = False
        self._last = ""

    def show(self, message: Message, *, author: str, width: int) -> str:
        """What is new in the message, ready to print."""
        shown = self._shown.setdefault(message.id, _Shown())
        out: list[str] = []
        for part in message.parts:
            match part:
                case TextPart(data=data) if message.role == "user":
                    self._once(shown, "prompt", out, _prompt(author, data.text), gap=True)
                case TextPart(data=data):
                    self._grow(shown, out, message.id, data.text)
                case ReasoningPart() if message.finish is None and not message.text:
                    self._once(shown, "thinking", out, "· thinking")
                case ToolCallPart(data=call) if call.finished:
                    self._once(shown, call.id, out, cut(f"→ {describe_call(call)}", width))
                case ToolResultPart(data=result):
                    lines = [f"  {describe_result(result)}", *(f"  {line}" for line in hook_lines(result))]
                    told = "\n".join(cut(line, width) for line in lines)
                    self._once(shown, result.tool_call_id, out, told)
                case ShellCommandPart(data=shell):
                    lines = [f"$ {inert(shell.command)}", inert(shell.output).rstrip("\n")]
                    self._once(shown, "shell", out, "\n".join(line for line in lines if line), gap=True)
                case BinaryPart(data=file):
                    self._once(shown, file.path, out, f"  with {inert_line(file.path) or 'a file'}")
                case _:
                    pass
        if message.role == "assistant" and message.finish:
            self._once(shown, "finish", out, describe_finish(message.finish))
        return "".join(out)

    def pass_over(self, message: Message) -> None:
        """Take the message as printed."""
        self.show(message, author="", width=80)
        self._is_mid_line = False

    def broke_line(self) -> None:
        """Something else was printed; the text goes on in a line of its own."""
        self._is_mid_line = False

    def _grow(self, shown: _Shown, out: list[str], message_id: str, text: str) -> None:
        if shown.text.startswith(text):
            return
        if text.startswith(shown.text) and shown.text.strip():
            new = text[len(shown.text) :]
        else:
            # The first text of the message, or one that has begun anew after a failed attempt.
            new = text.lstrip()
            if not new:
                return
            out.append(("\n" if self._is_mid_line else "") + ("\n" if self._last else ""))
        shown.text = text
        self._last = message_id
        safe = inert(new)
        out.append(safe)
        self._is_mid_line = not safe.endswith("\n")

    def _once(self, shown: _Shown, what: str, out: list[str], text: str, *, gap: bool = False) -> None:
        if what in shown.parts:
            return
        shown.parts.add(what)
        if not text:
            return
        out.append("\n" if self._is_mid_line else "")
        out.append("\n" if gap and self._last else "")
        out.append(text + "\n")
        self._is_mid_line = False
        self._last = what


def _prompt(author: str, text: str) -> str:
    first, *rest = inert(text).split("\n")
    return "\n".join([f"{inert_line(author)} › {first}", *(f"  {line}" for line in rest)])
