"""The files of a workspace as people look through them: by a few letters of a path, and one by one to attach them to a prompt.

The list is ripgrep's, kept for a moment and made again in the background; what is shown of it is looked at once more without
following a link. Nothing outside the workspace is told or read, nor what rules deny to the model.
"""

from __future__ import annotations

import mimetypes
import os
import re
import stat
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Protocol

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from bullpen.config.shape import Completions
from bullpen.errors import BadRequest, ToolFailed
from bullpen.files import finding
from bullpen.files.finding import Name
from bullpen.files.sections import read_section
from bullpen.schema.api import FileContent, FileHit
from bullpen.schema.media import image_type
from bullpen.system import files, paths
from bullpen.system.ignore import CLUTTER, IGNORE_FILES
from bullpen.system.ripgrep import Findings

FRESH_S = 2.0
"""A list is as good as new for so long; completion asks with every letter."""

OLD_IS_SHOWN_AFTER_S = 0.15
"""So long a newer list is waited for when there is an old one."""

LIST_S = 10.0
LIST_BYTES = 16 * 1024 * 1024
"""Some two hundred thousand names. What is behind them is not offered."""

MAX_DEPTH = 100

MAX_TEXT_BYTES = 200 * 1024
MAX_LINES = 5000
MAX_IMAGE_BYTES = 5_000_000
MAX_LISTED = 500
"""More of a file or a folder is for the model's own tools."""

_LINES = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")

Kept = Callable[[Path], bool]


class Search(Protocol):
    async def __call__(
        self, arguments: list[str], *, directory: Path, limit_bytes: int, timeout_s: float
    ) -> Findings: ...


class Browsing:
    def __init__(
        self,
        root: Path,
        search: Search,
        *,
        guarded: Iterable[Path],
        kept: Callable[[], Awaitable[Kept | None]],
        options: Callable[[], Completions],
        tasks: TaskGroup,
    ) -> None:
        self._root = root
        self._search = search
        self._guarded = tuple(guarded)
        self._kept = kept
        self._options = options
        self._tasks = tasks
        self._names: list[Name] | None = None
        self._listed_at = float("-inf")
        self._listing: anyio.Event | None = None

    async def find(self, query: str, limit: int) -> list[FileHit]:
        """The files and folders that are likely meant, the best first."""
        names = await self._list()
        most = min(limit, self._options().max_items or limit)
        kept = await self._kept()

        def look() -> list[FileHit]:
            # Some of the best may be gone, or not to be told.
            found = finding.best(names, query, most * 2)
            root = paths.real(self._root)
            there = (path for path in found if _is_there(root, path) and not (kept and kept(root / path)))
            return [FileHit(path=path) for path in there][:most]

        return await anyio.to_thread.run_sync(look)

    async def read(self, path: str, lines: str = "") -> FileContent:
        """Something of the workspace as an attachment. Raises `BadRequest` for what lies outside, is not there or is neither text
        nor an image."""
        place = paths.resolve(self._root, path)
        real, root = await anyio.to_thread.run_sync(paths.real, place), paths.real(self._root)
        kept = await self._kept()
        if not paths.is_below(root, real) or any(paths.is_inside(own, real) for own in self._guarded):
            raise BadRequest(
                f"{path} is not in the workspace; what lies outside cannot be attached from here"
            )
        if kept and kept(real):
            raise BadRequest(f"a rule denies reading {path}")
        told = str(real.relative_to(root))
        if await anyio.to_thread.run_sync(os.path.isdir, real):
            return await self._folder(told)
        try:
            return await anyio.to_thread.run_sync(_content, real, told, lines)
        except FileNotFoundError:
            raise BadRequest(f"there is no file {path}") from None
        except OSError as exc:
            raise BadRequest(f"{path} cannot be read: {exc.strerror or exc}") from exc
        except ToolFailed as exc:
            raise BadRequest(f"{path} is neither text nor an image that models know") from exc

    async def _folder(self, told: str) -> FileContent:
        inside = "" if told == "." else f"{told}/"
        below = sorted(path for path, _ in await self._list() if path.startswith(inside) and path != inside)
        text = "\n".join(below[:MAX_LISTED]) or "(empty)"
        return FileContent(
            file_path=inside or "./",
            file_name=inside.rstrip("/").rpartition("/")[2] + "/",
            mime_type="text/plain",
            content=text.encode(),
            truncated=len(below) > MAX_LISTED,
        )

    async def _list(self) -> list[Name]:
        """The names, at most a moment old where that can be had at once."""
        if self._names is None or anyio.current_time() - self._listed_at > FRESH_S:
            if self._listing is None:
                self._listing = anyio.Event()
                self._tasks.start_soon(self._list_anew, self._listing)
            with anyio.move_on_after(LIST_S if self._names is None else OLD_IS_SHOWN_AFTER_S):
                await self._listing.wait()
        return self._names or []

    async def _list_anew(self, done: anyio.Event) -> None:
        depth = min(self._options().max_depth or MAX_DEPTH, MAX_DEPTH)
        arguments = ["--files", "--null", f"--max-depth={depth}"]
        arguments += [f"--glob=!{name}" for name in sorted(CLUTTER)]
        try:
            root = await anyio.to_thread.run_sync(paths.real, self._root)
            arguments += await anyio.to_thread.run_sync(_ignore_files, root)
            found = await self._search(
                [*arguments, "--", "."], directory=root, limit_bytes=LIST_BYTES, timeout_s=LIST_S
            )
            self._names = await anyio.to_thread.run_sync(_names, found.output)
            self._listed_at = anyio.current_time()
        except ToolFailed:
            self._names = self._names or []
        finally:
            self._listing = None
            done.set()


def _ignore_files(root: Path) -> list[str]:
    return [f"--ignore-file={name}" for name in IGNORE_FILES if os.path.isfile(root / name)]


def _names(output: bytes) -> list[Name]:
    """What ripgrep told, without names that are not text: those can be told to nobody."""
    *whole, _ = output.split(b"\0")
    told = []
    for name in whole:
        try:
            told.append(name.decode().removeprefix("./"))
        except UnicodeDecodeError:
            continue
    return finding.with_folders(told)


def _is_there(root: Path, path: str) -> bool:
    """Whether it can still be reached without a link."""
    folder, _, last = path.rstrip("/").rpartition("/")
    try:
        with files.open_directory(root / folder) as parent:
            mode = os.stat(last, dir_fd=parent, follow_symlinks=False).st_mode
    except OSError:
        return False
    return stat.S_ISDIR(mode) if path.endswith("/") else stat.S_ISREG(mode)


def _content(real: Path, told: str, lines: str) -> FileContent:
    """Raises OSError, `ToolFailed` for what is no text, and `BadRequest` for a range that is none."""
    with open(files.open_file(real), "rb") as file:
        kind = image_type(file.read(16))
    if kind:
        content, _ = files.read_file(real, limit_bytes=MAX_IMAGE_BYTES)
        return FileContent(file_path=told, file_name=real.name, mime_type=kind, content=content)
    first, last = _range(lines)
    limit = min(last - first + 1, MAX_LINES) if last else MAX_LINES
    section = read_section(real, offset=first - 1, limit=limit, room=MAX_TEXT_BYTES)
    guessed = mimetypes.guess_type(real.name)[0] or ""
    behind = f":{lines}" if lines else ""
    return FileContent(
        file_path=told + behind,
        file_name=real.name + behind,
        mime_type=guessed if guessed.startswith("text/") else "text/plain",
        content=section.text.encode(),
        truncated=section.has_more and (not last or section.lines < last - first + 1),
    )


def _range(lines: str) -> tuple[int, int]:
    """The first and the last line, 0 for all."""
    if not lines:
        return 1, 0
    found = _LINES.fullmatch(lines)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 1 <= first <= last:
        raise BadRequest(f"{lines} is no range of lines; one is 10-20, or 7")
    return first, last
