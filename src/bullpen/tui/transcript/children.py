"""A sub-agent within the call that sent it: what it does, what it costs, and for how long it has been silent."""

from __future__ import annotations

from bullpen.schema.message import Message
from bullpen.tui.panel import clock
from bullpen.tui.transcript.flow import Run
from bullpen.tui.transcript.items import CANCELLED_CALLS, Call
from bullpen.tui.transcript.scene import Scene
from bullpen.tui.transcript.tools import facts_of, header_of

SHOWN = 6
"""So many of its calls are shown, the last ones; all of them in its own tab."""

QUIET_S = 5.0
"""Silence is worth a word from here on."""


def tree(item: Call, scene: Scene) -> list[list[Run]]:
    """A row for each call of the sub-agent, and one with its numbers."""
    palette = scene.palette
    messages = scene.messages(item.child)
    calls = _calls(messages)
    limit = len(calls) if item.key in scene.unfolded else SHOWN
    rows: list[list[Run]] = []
    if len(calls) > limit:
        rows.append([(f"├ … {len(calls) - limit} before", palette.faint)])
    for number, (icon, words) in enumerate(calls[-limit:] if limit else [], 1):
        branch = "└" if number == min(limit, len(calls)) else "├"
        style = {"✓": palette.good, "✗": palette.bad}.get(icon, palette.accent)
        rows.append([(f"{branch} ", palette.faint), (f"{icon} ", style), (words, palette.faint)])
    if told := _numbers(item, scene, messages):
        rows.append([(told, palette.faint)])
    return rows


def _calls(messages: list[Message]) -> list[tuple[str, str]]:
    results = {result.tool_call_id: result for message in messages for result in message.tool_results}
    found: list[tuple[str, str]] = []
    for call in (call for message in messages for call in message.tool_calls):
        result = results.get(call.id)
        header = header_of(call, facts_of(call, result))
        if result is None:
            icon = "●"
        elif result.is_error:
            icon = "⊘" if result.content in CANCELLED_CALLS else "✗"
        else:
            icon = "✓"
        found.append((icon, f"{header.name} {header.main}".strip()))
    return found


def _numbers(item: Call, scene: Scene, messages: list[Message]) -> str:
    """Cost, time, silence, and that one can go there."""
    session = scene.session(item.child)
    told: list[str] = []
    if session is not None and session.cost:
        told.append(f"${session.cost:.4f}")
    if messages and item.result is None and not item.is_over:
        told.append(clock(max(scene.now - messages[0].created_at, 0)))
        last = scene.moved_at.get(item.child)
        quiet = scene.now - last if last else 0
        told += [f"quiet for {clock(quiet)}"] if quiet >= QUIET_S else []
    if session is None and not messages:
        return "enter opens it" if item.result is not None else ""
    return " · ".join((*told, "enter opens it"))
