"""What a client knows of its workspace: sessions, messages, open asks, queues, ends of turns.

It is filled by answers and kept true by events. Nothing here waits or calls: `apply` takes one event
and says which session has to be read again because the event does not fit what is known.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import msgspec

from bullpen.client.stream import Place
from bullpen.schema.agent import QueuedPrompt
from bullpen.schema.asks import (
    Ask,
    PermissionNotification,
    PermissionRequest,
    QuestionBatch,
    QuestionBatchNotification,
)
from bullpen.schema.events import Event, MessageDelta, QueueChanged, RunComplete
from bullpen.schema.message import Message, Reasoning, ReasoningPart, Text, TextPart
from bullpen.schema.session import Session

REMEMBERED_ENDS = 1_000
"""Ends of turns kept for a `wait_for` that comes after the end: far more than one client has open."""


class Mirror:
    """One client's picture of a workspace. Only the task that reads the stream changes it."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._sessions_at: Place | None = None
        self._messages: dict[str, dict[str, Message]] = {}
        self._messages_at: dict[str, Place | None] = {}
        self._loading: dict[str, list[list[Event]]] = {}
        self._ends: OrderedDict[str, RunComplete] = OrderedDict()
        self.asks: dict[str, Ask] = {}
        self.queues: dict[str, tuple[QueuedPrompt, ...]] = {}

    @property
    def sessions(self) -> list[Session]:
        """The sessions of the workspace without those of sub-agents, the last used one first."""
        top = [s for s in self._sessions.values() if not s.parent_session_id]
        return sorted(top, key=lambda s: s.updated_at, reverse=True)

    @property
    def loaded(self) -> list[str]:
        """The sessions whose messages are kept up to date here."""
        return list(self._messages)

    def session(self, session_id: str) -> Session | None:
        return self._sessions.get(session_id)

    def messages(self, session_id: str) -> list[Message]:
        """The messages of a loaded session, oldest first."""
        return list(self._messages.get(session_id, {}).values())

    def message(self, session_id: str, message_id: str) -> Message | None:
        return self._messages.get(session_id, {}).get(message_id)

    def end_of(self, run_id: str) -> RunComplete | None:
        """How a run ended, if that was seen."""
        return self._ends.get(run_id)

    # Answers

    def hold_sessions(self, sessions: Iterable[Session], cursor: str) -> None:
        """Replace what is known of the sessions by an answer that holds everything up to `cursor`."""
        fresh = {s.id: s for s in sessions}
        children = {s.id: s for s in self._sessions.values() if s.parent_session_id}
        self._sessions = fresh | children
        self._sessions_at = Place.of(cursor)

    def hold_session(self, session: Session) -> None:
        self._sessions[session.id] = session

    @contextmanager
    def loading(self, session_id: str) -> Iterator[Callable[[Iterable[Message], str], None]]:
        """Take an answer with the messages of a session, which holds everything up to its cursor.

        What the stream tells between the question and the answer is kept and applied to the answer.
        """
        meanwhile: list[Event] = []
        self._loading.setdefault(session_id, []).append(meanwhile)

        def hold(messages: Iterable[Message], cursor: str) -> None:
            self._messages[session_id] = {m.id: m for m in messages}
            self._messages_at[session_id] = Place.of(cursor)
            for event in meanwhile:
                self._take_about_message(event)

        try:
            yield hold
        finally:
            # By identity: two lists that are equal are still two.
            rest = [other for other in self._loading.pop(session_id, []) if other is not meanwhile]
            if rest:
                self._loading[session_id] = rest

    def forget_messages(self, session_id: str) -> None:
        self._messages.pop(session_id, None)
        self._messages_at.pop(session_id, None)

    def hold_asks(self, asks: Iterable[Ask]) -> None:
        """Replace the open asks by an answer; those that are still open keep their order."""
        fresh = {ask.id: ask for ask in asks}
        self.asks = {key: ask for key, ask in self.asks.items() if key in fresh} | fresh

    def drop_dead_asks(self) -> None:
        """After a gap: an ask of a session that no longer works cannot be open."""
        idle = {s.id for s in self._sessions.values() if not s.is_busy and not s.parent_session_id}
        self.asks = {key: ask for key, ask in self.asks.items() if ask.session_id not in idle}

    # Events

    def apply(self, event: Event) -> str:
        """Take an event in; the answer names the session whose messages must be read again, or is empty."""
        match event.payload:
            case Message() | MessageDelta() as about:
                for meanwhile in self._loading.get(about.session_id, ()):
                    meanwhile.append(event)
                return self._take_about_message(event)
            case Session() as session:
                self._take_session(event, session)
            case PermissionRequest() | QuestionBatch() as ask:
                self.asks.setdefault(ask.id, ask)
            case PermissionNotification(tool_call_id=call, granted=granted, denied=denied) if (
                granted or denied
            ):
                self._end_asks(call)
            case QuestionBatchNotification(batch_id=batch):
                self.asks.pop(batch, None)
            case RunComplete() as end:
                self.hold_end(end)
            case QueueChanged(session_id=session_id, prompts=prompts):
                self.queues[session_id] = prompts
            case _:
                pass
        return ""

    def hold_end(self, end: RunComplete) -> None:
        for run_id in {end.run_id, *end.run_ids} - {""}:
            self._ends[run_id] = end
        while len(self._ends) > REMEMBERED_ENDS:
            self._ends.popitem(last=False)

    def _take_session(self, event: Event, session: Session) -> None:
        if event.action == "deleted":
            self._sessions.pop(session.id, None)
            self.queues.pop(session.id, None)
            self.forget_messages(session.id)
            self.asks = {key: ask for key, ask in self.asks.items() if ask.session_id != session.id}
            return
        place = Place.of(event.id)
        if place and place.is_within(self._sessions_at) and session.id in self._sessions:
            return
        if session.id not in self._sessions and event.action == "created" and not session.message_count:
            # Nothing can be missing from a session that was seen from its beginning.
            self._messages.setdefault(session.id, {})
            self._messages_at.setdefault(session.id, place)
        self._sessions[session.id] = session

    def _take_about_message(self, event: Event) -> str:
        if isinstance(event.payload, MessageDelta):
            return self._grow(event.payload)
        if isinstance(event.payload, Message):
            self._take_message(event, event.payload)
        return ""

    def _take_message(self, event: Event, message: Message) -> None:
        known = self._messages.get(message.session_id)
        if known is None:
            return
        if event.action == "deleted":
            known.pop(message.id, None)
            return
        place, held = Place.of(event.id), self._messages_at.get(message.session_id)
        if place and place.is_within(held):
            return
        if place and place.volatile and held and place.epoch == held.epoch and place.seq == held.seq:
            # Growing text has no number of its own: what is longer is newer.
            before = known.get(message.id)
            if before and _length(before) > _length(message):
                return
        known[message.id] = message

    def _grow(self, delta: MessageDelta) -> str:
        known = self._messages.get(delta.session_id)
        if known is None:
            return ""
        message = known.get(delta.message_id)
        grown = message and grow(message, delta)
        if grown is None:
            return delta.session_id
        known[delta.message_id] = grown
        return ""

    def _end_asks(self, tool_call_id: str) -> None:
        self.asks = {key: ask for key, ask in self.asks.items() if ask.tool_call_id != tool_call_id}


def grow(message: Message, delta: MessageDelta) -> Message | None:
    """The message with the delta in it, or None when the delta does not fit.

    Text that is already there is no error: an answer may hold more than the stream has sent so far.
    """
    index, have = _part(message, delta.part)
    if delta.offset > len(have):
        return None
    overlap = have[delta.offset : delta.offset + len(delta.text)]
    if not delta.text.startswith(overlap):
        return None
    if len(overlap) == len(delta.text):
        return message
    if message.finish is not None:
        return None
    text = have + delta.text[len(overlap) :]
    part = _with_text(message, index, delta.part, text)
    parts = (*message.parts[:index], part, *message.parts[index + 1 :])
    return msgspec.structs.replace(message, parts=parts)


def _part(message: Message, kind: str) -> tuple[int, str]:
    """Where the growing part of that kind stands, and what it says so far."""
    for index, part in enumerate(message.parts):
        if kind == "text" and isinstance(part, TextPart):
            return index, part.data.text
        if kind == "reasoning" and isinstance(part, ReasoningPart):
            return index, part.data.thinking
    return len(message.parts), ""


def _with_text(message: Message, index: int, kind: str, text: str) -> TextPart | ReasoningPart:
    if kind == "text":
        return TextPart(data=Text(text=text))
    old = message.parts[index] if index < len(message.parts) else None
    if isinstance(old, ReasoningPart):
        return ReasoningPart(data=msgspec.structs.replace(old.data, thinking=text))
    return ReasoningPart(data=Reasoning(thinking=text, signature=""))


def _length(message: Message) -> int:
    return len(message.text) + len(message.reasoning)
