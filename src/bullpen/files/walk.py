"""A walk through a workspace that notes what stands at every path, and reads only files whose stamp is a new one.

What ignore rules hide is left out, as are version control, caches and our own data. Directories are entered by descriptor, so a link that
appears on the way leads nowhere. It runs before and after every command, so what is as it was costs one look and nothing else.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from bullpen.files.blobs import Blobs
from bullpen.store.changes import NOT_KEPT, PathKind, State
from bullpen.system.files import BESIDE, open_directory
from bullpen.system.ignore import IGNORE_FILES, IgnoreRules

MAX_DEPTH = 100
"""Directories nested deeper than this are nobody's work."""

TICK_NS = 20_000_000
COARSE_TICK_NS = 2_000_000_000
"""Two changes of a file within one tick of the kernel's clock have the same stamp, so a stamp this young is not relied on. Some file
systems count in seconds."""

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_ENTER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Limits(NamedTuple):
    """How much is kept for undo. What is past a limit is told, and not undone."""

    files: int = 50_000
    file_bytes: int = 1 << 20
    store_bytes: int = 500 << 20


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What stood at a path, and the stamp by which it is known again: a changed mode, or a date that was set back, shows in
    `changed_ns`. That is 0 where the stamp cannot be relied on."""

    kind: PathKind
    mode: int
    content: str = ""
    inode: int = 0
    size: int = 0
    modified_ns: int = 0
    changed_ns: int = 0

    @property
    def state(self) -> State:
        return State(self.kind, self.mode, self.content)

    def is_of(self, other: Entry) -> bool:
        """Whether the other one is the same file in the same state, as far as stamps tell."""
        same = (self.inode, self.size, self.modified_ns, self.mode)
        is_same = same == (other.inode, other.size, other.modified_ns, other.mode)
        return is_same and (not self.changed_ns or self.changed_ns == other.changed_ns)

    def became(self, other: Entry) -> bool:
        """Whether the other one is something else. One that was not kept is the same while its stamp is."""
        if self.state == other.state:
            return False
        return self.state.is_kept or not self.is_of(other)


class Keeper:
    """Keeps contents as far as there is room; `held` takes their names, so that they outlast a sweep."""

    def __init__(self, blobs: Blobs, limits: Limits, *, room: int, held: set[str] | None = None) -> None:
        self._blobs = blobs
        self._file_bytes = limits.file_bytes
        self._room = room
        self._held = held

    def read(self, parent: int, name: str, found: os.stat_result) -> str:
        """The name of a file's content, also where it cannot be read or kept: that does not mean that the file is gone."""
        with suppress(OSError):
            if found.st_size <= min(self._file_bytes, self._room - self._blobs.total):
                with open(os.open(name, _READ, dir_fd=parent), "rb", buffering=0) as file:
                    content = file.readall()
                if len(content) <= self._file_bytes:
                    kept = self._blobs.put(content, room=self._room, held=self._held)
                    if kept is not None:
                        return kept
        return f"{NOT_KEPT}{found.st_size}-{found.st_mtime_ns}"


def entry_at(parent: int, name: str, keeper: Keeper, now: int) -> Entry | None:
    """What stands at a name in an open directory; None when nothing does, or what has no content of its own. Raises OSError
    when that cannot be told."""
    try:
        return entry_of(parent, name, os.stat(name, dir_fd=parent, follow_symlinks=False), keeper, now)
    except FileNotFoundError:
        return None


def entry_of(parent: int, name: str, found: os.stat_result, keeper: Keeper, now: int) -> Entry | None:
    """The same for a name that was looked at already. Raises OSError when it went meanwhile."""
    mode = stat.S_IMODE(found.st_mode)
    tick = TICK_NS if found.st_ctime_ns % 1_000_000_000 else COARSE_TICK_NS
    is_young = found.st_ctime_ns >= now - tick
    stamp = (found.st_ino, found.st_size, found.st_mtime_ns, 0 if is_young else found.st_ctime_ns)
    if stat.S_ISREG(found.st_mode):
        return Entry("file", mode, keeper.read(parent, name, found), *stamp)
    if stat.S_ISDIR(found.st_mode):
        return Entry("dir", mode)
    if stat.S_ISLNK(found.st_mode):
        # Targets that are not text are kept as what they look like, and cannot be made again.
        target = os.fsencode(os.readlink(name, dir_fd=parent)).decode("utf-8", "replace")
        return Entry("link", 0, target, *stamp)
    return None


class WalkStopped(Exception):
    """The workspace closes; nobody waits for the result."""


class _Rules:
    """The rules of a directory, read when somebody asks: mostly nobody does."""

    def __init__(self, directory: Path, above: _Rules | None = None) -> None:
        self._directory = directory
        self._above = above
        self._rules: IgnoreRules | None = None

    def get(self) -> IgnoreRules:
        if self._rules is None:
            above = self._above
            self._rules = above.get().inside(self._directory) if above else IgnoreRules(self._directory)
        return self._rules


class Walk:
    """One walk. `entries` is what was found, `hidden` what rules hide, `unseen` what nobody may look at (directories with a slash at
    the end), `rules` the stamps of the ignore files by directory; `is_cut` when there was more."""

    def __init__(
        self,
        root: Path,
        *,
        known: Mapping[str, Entry],
        hidden: Collection[str],
        rules: Mapping[str, tuple[int, ...]],
        private: Path,
        keeper: Keeper,
        max_files: int,
        now: int,
        is_stopped: Callable[[], bool],
    ) -> None:
        self.entries: dict[str, Entry] = {}
        self.hidden: set[str] = set()
        self.unseen: set[str] = set()
        self.rules: dict[str, tuple[int, ...]] = {}
        self.is_cut = False
        self._root = root
        self._known = known
        self._was_hidden = hidden
        self._old_rules = rules
        self._private = str(private.relative_to(root)) if private.is_relative_to(root) else None
        self._keeper = keeper
        self._left = max_files
        self._now = now
        self._is_stopped = is_stopped

    def run(self) -> None:
        """Raises `WalkStopped`, and OSError when there is no such directory."""
        with open_directory(self._root) as root:
            self._enter(root, ".", "", _Rules(self._root), True, 0)
        if self._is_stopped():
            raise WalkStopped

    def _enter(
        self, parent: int, name: str, prefix: str, rules: _Rules, same_rules: bool, depth: int
    ) -> None:
        if self._is_stopped():
            raise WalkStopped
        try:
            fd = os.open(name, _ENTER, dir_fd=parent)
        except OSError:
            self.unseen.add(prefix)
            return
        try:
            with os.scandir(fd) as found:
                listed = list(found)
            if len(listed) > self._left:  # It shall be the same ones each time.
                listed.sort(key=lambda entry: entry.name)
            here = self._rules_here(fd, prefix, {entry.name for entry in listed})
            if here and prefix:
                rules = _Rules(self._root / prefix, rules)
            same_rules = same_rules and self._old_rules.get(prefix, ()) == here
            for directory in self._take(fd, listed, prefix, rules, same_rules):
                if depth >= MAX_DEPTH or not self._left:
                    self.is_cut = True
                    return
                self._enter(fd, directory, f"{prefix}{directory}/", rules, same_rules, depth + 1)
        finally:
            os.close(fd)

    def _take(
        self, fd: int, listed: list[os.DirEntry[str]], prefix: str, rules: _Rules, same_rules: bool
    ) -> list[str]:
        """Note what stands in a directory; gives back the directories in it."""
        known, entries, directories = self._known, self.entries, []
        for entry in listed:
            path = prefix + entry.name
            old = known.get(path)
            try:
                found = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode):
                    # What was seen under the same rules is seen again; asking them is most of the work.
                    if not (same_rules and old) and self._leaves_out(
                        entry.name, path, rules, same_rules, True
                    ):
                        continue
                    directories.append(entry.name)
                    mode = stat.S_IMODE(found.st_mode)
                    entries[path] = (
                        old if old and old.mode == mode and old.kind == "dir" else Entry("dir", mode)
                    )
                    continue
                if not (same_rules and old) and self._leaves_out(entry.name, path, rules, same_rules, False):
                    continue
                if not self._left:
                    self.is_cut = True
                    break
                self._left -= 1
                if (
                    old
                    and old.changed_ns == found.st_ctime_ns
                    and old.modified_ns == found.st_mtime_ns
                    and old.inode == found.st_ino
                    and old.size == found.st_size
                ):
                    entries[path] = old
                elif noted := entry_of(fd, entry.name, found, self._keeper, self._now):
                    entries[path] = noted
            except FileNotFoundError:  # It went meanwhile.
                continue
            except OSError:
                self.unseen.add(path)
        return directories

    def _leaves_out(self, name: str, path: str, rules: _Rules, same_rules: bool, is_dir: bool) -> bool:
        if name.startswith(BESIDE) or path == self._private or not is_text(path):
            return True
        key = f"{path}/" if is_dir else path
        is_hidden = (same_rules and key in self._was_hidden) or rules.get().hides(
            self._root / path, is_dir=is_dir
        )
        if is_hidden:
            self.hidden.add(key)
        return is_hidden

    def _rules_here(self, fd: int, prefix: str, names: set[str]) -> tuple[int, ...]:
        """The stamps of a directory's ignore files."""
        files = [name for name in IGNORE_FILES if name in names]
        if not prefix and ".git" in names:
            files.append(".git/info/exclude")
        stamps: list[int] = []
        for name in files:
            with suppress(OSError):
                found = os.stat(name, dir_fd=fd)
                stamps += (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        if stamps:
            self.rules[prefix] = tuple(stamps)
        return tuple(stamps)


def is_text(path: str) -> bool:
    """Names need not be text; those that are not can be told to nobody."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
