"""A stream's way: replay, the joint with the feed, re-shown asks, and `resync` instead of a silent gap."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.bench import SESSION, WORKSPACE, Bench, Seen, read_frames

from bullpen.schema.events import ConfigChanged
from bullpen.store import log, sessions
from bullpen.store.tx import Tx

BIG = "x" * 100_000


async def happen(bench: Bench, count: int, *, text: str = "e") -> None:
    """So many durable events, each replayed."""

    async def work(tx: Tx) -> None:
        for _ in range(count):
            await log.append(tx, WORKSPACE, ConfigChanged(workspace_id=text), "updated", key="c")

    await bench.write(work, durable=False)


async def forget_before(bench: Bench, seq: int) -> None:
    async def work(tx: Tx) -> None:
        await tx.run("DELETE FROM events WHERE seq < $1", seq)
        await tx.run("UPDATE workspaces SET tail = $1", seq)

    await bench.write(work)


def cursor(bench: Bench, seq: int) -> str:
    return f"{bench.store.feeds[WORKSPACE].epoch}-{seq}"


def numbers(seen: list[Seen]) -> list[int]:
    return [event.seq for event in seen if event.seq]


@pytest.mark.parametrize("after", [0, 1, 7, 199, 200, 201, 450])
async def test_a_reconnecting_client_gets_what_it_missed_once_and_in_order(bench: Bench, after: int) -> None:
    """R-13, over page borders."""
    await happen(bench, 450)
    head = bench.store.feeds[WORKSPACE].head
    watcher = bench.watch(after=cursor(bench, after))
    await watcher.read()
    await happen(bench, 3)
    await watcher.read()
    assert numbers(watcher.seen) == list(range(after + 1, head + 4))


async def test_a_fresh_client_begins_at_the_present(bench: Bench) -> None:
    await happen(bench, 5)
    watcher = bench.watch()
    await watcher.read()
    assert watcher.seen == []
    await happen(bench, 1)
    await watcher.read()
    assert numbers(watcher.seen) == [bench.store.feeds[WORKSPACE].head]


async def test_events_that_come_while_the_replay_is_sent_are_not_lost(bench: Bench) -> None:
    await happen(bench, 450)
    watcher = bench.watch(after=cursor(bench, 0))
    async for piece in watcher.trail.begin():
        watcher.seen += read_frames(piece)
        if len(watcher.seen) < 600:
            await happen(bench, 40)
    seen = watcher.seen + [e async for piece in watcher.trail.follow() for e in read_frames(piece)]
    assert numbers(seen) == list(range(1, bench.store.feeds[WORKSPACE].head + 1))


@pytest.mark.parametrize(
    "meanwhile", [(30, 30, 30), (1, 30), (1, 30, 1, 30)], ids=["always", "at the joint", "at the joint again"]
)
async def test_a_slow_client_that_falls_behind_while_it_catches_up_misses_nothing(
    bench: Bench, meanwhile: tuple[int, ...]
) -> None:
    """The tail moves past it again while its connection takes a piece of what it had missed."""
    watcher = bench.watch()
    await watcher.read()
    start = bench.store.feeds[WORKSPACE].head
    await happen(bench, 30, text=BIG)
    assert watcher.trail.subscription.lost
    seen: list[Seen] = []
    still = list(meanwhile)
    async for piece in watcher.trail.follow():
        seen += read_frames(piece)
        if still:
            await happen(bench, still.pop(0), text=BIG)
    assert numbers(seen) == list(range(start + 1, bench.store.feeds[WORKSPACE].head + 1))


@pytest.mark.parametrize("after", ["", "nonsense", "other-3", "-1", "{epoch}-999999", "{epoch}-x", "{epoch}"])
async def test_a_cursor_that_is_not_of_this_log_gets_one_resync_and_goes_on_from_its_cursor(
    bench: Bench, after: str
) -> None:
    """Also what happens while the resync is being sent comes after it."""
    await happen(bench, 3)
    watcher = bench.watch(after=after.format(epoch=bench.store.feeds[WORKSPACE].epoch))
    begin = watcher.trail.begin()
    first = read_frames(await anext(begin))
    assert [(e.kind, e.seq) for e in first] == [("resync", 0)]
    known = int(first[0].payload.cursor.rpartition("-")[2])
    await happen(bench, 2)
    seen = [event async for piece in begin for event in read_frames(piece)]
    assert numbers(seen) == [known + 1, known + 2]


async def test_a_cursor_older_than_the_log_gets_one_resync(bench: Bench) -> None:
    await happen(bench, 20)
    await forget_before(bench, 15)
    watcher = bench.watch(after=cursor(bench, 5))
    await watcher.read()
    assert [e.kind for e in watcher.seen] == ["resync"]
    assert watcher.seen[0].payload.cursor == bench.store.feeds[WORKSPACE].cursor


async def test_the_oldest_kept_event_is_replayed_without_a_resync(bench: Bench) -> None:
    await happen(bench, 20)
    await forget_before(bench, 15)
    watcher = bench.watch(after=cursor(bench, 14))
    await watcher.read()
    assert numbers(watcher.seen) == list(range(15, bench.store.feeds[WORKSPACE].head + 1))


async def test_a_client_that_fell_out_of_the_log_hears_everything_after_its_resync(bench: Bench) -> None:
    watcher = bench.watch()
    await watcher.read()
    await happen(bench, 30, text=BIG)
    await forget_before(bench, bench.store.feeds[WORKSPACE].head)
    follow = watcher.trail.follow()
    first = read_frames(await anext(follow))
    assert [e.kind for e in first] == ["resync"]
    known = int(first[0].payload.cursor.rpartition("-")[2])
    await happen(bench, 2)
    seen = [event async for piece in follow for event in read_frames(piece)]
    assert numbers(seen) == [known + 1, known + 2]


# Asks


async def ask(bench: Bench) -> Any:
    await bench.prompt("do it", run_id="r1")
    step = await bench.puppet.next()
    step.call("c1", "act", '{"name":"a"}')
    step.finish(reason="tool_use")
    return await bench.watcher.until("permission_request")


async def test_a_late_client_is_shown_the_open_ask_once(bench: Bench) -> None:
    request = await ask(bench)
    watcher = bench.watch()
    await watcher.read()
    assert [(e.kind, e.payload, e.seq) for e in watcher.seen] == [("permission_request", request, 0)]


async def test_an_ask_the_client_has_missed_comes_by_replay_alone(bench: Bench) -> None:
    before = bench.store.feeds[WORKSPACE].head
    await ask(bench)
    watcher = bench.watch(after=cursor(bench, before))
    await watcher.read()
    shown = [e for e in watcher.seen if e.kind == "permission_request"]
    assert len(shown) == 1
    assert shown[0].seq > before


async def test_a_client_that_knew_the_ask_is_shown_it_again_before_the_replay(bench: Bench) -> None:
    request = await ask(bench)
    known = bench.store.feeds[WORKSPACE].head
    await happen(bench, 1)
    watcher = bench.watch(after=cursor(bench, known))
    await watcher.read()
    assert [(e.kind, e.seq > 0) for e in watcher.seen][:2] == [
        ("permission_request", False),
        ("config_changed", True),
    ]
    assert watcher.seen[0].payload == request


async def test_a_client_cut_off_after_the_shown_ask_or_the_resync_misses_nothing(bench: Bench) -> None:
    """Their ids stand where the stream is, not where the log is: they are taken as cursors."""
    await ask(bench)
    known = bench.store.feeds[WORKSPACE].head
    await happen(bench, 5)
    watcher = bench.watch(after=cursor(bench, known))
    (shown,) = read_frames(await anext(watcher.trail.begin()))
    assert shown.kind == "permission_request"
    again = bench.watch(after=shown.id)
    await again.read()
    assert numbers(again.seen) == list(range(known + 1, known + 6))
    watcher = bench.watch(after="of another log")
    begin = watcher.trail.begin()
    (resync,) = read_frames(await anext(begin))
    await happen(bench, 2)
    (shown,) = read_frames(await anext(begin))
    for event in (resync, shown):
        again = bench.watch(after=event.id)
        await again.read()
        assert numbers(again.seen) == [known + 6, known + 7]


async def test_an_answered_ask_is_not_shown(bench: Bench) -> None:
    request = await ask(bench)
    assert await bench.grant(request)
    watcher = bench.watch()
    await watcher.read()
    assert [e for e in watcher.seen if e.kind == "permission_request"] == []


async def test_a_client_that_fell_out_of_the_log_is_shown_the_open_asks(bench: Bench) -> None:
    """The reference's client cannot ask for them."""
    watcher = bench.watch()
    await watcher.read()
    await ask(bench)
    await happen(bench, 30, text=BIG)
    await forget_before(bench, bench.store.feeds[WORKSPACE].head)
    await watcher.read()
    assert [e.kind for e in watcher.seen][:2] == ["resync", "permission_request"]


# Growing text


async def test_a_reconnecting_client_gets_the_open_message_whole(bench: Bench) -> None:
    await bench.prompt("hello", run_id="r1")
    step = await bench.puppet.next()
    step.say("half ")
    await bench.watcher.until("message", lambda m: m.text == "half ")
    for deltas in (False, True):
        watcher = bench.watch(deltas=deltas, after=bench.store.feeds[WORKSPACE].cursor)
        await watcher.read()
        assert [(e.kind, e.payload.text) for e in watcher.seen] == [("message", "half ")]


async def test_deltas_add_up_to_the_text(bench: Bench) -> None:
    watcher = bench.watch(deltas=True)
    await bench.prompt("hello", run_id="r1")
    step = await bench.puppet.next()
    await watcher.until("message", lambda m: m.role == "assistant")
    said = ["eins ", "zwei ", "drei 🐝 ", "vier"]
    text = ""
    for words in said:
        step.say(words)
        delta = await watcher.until("message_delta")
        assert (delta.part, delta.offset) == ("text", len(text))
        text += delta.text
    step.finish()
    assert (await watcher.until("message", lambda m: m.finish)).text == text == "".join(said)


async def test_volatile_ids_do_not_repeat_and_carry_the_last_durable_number(bench: Bench) -> None:
    async def work(tx: Tx) -> None:
        await sessions.announce(tx, WORKSPACE, SESSION)

    watcher = bench.watch()
    await watcher.read()
    for _ in range(3):
        await bench.write(work)
    await watcher.read()
    ids = [e.id for e in watcher.seen]
    assert len(set(ids)) == 3
    head = bench.store.feeds[WORKSPACE].cursor
    assert all(i.startswith(f"{head}.") for i in ids)


async def test_a_closed_feed_ends_the_stream_after_its_last_event(bench: Bench) -> None:
    watcher = bench.watch()
    await watcher.read()
    await happen(bench, 2)
    bench.store.close_feed(WORKSPACE)
    await watcher.read()
    assert len(numbers(watcher.seen)) == 2
    assert watcher.trail.subscription.closed
