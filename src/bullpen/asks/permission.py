"""Permissions: may this call act on the world?

Decision order: the run's own mode, skip mode, the config's allow-list, a hook's approval, a standing
grant, and only then a person. One permission is open per session at a time; sessions do not wait for
each other. Whatever lets a call through also writes its intent, in the same transaction.
"""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections.abc import Callable, Collection
from typing import Literal, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from bullpen.asks.pending import Pending
from bullpen.errors import BadRequest, TurnCancelled
from bullpen.schema.api import PermissionAnswer
from bullpen.schema.asks import Grant, PermissionRequest
from bullpen.schema.wire import encode
from bullpen.store import asks, prompts
from bullpen.store.store import Store
from bullpen.store.tx import Tx
from bullpen.system.failpoints import hit

Mode = Literal["ask", "allow", "deny"]
ACTIONS = ("allow", "allow_session", "allow_exact", "allow_rule", "deny")
_SCOPES: dict[str, Literal["session", "exact", "rule"]] = {
    "allow_session": "session",
    "allow_exact": "exact",
    "allow_rule": "rule",
}


class Verdict(NamedTuple):
    granted: bool
    reason: str = ""
    """Why a person refused, in words for the model; without one the refusal ends the turn."""


class Call(NamedTuple):
    """The tool call that asks: which turn and message it belongs to, and how its run answers."""

    turn: int
    message_id: str
    mode: Mode
    hook_approved: bool
    effects: bool


class Permissions:
    """The permissions of one workspace."""

    def __init__(
        self, store: Store, workspace: str, *, skip: bool, allowed: Callable[[], Collection[str]]
    ) -> None:
        self.skip = skip
        self._store = store
        self._workspace = workspace
        self._allowed = allowed
        self._pending: Pending[Verdict] = Pending()
        self._turnstiles: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """One per session in which somebody asks or waits to ask."""

    async def request(self, request: PermissionRequest, call: Call) -> Verdict:
        """Decide, asking a person if nothing else does. Raises `TurnCancelled` when the turn is over."""
        if call.mode == "deny":
            return Verdict(False)
        fingerprint = fingerprint_of(request)
        allowed = self._allowed()
        named = request.tool_name in allowed or f"{request.tool_name}:{request.action}" in allowed
        if self.skip or call.mode == "allow" or named:
            await self._let_through(request, call, fingerprint, told=False)
            return Verdict(True)
        if call.hook_approved:
            await self._let_through(request, call, fingerprint, told=True)
            return Verdict(True)
        async with self._turnstiles.setdefault(request.session_id, asyncio.Lock()):
            return await self._ask(request, call, fingerprint)

    async def grant(self, answer: PermissionAnswer, by: str) -> bool:
        """A person's answer; False when the ask was resolved before or never was."""
        if answer.action not in ACTIONS:
            raise BadRequest("invalid permission action")
        ask_id = answer.permission.id
        verdict = Verdict(answer.action != "deny", answer.reason)

        def decided(won: bool) -> None:
            if won:
                self._pending.resolve(ask_id, verdict)

        won = await self._store.write(lambda tx: self._decide(tx, ask_id, answer.action, by), then=decided)
        hit("ask-answered")
        return won

    async def _let_through(
        self, request: PermissionRequest, call: Call, fingerprint: str, *, told: bool
    ) -> None:
        async def work(tx: Tx) -> None:
            await guard(tx, self._workspace, call.turn)
            if told:
                await asks.note_granted(tx, self._workspace, request)
            if call.effects:
                await self._intend(tx, call, request.tool_call_id, fingerprint)

        await self._store.write(work, durable=call.effects)

    async def _ask(self, request: PermissionRequest, call: Call, fingerprint: str) -> Verdict:
        async def work(tx: Tx) -> bool:
            await guard(tx, self._workspace, call.turn)
            if await asks.has_grant(tx, self._workspace, request, fingerprint):
                await asks.note_granted(tx, self._workspace, request)
                await self._intend(tx, call, request.tool_call_id, fingerprint)
                return True
            await asks.open_permission(
                tx, self._workspace, request, turn=call.turn, message=call.message_id, fingerprint=fingerprint
            )
            return False

        answer = self._pending.expect(request.id)
        try:
            if await self._store.write(work):
                return Verdict(True)
            hit("ask-opened")
            return await answer
        finally:
            self._pending.forget(request.id)

    async def _decide(self, tx: Tx, ask_id: str, action: str, by: str) -> bool:
        ask = await asks.get_open(tx, self._workspace, ask_id)
        if ask is None or ask.kind != "permission":
            return False
        state: asks.State = "denied" if action == "deny" else "granted"
        await asks.answer(tx, self._workspace, ask_id, state, by=by, answer=action.encode())
        if action != "deny":
            await asks.intend(
                tx,
                self._workspace,
                turn=ask.turn,
                message=ask.message,
                call=ask.call,
                fingerprint=ask.fingerprint,
            )
        if (scope := _SCOPES.get(action)) is not None:
            await self._remember(tx, ask, scope, by)
        return True

    async def _remember(
        self, tx: Tx, ask: asks.Ask, scope: Literal["session", "exact", "rule"], by: str
    ) -> None:
        request = msgspec.json.decode(ask.body, type=PermissionRequest)
        await asks.add_grant(
            tx,
            self._workspace,
            Grant(
                id=str(uuid.uuid4()),
                scope=scope,
                session_id=ask.session,
                tool_name=request.tool_name,
                action=request.action,
                path=request.path,
                fingerprint=ask.fingerprint if scope == "exact" else "",
                created_at=tx.now,
                granted_by=by,
            ),
        )

    async def _intend(self, tx: Tx, call: Call, call_id: str, fingerprint: str) -> None:
        await asks.intend(
            tx,
            self._workspace,
            turn=call.turn,
            message=call.message_id,
            call=call_id,
            fingerprint=fingerprint,
        )


async def guard(tx: Tx, workspace: str, turn: int) -> None:
    """Every write of a turn begins with this: nothing is kept of a turn that has ended."""
    if not await prompts.is_active(tx, workspace, turn):
        raise TurnCancelled("the turn has ended")


def fingerprint_of(request: PermissionRequest) -> str:
    """What exactly was shown: tool, action, arguments and directory."""
    shown = encode([request.tool_name, request.action, request.params, request.path])
    return hashlib.sha256(shown).hexdigest()
