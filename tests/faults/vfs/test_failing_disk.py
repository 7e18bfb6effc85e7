"""The disk fails once, at the nth call: the server goes on by itself, and nobody was told what is not so (R-08, R-12)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.campaign import LONG, sized
from tests.conftest import Figure
from tests.engine.bench import open_bench
from tests.faults.vfs.checker import check, look_over
from tests.faults.vfs.disk import Disk, Operation, Trouble, put_down
from tests.faults.vfs.workload import Workload

SAMPLE = 4
SHARDS = sized(1, 4)

CASES: tuple[tuple[Trouble, Operation], ...] = (
    ("eio", "read"),
    ("eio", "write"),
    ("eio", "truncate"),
    ("short", "write"),
    ("full", "write"),
    ("sync", "sync"),
    ("amnesia", "sync"),
)


@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize(("trouble", "operation"), CASES)
async def test_a_fault_at_any_call_leaves_nothing_half_done(
    trouble: Trouble, operation: Operation, shard: int, tmp_path: Path, disk: Disk, figure: Figure
) -> None:
    """All work is taken up again and ends; then a power cut shows what was really on the platter."""
    # There are a hundred writes to a sync.
    prompts = sized(6, 30) if operation == "sync" else 3
    hits = stops = rewinds = runs = 0
    moments = await _moments(operation, shard, prompts, tmp_path, disk)
    if not moments:
        return  # There are fewer such calls than shards.
    for n in moments:
        async with open_bench(tmp_path / f"{n}", vfs=disk.name) as bench:
            workload = Workload(bench, random.Random(n), prompts=prompts)
            disk.hits.clear()
            disk.fail_at(operation, n, trouble)
            await workload.run()
            promised = workload.promised()
            image = disk.image()
            tally = bench.store.tally
            stops += tally["store_stopped"]
            rewinds += tally["store_rewound"]
            runs += prompts
            at_work = len(disk.hits)
            assert tally["store_stopped"] == tally["store_reopened"], (
                "a writer that stopped goes on when the file is sound"
            )
        disk.heal()
        # Some calls come only when the file is closed.
        hits += at_work if operation == "sync" else len(disk.hits)
        look_over(tmp_path / f"{n}")
        await check(put_down(image, tmp_path / f"{n}-cut"), promised, power_cut=True)
    assert hits > 0
    if trouble in ("sync", "amnesia"):
        assert stops == hits, "no failed sync is passed over"
    if operation == "sync":
        figure(
            "R-12", "VFS", f"{hits} failed syncs ({trouble}), 0 false acknowledgements, {stops} reopenings"
        )
    found = (
        f"{hits} × {trouble} at {operation}, 0 of {runs} prompts lost, nothing half done, {rewinds} resyncs"
    )
    figure("R-11" if trouble == "full" else "R-08", "VFS", found)


async def _moments(
    operation: Operation, shard: int, prompts: int, tmp_path: Path, disk: Disk
) -> Sequence[int]:
    """Every call that an undisturbed run makes; per change a few of them."""
    async with open_bench(tmp_path / "undisturbed", vfs=disk.name) as bench:
        before = disk.calls[operation]
        await Workload(bench, random.Random(0), prompts=prompts).run()
    calls = disk.calls[operation] - before
    if not LONG:
        return random.Random(operation).sample(range(1, calls + 1), min(SAMPLE, calls))
    return range(1 + shard, calls + 1, SHARDS)
