"""What was approved is what runs: a script that changed is asked about again, before and after the answer."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.conftest import Figure
from tests.engine.bench import SESSION, WORKSPACE, Bench, Named
from tests.engine.test_hook_points import hook
from tests.engine.test_hooks import says

from bullpen.asks.subject import Touch, look
from bullpen.errors import BadRequest
from bullpen.schema.api import GrantedPermission, PermissionAnswer
from bullpen.schema.asks import PermissionRequest, Rule
from bullpen.store import rules
from bullpen.store.tx import Tx
from bullpen.system.scripts import Script
from bullpen.tools.base import Outcome, Reach, ToolContext, tool


@pytest.fixture
def shell(bench: Bench, tmp_path: Path) -> Path:
    """A tool that asks to run a command in a directory of its own, and runs nothing."""

    @tool("shell", "Run a command.")
    async def run(params: Named, ctx: ToolContext) -> Outcome:
        await ctx.permit(
            "execute",
            description=params.name,
            params={"command": params.name},
            path=tmp_path,
            reach=Reach(command=params.name, paths=(tmp_path,)),
        )
        bench.gate.effects.append(params.name)
        return Outcome(content="ran")

    bench.agent.more_tools["shell"] = run
    return tmp_path


async def begin(bench: Bench, command: str, run_id: str) -> None:
    await bench.prompt("go", run_id=run_id)
    step = await bench.puppet.next()
    step.call(f"c {run_id}", "shell", json.dumps({"name": command}))
    step.finish(reason="tool_use")


async def asked(bench: Bench) -> PermissionRequest:
    request: PermissionRequest = await bench.watcher.until("permission_request")
    return request


async def finish(bench: Bench, run_id: str) -> None:
    (await bench.puppet.next()).finish("done")
    await bench.watcher.run_complete(run_id)


GRANTED = "make test ; ./x.sh --fast 'a b'"

MUTATIONS = [
    *(GRANTED[:n] + GRANTED[n + 1 :] for n in range(len(GRANTED)) if GRANTED[n] != " "),
    *(
        GRANTED[:n] + extra + GRANTED[n:]
        for n in (0, 9, 11, len(GRANTED))
        for extra in "x;&|<>$`\\*?~#!\n\t\u200b\u202e\u00a0"
    ),
    *(
        f"{wrapper} {GRANTED}"
        for wrapper in ("sudo", "env A=b", "time", "nohup", "exec", "eval", "!", "LD_PRELOAD=x")
    ),
    GRANTED.upper(),
    GRANTED.replace("'", '"'),
    GRANTED.replace("x.sh", "х.sh"),
    GRANTED.replace(";", "&&"),
    GRANTED.replace("./", ""),
    " ".join([GRANTED, GRANTED]),
]
"""What differs from a command that was allowed exactly, by a character, a word before it, or a letter that looks the same."""


async def test_what_differs_from_an_exact_grant_is_asked_about(
    bench: Bench, shell: Path, figure: Figure
) -> None:
    (shell / "x.sh").write_text("echo good")
    await begin(bench, GRANTED, "granted")
    await bench.grant(await asked(bench), "allow_exact")
    await finish(bench, "granted")
    for n, command in enumerate(MUTATIONS):
        await begin(bench, command, f"r{n}")
        assert (await asked(bench)).params["command"] == command
        await bench.runner.cancel(SESSION)
        await bench.watcher.run_complete(f"r{n}")
    await begin(bench, GRANTED, "again")
    await finish(bench, "again")
    assert bench.gate.effects == [GRANTED, GRANTED]
    figure(
        "X-11",
        "ATTK",
        f"{len(MUTATIONS)} mutations of a command that was allowed exactly: all asked about again",
    )


async def test_a_script_that_changed_is_asked_about_again(bench: Bench, shell: Path, figure: Figure) -> None:
    """An exact grant is for what the script contained."""
    script = shell / "x.sh"
    script.write_text("echo good")
    await begin(bench, "./x.sh", "r1")
    await bench.grant(await asked(bench), "allow_exact")
    await finish(bench, "r1")
    await begin(bench, "./x.sh", "r2")
    await finish(bench, "r2")
    script.write_text("echo evil")
    await begin(bench, "./x.sh", "r3")
    await bench.grant(await asked(bench), "deny")
    await bench.watcher.run_complete("r3")
    assert bench.gate.effects == ["./x.sh", "./x.sh"]
    figure("X-11", "ATTK", "a script that changed after an exact grant was asked about again, 1 of 1")


async def test_a_script_that_changes_under_the_question_is_asked_about_anew(
    bench: Bench, shell: Path
) -> None:
    """The answer was about something else than would run now."""
    script = shell / "x.sh"
    script.write_text("echo good")
    await begin(bench, "bash x.sh", "r1")
    first = await asked(bench)
    script.write_text("echo evil")
    await bench.grant(first)
    second = await asked(bench)
    assert (second.id != first.id, bench.gate.effects) == (True, [])
    await bench.grant(second)
    await finish(bench, "r1")
    assert bench.gate.effects == ["bash x.sh"]


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ("./x.sh", "x.sh"),
        ("sudo ./x.sh", "x.sh"),
        ("python3 x.py", "x.py"),
        ("python3.11 -u x.py a", "x.py"),
        ("bash x.sh", "x.sh"),
        (". x.sh", "x.sh"),
        ("env A=b sh x.sh", "x.sh"),
        ("make test", "Makefile"),
        ("npm test", "package.json"),
        ("cd . && ./x.sh", "x.sh"),
        ("ls && node x.js", "x.js"),
    ],
)
def test_the_files_that_a_command_runs_are_found(tmp_path: Path, command: str, file: str) -> None:
    (tmp_path / file).write_text("one")
    touch = Touch(tool="bash", action="execute", root=tmp_path, directory=tmp_path, command=command)
    (before,) = look(touch).scripts
    (tmp_path / file).write_text("two")
    (after,) = look(touch).scripts
    assert (before.path, before.digest != after.digest) == (str(tmp_path / file), True)
    assert isinstance(before, Script)


async def test_an_answer_may_carry_a_pattern_that_covers_the_call(bench: Bench, shell: Path) -> None:
    await begin(bench, "git commit -m x", "r1")
    ask = await asked(bench)
    assert (ask.why, ask.rule) == (
        "`git commit -m` is not known to only read within the workspace",
        "`git commit -m x` by shell:execute",
    )

    def answer(pattern: str) -> PermissionAnswer:
        return PermissionAnswer(permission=GrantedPermission(id=ask.id), action="allow_rule", rule=pattern)

    for wrong in ("git push *", "*", "git commit; rm *"):
        with pytest.raises(BadRequest):
            await bench.services.permissions.grant(answer(wrong), "ana")
    assert await bench.services.permissions.grant(answer("git commit *"), "ana")
    assert not await bench.services.permissions.grant(answer("git commit *"), "ana")
    await finish(bench, "r1")
    await begin(bench, "git commit -m other", "r2")
    await finish(bench, "r2")
    assert bench.gate.effects == ["git commit -m x", "git commit -m other"]


async def test_a_rule_that_denies_is_told_to_the_model_and_the_turn_goes_on(
    bench: Bench, shell: Path
) -> None:
    bench.services.permissions.skip = True
    denying = Rule(id="d", effect="deny", command="rm *")
    await bench.write(lambda tx: rules.add(tx, WORKSPACE, denying))
    await begin(bench, "sudo rm x", "r1")
    step = await bench.puppet.next()
    assert "A permission rule denies this (`rm *`)" in str(step.request)
    step.finish("done")
    await bench.watcher.run_complete("r1")
    assert bench.gate.effects == []


async def test_a_grant_ends_by_itself(bench: Bench, shell: Path) -> None:
    await begin(bench, "git commit -m x", "r1")
    await bench.grant(await asked(bench), "allow_exact")
    await finish(bench, "r1")

    async def expire(tx: Tx) -> None:
        await tx.run("UPDATE grants SET expires_at = 1")

    await bench.write(expire)
    await begin(bench, "git commit -m x", "r2")
    assert (await asyncio.wait_for(asked(bench), 20)).session_id == SESSION


# Hooks that answer for a person


async def test_a_hook_covers_no_protected_target(bench: Bench, shell: Path) -> None:
    """Neither before the call nor before the ask: a person is asked all the same."""
    hook(bench, PreToolUse=says(decision="allow"), PreAsk=says(decision="allow"))
    (shell / ".git").mkdir()
    await begin(bench, "echo x > .git/config", "r1")
    assert (await asked(bench)).protected


async def test_a_hook_approves_what_it_was_told_of(bench: Bench, shell: Path) -> None:
    """A script that changes while the hook thinks is asked about."""
    script = shell / "x.sh"
    script.write_text("echo good")
    hook(bench, PreAsk=f"echo echo evil > {script}; {says(decision='allow')}")
    await begin(bench, "./x.sh", "r1")
    await bench.grant(await asked(bench), "deny")
    assert bench.gate.effects == []


async def test_a_hook_does_not_overrule_a_rule_that_asks(bench: Bench, shell: Path) -> None:
    hook(bench, PreAsk=says(decision="allow"))
    rule = Rule(id="r", effect="ask", tool="shell")
    await bench.write(lambda tx: rules.add(tx, WORKSPACE, rule))
    await begin(bench, "make it", "r1")
    await asked(bench)
