"""Rules on paths hold for what only reads, too: file by file, in listings and searches, and for commands that look at whole directories."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from tests.engine.bench import WORKSPACE, Bench, open_bench
from tests.engine.test_sub_agents import results

from bullpen.schema.asks import Rule
from bullpen.store import rules
from bullpen.system.environment import tool_environment
from bullpen.tools.registry import builtin_tools

CANARY = "canary-behind-a-rule"


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    env = tool_environment({"PATH": os.environ["PATH"]}, ())
    async with open_bench(tmp_path / "data", env=env) as opened:
        await opened.session()
        await opened.watcher.read()
        opened.agent.more_tools |= builtin_tools()
        for folder in ("vault/deep", "open"):
            (opened.root / folder).mkdir(parents=True)
            (opened.root / folder / "a.txt").write_text(
                f"{CANARY if 'vault' in folder else 'plain'} needle\n"
            )
        (opened.root / "vault/b.txt").write_text(f"{CANARY} needle\n")
        (opened.root / "link").symlink_to("vault/b.txt")
        yield opened


async def rule(bench: Bench, effect: str, path: str) -> None:
    made = Rule(id=f"{effect} {path}", effect=effect, path=path)  # type: ignore[arg-type]
    await bench.write(lambda tx: rules.add(tx, WORKSPACE, made))


async def call(bench: Bench, *calls: tuple[str, Mapping[str, object]]) -> list[str]:
    """What the model is told, if nobody is asked."""
    await bench.prompt("go", run_id="r")
    step = await bench.puppet.next()
    for n, (tool, arguments) in enumerate(calls):
        step.call(f"c{n}", tool, json.dumps(arguments))
    step.finish(reason="tool_use")
    step = await bench.puppet.next()
    said = results(step)
    step.finish("done")
    await bench.watcher.run_complete("r")
    return said


@pytest.mark.parametrize("path", ["vault", "vault/**", "**/b.txt", "*/b.txt"])
@pytest.mark.parametrize("skip", [False, True])
async def test_a_file_behind_a_rule_is_not_shown(bench: Bench, path: str, skip: bool) -> None:
    """By its name or by a link's; also where permissions are skipped."""
    bench.services.permissions.skip = skip
    await rule(bench, "deny", path)
    names = ("vault/b.txt", "link", str(bench.root / "vault/b.txt"), "open/../vault/b.txt")
    said = await call(bench, *(("view", {"file_path": name}) for name in names))
    assert ["A permission rule denies this" in each for each in said] == [True] * 4
    assert CANARY not in "".join(said)


async def test_searches_and_listings_leave_out_what_is_behind_a_rule(bench: Bench) -> None:
    await rule(bench, "deny", "vault/**")
    listed, globbed, grepped, one = await call(
        bench,
        ("ls", {}),
        ("glob", {"pattern": "**/*.txt"}),
        ("grep", {"pattern": "needle"}),
        ("grep", {"pattern": "needle", "path": "vault/b.txt"}),
    )
    assert ("b.txt" in listed, "a.txt" in listed) == (False, True)
    assert ("vault" in globbed, "open/a.txt" in globbed) == (False, True)
    assert (CANARY in grepped, "plain needle" in grepped) == (False, True)
    assert "A permission rule denies this" in one


async def test_what_rules_say_to_ask_about_is_left_out_of_searches_and_asked_about_singly(
    bench: Bench,
) -> None:
    await rule(bench, "ask", "vault/**")
    [grepped] = await call(bench, ("grep", {"pattern": "needle"}))
    assert (CANARY in grepped, "plain needle" in grepped) == (False, True)
    await bench.prompt("go", run_id="r2")
    step = await bench.puppet.next()
    step.call("v", "view", '{"file_path": "vault/b.txt"}')
    step.finish(reason="tool_use")
    request = await bench.watcher.until("permission_request")
    assert "a rule says to ask" in request.why
    await bench.grant(request)
    step = await bench.puppet.next()
    assert CANARY in results(step)[-1]
    step.finish("done")
    await bench.watcher.run_complete("r2")


@pytest.mark.parametrize(
    "command",
    [
        "cat vault/b.txt",
        "cat link",
        "grep -r needle .",
        "grep -R needle vault",
        "grep --recursive needle .",
        "rg needle",
        "rg needle .",
        "find . -name x",
        "ls -R",
        "ls vault",
        "cat open/a.txt | grep -r needle .",
    ],
)
async def test_a_command_that_may_read_it_is_not_free(bench: Bench, command: str) -> None:
    """One that names it is refused; one that goes through all there is, is asked about, or refused where nobody is."""
    await rule(bench, "deny", "vault/**")
    await bench.prompt("go", run_id="r", permissions="allow")
    step = await bench.puppet.next()
    step.call("c", "bash", json.dumps({"command": command, "description": "x"}))
    step.finish(reason="tool_use")
    step = await bench.puppet.next()
    [said] = results(step)
    assert "A permission rule denies" in said
    assert CANARY not in said
    step.finish("done")
    await bench.watcher.run_complete("r")


@pytest.mark.parametrize(
    "command", ["cat open/a.txt", "ls open", "ls", "grep -r needle open", "head -1 open/a.txt"]
)
async def test_other_reads_stay_free(bench: Bench, command: str) -> None:
    await rule(bench, "deny", "vault/**")
    [said] = await call(bench, ("bash", {"command": command, "description": "x"}))
    assert "<cwd>" in said
