"""Bringing paths of a workspace from one state to another: all of them, or none.

Each is changed only if it still is what it was when the way was found; an edit that came since is an error, what was done so far is taken back,
and nothing is lost. Every step goes by descriptors from the workspace down, so a link that appears on the way leads nowhere.
All of this blocks: call it in a thread.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from bullpen.files.blobs import BlobMissing, Blobs
from bullpen.store.changes import ABSENT, Change, State
from bullpen.system import files
from bullpen.system.failpoints import hit
from bullpen.system.files import FileChanged, Stamp, open_directory

_CHMOD = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class RestoreFailed(Exception):
    """A path could not be changed; all others are as they were."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")


def restore(root: Path, changes: Sequence[Change], blobs: Blobs) -> None:
    """Make every change. Raises `RestoreFailed` when one cannot be made; then none is."""
    done: list[Change] = []
    for change in _in_order(changes):
        try:
            _apply(root, change, blobs)
        except (OSError, BlobMissing) as exc:
            for made in reversed(done):
                # What somebody has changed in this moment is theirs, and stays.
                with contextlib.suppress(OSError, BlobMissing):
                    _apply(root, Change(made.path, made.after, made.before), blobs)
            raise RestoreFailed(change.path, _why(exc)) from exc
        done.append(change)
        hit("undo-restoring")


def finish(root: Path, change: Change, now: State, blobs: Blobs) -> bool:
    """Make a change that may have been half made when the server went down; False when somebody changed the path since."""
    if now == change.after:
        return True
    is_half = not now.kind and _goes_and_comes(change)
    if now != change.before and not is_half:
        return False
    try:
        for part in _in_order([Change(change.path, now, change.after)]):
            _apply(root, part, blobs)
    except (OSError, BlobMissing):
        return False
    return True


def clear_remains(root: Path, changes: Iterable[Change], blobs: Blobs) -> None:
    """Take away what was being written, or was about to go, when the server went down: files of ours that lie beside those they
    were for, and hold nothing but what is kept anyway."""
    places: dict[Path, set[str]] = {}
    for change in changes:
        place = places.setdefault((root / PurePosixPath(change.path)).parent, set())
        place.update(state.content for state in (change.before, change.after) if state.kind == "file")
    for directory, names in places.items():
        with contextlib.suppress(OSError, BlobMissing), open_directory(directory) as parent:
            for name in _listed(parent):
                if name.startswith(files.BESIDE) and _holds_only(directory / name, names, blobs):
                    os.unlink(name, dir_fd=parent)


def _listed(directory: int) -> list[str]:
    """A descriptor from a walk may only name the directory; listing needs one that reads it."""
    fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
    try:
        return os.listdir(fd)
    finally:
        os.close(fd)


def _holds_only(path: Path, names: Iterable[str], blobs: Blobs) -> bool:
    with open(files.open_file(path), "rb") as file:
        content = file.read()
    return any(blobs.get(name).startswith(content) for name in names)


def _in_order(changes: Iterable[Change]) -> Iterator[Change]:
    """What goes, goes first and from the inside out; what comes, comes from the outside in. A path that becomes
    something of another kind goes and comes."""
    going: list[Change] = []
    coming: list[Change] = []
    for change in sorted(changes):
        path, before, after = change
        becomes_other = _goes_and_comes(change)
        if before.kind and becomes_other:
            going.append(Change(path, before, ABSENT))
        if after.kind:
            coming.append(Change(path, ABSENT if becomes_other else before, after))
    yield from reversed([change for change in going if change.before.kind != "dir"])
    yield from reversed([change for change in going if change.before.kind == "dir"])
    yield from coming


def _goes_and_comes(change: Change) -> bool:
    """Whether a path has to go before it can be what it shall be."""
    return change.before.kind != change.after.kind or change.before.kind == "link"


def _apply(root: Path, change: Change, blobs: Blobs) -> None:
    path = root / PurePosixPath(change.path)
    match change.before.kind, change.after.kind:
        case "file", "":
            content, stamp = _still(path, change.before)
            files.remove_file(path, expected=stamp, before=content)
        case "", "file":
            content = blobs.get(change.after.content)
            files.replace_file(path, content, expected=None, mode=change.after.mode)
        case "file", "file":
            content, stamp = _still(path, change.before)
            if change.before.content == change.after.content:
                _set_mode(path, change.after.mode)
            else:
                new = blobs.get(change.after.content)
                files.replace_file(path, new, expected=stamp, before=content, mode=change.after.mode)
        case "link", "":
            _unlink(path, change.before.content)
        case "", "link":
            with open_directory(path.parent, create=True) as parent:
                os.symlink(change.after.content, path.name, dir_fd=parent)
        case "dir", "":
            _remove_directory(path)
        case "", "dir":
            _make_directory(path, change.after.mode)
        case _:
            _set_mode(path, change.after.mode)


def _still(path: Path, expected: State) -> tuple[bytes, Stamp]:
    """The content, if it and the mode are as expected. Raises `FileChanged`."""
    with open(files.open_file(path), "rb") as file:
        found = os.fstat(file.fileno())
        content = file.read()
    same = hashlib.sha256(content).hexdigest() == expected.content
    if not same or stat.S_IMODE(found.st_mode) != expected.mode:
        raise FileChanged(errno.EBUSY, "the file was changed meanwhile", str(path))
    return content, files.stamp_of(found)


def _set_mode(path: Path, mode: int) -> None:
    with open_directory(path.parent) as parent:
        fd = os.open(path.name, _CHMOD, dir_fd=parent)
        try:
            os.fchmod(fd, mode)
        finally:
            os.close(fd)


def _unlink(path: Path, target: str) -> None:
    with open_directory(path.parent) as parent:
        if os.readlink(path.name, dir_fd=parent) != target:
            raise FileChanged(errno.EBUSY, "the link was changed meanwhile", str(path))
        os.unlink(path.name, dir_fd=parent)


def _remove_directory(path: Path) -> None:
    """One that has something in it stays: it was not there for this alone."""
    with open_directory(path.parent) as parent:
        try:
            os.rmdir(path.name, dir_fd=parent)
        except FileNotFoundError:
            pass
        except OSError as exc:
            if exc.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise


def _make_directory(path: Path, mode: int) -> None:
    with open_directory(path.parent, create=True) as parent, contextlib.suppress(FileExistsError):
        os.mkdir(path.name, dir_fd=parent)
    _set_mode(path, mode)


def _why(exc: OSError | BlobMissing) -> str:
    if isinstance(exc, FileChanged):
        return "it was changed just now"
    if isinstance(exc, BlobMissing):
        return "its earlier content is lost"
    if isinstance(exc, FileExistsError):
        return "something else stands there by now"
    if isinstance(exc, (FileNotFoundError, NotADirectoryError)):
        return "it, or the directory it is in, is gone"
    return exc.strerror or str(exc)
