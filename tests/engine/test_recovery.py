"""After a crash: what was running is closed and said so, what was accepted runs, no effect is repeated."""

from __future__ import annotations

from pathlib import Path

from tests.engine.bench import WORKSPACE, open_bench, summary_under_way

from bullpen.engine.recovery import take_up
from bullpen.store import prompts
from bullpen.store.tx import Tx


async def test_a_turn_that_was_running_is_closed_with_all_it_had_said(tmp_path: Path) -> None:
    async with open_bench(tmp_path / "one") as bench:
        await bench.session()
        await bench.prompt("hello", run_id="r1")
        step = await bench.puppet.next()
        step.say("half an ")
        await bench.watcher.until("message", lambda m: m.text == "half an ")
        await bench.prompt("behind", run_id="r2")
        head = bench.store.feeds[WORKSPACE].head
        await bench.crash_into(tmp_path / "two")
    async with open_bench(tmp_path / "two") as bench:
        assert (await bench.logged(head))[:3] == [
            ("message", "updated", "assistant", "error"),
            ("agent_event", "error"),
            ("run_complete", "r1", "error"),
        ]
        assert (await bench.rows())[:2] == [
            ("user", "hello", [], [], "stop"),
            ("assistant", "half an ", [], [], "error"),
        ]
        (await bench.puppet.next()).finish("and here I am")
        assert (await bench.watcher.run_complete("r2")).text == "and here I am"
        assert await bench.states() == {"r1": "interrupted", "r2": "done"}


async def crashed_in_a_call(tmp_path: Path, *, granted: bool) -> Path:
    async with open_bench(tmp_path / "one") as bench:
        await bench.session()
        await bench.prompt("hello", run_id="r1")
        step = await bench.puppet.next()
        step.call("c1", "act_slowly", '{"name":"a"}')
        step.call("c2", "act", '{"name":"b"}')
        step.finish(reason="tool_use")
        request = await bench.watcher.until("permission_request")
        if granted:
            await bench.grant(request)
            await bench.gate.entered()
        await bench.crash_into(tmp_path / "two")
    return tmp_path / "two"


async def test_a_call_that_was_let_loose_is_reported_as_unknown_and_not_repeated(tmp_path: Path) -> None:
    """R-07."""
    async with open_bench(await crashed_in_a_call(tmp_path, granted=True)) as bench:
        contents = {r.tool_call_id: r.content for m in await bench.messages() for r in m.tool_results}
        assert "outcome is unknown" in contents["c1"]
        assert "before this call had a result" in contents["c2"]
        await bench.settled()
        assert bench.gate.effects == []
        assert await bench.sql("SELECT * FROM intents") == []


async def test_an_ask_that_was_open_dies_and_everybody_is_told(tmp_path: Path) -> None:
    async with open_bench(await crashed_in_a_call(tmp_path, granted=False)) as bench:
        contents = [r.content for m in await bench.messages() for r in m.tool_results]
        assert all("before this call had a result" in c for c in contents)
        assert ("permission_notification", "denied") in await bench.logged()
        watcher = bench.watch()
        await watcher.read()
        assert watcher.seen == []


async def test_sub_agents_are_closed_too(tmp_path: Path) -> None:
    async with open_bench(tmp_path / "one") as bench:
        await bench.session()
        await bench.prompt("hello", run_id="r1")
        step = await bench.puppet.next()
        step.call("c1", "send", '{"prompt":"go"}')
        step.finish(reason="tool_use")
        child = (await bench.puppet.next()).request.session_id
        await bench.crash_into(tmp_path / "two")
    async with open_bench(tmp_path / "two") as bench:
        assert await bench.open_messages() == []
        ends = [e for e in await bench.logged() if e[0] == "run_complete"]
        assert ends == [("run_complete", "", "error"), ("run_complete", "r1", "error")]
        assert (await bench.rows(child))[-1][4] == "error"


async def test_those_who_had_joined_the_turn_end_with_it(tmp_path: Path) -> None:
    async with open_bench(tmp_path / "one") as bench:
        await bench.session()
        await bench.prompt("hello", run_id="r1")
        step = await bench.puppet.next()
        await bench.prompt("joins")
        step.call("c1", "echo")
        step.finish(reason="tool_use")
        await bench.puppet.next()
        await bench.crash_into(tmp_path / "two")
    async with open_bench(tmp_path / "two") as bench:
        assert set((await bench.states()).values()) == {"interrupted"}
        page = await bench.sql("SELECT body FROM events WHERE kind = 'run_complete'")
        assert b'"run_ids":["auto-joins"]' in page[-1][0]


async def test_a_summary_that_was_running_is_closed_and_not_used(tmp_path: Path) -> None:
    async with open_bench(tmp_path / "one") as bench:
        await bench.session()
        await bench.ask_and_hear("hello", "hi", run_id="r1")
        async with summary_under_way(bench) as step:
            await bench.crash_into(tmp_path / "two")
            step.finish("too late")
    async with open_bench(tmp_path / "two") as bench:
        assert await bench.open_messages() == []
        assert await bench.sql("SELECT summary_message FROM sessions") == [("",)]
        assert not await bench.read(lambda tx: prompts.any_unfinished(tx, WORKSPACE))


async def test_recovering_twice_does_nothing_more(tmp_path: Path) -> None:
    directory = await crashed_in_a_call(tmp_path, granted=True)
    async with open_bench(directory) as bench:
        head = bench.store.feeds[WORKSPACE].head
    async with open_bench(directory) as bench:
        assert bench.store.feeds[WORKSPACE].head == head


async def test_ids_of_growing_text_do_not_come_again_after_a_crash(tmp_path: Path) -> None:
    seen: list[str] = []
    async with open_bench(tmp_path / "one") as bench:
        await bench.session()
        await bench.prompt("hello", run_id="r1")
        (await bench.puppet.next()).say("half")
        await bench.watcher.until("message", lambda m: m.text == "half")
        seen += [e.id for e in bench.watcher.seen]
        await bench.crash_into(tmp_path / "two")
    async with open_bench(tmp_path / "two") as bench:
        await bench.prompt("again", run_id="r2")
        (await bench.puppet.next()).say("more")
        await bench.watcher.until("message", lambda m: m.text == "more")
        again = [e.id for e in bench.watcher.seen]
    assert not set(seen) & set(again)


async def spoil(tx: Tx) -> None:
    await tx.run("UPDATE messages SET body = 'gone' WHERE session = 's1' AND role = 'assistant'")


async def test_a_turn_that_cannot_be_read_back_is_closed_all_the_same(tmp_path: Path) -> None:
    """Its answer keeps nothing but the error; the turns beside it lose nothing."""
    async with open_bench(tmp_path / "one") as bench:
        for session in ("s1", "s2"):
            await bench.session(session)
            await bench.prompt("hello", session=session, run_id=session)
            (await bench.puppet.next()).say(f"half of {session}")
        await bench.watcher.until("message", lambda m: m.text == "half of s1")
        await bench.watcher.until("message", lambda m: m.text == "half of s2")
        await bench.store.write(spoil)
        await bench.crash_into(tmp_path / "two")
    async with open_bench(tmp_path / "two") as bench:
        assert await bench.rows("s1") == [
            ("user", "hello", [], [], "stop"),
            ("assistant", "", [], [], "error"),
        ]
        assert (await bench.rows("s2"))[1] == ("assistant", "half of s2", [], [], "error")
        assert await bench.states() == {"s1": "failed", "s2": "interrupted"}


async def test_who_goes_down_with_the_server_three_times_is_quarantined(tmp_path: Path) -> None:
    """Those who may have gone down together are tried again one by one, so that each answers for itself."""
    async with open_bench(tmp_path / "0") as bench:
        await bench.session()
        await bench.prompt("first", run_id="r0")
        await bench.puppet.next()
        await bench.prompt("a")
        await bench.prompt("b")
        await bench.crash_into(tmp_path / "1")
    found = []
    for n in range(1, 5):
        async with open_bench(tmp_path / str(n), resume=False) as bench:
            await take_up(bench.store, WORKSPACE)
            found.append(await bench.sql("SELECT state, attempts FROM prompts WHERE seq > 1 ORDER BY seq"))
            await bench.crash_into(tmp_path / str(n + 1))
    assert found == [
        [("accepted", 2), ("accepted", 2)],
        [("accepted", 3), ("accepted", 2)],
        [("failed", 3), ("accepted", 3)],
        [("failed", 3), ("failed", 3)],
    ]
    async with open_bench(tmp_path / "5") as bench:
        ends = [event for event in await bench.logged() if event[0] == "run_complete"]
        assert ends == [("run_complete", run, "error") for run in ("r0", "auto-a", "auto-b")]


async def test_leaving_in_peace_is_not_held_against_a_prompt(tmp_path: Path) -> None:
    async with open_bench(tmp_path / "one") as bench:
        await bench.session()
        await bench.prompt("first", run_id="r0")
        await bench.puppet.next()
        await bench.prompt("waits", run_id="r1")
        await bench.runner.close(drop_queue=False)
        assert await bench.sql("SELECT state, attempts FROM prompts WHERE seq > 1") == [("accepted", 0)]
