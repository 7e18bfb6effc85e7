"""Tells when something happens to files, also to those that do not exist yet.

One thread watches for all who follow, and ends when nobody does. What it tells is only a hint to look: hints are
gathered for a moment, and now and then there is one too many. The library is loaded by the thread, when the first one
follows.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

log = logging.getLogger("bullpen.watch")

STEP_MS = 100
"""Changes are told when there was none for so long: an editor writes a file in several steps."""

DEBOUNCE_MS = 500
"""The longest that changes are gathered while more and more come."""

SETTLE_MS = 1000
"""So long after it began to watch, everybody is told to look: something may have happened in between."""

REST_S = 0.1
"""Before it watches something else: when a hundred workspaces open at once, one beginning is enough for many."""

RETRY_S = 10.0
"""When nothing can be watched at all, it is tried again after so long."""


class Wanted(NamedTuple):
    files: frozenset[Path] = frozenset()
    folders: frozenset[Path] = frozenset()
    alone: frozenset[Path] = frozenset()

    def all(self) -> frozenset[Path]:
        return self.files | self.folders | self.alone


class Following:
    """One who follows some paths. Made by `Watcher.follow`; all calls come from the event loop's thread."""

    def __init__(self, watcher: Watcher, tell: Callable[[], None]) -> None:
        self._watcher = watcher
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self.wanted = Wanted()
        self._relevant: frozenset[str] = frozenset()
        self._folders: frozenset[str] = frozenset()
        self.is_open = True

    def set(self, files: Iterable[Path], *, folders: Iterable[Path] = (), alone: Iterable[Path] = ()) -> None:
        """From now on tell of these, whether they are there yet or not.

        Files are watched through their directory, because they may be replaced; those that lie `alone` in a busy one
        and never are, by themselves. Of `folders`, whatever is in them counts.
        """
        wanted = Wanted(frozenset(files), frozenset(folders), frozenset(alone))
        if wanted != self.wanted and self.is_open:
            self.wanted = wanted
            self._relevant = frozenset(str(p) for path in wanted.all() for p in (path, *path.parents))
            self._folders = frozenset(map(str, wanted.folders))
            self._watcher.refresh()

    def concerns(self, path: str) -> bool:
        return path in self._relevant or os.path.dirname(path) in self._folders

    def close(self) -> None:
        """Tell nothing any more."""
        self.is_open = False
        self._watcher.forget(self)

    def look(self) -> None:
        """Called by the thread."""
        try:
            self._loop.call_soon_threadsafe(self._told)
        except RuntimeError:
            log.debug("the event loop is gone")

    def _told(self) -> None:
        if self.is_open:
            self._tell()


class Watcher:
    """Shared by all workspaces of a server: the system allows only so many watchers."""

    def __init__(self) -> None:
        self._followings: list[Following] = []
        self._lock = threading.Lock()
        self._stale = threading.Event()
        """Set when what is watched is no longer what is followed."""
        self.thread: threading.Thread | None = None

    def follow(self, tell: Callable[[], None]) -> Following:
        """`tell` is called on the running event loop after something happened to the paths that were set."""
        following = Following(self, tell)
        with self._lock:
            self._followings.append(following)
        return following

    def refresh(self) -> None:
        with self._lock:
            self._stale.set()
            if self.thread is None:
                self.thread = threading.Thread(target=self._run, name="file watcher", daemon=True)
                self.thread.start()

    def forget(self, following: Following) -> None:
        with self._lock:
            self._followings = [f for f in self._followings if f is not following]
            self._stale.set()

    def _run(self) -> None:
        try:
            while followings := self._current():
                directories = _existing(followings)
                for changed in self._changes(directories):
                    concerned = [f for f in followings if changed is None or any(map(f.concerns, changed))]
                    for following in concerned:
                        following.look()
                    if self._stale.is_set() or (concerned and _existing(followings) != directories):
                        break
                time.sleep(REST_S)
        except Exception:
            log.exception("files are not watched until somebody follows others")
            with self._lock:
                self.thread = None

    def _current(self) -> list[Following]:
        """Those who follow now. With nobody left the thread is over; the next one starts another."""
        with self._lock:
            self._stale.clear()
            if not self._followings:
                self.thread = None
            return list(self._followings)

    def _changes(self, directories: frozenset[str]) -> Iterator[set[str] | None]:
        """What happened, until something else is to be watched; None: anything may have."""
        for polling in (False, True):
            try:
                yield from _watch(directories, self._stale, polling=polling)
                return
            except FileNotFoundError:
                return
            except OSError as exc:
                log.warning("files cannot be watched%s: %s", " even by polling" if polling else "", exc)
        self._stale.wait(RETRY_S)
        yield None


def _watch(directories: frozenset[str], stop: threading.Event, *, polling: bool) -> Iterator[set[str] | None]:
    from watchfiles import watch

    is_settled = False
    for changes in watch(
        *sorted(directories),
        watch_filter=None,
        debounce=DEBOUNCE_MS,
        step=STEP_MS,
        stop_event=stop,
        rust_timeout=SETTLE_MS,
        yield_on_timeout=True,
        raise_interrupt=False,
        force_polling=polling,
        recursive=False,
        ignore_permission_denied=True,
    ):
        if changes:
            changed = {path for _, path in changes}
            yield changed
            if any(not os.path.isfile(path) for path in directories & changed):
                # One that goes takes its watch along, even if another of its name is there by now.
                return
        elif not is_settled:
            is_settled = True
            yield None


def _existing(followings: Iterable[Following]) -> frozenset[str]:
    """What has to be watched to hear of everything: where a directory is missing, the nearest one above it."""
    found: set[Path] = set()
    for wanted in (following.wanted for following in followings):
        found |= {path.parent for path in wanted.files} | wanted.folders | wanted.alone
    return frozenset(str(path if path.exists() else _nearest(path)) for path in found)


def _nearest(path: Path) -> Path:
    return next((p for p in path.parents if p.is_dir()), Path("/"))
