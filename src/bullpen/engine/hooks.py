"""Hooks: commands of the user's that see what is about to happen or has happened, and may have a say in it.

There is a pair of events around each of four things: a prompt, a turn, a tool's call, and an ask. Matching hooks run side by side; what
they say is put together in the order of the config. A hook that fails, says nothing sensible or takes too long is logged and
shown, and things go on as if it were not there; one that is marked `fail_closed` refuses instead.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec

from bullpen.config.shape import Hook, HookEvent
from bullpen.config.wanted import HookPins
from bullpen.engine.hook_words import HookVerdict, Said, combine, understand
from bullpen.system.processes import Processes, shell_argv
from bullpen.system.scripts import Script, digest_of
from bullpen.tools.base import Outcome

log = logging.getLogger(__name__)

__all__ = ["HookVerdict", "Hooks"]

NO_PINS = HookPins()

MAX_RESULT = 256_000
"""Of a result, in characters: what a hook is told of it."""


class Hooks:
    """The hooks of one workspace by event, as its configuration has checked them.

    `env` is what all commands of the workspace see; it is looked at anew for each hook."""

    def __init__(
        self,
        hooks: Mapping[str, Sequence[Hook]],
        *,
        root: Path,
        env: Mapping[str, str],
        processes: Processes,
        pins: HookPins = NO_PINS,
    ) -> None:
        self._hooks = hooks
        self._pins = pins
        self._root = root
        self._env = env
        self._processes = processes

    def has(self, *events: HookEvent) -> bool:
        """Whether there are hooks for any of these."""
        return any(self._hooks.get(event) for event in events)

    async def before_tool(self, session_id: str, tool_name: str, tool_input: dict[str, Any]) -> HookVerdict:
        facts = {"tool_name": tool_name, "tool_input": tool_input}
        return await self.run("PreToolUse", session_id, facts, name=tool_name, given=tool_input)

    async def after_tool(
        self, session_id: str, tool_name: str, tool_input: dict[str, Any], outcome: Outcome
    ) -> HookVerdict:
        result = {"content": outcome.content[:MAX_RESULT], "is_error": outcome.is_error}
        facts = {"tool_name": tool_name, "tool_input": tool_input, "tool_result": result}
        return await self.run("PostToolUse", session_id, facts, name=tool_name)

    async def run(
        self,
        event: HookEvent,
        session_id: str,
        facts: Mapping[str, Any],
        *,
        name: str | None = None,
        given: Mapping[str, Any] | None = None,
    ) -> HookVerdict:
        """Ask every hook of the event that matches the name. A cancel ends the hooks' processes.

        `given` is what a hook may change, `facts` all that it is told beside who and where.
        """
        hooks = _once_each(h for h in self._hooks.get(event, ()) if name is None or h.matches(name))
        if not hooks:
            return HookVerdict()
        said: list[Said] = [Said()] * len(hooks)
        told = {"event": event, "session_id": session_id, "cwd": str(self._root), **facts}
        stdin = msgspec.json.encode(told)
        env = {**self._env, **_variables(told)}

        async def ask(number: int, hook: Hook) -> None:
            said[number] = _strictly(hook, await self._run(hook, stdin, env))

        async with anyio.create_task_group() as tasks:
            for number, hook in enumerate(hooks):
                tasks.start_soon(ask, number, hook)
        return combine(hooks, said, given or {})

    async def _run(self, hook: Hook, stdin: bytes, env: Mapping[str, str]) -> Said:
        if await self._has_changed(hook):
            return Said(error="has changed since it was trusted and is not run ('bullpen trust' shows it)")
        try:
            process = await self._processes.start(
                shell_argv(hook.command), cwd=self._root, env=env, stdin=stdin
            )
        except OSError as exc:
            return Said(error=f"could not be started: {exc}")
        try:
            with anyio.move_on_after(hook.timeout_s) as limit:
                await process.wait()
        finally:
            with anyio.CancelScope(shield=True):
                await process.kill()
        if limit.cancelled_caught or process.exit_code is None:
            return Said(error=f"was ended after {hook.timeout_s:g} s")
        return understand(process.exit_code, process.stdout.text(), process.stderr.text())

    async def _has_changed(self, hook: Hook) -> bool:
        """Whether a hook of the project is not any more what a person trusted."""
        if hook.command in self._pins.withdrawn:
            return True
        pinned = self._pins.files.get(hook.command, ())
        return bool(pinned) and await anyio.to_thread.run_sync(_differ, pinned)


def _differ(pinned: Sequence[Script]) -> bool:
    return any(digest_of(Path(script.path)) != script.digest for script in pinned)


def _once_each(hooks: Iterable[Hook]) -> list[Hook]:
    """One per command, in the order of the config; strict if any of them is."""
    found: dict[str, Hook] = {}
    for hook in hooks:
        known = found.setdefault(hook.command, hook)
        if hook.fail_closed and not known.fail_closed:
            found[hook.command] = msgspec.structs.replace(known, fail_closed=True)
    return list(found.values())


def _strictly(hook: Hook, said: Said) -> Said:
    """What a hook said, or what its failing means."""
    if not said.error:
        return said
    log.warning("hook %r %s", hook.title, said.error)
    if not hook.fail_closed:
        return said
    reason = f"the hook {hook.title!r} {said.error}, and nothing may pass without it"
    return Said(decision="deny", halt=said.halt, reason=reason, error=said.error)


def _variables(told: Mapping[str, Any]) -> dict[str, str]:
    """The facts under our prefix and under the reference's, for which most hooks are written."""
    given = told.get("tool_input")
    tool_input = given if isinstance(given, dict) else {}
    facts = {
        "EVENT": told["event"],
        "TOOL_NAME": told.get("tool_name"),
        "SESSION_ID": told["session_id"],
        "CWD": told["cwd"],
        "PROJECT_DIR": told["cwd"],
        "TOOL_INPUT_COMMAND": tool_input.get("command"),
        "TOOL_INPUT_FILE_PATH": tool_input.get("file_path"),
    }
    # A variable cannot hold a NUL byte, nor more than some 128 KiB; standard input has the whole input.
    known = {key: text for key, text in facts.items() if isinstance(text, str) and "\0" not in text}
    small = {key: text for key, text in known.items() if len(text.encode("utf-8", "replace")) < 100_000}
    return {f"{prefix}_{key}": text for prefix in ("BULLPEN", "CRUSH") for key, text in small.items()} | {
        "CRUSH": "1"
    }
