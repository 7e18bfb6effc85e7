"""Calls, results and ends of answers, each in a line."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from bullpen.present.inert import inert, inert_line
from bullpen.schema.asks import PermissionsSkip
from bullpen.schema.events import HookDecided
from bullpen.schema.message import Finish, ToolCall, ToolResult

TELLING = ("command", "file_path", "path", "url", "pattern", "query", "prompt", "name")
"""The arguments that say most about a call, best first."""


def describe_call(call: ToolCall) -> str:
    """A tool call in one line: its name and the argument that tells most."""
    try:
        arguments = json.loads(call.input or "{}")
    except (ValueError, RecursionError):
        arguments = {}
    told = ""
    if isinstance(arguments, dict) and arguments:
        key = next((k for k in TELLING if isinstance(arguments.get(k), str)), None)
        told = arguments[key] if key else json.dumps(arguments, ensure_ascii=False)
    return inert_line(f"{call.name} {told}")


def describe_result(result: ToolResult) -> str:
    """A tool's result in one line: whether it went well, and how it begins."""
    lines = [line for line in inert(result.content).split("\n") if line.strip()]
    more = f"  (+{len(lines) - 1} lines)" if len(lines) > 1 else ""
    return f"{'✗' if result.is_error else '✓'} {inert_line(lines[0]) if lines else 'nothing'}{more}"


def hook_lines(result: ToolResult) -> list[str]:
    """What hooks made of a call and of its result, a line for each that did something or failed to."""
    try:
        metadata = json.loads(result.metadata or "{}")
    except (ValueError, RecursionError):
        return []
    lines: list[str] = []
    for key in ("hook", "hook_after"):
        verdict = metadata.get(key) if isinstance(metadata, dict) else None
        for hook in verdict.get("hooks", ()) if isinstance(verdict, dict) else ():
            did = "changed the call" if hook.get("input_rewrite") else ""
            lines += _hook_line(
                hook.get("name"), hook.get("decision"), did, hook.get("reason"), hook.get("error")
            )
        if isinstance(verdict, dict) and isinstance(changed := verdict.get("updated_input"), dict):
            effective = ToolCall(id="", name=result.name, input=json.dumps(changed))
            lines.append(f"⚑ what ran: {describe_call(effective)}")
    return lines


def describe_hooks(decided: HookDecided) -> str:
    """What hooks did beside a tool's call, in one line."""
    did = "changed it" if decided.rewrote else "added to it" if decided.added else ""
    lines = [
        line
        for hook in decided.hooks
        for line in _hook_line(hook.name, hook.decision, did, hook.reason, hook.error)
    ]
    return f"{inert_line(decided.event)}: " + "; ".join(lines)


def _hook_line(name: Any, decision: Any, did: str, reason: Any, error: Any) -> list[str]:
    says = {"allow": "allowed it", "deny": "refused"}.get(decision) or did
    told = [str(text) for text in (says, reason, error) if text]
    return [f"⚑ hook {inert_line(str(name))}: {inert_line(', '.join(told))}"] if told else []


def describe_finish(finish: Finish) -> str:
    """How an answer ended, when it did not end well; else nothing."""
    match finish.reason:
        case "canceled":
            return "— cancelled"
        case "error" | "content_filter" | "max_tokens":
            why = ": ".join(inert_line(text) for text in (finish.message, finish.details) if text)
            return f"— {why or finish.reason.replace('_', ' ')}"
        case _:
            return ""


def describe_skip(changed: PermissionsSkip, me: Collection[str]) -> str:
    """Whether anything is asked from now on, and who wants it so unless that is `me`."""
    said = "" if changed.changed_by in me else inert_line(changed.changed_by)
    told = "everything is allowed from now on" if changed.skip else "it asks again from now on"
    return f"{told}, says {said}" if said else told
