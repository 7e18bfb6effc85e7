"""What is known of a workspace's files: where each stood when it was last looked at, and its content.

A look compares the files with that and gives back what changed since; to whom that belongs is the caller's to say. The first look only notes
stamps, and contents are read after it, piece by piece (`fill`); later looks read what has a new stamp. What is known is written down, so a
restart, or a crash, begins where the last look ended. All of this blocks, one look at a time: call it in a thread.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import msgspec

from bullpen.files.blobs import Blobs, make_private
from bullpen.files.walk import Entry, Keeper, Limits, Walk, entry_at, is_text
from bullpen.store.changes import ABSENT, Change, State
from bullpen.system.files import open_directory, private

FORM = 1
"""Of the file; one of another form is not read, and the next look is a first one."""

FILL_SHARE = 2
"""The files as they are may take this part of all the room; the rest is for what changes."""

NEVER_TOUCHED = frozenset((".git", ".hg", ".svn", ".jj", ".bzr"))
"""Version control keeps its own history."""


class _Manifest(msgspec.Struct, kw_only=True, array_like=True):
    form: int = FORM
    is_known: bool = False
    """Whether there was a look at everything."""
    is_cut: bool = False
    entries: dict[str, Entry] = {}
    hidden: set[str] = set()
    """What rules hid at the last look, so that a file that is no longer ignored does not pass for a new one."""
    unseen: set[str] = set()
    """What could not be looked at then, for the same reason."""
    named: set[str] = set()
    """Of the entries those that rules hide and somebody asked for by name."""
    rules: dict[str, tuple[int, ...]] = {}


class Look(NamedTuple):
    """`is_cut` says that there are more files than are looked at, `is_first` that nothing was known before, so nothing can have
    changed."""

    changes: list[Change]
    is_cut: bool = False
    is_first: bool = False


class Ground:
    def __init__(self, root: Path, directory: Path, *, own: Path) -> None:
        """`directory` is where all this is kept, `own` the data directory, which is nobody's work."""
        self.blobs = Blobs(directory / "contents")
        self._root = root
        self._file = directory / "manifest"
        self._own = own
        self._lock = threading.Lock()
        self._manifest: _Manifest | None = None
        self._is_written = True
        self._noted: set[str] = set()
        """Paths whose state somebody accounts for, and that are not known as they are now yet."""
        self._is_stopped = threading.Event()

    def look(self, limits: Limits, *, leave: Callable[[], Collection[str]] = tuple) -> Look:
        """Look at everything but the paths that somebody else accounts for, until the end of the look. Raises `WalkStopped` once
        stopped, and OSError."""
        with self._lock:
            manifest, now = self._load(), time.time_ns()
            self._take_notes(manifest, limits)
            known = manifest.entries
            if manifest.named:
                known = {path: entry for path, entry in known.items() if path not in manifest.named}
            walk = Walk(
                self._root,
                known=known,
                hidden=manifest.hidden,
                rules=manifest.rules,
                private=self._own,
                keeper=Keeper(self.blobs, limits, room=limits.store_bytes if manifest.is_known else 0),
                max_files=limits.files,
                now=now,
                is_stopped=self._is_stopped.is_set,
            )
            walk.run()
            manifest.named -= walk.entries.keys()
            for path in {*leave(), *self._noted}:
                walk.entries.pop(path, None)
                if path in manifest.entries:
                    walk.entries[path] = manifest.entries[path]
            changes = self._compare(manifest, walk, limits, now)
            look = Look(changes, walk.is_cut, not manifest.is_known)
            self._take_over(manifest, walk)
            # On a full disk it waits for the next look: only a crash until then would find less.
            with suppress(OSError):
                self._write()
            return look

    def unread(self, limits: Limits) -> list[str]:
        """Files whose content is not kept and could be, the latest first: those are the likeliest to change."""
        with self._lock:
            found = [
                (entry.modified_ns, path)
                for path, entry in self._load().entries.items()
                if not entry.state.is_kept and entry.size <= limits.file_bytes
            ]
        return [path for _, path in sorted(found, reverse=True)]

    def fill(self, paths: Iterable[str], limits: Limits) -> None:
        """Read the contents of some of these, if the files are still what the last look saw."""
        with self._lock:
            manifest = self._load()
            keeper = Keeper(self.blobs, limits, room=limits.store_bytes // FILL_SHARE)
            for path in paths:
                old = manifest.entries.get(path)
                if self._is_stopped.is_set() or old is None or old.state.is_kept:
                    continue
                with suppress(OSError):
                    read = self._entry(path, keeper, time.time_ns())
                    if read is not None and read.state.is_kept and old.is_of(read):
                        manifest.entries[path] = read
                        self._is_written = False

    def save(self) -> None:
        """Write down what is known, if it is news."""
        with self._lock, suppress(OSError):
            self._write()

    def note(self, paths: Iterable[str], limits: Limits) -> None:
        """Somebody accounts for what stands at these paths: a look that is under way, and the next one, do not tell it."""
        self._noted.update(path for path in paths if not path.startswith("/"))
        if self._lock.acquire(blocking=False):
            try:
                self._take_notes(self._load(), limits)
            finally:
                self._lock.release()

    def stop(self) -> None:
        """Let a look that is under way end without a result."""
        self._is_stopped.set()

    def state(self, path: str, limits: Limits, held: set[str] | None = None) -> State:
        """What stands at a path now; its content is kept. Raises OSError when that cannot be told."""
        keeper = Keeper(self.blobs, limits, room=limits.store_bytes, held=held)
        entry = self._entry(path, keeper, time.time_ns())
        return ABSENT if entry is None else entry.state

    def sweep(self, needed: set[str], held: Iterable[set[str]]) -> None:
        """Drop contents that neither the files as they are known nor anything in `needed` or `held` has. Raises OSError."""
        with self._lock:
            manifest = self._load()
            self.blobs.sweep(needed | _contents(manifest), held)

    def size_of(self, needed: set[str]) -> int:
        """How many bytes a sweep would leave."""
        with self._lock:
            return self.blobs.size_of(needed | _contents(self._load()))

    def covers(self, path: Path) -> str:
        """A real path as it is told here: relative to the workspace, absolute when it lies outside. Empty when it is none of
        undo's business."""
        told = path.relative_to(self._root) if path.is_relative_to(self._root) else path
        is_own = path.is_relative_to(self._own)
        return "" if is_own or NEVER_TOUCHED.intersection(told.parts) or not is_text(str(told)) else str(told)

    # Inside

    def _take_notes(self, manifest: _Manifest, limits: Limits) -> None:
        keeper = Keeper(self.blobs, limits, room=limits.store_bytes)
        while self._noted:
            path = self._noted.pop()
            try:
                there = self._entry(path, keeper, time.time_ns())
            except OSError:
                continue
            if there is None:
                manifest.entries.pop(path, None)
            else:
                if path not in manifest.entries:
                    manifest.named.add(path)
                manifest.entries[path] = there
            self._is_written = False

    def _compare(self, manifest: _Manifest, walk: Walk, limits: Limits, now: int) -> list[Change]:
        """What was found against what was known. What is known and was not met is looked for."""
        changes = []
        known = manifest.entries
        unseen = manifest.hidden | manifest.unseen
        for path, entry in walk.entries.items():
            old = known.get(path)
            if old is entry:
                continue
            self._is_written = False
            if old is None:
                # One that could not be seen until now, or was past a limit, was made by nobody.
                if manifest.is_known and not manifest.is_cut and not _is_below(path, unseen):
                    changes.append(Change(path, ABSENT, entry.state))
            elif old.became(entry):
                changes.append(Change(path, old.state, entry.state))
        keeper = Keeper(self.blobs, limits, room=limits.store_bytes)
        for path in known.keys() - walk.entries.keys():
            old = known[path]
            try:
                there = self._entry(path, keeper, now)
            except OSError:  # Nobody may look just now; that does not mean that it is gone.
                walk.entries[path] = old
                continue
            self._is_written = False
            if there is None:
                changes.append(Change(path, old.state, ABSENT))
                manifest.named.discard(path)
                continue
            if old.became(there):
                changes.append(Change(path, old.state, there.state))
            if path in manifest.named:
                walk.entries[path] = there
        return sorted(changes)

    def _take_over(self, manifest: _Manifest, walk: Walk) -> None:
        news = (True, walk.is_cut, walk.hidden, walk.unseen, walk.rules)
        if news != (manifest.is_known, manifest.is_cut, manifest.hidden, manifest.unseen, manifest.rules):
            self._is_written = False
        manifest.is_known, manifest.is_cut, manifest.hidden, manifest.unseen, manifest.rules = news
        manifest.entries = walk.entries

    def _entry(self, path: str, keeper: Keeper, now: int) -> Entry | None:
        place = self._root / PurePosixPath(path)
        # A directory on the way that is a file or a link by now has nothing in it that is meant here.
        with suppress(FileNotFoundError, NotADirectoryError), open_directory(place.parent) as parent:
            return entry_at(parent, place.name, keeper, now)
        return None

    def _load(self) -> _Manifest:
        if self._manifest is None:
            self._manifest = _Manifest()
            with suppress(OSError, msgspec.MsgspecError):
                os.utime(self._file)  # In use: see `drop_unused`.
                read = msgspec.msgpack.decode(self._file.read_bytes(), type=_Manifest)
                if read.form == FORM:
                    # After a power cut contents may be missing that are named here: those are read again.
                    read.entries = {
                        path: entry
                        if entry.kind != "file" or not entry.state.is_kept or entry.content in self.blobs
                        else msgspec.structs.replace(entry, changed_ns=0)
                        for path, entry in read.entries.items()
                    }
                    self._manifest = read
        return self._manifest

    def _write(self) -> None:
        """Not synced: after a power cut an older one, or none, only means that less is known. Raises OSError."""
        if self._is_written:
            return
        make_private(self._file.parent)
        beside = self._file.with_name("manifest.new")
        try:
            with open(beside, "wb", opener=private) as file:
                file.write(msgspec.msgpack.encode(self._manifest))
        except OSError:
            beside.unlink(missing_ok=True)
            raise
        os.replace(beside, self._file)
        self._is_written = True


def drop_unused(directory: Path, *, but: str, unused_s: float) -> None:
    """Remove what is kept of workspaces that nobody has opened for so long."""
    with suppress(OSError), os.scandir(directory) as found:
        for entry in found:
            with suppress(OSError):
                used_at = os.stat(Path(entry.path) / "manifest").st_mtime
                if entry.name != but and time.time() - used_at > unused_s:
                    shutil.rmtree(entry.path)


def _contents(manifest: _Manifest) -> set[str]:
    return {entry.content for entry in manifest.entries.values() if entry.kind == "file"}


def _is_below(path: str, unseen: Collection[str]) -> bool:
    if not unseen:
        return False
    above = (f"{directory}/" for directory in (path, *PurePosixPath(path).parents))
    return path in unseen or any(directory in unseen for directory in above)
