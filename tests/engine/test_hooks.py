"""Hooks see each tool call first, as real commands."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from bullpen.config.shape import Hook
from bullpen.config.wanted import HookPins
from bullpen.engine.hooks import Hooks, HookVerdict
from bullpen.system.environment import tool_environment
from bullpen.system.processes import Processes
from bullpen.system.scripts import Script, digest_of

Make = Callable[..., Hooks]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    """Hooks from commands, or from whole entries."""
    async with Processes() as processes:

        def hooks(*entries: str | dict[str, Any]) -> Hooks:
            configured = [{"command": e} if isinstance(e, str) else e for e in entries]
            return Hooks(
                {"PreToolUse": msgspec.convert(configured, list[Hook])},
                root=tmp_path,
                env=tool_environment({}, ()),
                processes=processes,
            )

        yield hooks


async def ask(hooks: Hooks, tool_name: str = "bash", **tool_input: Any) -> HookVerdict:
    return await hooks.before_tool("s1", tool_name, tool_input)


async def until(happened: Callable[[], bool]) -> None:
    """A file of another process has no event; so look again and again."""
    with anyio.fail_after(20):
        while True:
            if happened():
                return
            await anyio.sleep(0.005)


def says(**words: Any) -> str:
    return f"echo '{json.dumps(words)}'"


async def test_without_a_matching_hook_nothing_happens(make: Make) -> None:
    """The matcher is a regular expression on the tool's name."""
    assert await ask(make()) == HookVerdict()
    assert await ask(make({"command": "exit 2", "matcher": "^(edit|write)$"})) == HookVerdict()
    assert (await ask(make({"command": "exit 2", "matcher": "as"}))).decision == "deny"


async def test_a_hook_is_told_everything(make: Make, tmp_path: Path) -> None:
    """On standard input, and the main things in variables under both names."""
    hooks = make("cat > input; pwd > cwd; env > env")
    await ask(hooks, command="ls -l", file_path="a", n=1)
    told = json.loads((tmp_path / "input").read_text())
    assert told == {
        "event": "PreToolUse",
        "session_id": "s1",
        "cwd": str(tmp_path),
        "tool_name": "bash",
        "tool_input": {"command": "ls -l", "file_path": "a", "n": 1},
    }
    assert (tmp_path / "cwd").read_text().strip() == str(tmp_path)
    lines = (tmp_path / "env").read_text().splitlines()
    facts = [
        "EVENT=PreToolUse",
        "TOOL_NAME=bash",
        "SESSION_ID=s1",
        f"CWD={tmp_path}",
        f"PROJECT_DIR={tmp_path}",
    ]
    facts += ["TOOL_INPUT_COMMAND=ls -l", "TOOL_INPUT_FILE_PATH=a"]
    assert {f"{prefix}_{fact}" for prefix in ("CRUSH", "BULLPEN") for fact in facts} <= set(lines)


@pytest.mark.parametrize(("code", "halt"), [(2, False), (49, True)])
async def test_an_exit_code_refuses(make: Make, code: int, halt: bool) -> None:
    """Standard error is the reason; 49 also ends the turn."""
    verdict = await ask(make(f"echo not today >&2; exit {code}"))
    assert (verdict.decision, verdict.halt, verdict.reason) == ("deny", halt, "not today")


async def test_an_envelope_decides(make: Make) -> None:
    """Allowing, with context for the model and a changed input."""
    verdict = await ask(
        make(
            says(
                version=1, decision="allow", reason="r", context=["a", "b"], updated_input={"command": "true"}
            )
        ),
        command="false",
        description="d",
    )
    assert (verdict.decision, verdict.reason, verdict.context) == ("allow", "r", "a\nb")
    assert verdict.updated_input == {"command": "true", "description": "d"}


async def test_the_other_form_of_envelope_is_understood(make: Make) -> None:
    """Hooks written for another product work as they are."""
    inner = {
        "permissionDecision": "deny",
        "permissionDecisionReason": "why",
        "additionalContext": "more",
        "updatedInput": {"command": "x"},
    }
    verdict = await ask(make(says(hookSpecificOutput=inner)), command="y")
    assert (verdict.decision, verdict.reason, verdict.context) == ("deny", "why", "more")
    assert verdict.updated_input is None


async def test_an_input_may_come_as_text(make: Make) -> None:
    """The patch is shallow: other keys stay."""
    patch = json.dumps({"b": 2})
    verdict = await ask(make(says(updated_input=patch)), a=1, b=1)
    assert (verdict.decision, verdict.updated_input) == ("none", {"a": 1, "b": 2})


async def test_a_key_with_a_dot_is_a_key(make: Make) -> None:
    """And no way into something else."""
    verdict = await ask(make(says(updated_input={"a.b": 1})), a={"b": 0})
    assert verdict.updated_input == {"a": {"b": 0}, "a.b": 1}


async def test_refusing_wins_and_words_are_joined_in_order(make: Make) -> None:
    """Whichever hook is quicker."""
    hooks = make("sleep 0.2; echo one >&2; exit 2", says(decision="allow", reason="two", context="c"))
    verdict = await ask(hooks)
    assert (verdict.decision, verdict.halt, verdict.reason, verdict.context) == (
        "deny",
        False,
        "one\ntwo",
        "c",
    )


async def test_patches_are_applied_in_the_order_of_the_config(make: Make) -> None:
    """The later one wins, also when it was quicker."""
    hooks = make(f"sleep 0.2; {says(updated_input={'a': 1, 'b': 1})}", says(updated_input={"b": 2}))
    assert (await ask(hooks, c=3)).updated_input == {"a": 1, "b": 2, "c": 3}


async def test_a_hook_that_halts_refuses(make: Make) -> None:
    """The result of the call ends the turn."""
    verdict = await ask(make(says(halt=True, reason="enough"), says(decision="allow")))
    assert (verdict.decision, verdict.halt, verdict.reason) == ("deny", True, "enough")


@pytest.mark.parametrize(
    "command", ["exit 1", "echo no json", "echo '[1]'", "/no/such/program", "kill -9 $$"]
)
async def test_a_hook_that_fails_lets_the_call_through(
    make: Make, command: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is a help, not a lock; a failure is logged."""
    with caplog.at_level(logging.WARNING):
        verdict = await ask(make(command))
    assert (verdict.decision, verdict.halt, verdict.updated_input) == ("none", False, None)
    assert caplog.records
    assert verdict.metadata
    assert verdict.metadata["hooks"][0]["error"]


FAILING = {
    "exit 1": "failed with exit code 1",
    "echo why >&2; exit 7": "failed with exit code 7: why",
    "kill -9 $$": "failed with exit code",
    "/no/such/program": "failed with exit code 127",
    "echo no json": "answered something that is no JSON",
    "echo '[1]'": "answered something that is no JSON object",
    "printf '\\xff\\xfe'": "answered something that is no JSON",
    """printf '{"reason": "\\\\ud800"}'""": "answered something that is no JSON",
    "head -c 300000 /dev/zero | tr '\\0' '['": "answered something that is no JSON",
    """echo '{"decision": "alow"}'""": "answered an unclear decision",
    """echo '{"decision": true}'""": "answered an unclear decision",
    """echo '{"halt": "no"}'""": "answered an unclear halt",
    """echo '{"updated_input": "{"}'""": "answered an unclear updated_input",
    """echo '{"updated_input": [1], "context": 5}'""": "answered an unclear context and updated_input",
    """echo '{"hookSpecificOutput": 1}'""": "answered an unclear hookSpecificOutput",
    """echo '{"updated_output": 1}'""": "answered an unclear updated_output",
    "sleep 600": "was ended after 0.3 s",
}


@pytest.mark.parametrize("command", FAILING)
async def test_a_hook_that_must_not_be_missed_refuses_when_it_fails(make: Make, command: str) -> None:
    """Whatever the failure is; the model and people are told which."""
    slow = {"timeout": 0.3} if command.startswith("sleep") else {}
    verdict = await ask(make({"command": command, "name": "gate", "fail_closed": True, **slow}))
    assert verdict.decision == "deny"
    assert verdict.reason.startswith(f"the hook 'gate' {FAILING[command]}")
    assert verdict.metadata
    assert verdict.metadata["hooks"][0]["error"].startswith(FAILING[command])


@pytest.mark.parametrize(
    "command", ["true", "echo", "echo '{}'", """echo '{"decision": null, "halt": false}'"""]
)
async def test_a_strict_hook_that_is_content_lets_pass(make: Make, command: str) -> None:
    verdict = await ask(make({"command": command, "fail_closed": True}))
    assert (verdict.decision, verdict.is_news) == ("none", False)


async def test_of_two_entries_with_one_command_the_strict_one_counts(make: Make) -> None:
    """A project's file cannot loosen the person's own."""
    assert (await ask(make("exit 1", {"command": "exit 1", "fail_closed": True}))).decision == "deny"


async def test_what_a_hook_says_is_bounded(make: Make) -> None:
    """A whole log in a model's context helps nobody."""
    verdict = await ask(make("""printf '{"context": "%0200000d"}' 0"""))
    assert len(verdict.context) < 70_000
    assert verdict.context.endswith("[cut here: the hook said more]")


async def test_a_slow_hook_is_ended_with_all_it_started(make: Make, tmp_path: Path) -> None:
    """The call goes on without it."""
    hooks = make({"command": "setsid sleep 600 & echo $! > pid; wait", "timeout": 0.5})
    assert (await ask(hooks)).decision == "none"
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


async def test_a_cancel_ends_the_hook(make: Make, tmp_path: Path) -> None:
    """Nothing of it stays."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, make("echo $BASHPID > pid.new; mv pid.new pid; sleep 600"))
        await until((tmp_path / "pid").exists)
        tasks.cancel_scope.cancel()
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


async def test_the_same_command_runs_once(make: Make, tmp_path: Path) -> None:
    """Two config files may name the same hook."""
    verdict = await ask(
        make("echo x >> runs", "echo x >> runs", {"command": "echo x >> runs", "matcher": "bash"})
    )
    assert (tmp_path / "runs").read_text() == "x\n"
    assert verdict.metadata
    assert verdict.metadata["hook_count"] == 1


async def test_what_the_hooks_did_is_shown(make: Make) -> None:
    """With the result, for people."""
    verdict = await ask(make({"command": says(decision="allow", reason="r"), "name": "gate", "matcher": "b"}))
    shown = {"decision": "allow", "halt": False, "reason": "r", "input_rewrite": False}
    assert verdict.metadata == {
        "hook_count": 1,
        **shown,
        "hooks": [{"name": "gate", "matcher": "b", **shown}],
    }


# Trust


def pinned(make: Make, entry: dict[str, Any], pins: HookPins) -> Hooks:
    made = make(entry)
    return Hooks(made._hooks, root=made._root, env=made._env, processes=made._processes, pins=pins)


@pytest.mark.parametrize("fail_closed", [True, False])
async def test_a_hook_whose_script_has_changed_is_not_run(
    make: Make, tmp_path: Path, fail_closed: bool
) -> None:
    """It is looked at when it is run: the moment between a change and its being noticed is long enough."""
    script = tmp_path / "gate.sh"
    script.write_text("touch ran")
    pins = HookPins({"sh gate.sh": (Script(str(script), str(digest_of(script))),)})
    hooks = pinned(make, {"command": "sh gate.sh", "fail_closed": fail_closed}, pins)
    assert (await ask(hooks)).decision == "none"
    (tmp_path / "ran").unlink()
    script.write_text("touch ran # twice")
    verdict = await ask(hooks)
    assert verdict.decision == ("deny" if fail_closed else "none")
    assert verdict.metadata
    assert verdict.metadata["hooks"][0]["error"].startswith("has changed since it was trusted")
    assert not (tmp_path / "ran").exists()


async def test_a_withdrawn_hook_refuses_and_does_not_run(make: Make, tmp_path: Path) -> None:
    hooks = pinned(
        make, {"command": "touch ran", "fail_closed": True}, HookPins({}, frozenset({"touch ran"}))
    )
    assert (await ask(hooks)).decision == "deny"
    assert not (tmp_path / "ran").exists()
