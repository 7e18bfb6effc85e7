"""Hooks: commands of the user's that see each tool call first, and may refuse, allow or change it.

There is one event, `PreToolUse`. Matching hooks run side by side; what they say is put together in the order
of the config: refusing wins over allowing, and halting stays. A hook that fails, says nothing sensible or takes
too long is logged, and the call goes on as if the hook were not there: a hook is a help, not a lock.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import anyio
import msgspec

from bullpen.config.shape import Hook
from bullpen.system.processes import Processes, shell_argv

EXIT_DENY = 2
EXIT_HALT = 49

EVENT = "PreToolUse"

Decision = Literal["allow", "deny", "none"]

log = logging.getLogger(__name__)


class HookVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the hooks make of a call. `updated_input` is the whole new input, None when it stays as it is.
    `context` is added to the tool's result. `metadata` is what the result shows as `hook`, None when no
    hook ran."""

    decision: Decision = "none"
    halt: bool = False
    reason: str = ""
    context: str = ""
    updated_input: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What one hook said."""

    decision: Decision = "none"
    halt: bool = False
    reason: str = ""
    context: str = ""
    patch: dict[str, Any] | None = None


class Hooks:
    """The hooks of one workspace, as its configuration has checked them."""

    def __init__(
        self, hooks: Sequence[Hook], *, root: Path, env: Mapping[str, str], processes: Processes
    ) -> None:
        self._hooks = hooks
        self._root = root
        self._env = dict(env)
        self._processes = processes

    def __bool__(self) -> bool:
        return bool(self._hooks)

    async def before_tool(self, session_id: str, tool_name: str, tool_input: dict[str, Any]) -> HookVerdict:
        """Ask every hook that matches the tool. A cancel ends the hooks' processes."""
        matching = {hook.command: hook for hook in reversed(self._hooks) if hook.matches(tool_name)}
        hooks = [hook for hook in self._hooks if matching.get(hook.command) is hook]
        if not hooks:
            return HookVerdict()
        said: list[Said] = [Said()] * len(hooks)
        stdin = _stdin(tool_name, tool_input, session_id, self._root)
        env = {**self._env, **_variables(tool_name, tool_input, session_id, self._root)}

        async def ask(number: int, hook: Hook) -> None:
            said[number] = await self._run(hook, stdin, env)

        async with anyio.create_task_group() as tasks:
            for number, hook in enumerate(hooks):
                tasks.start_soon(ask, number, hook)
        return _combine(hooks, said, tool_input)

    async def _run(self, hook: Hook, stdin: bytes, env: Mapping[str, str]) -> Said:
        try:
            process = await self._processes.start(
                shell_argv(hook.command), cwd=self._root, env=env, stdin=stdin
            )
        except OSError as exc:
            log.warning("hook %r could not be started: %s", hook.command, exc)
            return Said()
        try:
            with anyio.move_on_after(hook.timeout_s) as limit:
                await process.wait()
        finally:
            with anyio.CancelScope(shield=True):
                await process.kill()
        if limit.cancelled_caught or process.exit_code is None:
            log.warning("hook %r was ended after %s s", hook.command, hook.timeout_s)
            return Said()
        return _understand(hook, process.exit_code, process.stdout.text(), process.stderr.text())


def _stdin(tool_name: str, tool_input: dict[str, Any], session_id: str, root: Path) -> bytes:
    facts = {"event": EVENT, "session_id": session_id, "cwd": str(root), "tool_name": tool_name}
    return msgspec.json.encode({**facts, "tool_input": tool_input})


def _variables(tool_name: str, tool_input: dict[str, Any], session_id: str, root: Path) -> dict[str, str]:
    """The facts under our prefix and under the reference's, for which most hooks are written."""
    facts = {
        "EVENT": EVENT,
        "TOOL_NAME": tool_name,
        "SESSION_ID": session_id,
        "CWD": str(root),
        "PROJECT_DIR": str(root),
        "TOOL_INPUT_COMMAND": tool_input.get("command"),
        "TOOL_INPUT_FILE_PATH": tool_input.get("file_path"),
    }
    # A variable cannot hold a NUL byte, nor more than some 128 KiB; standard input has the whole input.
    known = {key: text for key, text in facts.items() if isinstance(text, str) and "\0" not in text}
    small = {key: text for key, text in known.items() if len(text.encode("utf-8", "replace")) < 100_000}
    return {f"{prefix}_{key}": text for prefix in ("BULLPEN", "CRUSH") for key, text in small.items()} | {
        "CRUSH": "1"
    }


def _understand(hook: Hook, exit_code: int, stdout: str, stderr: str) -> Said:
    match exit_code:
        case 0:
            return _understand_output(hook, stdout)
        case 2 | 49:
            return Said(decision="deny", halt=exit_code == EXIT_HALT, reason=stderr.strip())
        case _:
            log.warning("hook %r failed with exit code %s: %s", hook.command, exit_code, stderr.strip()[:500])
            return Said()


def _understand_output(hook: Hook, stdout: str) -> Said:
    try:
        words = json.loads(stdout)
    except ValueError:
        return Said()
    if not isinstance(words, dict):
        return Said()
    nested = words.get("hookSpecificOutput")
    inner = nested if isinstance(nested, dict) else {}
    return Said(
        decision=_decision(words.get("decision") or inner.get("permissionDecision")),
        halt=words.get("halt") is True,
        reason=_text(words.get("reason") or inner.get("permissionDecisionReason")),
        context=_text(words.get("context") or inner.get("additionalContext")),
        patch=_patch(hook, words.get("updated_input") or inner.get("updatedInput")),
    )


def _decision(word: Any) -> Decision:
    match word:
        case "allow":
            return "allow"
        case "deny":
            return "deny"
        case _:
            return "none"


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "\n".join(str(each) for each in value)
    return value if isinstance(value, str) else ""


def _patch(hook: Hook, value: Any) -> dict[str, Any] | None:
    if isinstance(value, str) and value:
        try:
            value = json.loads(value)
        except ValueError:
            log.warning("hook %r gave an updated_input that is not JSON", hook.command)
    return value if isinstance(value, dict) else None


def _combine(hooks: Sequence[Hook], said: Sequence[Said], tool_input: dict[str, Any]) -> HookVerdict:
    decisions = {each.decision for each in said}
    halt = any(each.halt for each in said)
    decision: Decision = (
        "deny" if "deny" in decisions or halt else "allow" if "allow" in decisions else "none"
    )
    updated = dict(tool_input)
    for each in said:
        updated |= each.patch or {}
    is_rewritten = decision != "deny" and updated != tool_input
    reason = "\n".join(each.reason for each in said if each.reason)
    return HookVerdict(
        decision=decision,
        halt=halt,
        reason=reason,
        context="\n".join(each.context for each in said if each.context),
        updated_input=updated if is_rewritten else None,
        metadata={
            "hook_count": len(hooks),
            "decision": decision,
            "halt": halt,
            "reason": reason,
            "input_rewrite": is_rewritten,
            "hooks": [_shown(hook, each) for hook, each in zip(hooks, said, strict=True)],
        },
    )


def _shown(hook: Hook, said: Said) -> dict[str, Any]:
    return {
        "name": hook.name or hook.command,
        "matcher": hook.matcher,
        "decision": said.decision,
        "halt": said.halt,
        "reason": said.reason,
        "input_rewrite": said.patch is not None,
    }
