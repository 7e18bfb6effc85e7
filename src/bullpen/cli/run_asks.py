"""Asks of one run, answered by the person at its terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress

import anyio

from bullpen.client.workspace import Room
from bullpen.errors import BadRequest, ServerUnreachable
from bullpen.plain.terminal import LineReader
from bullpen.present.asking import Answers, permission_reply, permission_text, question_reply
from bullpen.present.inert import inert_line
from bullpen.schema.asks import Ask, PermissionRequest, QuestionBatch


class Asking:
    """One ask at a time: there is one person and one line of input. `is_mid_line` says whether an answer stands there unfinished."""

    def __init__(self, room: Room, is_mid_line: Callable[[], bool]) -> None:
        self._room = room
        self._is_mid_line = is_mid_line
        self._lines = LineReader(0)
        self._turnstile = anyio.Lock()

    async def answer(self, ask: Ask) -> None:
        """Ask the person, unless another client is quicker."""
        async with self._turnstile:
            if self._is_open(ask):
                with suppress(ServerUnreachable):
                    if isinstance(ask, PermissionRequest):
                        await self._permission(ask)
                    else:
                        await self._questions(ask)

    async def _permission(self, ask: PermissionRequest) -> None:
        self._say(permission_text(ask, whole=True))
        while self._is_open(ask):
            reply = permission_reply(await self._read_line())
            if reply is None:
                self._say("  one of the numbers above, please")
                continue
            try:
                await self._room.grant(ask, reply.action, reason=reply.reason, rule=reply.rule)
                return
            except BadRequest as refused:
                self._say(f"  {inert_line(refused.message)}")

    async def _questions(self, ask: QuestionBatch) -> None:
        answers = Answers(ask)
        while (question := answers.following()) and self._is_open(ask):
            self._say(answers.text())
            text = await self._read_line()
            if text.strip() == "/skip":
                await self._room.decline(ask)
                return
            response = question_reply(question, text)
            if response:
                answers.responses.append(response)
        if self._is_open(ask):
            await self._room.answer(ask, answers.responses)

    async def _read_line(self) -> str:
        """A line from the person; when there are no more, somebody else has to answer."""
        line = await self._lines.line()
        if line is None:
            await anyio.sleep_forever()
        return line or ""

    def _is_open(self, ask: Ask) -> bool:
        return ask.id in {a.id for a in self._room.asks}

    def _say(self, text: str) -> None:
        gap = "\n" if self._is_mid_line() and sys.stdout.isatty() else ""
        print(gap + text, file=sys.stderr, flush=True)
