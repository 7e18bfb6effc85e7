"""The numbered log: gapless, paged, and forgetting only what is both old and far behind."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from tests.store.conftest import SESSION, WORKSPACE

from bullpen.schema.events import ConfigChanged, Keep
from bullpen.schema.message import BORN_FINISHED, Message, Text, TextPart
from bullpen.store import files, log, messages, prompts, sessions
from bullpen.store.log import KEPT_EVENTS, KEPT_S, PAGE
from bullpen.store.prompts import NewRow
from bullpen.store.store import Store, open_store
from bullpen.store.tx import Tx
from bullpen.system.clock import SystemClock

CHANGED = ConfigChanged(workspace_id=WORKSPACE)


async def append(store: Store, count: int, *, key: str = "k", keep: Keep = "each") -> None:
    async def work(tx: Tx) -> None:
        for _ in range(count):
            await log.append(tx, WORKSPACE, CHANGED, "updated", key=key, keep=keep)

    await store.write(work, durable=False)


async def replayed(store: Store, after: int = 0) -> list[int]:
    """The numbers of all events after one, page by page."""
    numbers: list[int] = []
    while True:
        page = await store.read(partial(log.read_page, workspace=WORKSPACE, after=after))
        numbers += [e.seq for e in page.events]
        if page.complete:
            assert page.last == page.head
            return numbers
        after = page.last


async def test_numbers_have_no_gaps_across_failures_and_openings(store: Store, tmp_path: Path) -> None:
    async def fail(tx: Tx) -> None:
        await log.append(tx, WORKSPACE, CHANGED, "updated")
        raise ValueError("no")

    for _ in range(3):
        await append(store, 2)
        with pytest.raises(ValueError, match="no"):
            await store.write(fail)
    assert await replayed(store) == list(range(1, 8))


async def test_a_workspace_keeps_its_epoch_and_gets_a_new_generation_with_every_opening(
    tmp_path: Path,
) -> None:
    opened = []
    for _ in range(3):
        async with open_store(tmp_path, clock=SystemClock(), attached=lambda w, s: 0) as store:
            feed = await store.open_feed(WORKSPACE, "/p")
            await append(store, 1)
            opened.append((feed.epoch, feed.generation, feed.head))
    assert len({epoch for epoch, _, _ in opened}) == 1
    assert [(generation, head) for _, generation, head in opened] == [(1, 1), (2, 2), (3, 3)]


async def test_whole_pages_are_read_to_the_end(store: Store) -> None:
    await append(store, 2 * PAGE - 1)
    assert await replayed(store) == list(range(1, 2 * PAGE + 1))
    assert await replayed(store, PAGE) == list(range(PAGE + 1, 2 * PAGE + 1))
    assert await replayed(store, 2 * PAGE) == []


async def test_of_latest_events_the_last_is_always_replayed_and_older_ones_not_within_a_page(
    store: Store,
) -> None:
    """Over a page border an older one may come too, before the newer: never after it, never instead."""
    await append(store, 3, key="a", keep="latest")
    await append(store, 1, key="b")
    assert await replayed(store, 1) == [4, 5]
    await append(store, PAGE, key="c")
    await append(store, 2, key="a", keep="latest")
    numbers = await replayed(store, 1)
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == PAGE + 7
    assert PAGE + 6 not in numbers
    assert set(range(6, PAGE + 6)) <= set(numbers)


async def test_another_workspace_has_numbers_of_its_own(store: Store) -> None:
    await store.open_feed("w2", "/other")
    await append(store, 3)
    page = await store.read(lambda tx: log.read_page(tx, "w2", 0))
    assert (page.head, page.events) == (0, [])


async def test_a_finished_message_is_stored_once_and_replayed_whole(store: Store) -> None:
    text = "y" * 50_000
    message = Message(
        parts=(TextPart(data=Text(text=text)), BORN_FINISHED),
        id="m1",
        role="user",
        session_id=SESSION,
        model="",
        provider="",
        created_at=1,
        updated_at=1,
    )
    await store.write(lambda tx: messages.insert(tx, WORKSPACE, message))

    async def sizes(tx: Tx) -> tuple[int, int]:
        row = await tx.row("SELECT sum(coalesce(length(body), 0)) FROM events")
        other = await tx.row("SELECT sum(length(body)) FROM messages")
        assert row is not None
        assert other is not None
        return row[0], other[0]

    in_events, in_messages = await store.read(sizes)
    assert in_events < 1000
    assert in_messages > 50_000
    page = await store.read(lambda tx: log.read_page(tx, WORKSPACE, 1))
    assert text.encode() in page.events[-1].body


async def test_a_deleted_row_is_not_replayed_and_its_deletion_is(store: Store) -> None:
    await store.write(lambda tx: files.record_change(tx, WORKSPACE, SESSION, "/f", "", "new"))
    page = await store.read(lambda tx: log.read_page(tx, WORKSPACE, 0))
    assert [e.kind for e in page.events] == ["session", "file", "file"]

    async def delete(tx: Tx) -> None:
        await files.forget_session(tx, WORKSPACE, SESSION)
        await sessions.delete(tx, WORKSPACE, SESSION)

    await store.write(delete)
    page = await store.read(lambda tx: log.read_page(tx, WORKSPACE, 0))
    assert [(e.kind, e.action) for e in page.events] == [("session", "created"), ("session", "deleted")]


# Forgetting


async def _age(store: Store, up_to: int) -> None:
    async def work(tx: Tx) -> None:
        await tx.run("UPDATE events SET at = $1 WHERE seq <= $2", tx.steady - KEPT_S - 60, up_to)

    await store.write(work, durable=False)


async def _bounds(store: Store) -> tuple[int, int]:
    page = await store.read(lambda tx: log.read_page(tx, WORKSPACE, 10**9))
    return page.tail, page.head


async def test_only_what_is_old_and_far_behind_is_forgotten(store: Store) -> None:
    await append(store, KEPT_EVENTS + 500)
    await store.write(lambda tx: log.prune(tx, WORKSPACE))
    assert (await _bounds(store))[0] == 1
    await _age(store, 300)
    await store.write(lambda tx: log.prune(tx, WORKSPACE))
    tail, head = await _bounds(store)
    assert tail == 301
    await _age(store, head)
    await store.write(lambda tx: log.prune(tx, WORKSPACE))
    tail, head = await _bounds(store)
    assert tail == head - KEPT_EVENTS
    assert await replayed(store, head - 3) == [head - 2, head - 1, head]


class SetClock(SystemClock):
    """A wall clock that somebody sets."""

    ahead_s = 0.0

    def time(self) -> float:
        return super().time() + self.ahead_s


@pytest.mark.parametrize("step_s", [24 * 3600.0 + 60, -24 * 3600.0 - 60])
async def test_a_clock_that_is_set_makes_nobody_forget(tmp_path: Path, step_s: float) -> None:
    """R-35: what was told a moment ago is replayed, whatever the date is now, before and after a restart."""
    clock = SetClock()
    for events in (KEPT_EVENTS, 2000):
        async with open_store(tmp_path, clock=clock, attached=lambda workspace, session: 0) as store:
            await store.open_feed(WORKSPACE, "/p")
            await append(store, events)
            clock.ahead_s += step_s
            await append(store, 2000)
            assert (await _bounds(store))[0] == 1


async def test_a_clock_that_is_set_makes_no_key_forgotten(tmp_path: Path) -> None:
    """R-35: a prompt that is sent again a moment later is the same run, whatever the date is now."""
    clock, runs = SetClock(), []
    for run_id in ("r1", "r2"):
        row = NewRow(session="s", text="hi", run_id=run_id, own_run_id=True, idempotency_key="k")
        async with open_store(tmp_path, clock=clock, attached=lambda workspace, session: 0) as store:
            await store.open_feed(WORKSPACE, "/p")
            await append(store, 1)
            seq, given, _ = await store.write(partial(prompts.accept, workspace=WORKSPACE, new=row))
            await store.write(partial(prompts.end, workspace=WORKSPACE, seq=seq, state="done"))
        runs.append(given)
        clock.ahead_s += KEPT_S + 60
    assert runs == ["r1", "r1"]


async def test_a_workspace_that_stays_open_forgets_too(store: Store) -> None:
    """R-38: pruning does not wait for the next opening."""
    await append(store, KEPT_EVENTS)
    await _age(store, KEPT_EVENTS)
    await append(store, 3000)
    tail, head = await _bounds(store)
    assert head - tail < KEPT_EVENTS + 1500


async def test_a_page_is_short_when_its_events_are_long(store: Store) -> None:
    """A client that stops reading in the middle of a replay costs one page, whatever is in it."""
    long = ConfigChanged(workspace_id="w" * 40_000)

    async def work(tx: Tx) -> None:
        for _ in range(9):
            await log.append(tx, WORKSPACE, long, "updated", key="k")
        await log.append(tx, WORKSPACE, ConfigChanged(workspace_id="w" * 2 * log.PAGE_BYTES), "updated")

    await store.write(work)
    page = await store.read(partial(log.read_page, workspace=WORKSPACE, after=1))
    assert 0 < sum(len(event.body) for event in page.events) <= log.PAGE_BYTES
    assert await replayed(store, after=1) == list(range(2, 12))
