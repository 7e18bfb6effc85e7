"""A failed sync took unsynced commits with it: everybody is told, and nothing goes on from what is gone (R-12, R-39)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.engine.bench import WORKSPACE, Bench, open_bench
from tests.faults.vfs.checker import look_over
from tests.faults.vfs.disk import Disk

from bullpen.errors import StoreFailing


@pytest.fixture
async def bench(tmp_path: Path, disk: Disk) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path, vfs=disk.name) as bench:
        await bench.session()
        await bench.watcher.read()
        yield bench
    look_over(tmp_path)


async def lose_what_is_unsynced(bench: Bench, disk: Disk) -> None:
    """Somebody's prompt is refused, and the log is shorter than it was shown to be."""
    disk.fail_at("sync", 1, "amnesia")
    with pytest.raises(StoreFailing, match="try again"):
        await bench.prompt("refused", run_id="refused")
    await bench.watcher.until("resync")
    tally = bench.store.tally
    assert (tally["store_stopped"], tally["store_reopened"], tally["store_rewound"]) == (1, 1, 1)


async def test_a_turn_whose_beginning_was_lost_begins_again(bench: Bench, disk: Disk) -> None:
    await bench.prompt("one", run_id="one")
    first = await bench.puppet.next()
    first.say("said and lost")
    await bench.watcher.until("message", lambda m: m.text == "said and lost")
    epoch = bench.store.feeds[WORKSPACE].epoch
    await lose_what_is_unsynced(bench, disk)
    assert bench.store.feeds[WORKSPACE].epoch != epoch
    (await bench.puppet.next()).finish("said again")
    done = await bench.watcher.run_complete("one")
    assert (done.text, done.error) == ("said again", "")
    assert await bench.rows() == [
        ("user", "one", [], [], "stop"),
        ("assistant", "said again", [], [], "end_turn"),
    ]


async def test_a_turn_that_lost_its_text_is_over(bench: Bench, disk: Disk) -> None:
    await bench.prompt("one", run_id="one")
    step = await bench.puppet.next()
    step.say("kept, ")
    await bench.watcher.until("message", lambda m: m.text == "kept, ")
    await bench.session("s2")  # Acknowledged, so all before it is synced as well.
    step.say("lost")
    await bench.watcher.until("message", lambda m: m.text == "kept, lost")
    await lose_what_is_unsynced(bench, disk)
    await bench.settled()
    # It may have ended before the stream was told to reload: then the end is what it finds there.
    assert ("run_complete", "one", "error") in await bench.logged()
    answer = (await bench.messages())[-1]
    assert answer.finish is not None
    assert (answer.text, answer.finish.details) == (
        "kept, ",
        "The disk failed and lost part of this answer. Send the prompt again to go on.",
    )
    assert await bench.states() == {"one": "interrupted"}
    assert await bench.prompt("refused", run_id="refused") == "refused"
    (await bench.puppet.next()).finish("and on it goes")
    assert (await bench.watcher.run_complete("refused")).text == "and on it goes"


async def test_a_stream_opened_with_an_old_cursor_is_told(bench: Bench, disk: Disk) -> None:
    await bench.prompt("one", run_id="one")
    await bench.puppet.next()
    await bench.watcher.until("message", lambda m: m.role == "assistant")
    cursor = bench.store.feeds[WORKSPACE].cursor
    await lose_what_is_unsynced(bench, disk)
    late = bench.watch(after=cursor)
    await late.read()
    assert late.seen[0].kind == "resync"
    late.close()
