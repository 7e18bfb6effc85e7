"""Databases of every released schema open in this version, with all they hold (R-36); copies are equal (R-37)."""

from __future__ import annotations

import asyncio
import gzip
import random
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import Figure
from tests.engine.bench import open_bench
from tests.faults.gold.dumps import dump, schema
from tests.faults.vfs.checker import look_over
from tests.faults.vfs.workload import Workload

from bullpen.errors import StoreError
from bullpen.store.migrations import MIGRATIONS
from bullpen.store.sqlite import copy
from bullpen.store.store import DATABASE_NAME

GOLD = sorted(Path(__file__).parent.glob("*.db.gz"))


def unpack(gold: Path, directory: Path) -> Path:
    directory.mkdir(exist_ok=True)
    file = directory / DATABASE_NAME
    file.write_bytes(gzip.decompress(gold.read_bytes()))
    return file


def test_every_schema_has_its_gold_file() -> None:
    """A new migration brings one along: `python -m tests.faults.gold`."""
    assert [file.name for file in GOLD] == [f"{n:04}.db.gz" for n in range(1, len(MIGRATIONS) + 1)]


async def test_a_released_step_never_changes(tmp_path: Path) -> None:
    """What this version makes anew looks like what it finds in the newest gold file."""
    async with open_bench(tmp_path / "new"):
        pass
    assert schema(unpack(GOLD[-1], tmp_path)) == schema(tmp_path / "new" / DATABASE_NAME)


@pytest.mark.parametrize("gold", GOLD, ids=lambda file: file.name)
async def test_a_database_of_every_release_opens_and_goes_on(
    gold: Path, tmp_path: Path, figure: Figure
) -> None:
    before = dump(unpack(gold, tmp_path))
    async with open_bench(tmp_path) as bench:
        states = await bench.states()
        kept = {row["id"] for row in before["messages"]}
        assert kept == {row[0] for row in await bench.sql("SELECT id FROM messages")}
        await bench.session("s3")
        await bench.prompt("more", run_id="more", session="s3")
        (await bench.puppet.next()).finish("and on it goes")
        await bench.settled()
        assert await bench.states() == states | {"more": "done"}
    look_over(tmp_path)
    figure("R-36", "GOLD", f"{len(GOLD)} of {len(GOLD)} released schemas open, {len(kept)} messages kept")


async def test_a_copy_made_under_load_restores_to_an_equal_database(tmp_path: Path, figure: Figure) -> None:
    """Each copy is sound; the one taken at rest has every row, also after it was put in place and opened."""
    copies = [tmp_path / f"copy{n}.db" for n in range(8)]
    async with open_bench(tmp_path / "live") as bench:
        source = tmp_path / "live" / DATABASE_NAME
        work = asyncio.ensure_future(Workload(bench, random.Random(3), prompts=20).run())
        for target in copies[:-1]:
            await asyncio.to_thread(copy, source, target)
        await work
        await asyncio.to_thread(copy, source, copies[-1])
        wanted = dump(source)
    sizes = []
    for n, file in enumerate(copies):
        restored = tmp_path / f"restored{n}"
        restored.mkdir()
        (restored / DATABASE_NAME).write_bytes(file.read_bytes())
        look_over(restored)
        sizes.append(len(dump(restored / DATABASE_NAME)["events"]))
    assert dump(copies[-1]) == wanted
    assert sizes == sorted(sizes)
    async with open_bench(tmp_path / "restored7") as again:
        epochs = await again.sql("SELECT epoch FROM workspaces")
        assert epochs != await _epochs(tmp_path / "live"), (
            "the original may have gone on with the same numbers"
        )
    rows = sum(map(len, wanted.values()))
    figure("R-37", "GOLD", f"{len(copies)} copies under load, all sound; {rows:,} rows equal after restoring")


async def _epochs(directory: Path) -> list[tuple[str]]:
    async with open_bench(directory) as bench:
        return await bench.sql("SELECT epoch FROM workspaces")


def test_a_copy_never_takes_the_place_of_a_file(tmp_path: Path) -> None:
    source = unpack(GOLD[-1], tmp_path)
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(StoreError, match="exists already"):
        copy(source, tmp_path / "mine")
    assert (tmp_path / "mine").read_text() == "precious"


def test_a_person_can_make_a_copy(tmp_path: Path) -> None:
    source = unpack(GOLD[-1], tmp_path)
    command = [sys.executable, "-m", "bullpen", "backup", str(tmp_path / "b.db"), "--data-dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert dump(tmp_path / "b.db") == dump(source)
    assert ((tmp_path / "b.db").stat().st_mode & 0o777) == 0o600
