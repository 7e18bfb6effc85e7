"""Hints about files: also for those that come later, and none from a thread that nobody needs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bullpen.system import watch
from bullpen.system.watch import Following, Watcher


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Hints:
    """Counts what is told, so that a test can wait for the next one."""

    def __init__(self, watcher: Watcher) -> None:
        self._told = asyncio.Event()
        self.following: Following = watcher.follow(self._told.set)

    async def next(self) -> None:
        async with asyncio.timeout(20):
            await self._told.wait()
        self._told.clear()


@pytest.fixture
async def watcher(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Watcher]:
    monkeypatch.setattr(watch, "SETTLE_MS", 200)
    watcher = Watcher()
    yield watcher
    assert watcher.thread is None or not watcher._followings


async def test_a_file_is_heard_of_before_it_is_there(tmp_path: Path, watcher: Watcher) -> None:
    """First its directory comes, then the file, then another one over it."""
    file = tmp_path / "a" / "b" / "config.json"
    hints = Hints(watcher)
    hints.following.set([file])
    await hints.next()
    for step in (file.parent.parent.mkdir, file.parent.mkdir, file.touch, lambda: file.write_text("x")):
        step()
        await hints.next()
    (tmp_path / "new").write_text("y")
    (tmp_path / "new").replace(file)
    await hints.next()
    hints.following.close()


async def test_each_hears_of_its_own_alone(tmp_path: Path, watcher: Watcher) -> None:
    """What lies beside it is nobody's business, except in a folder that is followed as a whole."""
    mine, folder = Hints(watcher), Hints(watcher)
    (tmp_path / "folder").mkdir()
    mine.following.set([tmp_path / "mine"])
    folder.following.set([], folders=[tmp_path / "folder"])
    await mine.next()
    await folder.next()
    (tmp_path / "beside").touch()
    (tmp_path / "folder" / "any").touch()
    await folder.next()
    assert not mine._told.is_set()
    (tmp_path / "mine").touch()
    await mine.next()
    mine.following.close()
    folder.following.close()


async def test_a_file_in_a_busy_directory_is_watched_alone(tmp_path: Path, watcher: Watcher) -> None:
    lock = tmp_path / "state.lock"
    lock.touch()
    hints = Hints(watcher)
    hints.following.set([], alone=[lock])
    await hints.next()
    lock.write_text("changed")
    await hints.next()
    hints.following.close()


async def test_the_thread_ends_with_the_last_who_follows(tmp_path: Path, watcher: Watcher) -> None:
    """And another one begins with the next."""
    for _ in range(2):
        hints = Hints(watcher)
        hints.following.set([tmp_path / "x"])
        thread = watcher.thread
        assert thread is not None
        await hints.next()
        hints.following.close()
        await asyncio.to_thread(thread.join, 20)
        assert not thread.is_alive()
        assert watcher.thread is None


async def test_a_directory_that_goes_and_comes_back_at_once(tmp_path: Path, watcher: Watcher) -> None:
    """The new one has the name of the old one, and nobody watches it yet."""
    file = tmp_path / "dir" / "file"
    file.parent.mkdir()
    hints = Hints(watcher)
    hints.following.set([file])
    await hints.next()
    file.parent.rename(tmp_path / "old")
    file.parent.mkdir()
    await hints.next()
    for number in range(3):
        file.write_text(str(number))
        await hints.next()
    hints.following.close()
