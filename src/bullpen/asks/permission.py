"""Permissions: may this call act on the world?

The order: a rule that denies; a deny rule that may be meant; the run's own mode and skip mode; a protected target, which
only an exact grant covers; a rule that asks; what is known to only read; the config's allow-list; a hook's approval; grants and rules
that allow; and only then a person. One permission is open per session at a time; sessions do not wait for each other.
Whatever lets a call through also writes its intent, in the same transaction.

What is approved is what runs: an answer is bound to the fingerprint of what was shown, and files that the call runs are
looked at again when the answer has come.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol
from weakref import WeakValueDictionary

import msgspec

from bullpen.asks import display, reasons
from bullpen.asks.deciding import Call, Decision, Mode, decide, fingerprint_of, holds
from bullpen.asks.pending import Pending
from bullpen.asks.remembering import answer_rules, remember
from bullpen.asks.rules import Judgement, keeps_from, offered
from bullpen.asks.subject import Subject, Touch, look
from bullpen.errors import BadRequest, TurnCancelled
from bullpen.schema.api import PermissionAnswer
from bullpen.schema.asks import Explanation, PermissionRequest, Rule
from bullpen.store import asks, prompts, rules
from bullpen.store.store import Store
from bullpen.store.tx import Tx
from bullpen.system.failpoints import hit
from bullpen.system.paths import real

__all__ = ["Call", "Mode", "Permissions", "Touch", "Verdict", "fingerprint_of", "guard"]

ACTIONS = ("allow", "allow_session", "allow_exact", "allow_rule", "deny")
CHANGED_TIMES = 3
"""A file that changes whenever it was approved is refused after so many times."""

NOBODY = "this run is not allowed to do it, and nobody is there to be asked. Go on without it, or say what is missing."
"""What the model is told in a run that denies whatever would be asked about."""


class Verdict(NamedTuple):
    granted: bool
    reason: str = ""
    """Why it was refused, in words for the model; without any the refusal ends the turn."""
    by_rule: bool = False


class Advisor(Protocol):
    """Somebody who is heard before a person is asked, and told afterwards."""

    async def before(self, request: PermissionRequest) -> bool:
        """Whether the call is approved without a person. Raises `ToolFailed` to refuse it."""
        ...

    def after(self, request: PermissionRequest, *, granted: bool, reason: str) -> None: ...


class _Asked(NamedTuple):
    """A call on its way to a decision."""

    request: PermissionRequest
    call: Call
    subject: Subject
    fingerprint: str
    advisor: Advisor | None = None


class Permissions:
    """The permissions of one workspace."""

    def __init__(
        self,
        store: Store,
        workspace: str,
        *,
        skip: bool,
        allowed: Callable[[], Collection[str]],
        configured: Callable[[], Sequence[Rule]] = tuple,
        guarded: Sequence[Path] = (),
    ) -> None:
        self.skip = skip
        self._store = store
        self._workspace = workspace
        self._allowed = allowed
        self._configured = configured
        self._guarded = guarded
        self._pending: Pending[Verdict] = Pending()
        self._open: dict[str, Subject] = {}
        """What the open asks are about."""
        self._turnstiles: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """One per session in which somebody asks or waits to ask."""

    async def request(
        self, request: PermissionRequest, call: Call, touch: Touch, advisor: Advisor | None = None
    ) -> Verdict:
        """Decide, asking a person if nothing else does. Raises `TurnCancelled` when the turn is over."""
        if call.mode == "deny" and not touch.is_read:
            return Verdict(False, NOBODY)
        asked = (await self._look(request, call, touch))._replace(advisor=advisor)
        first = await self._store.read(lambda tx: self._decide(tx, asked))
        if first.outcome == "refused":
            return Verdict(False, first.reason, by_rule=True)
        if first.outcome == "asked" and call.mode == "deny":
            return Verdict(False, NOBODY)
        if first.outcome == "free":
            return Verdict(True)
        is_approved = False
        if first.outcome == "asked" and advisor is not None:
            shown = _as_shown(request, asked.subject, first.judgement)
            is_approved = await advisor.before(shown) and await self._changed(asked, touch) is None
        if is_approved:
            # Like the approval of a hook before the call: it covers nothing that only an exact answer covers.
            asked = asked._replace(call=call._replace(hook_approved=True))
        if first.outcome == "allowed" or is_approved:
            settled = await self._store.write(
                lambda tx: self._settle(tx, asked, may_ask=False),
                durable=call.effects or first.is_told or is_approved,
            )
            if settled is not None:
                return settled
        async with self._turnstiles.setdefault(request.session_id, asyncio.Lock()):
            for _ in range(CHANGED_TIMES):
                verdict = await self._ask(asked)
                if (
                    not verdict.granted
                    or verdict.by_rule
                    or (changed := await self._changed(asked, touch)) is None
                ):
                    return verdict
                asked = changed
        return Verdict(
            False, "what this call would run keeps changing while it is being approved", by_rule=True
        )

    async def grant(self, answer: PermissionAnswer, by: str) -> bool:
        """A person's answer; False when the ask was resolved before or never was."""
        if answer.action not in ACTIONS:
            raise BadRequest("invalid permission action")
        ask_id = answer.permission.id
        subject = self._open.get(ask_id)
        made = answer_rules(answer, subject) if subject is not None else ()
        verdict = Verdict(answer.action != "deny", answer.reason)

        def decided(won: bool) -> None:
            if won:
                self._pending.resolve(ask_id, verdict)

        won = await self._store.write(lambda tx: self._answer(tx, ask_id, answer, made, by), then=decided)
        hit("ask-answered")
        return won

    async def explain(self, touch: Touch, session_id: str, author: str) -> Explanation:
        """What would become of a call, and why."""
        request = PermissionRequest(
            id="",
            session_id=session_id,
            tool_call_id="",
            tool_name=touch.tool,
            description="",
            action=touch.action,
            params=None,
            path=str(touch.directory),
        )
        call = Call(0, "", "ask", hook_approved=False, effects=True, author=author)
        asked = await self._look(request, call, touch)
        decision = await self._store.read(lambda tx: self._decide(tx, asked))
        return reasons.explained(decision.outcome, asked.subject, decision.judgement, decision.because)

    async def keeps_from(self, touch: Touch, call: Call, session_id: str) -> Callable[[Path], bool] | None:
        """Which real paths rules keep a call from that looks at many, if there are such rules."""
        stored = await self._store.read(lambda tx: rules.in_force(tx, self._workspace))
        subject = Subject(
            tool=touch.tool,
            action=touch.action,
            root=await asyncio.to_thread(real, touch.root),
            directory=touch.root,
        )
        held = [rule for rule in (*self._configured(), *stored) if holds(rule, session_id, call.author)]
        return keeps_from(held, subject, asks_count=not self.skip and call.mode != "allow")

    def configured(self) -> Sequence[Rule]:
        """The rules of the config."""
        return self._configured()

    async def _look(self, request: PermissionRequest, call: Call, touch: Touch) -> _Asked:
        subject = await asyncio.to_thread(look, touch, self._guarded)
        return _Asked(request, call, subject, fingerprint_of(request, subject.scripts))

    async def _changed(self, asked: _Asked, touch: Touch) -> _Asked | None:
        """The call as it has to be asked about anew, because what it runs is not any more what was shown."""
        again = await self._look(asked.request, asked.call, touch)
        if again.fingerprint == asked.fingerprint and again.subject.protects == asked.subject.protects:
            return None
        request = msgspec.structs.replace(asked.request, id=str(uuid.uuid4()))
        return again._replace(request=request, advisor=asked.advisor)

    async def _decide(self, tx: Tx, asked: _Asked) -> Decision:
        standing = await asks.standing(tx, self._workspace, asked.request, asked.fingerprint)
        stored = await rules.in_force(tx, self._workspace)
        return decide(
            asked.subject,
            asked.call,
            session_id=asked.request.session_id,
            rules=[*self._configured(), *stored],
            standing=standing,
            skip=self.skip,
            allowed=self._allowed(),
        )

    async def _settle(self, tx: Tx, asked: _Asked, *, may_ask: bool) -> Verdict | None:
        """Let the call through or refuse it, or open an ask for it; None when a person has to answer."""
        request, call = asked.request, asked.call
        await guard(tx, self._workspace, call.turn)
        decision = await self._decide(tx, asked)
        if decision.outcome == "refused":
            return Verdict(False, decision.reason, by_rule=True)
        if decision.outcome != "asked":
            if decision.is_told:
                await asks.note_granted(tx, self._workspace, request)
            if call.effects or decision.is_told:
                await self._intend(tx, call, request.tool_call_id, asked.fingerprint)
            return Verdict(True)
        if may_ask:
            await asks.open_permission(
                tx,
                self._workspace,
                _as_shown(request, asked.subject, decision.judgement),
                turn=call.turn,
                message=call.message_id,
                fingerprint=asked.fingerprint,
            )
        return None

    async def _ask(self, asked: _Asked) -> Verdict:
        ask_id = asked.request.id
        answer = self._pending.expect(ask_id)
        self._open[ask_id] = asked.subject
        try:
            settled = await self._store.write(lambda tx: self._settle(tx, asked, may_ask=True))
            if settled is not None:
                return settled
            hit("ask-opened")
            verdict = await answer
            if asked.advisor is not None:
                asked.advisor.after(asked.request, granted=verdict.granted, reason=verdict.reason)
            return verdict
        finally:
            self._pending.forget(ask_id)
            self._open.pop(ask_id, None)

    async def _answer(
        self, tx: Tx, ask_id: str, answer: PermissionAnswer, made: Sequence[Rule], by: str
    ) -> bool:
        ask = await asks.get_open(tx, self._workspace, ask_id)
        if ask is None or ask.kind != "permission":
            return False
        state: asks.State = "denied" if answer.action == "deny" else "granted"
        await asks.answer(tx, self._workspace, ask_id, state, by=by, answer=answer.action.encode())
        if answer.action != "deny":
            await asks.intend(
                tx,
                self._workspace,
                turn=ask.turn,
                message=ask.message,
                call=ask.call,
                fingerprint=ask.fingerprint,
            )
            await remember(tx, self._workspace, ask, answer, made, by)
        return True

    async def _intend(self, tx: Tx, call: Call, call_id: str, fingerprint: str) -> None:
        await asks.intend(
            tx,
            self._workspace,
            turn=call.turn,
            message=call.message_id,
            call=call_id,
            fingerprint=fingerprint,
        )


def _as_shown(request: PermissionRequest, subject: Subject, judgement: Judgement) -> PermissionRequest:
    """The request with all that helps a person to decide."""
    warnings = display.warnings_about(request.params, request.description)
    return msgspec.structs.replace(
        request,
        why=display.visible(reasons.why_asked(subject, judgement)),
        warnings=warnings,
        shown=display.rendered(request.params, request.description) if warnings else "",
        rule=reasons.covers_all(offered(subject)),
        protected=bool(subject.protects),
    )


async def guard(tx: Tx, workspace: str, turn: int) -> None:
    """Every write of a turn begins with this: nothing is kept of a turn that has ended."""
    if not await prompts.is_active(tx, workspace, turn):
        raise TurnCancelled("the turn has ended")
