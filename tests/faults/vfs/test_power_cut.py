"""Power cuts at random moments of real work: what was promised is there, and nothing is half done (R-01, R-08, R-09)."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from tests.campaign import sized
from tests.conftest import Figure
from tests.engine.bench import open_bench
from tests.faults.vfs.checker import check
from tests.faults.vfs.disk import Disk, Image, Operation, Trouble, put_down
from tests.faults.vfs.workload import Promised, Workload

RUNS = sized(2, 34)
CUTS_PER_RUN = sized(12, 60)

WRITE_LOG, SYNC_LOG, WRITE_FILE = (True, "write"), (True, "sync"), (False, "write")
CHANCES = {WRITE_LOG: 0.01, SYNC_LOG: 0.3, WRITE_FILE: 0.05}
"""Whether it is the write-ahead log, and what is done to it: there are many writes and few syncs."""


@pytest.mark.parametrize("seed", range(RUNS))
async def test_a_power_cut_costs_nothing_that_was_promised(
    seed: int, tmp_path: Path, disk: Disk, figure: Figure
) -> None:
    chance = random.Random(seed)
    cuts: list[tuple[Image, Promised]] = []
    moments: Counter[tuple[bool, str]] = Counter()
    async with open_bench(tmp_path / "live", vfs=disk.name) as bench:
        # Long prompts fill the write-ahead log, so that it is brought into the file under way.
        workload = Workload(bench, chance, prompts=sized(25, 40), longest=60_000)

        def maybe_cut(operation: Operation, path: str) -> Trouble | None:
            """In half of the cuts nothing unsynced survives, in the others any sectors of it."""
            moment = (path.endswith("-wal"), operation)
            if chance.random() < CHANCES.get(moment, 0) and moments[moment] < CUTS_PER_RUN // 3:
                moments[moment] += 1
                promised = workload.promised()
                cuts.append((disk.image(chance if len(cuts) % 2 else None), promised))
            return None

        disk.on_call = maybe_cut
        await workload.run()
        cuts.append((disk.image(), workload.promised()))
    assert set(moments) >= {WRITE_LOG, SYNC_LOG, WRITE_FILE}, "every kind of moment is cut"
    for n, (image, promised) in enumerate(cuts):
        await check(put_down(image, tmp_path / str(n)), promised, power_cut=True)
    runs = sum(len(promised.runs) for _, promised in cuts)
    for promise in ("R-01", "R-08", "R-09"):
        figure(
            promise, "VFS", f"{len(cuts)} power cuts, 0 of {runs:,} accepted prompts lost, 0 files corrupt"
        )
