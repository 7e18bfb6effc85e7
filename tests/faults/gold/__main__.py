"""Write the gold file of the present schema: a small workspace with turns, calls, cancels and a queue.

A gold file is a database as a released version left it; every later version has to open it, so it never changes.
"""

from __future__ import annotations

import asyncio
import gzip
import random
import tempfile
from pathlib import Path

from tests.engine.bench import open_bench
from tests.faults.vfs.workload import Workload

from bullpen.store.migrations import MIGRATIONS
from bullpen.store.store import DATABASE_NAME


async def main() -> None:
    with tempfile.TemporaryDirectory() as made:
        async with open_bench(Path(made)) as bench:
            await Workload(bench, random.Random(1), prompts=12).run()
        content = (Path(made) / DATABASE_NAME).read_bytes()
    target = Path(__file__).parent / f"{len(MIGRATIONS):04}.db.gz"
    target.write_bytes(gzip.compress(content, mtime=0))


asyncio.run(main())
