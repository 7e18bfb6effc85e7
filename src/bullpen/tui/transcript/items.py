"""Messages as the items a person sees: what was said, thought and done, one below the other.

A call and its result are one item, although they are parts of two messages. A message that moves replaces its own items and no
others, so that the ten-thousandth costs what the first did.

    call:  pending ──input complete──▶ running ◀──▶ asking        running ──result──▶ done | failed | cancelled
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Literal, NamedTuple

from bullpen.schema.message import (
    Binary,
    BinaryPart,
    Finish,
    Message,
    ReasoningPart,
    ShellCommandPart,
    TextPart,
    ToolCall,
    ToolCallPart,
    ToolResult,
)

State = Literal["pending", "running", "asking", "done", "failed", "cancelled"]

CANCELLED_CALLS = ("context canceled", "Error: user cancelled assistant tool calling")
"""What the results of calls say that a cancel has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """`key` stays the same for as long as the item is there, however it grows."""

    key: str
    message_id: str

    @property
    def text(self) -> str:
        """What can be copied of it, and found in it."""
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt(Item):
    """What a person said."""

    words: str
    author: str
    files: tuple[Binary, ...]
    at: int

    @property
    def text(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True, kw_only=True)
class Thought(Item):
    """What the model thought before it spoke."""

    words: str
    seconds: int
    is_open: bool

    @property
    def text(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True, kw_only=True)
class Said(Item):
    """What the model said; a summary stands for all that was said before it."""

    words: str
    is_open: bool
    is_summary: bool

    @property
    def text(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Item):
    """What the model had done."""

    call: ToolCall
    result: ToolResult | None
    is_over: bool
    """Its message has ended: a call that has no result by then is not going to run."""

    @property
    def text(self) -> str:
        return "\n".join((self.call.name, self.call.input, self.result.content if self.result else ""))

    @property
    def child(self) -> str:
        """The session of the sub-agent that it sends, if it sends one."""
        return f"{self.message_id}$${self.call.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell(Item):
    """A command that a person ran."""

    command: str
    output: str
    exit_code: int
    is_running: bool = False
    """Then its output is the end of what it has printed so far."""

    @property
    def text(self) -> str:
        return f"$ {self.command}\n{self.output}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note(Item):
    """An answer that did not end as it should have."""

    kind: Literal["error", "refused", "cancelled", "cut"]
    title: str
    details: str

    @property
    def text(self) -> str:
        return "\n".join(part for part in (self.title, self.details) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending(Item):
    """The end of a turn: who answered, and how long it took."""

    model: str
    provider: str
    seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting(Item):
    """The model has been asked and has not begun to answer."""

    since: int


def state_of(item: Call, asking: Iterable[str] = ()) -> State:
    """How far a call is; `asking` are the calls that wait for a person."""
    result = item.result
    if result is None:
        if item.is_over:
            return "cancelled"
        if item.call.id in asking:
            return "asking"
        return "running" if item.call.finished else "pending"
    if result.is_error:
        return "cancelled" if result.content in CANCELLED_CALLS else "failed"
    return "done"


class Change(NamedTuple):
    """From `start` on so many items were replaced by those that are there now."""

    start: int
    removed: int
    added: int


class Book:
    """The items of a session in order."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self._messages: dict[str, Message] = {}
        self._starts: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self._results: dict[tuple[str, str], ToolResult] = {}
        self._callers: dict[str, str] = {}
        """By the id of a call, the message that made it last: ids may come again in later answers."""

    def load(self, messages: Iterable[Message]) -> None:
        """Hold these and no others."""
        listed = list(messages)
        self.items = []
        for known in (self._messages, self._starts, self._counts, self._results, self._callers):
            known.clear()
        for message in listed:
            self._note(message)
        for message in listed:
            made = self._made(message)
            self._starts[message.id], self._counts[message.id] = len(self.items), len(made)
            self.items += made

    def take(self, message: Message) -> Change:
        """A message came or changed."""
        caller = self._note(message)
        if message.id not in self._starts:
            self._starts[message.id], self._counts[message.id] = len(self.items), 0
        if caller is not None:
            # A result shows in the item of its call; its own message has nothing to show.
            return self._replace(caller)
        return self._replace(message)

    def drop(self, message_id: str) -> Change:
        """A message went."""
        if message_id not in self._starts:
            return Change(len(self.items), 0, 0)
        change = self._put(message_id, [])
        for known in (self._messages, self._starts, self._counts):
            known.pop(message_id, None)
        return change

    def take_running(self, key: str, command: str, output: str) -> Change:
        """A person's own command runs and has printed this; it has no message yet. `drop` takes it out again."""
        if key not in self._starts:
            self._starts[key], self._counts[key] = len(self.items), 0
        item = Shell(
            key=f"{key}/shell",
            message_id=key,
            command=command,
            output=output,
            exit_code=0,
            is_running=True,
        )
        return self._put(key, [item])

    def find_call(self, call_id: str) -> int | None:
        """Where the item of a call stands."""
        caller = self._callers.get(call_id)
        if caller is None:
            return None
        start = self._starts[caller]
        for index in range(start, start + self._counts[caller]):
            item = self.items[index]
            if isinstance(item, Call) and item.call.id == call_id:
                return index
        return None

    def _note(self, message: Message) -> Message | None:
        """Take in who calls and what came of it; the answer is the message that a result belongs to."""
        self._messages[message.id] = message
        for call in message.tool_calls:
            self._callers[call.id] = message.id
        caller = None
        for result in message.tool_results:
            caller_id = self._callers.get(result.tool_call_id, "")
            self._results[caller_id, result.tool_call_id] = result
            caller = self._messages.get(caller_id)
        return caller

    def _replace(self, message: Message) -> Change:
        return self._put(message.id, self._made(message))

    def _put(self, message_id: str, made: list[Item]) -> Change:
        start, removed = self._starts[message_id], self._counts[message_id]
        self.items[start : start + removed] = made
        self._counts[message_id] = len(made)
        if len(made) != removed:
            for later in takewhile(lambda other: other != message_id, reversed(self._starts)):
                self._starts[later] += len(made) - removed
        return Change(start, removed, len(made))

    def _made(self, message: Message) -> list[Item]:
        match message.role:
            case "user":
                return _said_by_person(message)
            case "assistant":
                return self._answer(message)
            case _:
                return []

    def _answer(self, message: Message) -> list[Item]:
        made: list[Item] = []
        finish = message.finish
        for part in message.parts:
            match part:
                case ReasoningPart(data=data) if data.thinking.strip():
                    made.append(
                        Thought(
                            key=f"{message.id}/thought{len(made)}",
                            message_id=message.id,
                            words=data.thinking,
                            seconds=max(data.finished_at - data.started_at, 0),
                            is_open=finish is None and not data.finished_at and part is message.parts[-1],
                        )
                    )
                case TextPart(data=data) if data.text.strip():
                    made.append(
                        Said(
                            key=f"{message.id}/said{len(made)}",
                            message_id=message.id,
                            words=data.text,
                            is_open=finish is None,
                            is_summary=message.is_summary_message,
                        )
                    )
                case ToolCallPart(data=call):
                    made.append(
                        Call(
                            key=f"{message.id}/{call.id}",
                            message_id=message.id,
                            call=call,
                            result=self._results.get((message.id, call.id)),
                            is_over=finish is not None and finish.reason != "tool_use",
                        )
                    )
                case _:
                    pass
        if finish is None and not made:
            made.append(Waiting(key=f"{message.id}/waiting", message_id=message.id, since=message.created_at))
        return made + self._ended(message, finish)

    def _ended(self, message: Message, finish: Finish | None) -> list[Item]:
        if finish is None:
            return []
        if (note := _note_of(message.id, finish)) is not None:
            stopped = self._stopped(message) if note.kind == "cancelled" else ""
            return [replace(note, details=stopped) if stopped else note]
        if finish.reason not in ("end_turn", "stop") or message.is_summary_message:
            return []
        begun = self._begun(message)
        seconds = max(finish.time - begun, 0) if begun else 0
        return [
            Ending(
                key=f"{message.id}/ending",
                message_id=message.id,
                model=message.model,
                provider=message.provider,
                seconds=seconds,
            )
        ]

    def _stopped(self, message: Message) -> str:
        """What a cancel has stopped, besides the answer."""
        results = {call.name: self._results.get((message.id, call.id)) for call in message.tool_calls}
        names = [name for name, told in results.items() if told is None or told.content in CANCELLED_CALLS]
        return f"stopped {', '.join(names)}" if names else ""

    def _begun(self, message: Message) -> int:
        """When the turn of an answer began: with the last thing a person said before it."""
        at = self._starts.get(message.id, len(self.items))
        for index in range(at - 1, -1, -1):
            if isinstance(item := self.items[index], Prompt):
                return item.at
        return 0


def _said_by_person(message: Message) -> list[Item]:
    made: list[Item] = []
    files = tuple(part.data for part in message.parts if isinstance(part, BinaryPart))
    words = message.text
    if words.strip() or files:
        made.append(
            Prompt(
                key=f"{message.id}/prompt",
                message_id=message.id,
                words=words,
                author=message.author,
                files=files,
                at=message.created_at,
            )
        )
    for number, part in enumerate(message.parts):
        if isinstance(part, ShellCommandPart):
            data = part.data
            made.append(
                Shell(
                    key=f"{message.id}/shell{number}",
                    message_id=message.id,
                    command=data.command,
                    output=data.output,
                    exit_code=data.exit_code,
                )
            )
    return made


def _note_of(message_id: str, finish: Finish) -> Note | None:
    """How an answer ended, when it did not end well."""
    kinds: dict[str, Literal["error", "refused", "cancelled", "cut"]] = {
        "error": "error",
        "content_filter": "refused",
        "canceled": "cancelled",
        "max_tokens": "cut",
    }
    if finish.reason not in kinds:
        return None
    return Note(
        key=f"{message_id}/note",
        message_id=message_id,
        kind=kinds[finish.reason],
        title=finish.message,
        details=finish.details,
    )
