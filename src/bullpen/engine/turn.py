"""A turn: ask the model, run its calls, append, repeat, until it has nothing more to call.

Each step is one assistant message, open while it grows and while its calls run. A step's end and the next
step's beginning are one transaction, so an active turn always has exactly one open message in its session,
and whatever cuts the turn short finds it.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from bullpen.asks.permission import Call, Mode, guard
from bullpen.engine import endings
from bullpen.engine.answer import Answer, stream_answer
from bullpen.engine.beginnings import fold, insert_user_message, open_answer
from bullpen.engine.calls import run_calls
from bullpen.engine.context import CallContext
from bullpen.engine.draft import Draft
from bullpen.engine.history import History, user_turn
from bullpen.engine.services import Chosen, Services
from bullpen.errors import ToolFailed, TurnCancelled, TurnStuck
from bullpen.providers.base import AssistantTurn, ModelRequest, ToolSpec, ToolTurn, UserTurn
from bullpen.schema.message import FinishReason, Message, ToolCall, ToolResult
from bullpen.store import asks, messages, sessions
from bullpen.store.growth import show
from bullpen.store.prompts import Prompt
from bullpen.store.tx import Tx, Work
from bullpen.system.failpoints import hit
from bullpen.tools.base import Outcome, Tool

T = TypeVar("T")

LOOK_BACK = 10
SAME_AT_MOST = 5
"""A model that makes the same calls with the same results more often than this in its last steps is stuck."""


class Conversation(NamedTuple):
    """Where a turn takes place: the session, and the prompt on whose behalf it runs."""

    session_id: str
    prompt: Prompt
    is_child: bool = False


class TurnRun:
    """One turn under way. `run` ends it normally; anything else is the caller's to end."""

    def __init__(
        self,
        services: Services,
        chosen: Chosen,
        conversation: Conversation,
        *,
        system: str,
        tools: Mapping[str, Tool],
        history: History,
        draft: Draft,
    ) -> None:
        self._services = services
        self._agent = services.agent()
        self._chosen = chosen
        self._where = conversation
        self._system = tuple(s for s in (chosen.prefix, system) if s)
        self._tools = tools
        self._specs = tuple(ToolSpec(t.name, t.description, t.schema) for _, t in sorted(tools.items()))
        self._turns = history.turns
        self._settled = history.settled
        self._draft = draft
        self._results: list[tuple[ToolCall, Outcome]] = []
        self._signatures: list[tuple[tuple[str, str, str], ...]] = []
        self._ahead: list[asyncio.Future[None]] = []
        """Writes that nobody has waited for yet, oldest first."""
        self.cost = 0.0

    async def run(self) -> str:
        """To the last answer; gives back its text."""
        while True:
            answer = await stream_answer(
                self._services, self._chosen, self._request(), self._draft, self._settle
            )
            self.cost += answer.spent.cost
            calls = [c for c in self._draft.calls.values() if c.finished]
            self._results = []
            stopped = await self._run_calls(calls) if calls else False
            self._results.sort(key=lambda result: calls.index(result[0]))
            if stopped or not calls:
                text = self._draft.text
                await self._finish(
                    answer, "end_turn" if calls or answer.reason == "tool_use" else answer.reason
                )
                return text
            self._watch_for_loops()
            hit("step-ending")
            await self._next_step(answer)
            hit("step-begun")

    @property
    def message_id(self) -> str:
        """The assistant message of the current step."""
        return self._draft.id

    def _request(self) -> ModelRequest:
        selected, model = self._chosen.selected, self._chosen.model
        chosen_max = selected.max_tokens if isinstance(selected.max_tokens, int) else 0
        return ModelRequest(
            purpose="turn",
            session_id=self._where.session_id,
            model=selected.model,
            system=self._system,
            turns=tuple(self._turns),
            settled=self._settled,
            tools=self._specs,
            max_tokens=chosen_max or model.default_max_tokens,
            settings=selected,
            can_reason=model.can_reason,
        )

    async def _settle(self, draft: Draft) -> None:
        """Have the draft stored as it is now; the model may go on speaking meanwhile."""
        message = draft.message(self._services.now)
        pieces = self._services.store.growth.take_back(draft.open)

        async def work(tx: Tx) -> None:
            show(tx, draft.open, pieces)
            await messages.rewrite(tx, self._services.workspace, message, live=draft.open)

        self._write_ahead(work)

    async def _run_calls(self, calls: Sequence[ToolCall]) -> bool:
        hooks = None if self._where.is_child else self._agent.hooks
        if any((tool := self._tools.get(call.name)) and tool.effects for call in calls):
            # Whoever looks at the world after a crash must find the calls that may have changed it.
            await self._caught_up()
        return await run_calls(
            calls,
            self._tools,
            broken=self._draft.broken,
            hooks=hooks,
            session_id=self._where.session_id,
            context=self._context,
            report=self._report,
        )

    def _context(self, tool: Tool, call: ToolCall, hook_approved: bool) -> CallContext:
        prompt = self._where.prompt
        mode: Mode = (
            "allow" if prompt.permissions == "allow" else "deny" if prompt.permissions == "deny" else "ask"
        )
        return CallContext(
            self._services,
            session_id=self._where.session_id,
            call_id=call.id,
            tool_name=tool.name,
            call=Call(prompt.seq, self._draft.id, mode, hook_approved, tool.effects),
            supports_images=self._chosen.model.supports_attachments,
            delegate=self._delegate,
        )

    async def _report(self, call: ToolCall, outcome: Outcome) -> None:
        """Store a call's result as a message of its own."""
        self._results.append((call, outcome))
        if outcome.is_cut:
            self._services.tally["outputs_cut"] += 1
        message = endings.tool_message(self._where.session_id, _result(call, outcome), self._services.now)

        async def work(tx: Tx) -> None:
            await messages.insert(tx, self._services.workspace, message)
            await asks.fulfil(tx, self._draft.id, call.id)

        await self._write(work, durable=False)
        hit("result-stored")

    async def _finish(self, answer: Answer, reason: FinishReason) -> None:
        workspace, draft = self._services.workspace, self._draft
        message = draft.finished(self._services.now, reason)
        pieces = self._services.store.growth.take_back(draft.open)

        async def work(tx: Tx) -> None:
            show(tx, draft.open, pieces)
            if self._where.is_child:
                await endings.finish_child(tx, workspace, message, answer.spent)
            else:
                await endings.finish_turn(tx, workspace, self._where.prompt, message, answer.spent)

        hit("turn-ending")
        await self._write(work, reserved=True)
        hit("turn-ended")

    async def _next_step(self, answer: Answer) -> None:
        """Finish this step's message, take in what was queued to join, and open the next message."""
        step = self._draft.open
        finished = self._draft.finished(self._services.now, "tool_use")
        pieces = self._services.store.growth.take_back(step)
        spoken = AssistantTurn(
            self._draft.text, self._draft.thinking, self._draft.signature, tuple(finished.tool_calls)
        )
        self._turns.append(spoken)
        self._turns.extend(ToolTurn(_result(call, outcome)) for call, outcome in self._results)

        async def work(tx: Tx) -> tuple[list[Message], Draft]:
            workspace = self._services.workspace
            await sessions.add_usage(tx, workspace, self._where.session_id, answer.spent)
            show(tx, step, pieces)
            await messages.rewrite(tx, workspace, finished)
            joined = [] if self._where.is_child else await fold(tx, workspace, self._where.prompt)
            draft = await open_answer(
                tx, workspace, self._where.session_id, self._where.prompt.seq, self._chosen
            )
            return joined, draft

        joined, self._draft = await self._write(work, durable=False)
        images = self._chosen.model.supports_attachments
        self._turns.extend(user_turn(message, images=images) for message in joined)

    def _watch_for_loops(self) -> None:
        self._signatures.append(tuple((c.name, c.input, o.content) for c, o in self._results))
        recent = self._signatures[-LOOK_BACK:]
        if len(recent) == LOOK_BACK and max(recent.count(s) for s in recent) > SAME_AT_MOST:
            raise TurnStuck

    async def _delegate(self, call_id: str, prompt: str) -> str:
        """Send a sub-agent: a session of its own below this one, read-only tools, the same turn."""
        if self._where.is_child:
            raise ToolFailed("A sub-agent cannot send another one.")
        child = f"{self._draft.id}$${call_id}"
        workspace, seq = self._services.workspace, self._where.prompt.seq
        said = msgspec.structs.replace(self._where.prompt, session=child, text=prompt, attachments=())

        async def begin(tx: Tx) -> Draft:
            await sessions.create(tx, workspace, child, "New Agent Session", parent=self._where.session_id)
            await insert_user_message(tx, workspace, said)
            return await open_answer(tx, workspace, child, seq, self._chosen)

        system = await self._agent.task_prompt()
        draft = await self._write(begin, durable=False)
        run = TurnRun(
            self._services,
            self._chosen,
            Conversation(child, self._where.prompt, is_child=True),
            system=system,
            tools={name: tool for name, tool in self._tools.items() if tool.task},
            history=History([UserTurn(prompt)]),
            draft=draft,
        )
        error: Exception | None = None
        text = ""
        try:
            text = await run.run()
        except TurnCancelled:
            raise
        except Exception as exc:
            error = exc
        self.cost += run.cost
        await self._write(lambda tx: self._end_child(tx, run, error), durable=False)
        if error is not None:
            raise ToolFailed(f"The sub-agent failed: {error}") from error
        if not text.strip():
            raise ToolFailed("The sub-agent ended without saying anything.")
        return text

    async def _end_child(self, tx: Tx, child: TurnRun, error: Exception | None) -> None:
        """What a sub-agent spent counts here, also when it failed; then its answer is still open."""
        workspace = self._services.workspace
        await sessions.add_cost(tx, workspace, self._where.session_id, child.cost)
        if error is not None:
            cut = endings.failed("Sub-agent failed", str(error) or type(error).__name__)
            await endings.close_child(tx, workspace, child.message_id, cut)

    async def _write(self, work: Work[T], *, durable: bool = True, reserved: bool = False) -> T:
        """A write of this turn: refused once the turn has ended."""
        written = await self._services.store.write(self._guarded(work), durable=durable, reserved=reserved)
        await self._caught_up()
        return written

    def _write_ahead(self, work: Work[None]) -> None:
        """The same without waiting: what is written later waits for it too, and fails if this did."""
        ahead = self._services.store.submit(self._guarded(work), durable=False)
        ahead.add_done_callback(_look_at)
        self._ahead.append(ahead)

    async def _caught_up(self) -> None:
        """Until all that was written ahead is stored. Raises what kept it from being stored."""
        while self._ahead:
            await self._ahead.pop(0)

    def _guarded(self, work: Work[T]) -> Work[T]:
        async def guarded(tx: Tx) -> T:
            await guard(tx, self._services.workspace, self._where.prompt.seq)
            return await work(tx)

        return guarded


def _look_at(ahead: asyncio.Future[None]) -> None:
    """A turn that ends otherwise may never come to wait for this; its failure is no news then."""
    if not ahead.cancelled():
        ahead.exception()


def _result(call: ToolCall, outcome: Outcome) -> ToolResult:
    return ToolResult(
        tool_call_id=call.id,
        name=call.name,
        content=outcome.content,
        data=base64.b64encode(outcome.data).decode() if outcome.data else "",
        mime_type=outcome.mime_type,
        metadata=msgspec.json.encode(outcome.metadata).decode() if outcome.metadata else "",
        is_error=outcome.is_error,
    )
