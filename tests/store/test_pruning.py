"""What a server that lives for months must not keep: ended prompts, answered asks, intents of turns long over."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.store.conftest import SESSION, WORKSPACE

from bullpen.schema.api import Attachment
from bullpen.store import asks, log, prompts, sessions
from bullpen.store.prompts import NewRow
from bullpen.store.store import Store, open_store
from bullpen.store.tx import Tx


class Clock:
    """Puts itself forward by days when told so."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def aged(tmp_path: Path, clock: Clock) -> AsyncIterator[Store]:
    async with open_store(tmp_path, clock=clock, attached=lambda workspace, session: 0) as opened:
        await opened.open_feed(WORKSPACE, str(tmp_path))
        await opened.write(lambda tx: sessions.create(tx, WORKSPACE, SESSION, "Named"))
        yield opened


def row(key: str, *attachments: Attachment) -> NewRow:
    return NewRow(
        session=SESSION,
        text="hi",
        run_id=key,
        own_run_id=True,
        idempotency_key=key,
        attachments=attachments,
    )


async def accept(store: Store, new: NewRow) -> int:
    seq, *_ = await store.write(lambda tx: prompts.accept(tx, WORKSPACE, new))
    return seq


async def end(store: Store, seq: int) -> None:
    await store.write(lambda tx: prompts.activate(tx, WORKSPACE, seq, seq))
    await store.write(lambda tx: prompts.end(tx, WORKSPACE, seq, "done"))


async def count(store: Store, table: str) -> int:
    async def work(tx: Tx) -> int:
        found = await tx.rows(f"SELECT 1 FROM {table}")
        return len(found)

    return await store.read(work)


async def leave_behind(store: Store) -> None:
    """As if so many others had been accepted since that what was before lies far behind."""

    async def work(tx: Tx) -> None:
        await tx.run("UPDATE workspaces SET last_prompt = last_prompt + $1", prompts.KEPT_PROMPTS)

    await store.write(work)


async def test_ended_prompts_and_their_keys_are_forgotten_when_old_and_far_behind(
    aged: Store, clock: Clock
) -> None:
    """What waits or runs stays, however old; a key that ended less than a day ago still answers the same."""
    old, waiting, fresh = [await accept(aged, row(key)) for key in ("old", "waiting", "fresh")]
    await end(aged, old)
    clock.now += log.KEPT_S
    await end(aged, fresh)
    clock.now += 1
    await leave_behind(aged)
    await aged.write(lambda tx: prompts.prune(tx, WORKSPACE))
    assert await count(aged, "prompts") == 2
    assert await accept(aged, row("waiting")) == waiting
    assert await accept(aged, row("fresh")) == fresh
    assert await accept(aged, row("old")) > fresh, (
        "a forgotten key is a new one, and no number is given twice"
    )


async def test_a_clock_that_is_put_forward_forgets_nobody(aged: Store, clock: Clock) -> None:
    """Old by the clock alone: the last prompts are known again by their keys."""
    seq = await accept(aged, row("k"))
    await end(aged, seq)
    clock.now += 30 * log.KEPT_S
    await aged.write(lambda tx: prompts.prune(tx, WORKSPACE))
    assert await accept(aged, row("k")) == seq


async def test_old_prompts_go_while_others_come(aged: Store, clock: Clock) -> None:
    """A workspace that is never closed forgets too."""
    await end(aged, await accept(aged, row("old")))
    clock.now += log.KEPT_S + 1
    await leave_behind(aged)
    for n in range(prompts.PRUNE_EVERY):
        await accept(aged, row(f"k{n}"))
    assert await count(aged, "prompts") == prompts.PRUNE_EVERY


async def test_the_files_of_an_ended_prompt_are_not_kept_twice(aged: Store) -> None:
    picture = Attachment(file_path="a.png", file_name="a.png", mime_type="image/png", content=b"x" * 1000)
    seq = await accept(aged, row("k", picture))
    await end(aged, seq)
    found = await aged.read(lambda tx: prompts.get(tx, WORKSPACE, seq))
    assert found is not None
    assert (found.text, found.attachments) == ("hi", ())


async def test_intents_go_with_the_prompts_of_their_turns(aged: Store, clock: Clock) -> None:
    """An intent of a turn that still runs is what tells after a crash that its outcome is unknown."""
    over, active = [await accept(aged, row(key)) for key in ("over", "active")]
    for seq in (over, active):
        await aged.write(lambda tx, seq=seq: prompts.activate(tx, WORKSPACE, seq, seq))  # type: ignore[misc]
        await aged.write(
            lambda tx, seq=seq: asks.intend(  # type: ignore[misc]
                tx, WORKSPACE, turn=seq, message=f"m{seq}", call="c", fingerprint=""
            )
        )
    await aged.write(lambda tx: prompts.end(tx, WORKSPACE, over, "cancelled"))
    clock.now += log.KEPT_S + 1
    await leave_behind(aged)
    await aged.write(lambda tx: prompts.prune(tx, WORKSPACE))
    await aged.write(lambda tx: asks.prune(tx, WORKSPACE))
    assert await aged.read(lambda tx: asks.intended(tx, f"m{over}")) == set()
    assert await aged.read(lambda tx: asks.intended(tx, f"m{active}")) == {"c"}
