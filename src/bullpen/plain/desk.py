"""The asks of a workspace at one terminal: one is shown at a time, the next line may answer it."""

from __future__ import annotations

from bullpen.client.workspace import Room
from bullpen.errors import BadRequest
from bullpen.plain.view import View
from bullpen.present.asking import Answers, permission_reply, permission_text, question_reply
from bullpen.present.inert import inert_line
from bullpen.schema.asks import Ask, PermissionRequest, QuestionBatch


class Desk:
    """Shows the oldest ask of this session, else of any; only the one that is shown can be answered."""

    def __init__(self, room: Room, view: View) -> None:
        self._room = room
        self._view = view
        self._shown = ""
        self._answers: Answers | None = None

    @property
    def is_open(self) -> bool:
        """Whether a typed line may be an answer."""
        ask = self._next()
        return ask is not None and ask.id == self._shown

    def show(self, *, whole: bool = False, again: bool = False) -> bool:
        """Show the ask to answer next, unless it is shown already; whether there is one."""
        ask = self._next()
        if ask is None:
            self._shown, self._answers = "", None
            return False
        if ask.id == self._shown and not (whole or again):
            return True
        session = self._room.session(ask.session_id)
        elsewhere = session.title if session and ask.session_id != self._room.current_session else ""
        self._shown = ask.id
        if isinstance(ask, PermissionRequest):
            self._answers = None
            self._view.block(permission_text(ask, session=elsewhere, whole=whole))
        else:
            if self._answers is None or self._answers.batch.id != ask.id:
                self._answers = Answers(ask)
            self._view.block(self._answers.text(elsewhere))
        return True

    def ended(self, how: str, by: str) -> None:
        """An ask was answered or has died: if it was the one shown, say so and show the next."""
        if self._shown and self._shown not in {ask.id for ask in self._room.asks}:
            is_me = by in {"", self._room.name, self._room.client_id}
            self._view.note(how if is_me else f"{how} by {inert_line(by)}")
            self._shown, self._answers = "", None
            self.show()

    async def answer(self, text: str) -> bool:
        """Take a typed line as an answer to what is shown; whether it was one."""
        ask = self._next()
        if ask is None or ask.id != self._shown:
            return False
        if isinstance(ask, PermissionRequest):
            return await self._answer_permission(ask, text)
        return await self._answer_question(ask, text)

    async def skip(self) -> bool:
        """Answer the open questions with nothing; whether there were any."""
        ask = self._next()
        if not isinstance(ask, QuestionBatch):
            return False
        self._told(ask, "skipped", counted=await self._room.decline(ask))
        return True

    async def _answer_permission(self, ask: PermissionRequest, text: str) -> bool:
        reply = permission_reply(text)
        if reply is None:
            return False
        try:
            counted = await self._room.grant(ask, reply.action, reason=reply.reason, rule=reply.rule)
        except BadRequest as refused:
            self._view.note(f"{inert_line(refused.message)}; it is still open")
            return True
        self._told(ask, "denied" if reply.action == "deny" else "allowed", counted=counted)
        return True

    async def _answer_question(self, ask: QuestionBatch, text: str) -> bool:
        question = self._answers.following() if self._answers else None
        if self._answers is None or question is None:
            return False
        response = question_reply(question, text)
        if response is None:
            self._view.note("that is no answer to the question; /skip answers none")
            return True
        self._answers.responses.append(response)
        if self._answers.following() is not None:
            self._view.block(self._answers.text())
            return True
        counted = await self._room.answer(ask, self._answers.responses)
        self._told(ask, "answered", counted=counted)
        return True

    def _told(self, ask: Ask, how: str, *, counted: bool) -> None:
        """Say what became of our answer, unless an event was quicker to say it."""
        if self._shown == ask.id:
            self._view.note(how if counted else "somebody else was quicker")
            self._shown, self._answers = "", None
            self.show()

    def _next(self) -> Ask | None:
        asks = self._room.asks
        here = [ask for ask in asks if ask.session_id == self._room.current_session]
        return next(iter(here or asks), None)
