"""Permissions: asked once, answered once, remembered exactly, and written down before anything happens."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from tests.engine.bench import SESSION, WORKSPACE, Bench, answer_to, settings_of

from bullpen.errors import BadRequest
from bullpen.schema.asks import PermissionRequest
from bullpen.store import asks, rules


async def act(bench: Bench, name: str, *, session: str = SESSION, run_id: str = "", call: str = "c1") -> None:
    await bench.prompt(f"do {name}", run_id=run_id or f"run {name}", session=session)
    step = await bench.puppet.next()
    step.call(call, "act", f'{{"name":"{name}"}}')
    step.finish(reason="tool_use")


async def finish(bench: Bench, run_id: str) -> None:
    (await bench.puppet.next()).finish("done")
    await bench.watcher.run_complete(run_id)


async def asked(bench: Bench) -> PermissionRequest:
    request: PermissionRequest = await bench.watcher.until("permission_request")
    return request


async def test_the_first_answer_wins_however_many_come_at_once(bench: Bench) -> None:
    """R-28."""
    await act(bench, "a")
    request = await asked(bench)
    people = [f"p{n}" for n in range(10)]
    won = await asyncio.gather(
        *(bench.grant(request, "allow" if n % 2 else "deny", by) for n, by in enumerate(people))
    )
    assert sum(won) == 1
    notice = await bench.watcher.until("permission_notification", lambda p: p.granted or p.denied)
    assert notice.answered_by == people[won.index(True)]
    await bench.watcher.read()
    notices = [e.payload for e in bench.watcher.seen if e.kind == "permission_notification"]
    assert [(n.granted, n.denied) for n in notices] == [(False, False), (notice.granted, notice.denied)]


async def test_an_unknown_ask_and_an_unknown_action(bench: Bench) -> None:
    await act(bench, "a")
    request = await asked(bench)
    assert not await bench.grant(msgspec.structs.replace(request, id="other"))
    with pytest.raises(BadRequest):
        await bench.grant(request, "maybe")
    assert await bench.grant(request)


async def test_a_question_cannot_be_granted(bench: Bench) -> None:
    """It would be closed, and whoever asked would wait for ever."""
    await bench.prompt("ask", run_id="r1")
    step = await bench.puppet.next()
    step.call("c1", "wonder", '{"name":"why?"}')
    step.finish(reason="tool_use")
    batch = await bench.watcher.until("question_batch_request")
    request = PermissionRequest(
        id=batch.id,
        session_id="",
        tool_call_id="",
        tool_name="",
        description="",
        action="",
        params=None,
        path="",
    )
    assert not await bench.grant(request)
    assert await bench.services.questions.cancel(batch.id, "ana")


async def test_the_intent_is_on_disk_before_the_effect(bench: Bench) -> None:
    await bench.prompt("do it", run_id="r1")
    step = await bench.puppet.next()
    step.call("c1", "act_slowly", '{"name":"a"}')
    step.finish(reason="tool_use")
    assert await bench.sql("SELECT call FROM intents") == []
    await bench.grant(await asked(bench))
    await bench.gate.entered()
    assert await bench.sql("SELECT call FROM intents") == [("c1",)]
    bench.gate.open("a")
    await finish(bench, "r1")
    assert await bench.sql("SELECT call FROM intents") == []


# What is remembered


async def second(bench: Bench, name: str, session: str = SESSION) -> bool:
    """Whether the same action is asked about again."""
    await act(bench, name, session=session, run_id="again", call="c9")
    done = asyncio.ensure_future(bench.puppet.next())
    ask = asyncio.ensure_future(bench.watcher.until("permission_request"))
    await asyncio.wait([done, ask], return_when=asyncio.FIRST_COMPLETED)
    was_asked = ask.done()
    for task in (done, ask):
        task.cancel()
    return was_asked


@pytest.mark.parametrize(
    ("action", "same", "other_argument", "other_session"),
    [
        ("allow", True, True, True),
        ("allow_session", False, False, True),
        ("allow_exact", False, True, False),
        ("allow_rule", False, False, False),
    ],
)
@pytest.mark.parametrize("case", ["same", "other_argument", "other_session"])
async def test_a_grant_covers_what_it_says(
    bench: Bench, action: str, same: bool, other_argument: bool, other_session: bool, case: str
) -> None:
    await bench.session("s2")
    await act(bench, "a")
    await bench.grant(await asked(bench), action)
    await finish(bench, "run a")
    expected = {"same": same, "other_argument": other_argument, "other_session": other_session}[case]
    name = "b" if case == "other_argument" else "a"
    session = "s2" if case == "other_session" else SESSION
    assert await second(bench, name, session) is expected


async def test_a_grant_can_be_listed_and_taken_back(bench: Bench) -> None:
    await act(bench, "a")
    await bench.grant(await asked(bench), "allow_rule", "ana")
    await finish(bench, "run a")
    (rule,) = await bench.read(lambda tx: rules.in_force(tx, WORKSPACE))
    assert (rule.effect, rule.tool, rule.scope, rule.created_by) == ("allow", "act:write", "workspace", "ana")
    assert await bench.write(lambda tx: rules.remove(tx, WORKSPACE, rule.id))
    assert not await bench.write(lambda tx: rules.remove(tx, WORKSPACE, rule.id))
    assert await second(bench, "a")


async def test_an_exact_grant_can_be_listed_and_taken_back(bench: Bench) -> None:
    await act(bench, "a")
    await bench.grant(await asked(bench), "allow_exact", "ana")
    await finish(bench, "run a")
    (grant,) = await bench.read(lambda tx: asks.grants(tx, WORKSPACE))
    assert (grant.scope, grant.tool_name, grant.granted_by) == ("exact", "act", "ana")
    assert grant.expires_at - grant.created_at == 30 * 86_400
    assert await bench.write(lambda tx: asks.revoke(tx, WORKSPACE, grant.id))
    assert not await bench.write(lambda tx: asks.revoke(tx, WORKSPACE, grant.id))
    assert await second(bench, "a")


async def test_a_loser_remembers_nothing(bench: Bench) -> None:
    await act(bench, "a")
    request = await asked(bench)
    await bench.grant(request, "deny")
    assert not await bench.grant(request, "allow_rule")
    assert await bench.read(lambda tx: rules.in_force(tx, WORKSPACE)) == []


# Who decides


async def test_the_config_may_allow_a_tool_or_one_action_of_it(bench: Bench) -> None:
    for n, allowed in enumerate((("act",), ("act:write",))):
        bench.agent.settings = settings_of(allowed_tools=allowed)
        await act(bench, f"a{n}")
        await finish(bench, f"run a{n}")
    bench.agent.settings = settings_of(allowed_tools=("act:read",))
    assert await second(bench, "b")
    assert bench.gate.effects == ["a0", "a1"]


async def test_skipping_asks_nobody_and_a_run_may_refuse_everything(bench: Bench) -> None:
    bench.services.permissions.skip = True
    await act(bench, "a")
    await finish(bench, "run a")
    await bench.prompt("do b", run_id="r2", permissions="deny")
    step = await bench.puppet.next()
    step.call("c1", "act", '{"name":"b"}')
    step.finish(reason="tool_use")
    (await bench.puppet.next()).finish("I may not.")
    await bench.watcher.run_complete("r2")
    assert bench.gate.effects == ["a"]


async def test_one_permission_is_open_per_session_and_sessions_do_not_wait(bench: Bench) -> None:
    await bench.session("s2")
    await act(bench, "a")
    first = await asked(bench)
    await act(bench, "b", session="s2")
    second_request = await asked(bench)
    assert {first.session_id, second_request.session_id} == {SESSION, "s2"}
    assert await bench.grant(second_request)
    await finish(bench, "run b")
    assert bench.gate.effects == ["b"]
    assert (await bench.services.permissions.grant(answer_to(first, "allow"), "ana")) is True
