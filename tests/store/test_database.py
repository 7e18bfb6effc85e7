"""The engine room: group commit, durability, order, and files in every state of health."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from bullpen.broker.facts import Fact
from bullpen.errors import StoreDamaged, StoreError, StoreTooNew
from bullpen.store import workspaces
from bullpen.store.database import Database, open_database
from bullpen.store.migrations import MIGRATIONS, Migration
from bullpen.store.tx import Tx, Work
from bullpen.system.clock import SystemClock

NOTES = Migration("notes", ("CREATE TABLE notes (id TEXT PRIMARY KEY, text TEXT NOT NULL)",))


@asynccontextmanager
async def database(
    path: Path, published: list[Fact] | None = None, migrations: tuple[Migration, ...] = MIGRATIONS
) -> AsyncIterator[Database]:
    opened = await open_database(
        path / "bullpen.db",
        clock=SystemClock(),
        attached=lambda workspace, session: 0,
        publish=(published if published is not None else []).extend,
        migrations=migrations,
    )
    try:
        yield opened
    finally:
        await opened.close()


def put(key: str, *, publish: bool = False) -> Work[str]:
    async def work(tx: Tx) -> str:
        await tx.run("INSERT INTO meta (key, value) VALUES ($1, 'v')", key)
        if publish:
            tx.publish(Fact("w", "k", "created", key, b""))
        return key

    return work


def put_and_fail(key: str, error: BaseException) -> Work[None]:
    async def work(tx: Tx) -> None:
        await tx.run("INSERT INTO meta (key, value) VALUES ($1, 'v')", key)
        tx.publish(Fact("w", "k", "created", key, b""))
        raise error

    return work


async def keys(opened: Database) -> set[str]:
    async def work(tx: Tx) -> set[str]:
        return {row[0] for row in await tx.rows("SELECT key FROM meta WHERE key NOT IN ('clean', 'boot')")}

    return await opened.read(work)


@asynccontextmanager
async def held_writer(opened: Database) -> AsyncIterator[None]:
    """What is submitted within the block is one batch: the writer is busy until its end."""
    entered, release = threading.Event(), threading.Event()

    async def wait(tx: Tx) -> None:
        entered.set()
        release.wait(10)

    waiting = opened.submit(wait, durable=False)
    await asyncio.to_thread(entered.wait, 10)
    try:
        yield
    finally:
        release.set()
        await waiting


# Group commit


async def test_a_failing_unit_rolls_back_alone(tmp_path: Path) -> None:
    published: list[Fact] = []
    async with database(tmp_path, published) as opened:
        async with held_writer(opened):
            futures: list[asyncio.Future[Any]] = [
                opened.submit(put("a", publish=True), durable=True),
                opened.submit(put_and_fail("b", ValueError("no")), durable=True),
                opened.submit(put("c", publish=True), durable=False),
            ]
        results = await asyncio.gather(*futures, return_exceptions=True)
        assert [str(r) for r in results] == ["a", "no", "c"]
        assert await keys(opened) == {"a", "c"}
    assert [f.key for f in published] == ["a", "c"]


async def test_a_unit_that_breaks_a_rule_of_the_schema_rolls_back_alone(tmp_path: Path) -> None:
    """Somebody else's prompt is not lost because a row was there twice."""
    published: list[Fact] = []
    async with database(tmp_path, published) as opened:
        await opened.write(put("twice"))
        async with held_writer(opened):
            futures: list[asyncio.Future[Any]] = [
                opened.submit(put("a", publish=True), durable=True),
                opened.submit(put("twice", publish=True), durable=True),
                opened.submit(put("c", publish=True), durable=True),
            ]
        results = await asyncio.gather(*futures, return_exceptions=True)
        assert [type(r).__name__ for r in results] == ["str", "StoreError", "str"]
        assert await keys(opened) == {"twice", "a", "c"}
    assert [f.key for f in published] == ["a", "c"]


async def test_a_failing_unit_alone_leaves_nothing(tmp_path: Path) -> None:
    async with database(tmp_path) as opened:
        with pytest.raises(KeyError):
            await opened.write(put_and_fail("a", KeyError("x")))
        with pytest.raises(StoreError):
            await opened.write(put("clean"))
        assert await keys(opened) == set()
        await opened.write(put("b"))
        assert await keys(opened) == {"b"}


async def test_facts_leave_in_commit_order_before_their_writers_go_on(tmp_path: Path) -> None:
    published: list[Fact] = []
    seen: list[tuple[str, list[str]]] = []
    async with database(tmp_path, published) as opened:

        async def write(key: str) -> None:
            await opened.write(put(key, publish=True))
            seen.append((key, [f.key for f in published]))

        await asyncio.gather(*(write(f"k{n}") for n in range(300)))
    assert [f.key for f in published] == [f"k{n}" for n in range(300)]
    assert all(key in keys_then for key, keys_then in seen)


async def test_what_follows_a_commit_follows_although_its_caller_left(tmp_path: Path) -> None:
    done: list[str] = []
    async with database(tmp_path) as opened:
        async with held_writer(opened):
            task = asyncio.ensure_future(opened.write(put("a"), then=done.append))
            failing = asyncio.ensure_future(
                opened.write(put_and_fail("b", ValueError("no")), then=lambda _: done.append("never"))
            )
            await asyncio.sleep(0)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(ValueError, match="no"):
            await failing
        assert await keys(opened) == {"a"}
        assert done == ["a"]


async def test_what_follows_a_commit_follows_although_what_followed_another_failed(tmp_path: Path) -> None:
    done: list[str] = []

    def fail(key: str) -> None:
        raise RuntimeError(f"a bug in what follows {key}")

    async with database(tmp_path) as opened:
        async with held_writer(opened):
            both = asyncio.gather(opened.write(put("a"), then=fail), opened.write(put("b"), then=done.append))
            await asyncio.sleep(0)
        await both
    assert done == ["b"]


async def test_a_writer_goes_on_although_publishing_failed(tmp_path: Path) -> None:
    """It is committed: its caller must not wait for ever."""

    def burst(facts: list[Fact]) -> None:
        raise RuntimeError("a bug in a subscriber")

    opened = await open_database(
        tmp_path / "bullpen.db", clock=SystemClock(), attached=lambda w, s: 0, publish=burst
    )
    assert await opened.write(put("a", publish=True)) == "a"
    await opened.close()


async def test_a_unit_that_waits_for_something_else_is_refused(tmp_path: Path) -> None:
    async def work(tx: Tx) -> None:
        await tx.run("INSERT INTO meta (key, value) VALUES ('a', '')")
        await asyncio.sleep(0)

    async with database(tmp_path) as opened:
        with pytest.raises(RuntimeError, match="waited"):
            await opened.write(work)
        assert await keys(opened) == set()


@pytest.mark.parametrize(("durable", "level"), [((True,), 2), ((False,), 1), ((False, True, False), 2)])
async def test_one_durable_unit_makes_the_whole_commit_durable(
    tmp_path: Path, durable: tuple[bool, ...], level: int
) -> None:
    async def synchronous(tx: Tx) -> int:
        row = await tx.row("PRAGMA synchronous")
        assert row is not None
        return int(row[0])

    async with database(tmp_path) as opened:
        await opened.write(synchronous, durable=level == 1)
        async with held_writer(opened):
            futures = [opened.submit(synchronous, durable=d) for d in durable]
        assert set(await asyncio.gather(*futures)) == {level}


async def test_a_reader_sees_one_moment_and_cannot_write(tmp_path: Path) -> None:
    async with database(tmp_path) as opened:
        first, second = threading.Event(), threading.Event()

        async def twice(tx: Tx) -> list[int]:
            counts = [len(await tx.rows("SELECT key FROM meta"))]
            first.set()
            second.wait(10)
            return [*counts, len(await tx.rows("SELECT key FROM meta"))]

        reading = asyncio.ensure_future(opened.read(twice))
        await asyncio.to_thread(first.wait, 10)
        await opened.write(put("a"))
        second.set()
        counts = await reading
        assert counts[0] == counts[1]
        with pytest.raises(StoreError):
            await opened.read(put("b"))


async def test_a_closed_database_says_so(tmp_path: Path) -> None:
    async with database(tmp_path) as opened:
        await opened.write(put("a"))
    with pytest.raises(StoreError, match="closed"):
        await opened.write(put("b"))
    with pytest.raises(StoreError, match="closed"):
        await keys(opened)
    await opened.close()


async def test_close_finishes_what_is_queued(tmp_path: Path) -> None:
    async with database(tmp_path) as opened:
        futures = [opened.submit(put(f"k{n}"), durable=False) for n in range(600)]
    assert len(await asyncio.gather(*futures)) == 600
    async with database(tmp_path) as opened:
        assert len(await keys(opened)) == 600


async def test_a_full_disk_fails_the_write_and_heals(tmp_path: Path) -> None:
    """R-11."""

    async def limit(tx: Tx, pages: int) -> None:
        await tx.rows(f"PRAGMA max_page_count={pages}")

    async def fill(tx: Tx) -> None:
        await tx.run("INSERT INTO meta (key, value) VALUES ('big', $1)", "x" * 500_000)

    async with database(tmp_path) as opened:
        await opened.write(lambda tx: limit(tx, 1))
        with pytest.raises(StoreError, match="space"):
            await opened.write(fill)
        assert await keys(opened) == set()
        await opened.write(lambda tx: limit(tx, 100_000))
        await opened.write(fill)
        assert await keys(opened) == {"big"}


# Files


def raw(path: Path, statement: str) -> list[Any]:
    connection = apsw.Connection(str(path / "bullpen.db"))
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


async def test_a_file_is_private_and_in_wal_mode(tmp_path: Path) -> None:
    async with database(tmp_path) as opened:
        await opened.write(put("a"))
        assert ((tmp_path / "bullpen.db").stat().st_mode & 0o777) == 0o600
    assert raw(tmp_path, "PRAGMA journal_mode") == [("wal",)]
    assert raw(tmp_path, "SELECT value FROM meta WHERE key = 'clean'") == [("1",)]


async def test_an_older_file_is_backed_up_and_brought_along(tmp_path: Path) -> None:
    async with database(tmp_path) as opened:
        await opened.write(put("old"))
    async with database(tmp_path, migrations=(*MIGRATIONS, NOTES)) as opened:
        assert await keys(opened) == {"old"}
        await opened.write(_note)
    backup = tmp_path / f"bullpen.db.before-{len(MIGRATIONS) + 1}"
    assert (backup.stat().st_mode & 0o777) == 0o600
    old = apsw.Connection(str(backup))
    assert old.execute("SELECT key FROM meta WHERE key = 'old'").fetchall() == [("old",)]
    assert old.execute("PRAGMA user_version").fetchall() == [(len(MIGRATIONS),)]
    assert old.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    old.close()


async def _note(tx: Tx) -> None:
    await tx.run("INSERT INTO notes VALUES ('a', 'b')")


async def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    broken = Migration("broken", ("CREATE TABLE half (id TEXT)", "CREATE TABLE nonsense nonsense"))
    async with database(tmp_path) as opened:
        await opened.write(put("old"))
    with pytest.raises(StoreError):
        async with database(tmp_path, migrations=(*MIGRATIONS, broken)):
            pass
    async with database(tmp_path) as opened:
        assert await keys(opened) == {"old"}
    assert raw(tmp_path, "SELECT name FROM sqlite_master WHERE name = 'half'") == []


async def test_a_newer_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    async with database(tmp_path, migrations=(*MIGRATIONS, NOTES)) as opened:
        await opened.write(put("new"))
    before = (tmp_path / "bullpen.db").read_bytes()
    with pytest.raises(StoreTooNew, match="newer Bullpen"):
        async with database(tmp_path):
            pass
    assert (tmp_path / "bullpen.db").read_bytes() == before


@pytest.mark.parametrize("content", [b"no database at all " * 300, b"SQLite format 3\0" + b"\xff" * 5000])
async def test_a_file_that_is_no_database_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bullpen.db").write_bytes(content)
    with pytest.raises(StoreDamaged):
        async with database(tmp_path):
            pass


async def _fill(opened: Database) -> None:
    async def work(tx: Tx) -> None:
        for n in range(2000):
            await tx.run("INSERT INTO meta (key, value) VALUES ($1, $2)", f"key {n}", "v" * 100)

    await opened.write(work)


def _scribble(path: Path) -> None:
    """Into the middle of the table, where opening alone does not look."""
    file = path / "bullpen.db"
    data = bytearray(file.read_bytes())
    middle = data.find(b"key 1000") // 4096 * 4096
    data[middle : middle + 512] = b"\xee" * 512
    file.write_bytes(data)


async def test_an_unclean_end_has_the_file_checked(tmp_path: Path) -> None:
    """R-09."""
    async with database(tmp_path) as opened:
        await _fill(opened)
    raw(tmp_path, "UPDATE meta SET value = '0' WHERE key = 'clean'")
    async with database(tmp_path) as opened:
        assert len(await keys(opened)) == 2000
    raw(tmp_path, "UPDATE meta SET value = '0' WHERE key = 'clean'")
    _scribble(tmp_path)
    with pytest.raises(StoreDamaged):
        async with database(tmp_path):
            pass


@pytest.mark.parametrize(
    ("clean", "boot", "is_kept"), [("0", None, True), ("1", "another", True), ("0", "another", False)]
)
async def test_only_a_power_cut_begins_a_new_epoch(
    tmp_path: Path, clean: str, boot: str | None, is_kept: bool
) -> None:
    """After it, numbers that clients have seen may be given again; a killed process loses none."""
    async with database(tmp_path) as opened:
        before = await opened.write(lambda tx: workspaces.open_log(tx, "w", "/w"))
    raw(tmp_path, f"UPDATE meta SET value = '{clean}' WHERE key = 'clean'")
    if boot is not None:
        raw(tmp_path, f"UPDATE meta SET value = '{boot}' WHERE key = 'boot'")
    async with database(tmp_path) as opened:
        after = await opened.write(lambda tx: workspaces.open_log(tx, "w", "/w"))
    assert (after.epoch == before.epoch) is is_kept


async def test_a_directory_that_cannot_be_written_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "bullpen.db").mkdir()
    with pytest.raises(StoreError):
        async with database(tmp_path):
            pass
