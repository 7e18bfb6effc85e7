"""Running the tool calls of a step.

A call that cannot be run, fails, or is refused is a result for the model. Calls marked parallel run side by
side, the others one at a time in the order the model gave. After a result that stops the turn the calls
behind it are not run; they get a result that says so.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any

import anyio
import msgspec

from bullpen.engine.answer import no_stray_cancel
from bullpen.engine.context import CallContext
from bullpen.engine.hook_words import HookVerdict
from bullpen.engine.hooks import Hooks
from bullpen.engine.repair import known_name
from bullpen.errors import ToolFailed, TurnCancelled
from bullpen.schema.message import ToolCall
from bullpen.system.failpoints import hit
from bullpen.tools.base import Outcome, Tool, ToolRefused, TurnStopped

log = logging.getLogger("bullpen.engine")

PARALLEL = 5
"""At most this many parallel calls run at once: enough to overlap waiting, few enough for a laptop."""

SKIPPED = "Not run: the turn was stopped by the result before this one."

BROKEN = Outcome(
    content="The arguments were not a JSON object, so nothing was run; send them again.", is_error=True
)

MakeContext = Callable[[Tool, ToolCall, bool], CallContext]
Report = Callable[[ToolCall, Outcome], Awaitable[None]]


async def run_calls(
    calls: Sequence[ToolCall],
    tools: Mapping[str, Tool],
    *,
    broken: Collection[str],
    hooks: Hooks,
    session_id: str,
    context: MakeContext,
    report: Report,
) -> bool:
    """Run them all and report each result as it comes; True when one of them stops the turn."""
    stopped = False
    limit = anyio.CapacityLimiter(PARALLEL)

    async def one(call: ToolCall) -> None:
        nonlocal stopped
        async with limit:
            outcome = BROKEN if call.id in broken else await _run(call, tools, hooks, session_id, context)
            hit("call-done")
            await report(call, outcome)
            stopped = stopped or outcome.stop_turn

    waiting = list(calls)
    while waiting:
        batch = [waiting.pop(0)]
        while waiting and _is_parallel(tools, batch[0]) and _is_parallel(tools, waiting[0]):
            batch.append(waiting.pop(0))
        if stopped:
            for call in batch:
                await report(call, Outcome(content=SKIPPED, is_error=True))
        elif len(batch) == 1:
            await one(batch[0])
        else:
            await _side_by_side(one, batch)
    return stopped


async def _side_by_side(
    one: Callable[[ToolCall], Coroutine[Any, Any, None]], batch: Sequence[ToolCall]
) -> None:
    """Raises the first error itself, as one call alone would, and not a group of one."""
    try:
        async with anyio.create_task_group() as group:
            for call in batch:
                group.start_soon(one, call)
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None


def _is_parallel(tools: Mapping[str, Tool], call: ToolCall) -> bool:
    tool = tools.get(known_name(call.name, tools))
    return tool is not None and tool.parallel


async def _run(
    call: ToolCall, tools: Mapping[str, Tool], hooks: Hooks, session_id: str, context: MakeContext
) -> Outcome:
    return await _told(call, _checked(call, tools, hooks, session_id, context))


async def _told(call: ToolCall, doing: Awaitable[Outcome]) -> Outcome:
    """Whatever goes wrong is a result."""
    try:
        return await doing
    except TurnStopped as exc:
        return Outcome(content=str(exc), is_error=True, stop_turn=True)
    except ToolRefused as exc:
        return Outcome(content=str(exc), is_error=True, metadata={"denied": True})
    except ToolFailed as exc:
        return Outcome(content=str(exc), is_error=True)
    except TurnCancelled:
        raise
    except Exception as exc:
        log.exception("tool %s failed unexpectedly", call.name)
        return Outcome(content=f"The tool failed unexpectedly: {exc}", is_error=True)


async def _checked(
    call: ToolCall, tools: Mapping[str, Tool], hooks: Hooks, session_id: str, context: MakeContext
) -> Outcome:
    tool = tools.get(known_name(call.name, tools))
    if tool is None:
        raise ToolFailed(f"There is no tool {call.name!r}. Available: {', '.join(sorted(tools))}")
    arguments: dict[str, Any] = msgspec.json.decode(call.input or "{}")
    verdict = await hooks.before_tool(session_id, tool.name, arguments)
    if verdict.refuses:
        return _refused(verdict)
    if verdict.updated_input is not None:
        arguments = verdict.updated_input
    # Models like to send null for what they leave out.
    given = {name: value for name, value in arguments.items() if value is not None}
    try:
        params = msgspec.convert(given, tool.params, strict=False)
    except msgspec.ValidationError as exc:
        raise ToolFailed(f"The arguments of {call.name} are not right: {exc}") from exc
    with_context = context(tool, call, verdict.decision == "allow")
    outcome = await _told(call, _carried_out(tool, params, with_context))
    if verdict.metadata is not None:
        outcome = _annotated(outcome, verdict, "hook")
    return _after(outcome, await hooks.after_tool(session_id, tool.name, arguments, outcome))


async def _carried_out(tool: Tool, params: msgspec.Struct, context: CallContext) -> Outcome:
    try:
        with no_stray_cancel(ToolFailed(f"{tool.name} broke off by itself.")):
            return await tool.run(params, context)
    finally:
        await context.settle()


def _refused(verdict: HookVerdict) -> Outcome:
    return Outcome(
        content=f"A hook refused this call: {verdict.reason or 'no reason given'}",
        is_error=True,
        metadata={"hook": verdict.metadata},
        stop_turn=verdict.halt,
    )


def _after(outcome: Outcome, verdict: HookVerdict) -> Outcome:
    """The result as the hooks that saw it leave it: as it is, in other words, or not at all."""
    if verdict.metadata is None:
        return outcome
    if verdict.refuses:
        why = verdict.reason or "no reason given"
        content = f"The call was made, but a hook withholds its result: {why}"
        outcome = Outcome(content=content, is_error=True, stop_turn=verdict.halt or outcome.stop_turn)
    elif verdict.output is not None:
        # What people are shown of it is made from the same content, so it goes as well.
        kept = {key: value for key, value in (outcome.metadata or {}).items() if key == "hook"}
        outcome = msgspec.structs.replace(
            outcome, content=verdict.output, data=b"", mime_type="", metadata=kept
        )
    return _annotated(outcome, verdict, "hook_after")


def _annotated(outcome: Outcome, verdict: HookVerdict, key: str) -> Outcome:
    content = f"{outcome.content}\n{verdict.context}" if verdict.context else outcome.content
    metadata = (outcome.metadata or {}) | {key: verdict.metadata}
    return msgspec.structs.replace(outcome, content=content, metadata=metadata)
