"""Growing text: stored as it grows, equal to the whole, and nothing after a turn's end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.engine.bench import until
from tests.store.conftest import SESSION, WORKSPACE

from bullpen.schema.message import (
    Finish,
    FinishPart,
    Message,
    Reasoning,
    ReasoningPart,
    Text,
    TextPart,
)
from bullpen.store import messages, prompts
from bullpen.store.growth import OpenMessage
from bullpen.store.prompts import NewRow
from bullpen.store.store import Store, open_store
from bullpen.store.tx import Tx
from bullpen.system.clock import SystemClock


def empty(message_id: str = "m1") -> Message:
    return Message(
        parts=(),
        id=message_id,
        role="assistant",
        session_id=SESSION,
        model="",
        provider="",
        created_at=1,
        updated_at=1,
    )


@pytest.fixture
async def live(store: Store) -> OpenMessage:
    """An open message of an active turn."""

    async def work(tx: Tx) -> OpenMessage:
        row = NewRow(session=SESSION, text="hi", run_id="r1", own_run_id=True)
        seq, *_ = await prompts.accept(tx, WORKSPACE, row)
        await prompts.activate(tx, WORKSPACE, seq, seq)
        opened = OpenMessage(WORKSPACE, empty(), seq)
        await messages.insert(tx, WORKSPACE, empty(), turn=seq, live=opened)
        return opened

    return await store.write(work)


async def stored(store: Store) -> Message:
    found = await store.read(lambda tx: messages.get(tx, "m1"))
    assert found is not None
    return found


async def until_stored(store: Store, text: str) -> None:
    async def is_stored() -> bool:
        return (await stored(store)).text == text

    await until(is_stored)


async def chunk_count(store: Store) -> int:
    async def work(tx: Tx) -> int:
        return len(await tx.rows("SELECT 1 FROM chunks"))

    return await store.read(work)


async def test_chunks_add_up_to_the_message_that_is_then_written_whole(
    store: Store, live: OpenMessage
) -> None:
    words = ["", "eins ", "zwei\n", "🐝 ", '"drei" \\ ', "\0"]
    said = ""
    for word in words:
        store.growth.add(live, "reasoning", word)
        store.growth.add(live, "text", word)
        said += word
        await until_stored(store, said)
    grown = await stored(store)
    assert (grown.text, grown.reasoning) == (said, said)
    reasoning = Reasoning(thinking=said, signature="", started_at=grown.parts[0].data.started_at)  # type: ignore[union-attr]
    whole = empty().with_parts((ReasoningPart(data=reasoning), TextPart(data=Text(text=said))), 1)
    store.growth.take_back(live)
    await store.write(lambda tx: messages.rewrite(tx, WORKSPACE, whole, live=live))
    assert await stored(store) == whole == grown
    assert await chunk_count(store) == 0


async def test_many_small_pieces_become_few_chunks(store: Store, live: OpenMessage) -> None:
    for n in range(2000):
        store.growth.add(live, "text", f"{n} ")
    await until_stored(store, "".join(f"{n} " for n in range(2000)))
    assert await chunk_count(store) <= 3


async def test_nothing_grows_after_the_turn_has_ended(store: Store, live: OpenMessage) -> None:
    store.growth.add(live, "text", "before")
    await until_stored(store, "before")
    await store.write(lambda tx: prompts.end(tx, WORKSPACE, live.turn, "cancelled"))
    head = store.feeds[WORKSPACE].tail.end
    store.growth.add(live, "text", " after")
    other = OpenMessage(WORKSPACE, empty("m2"), 99)
    store.growth.add(other, "text", "never begun")
    await until(lambda: not live.pending and not other.pending)
    await store.write(lambda tx: prompts.any_unfinished(tx, WORKSPACE))
    assert (await stored(store)).text == "before"
    assert store.feeds[WORKSPACE].tail.end == head


async def test_what_was_taken_back_is_not_written_twice(store: Store, live: OpenMessage) -> None:
    store.growth.add(live, "text", "once")
    store.growth.take_back(live)
    whole = empty().with_parts((TextPart(data=Text(text="once")),), 1)
    await store.write(lambda tx: messages.rewrite(tx, WORKSPACE, whole, live=live))
    store.growth.add(live, "text", " more")
    await until_stored(store, "once more")


async def test_storage_grows_with_the_text(store: Store, live: OpenMessage) -> None:
    """R-18: 3 times the text and 64 KiB, with room for a file's pages."""
    text = ""
    for n in range(60):
        piece = f"piece number {n} of a rather long answer; " * 15
        text += piece
        store.growth.add(live, "text", piece)
        await until_stored(store, text)
    end = FinishPart(data=Finish(reason="end_turn", time=1))
    store.growth.take_back(live)
    await store.write(
        lambda tx: messages.rewrite(
            tx, WORKSPACE, empty().with_parts((TextPart(data=Text(text=text)), end), 1)
        )
    )

    async def size(tx: Tx) -> int:
        row = await tx.row(
            """SELECT (SELECT sum(length(coalesce(body, ''))) FROM events)
                + (SELECT sum(length(body)) FROM messages) + (SELECT count(*) FROM chunks)"""
        )
        assert row is not None
        return int(row[0])

    assert await store.read(size) <= 3 * len(text) + 64 * 1024


async def test_a_store_that_is_closed_is_not_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Text that comes too late, from a turn that could not be ended, is left alone."""
    async with open_store(tmp_path, clock=SystemClock(), attached=lambda workspace, session: 0) as store:
        pass
    store.growth.add(OpenMessage(WORKSPACE, empty(), 1), "text", "too late")
    for _ in range(5):
        await asyncio.sleep(0)
    assert caplog.messages == []
