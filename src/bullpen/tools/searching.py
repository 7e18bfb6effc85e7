"""What glob and grep share: where a search begins, what it leaves out, and the way back to the files that were found.

ripgrep walks by names, and a name can become a link between two steps of its walk. So nothing is shown of what it only
told: each file is reached once more without following a link, and only what lies there is shown.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from bullpen.errors import ToolFailed
from bullpen.system import files, globs, paths
from bullpen.system.ignore import CLUTTER, IGNORE_FILES
from bullpen.tools.base import Reach, ToolContext

MAX_ROWS = 100
"""How much is shown: more than this no model looks through."""

TYPE = "bullpen"
"""The name under which ripgrep is told what names are wanted. Its own `--glob` would also find what is ignored."""


class Place(NamedTuple):
    """Where a search begins: as it was named, and in reality. ripgrep is started in `base` and told `target`."""

    shown: Path
    base: Path
    target: str
    is_kept: Callable[[Path], bool] | None
    """What rules keep the tool from; it is not shown."""
    ignore_files: tuple[str, ...] = ()

    @property
    def real(self) -> Path:
        return self.base / self.target


async def place_of(ctx: ToolContext, path: Path, *, action: str, params: dict[str, Any]) -> Place:
    """Asks when it lies outside the workspace. Raises `ToolFailed` when there is nothing."""
    real = await anyio.to_thread.run_sync(paths.real, path)
    is_inside = ctx.is_inside(real)
    await ctx.permit(
        action,
        description=f"Search{'' if is_inside else ' outside the workspace'}: {real}",
        params=params,
        path=real,
        reach=Reach(paths=(real,), is_read=is_inside),
    )
    is_kept = await ctx.keeps_from(action)
    return await anyio.to_thread.run_sync(_begin, path, real, paths.real(ctx.root), is_kept)


def _begin(path: Path, real: Path, root: Path, is_kept: Callable[[Path], bool] | None) -> Place:
    """Within the workspace a search begins at its root, because what is ignored there counts further down too."""
    if not os.path.isdir(real) and not os.path.isfile(real):
        raise ToolFailed(f"there is no file or directory {path}")
    if not real.is_relative_to(root):
        base, target = (real, ".") if os.path.isdir(real) else (real.parent, real.name)
        return Place(path, base, target, is_kept)
    relative = real.relative_to(root)
    above = [root / each for each in (*reversed(relative.parents), relative)]
    ignore_files = dict.fromkeys(
        str((directory / name).relative_to(root))
        for directory in above
        for name in IGNORE_FILES
        if os.path.isfile(directory / name)
    )
    return Place(path, root, str(relative), is_kept, tuple(ignore_files))


def options(place: Place, pattern: str) -> list[str]:
    """What is left out: version control, caches and installed packages, what is ignored, and names that do not fit."""
    found = [f"--glob=!{name}" for name in sorted(CLUTTER)]
    found += [f"--ignore-file={name}" for name in place.ignore_files]
    if globs.wants_hidden(pattern):
        found.append("--hidden")
    wanted = globs.name_filter(pattern)
    if wanted:
        found += [f"--type-add={TYPE}:{wanted}", f"--type={TYPE}"]
    return found


def target(place: Place) -> list[str]:
    """The last words of the command: behind the dashes nothing is an option."""
    return ["--", _top(place)]


def _top(place: Place) -> str:
    """What ripgrep is given, and what all that it finds begins with."""
    return "." if place.target == "." else f"./{place.target}"


def below(place: Place) -> Callable[[bytes], str | None]:
    """Reads a name that ripgrep gave, from the place where the search began; "" is the place itself."""
    top = _top(place)
    inside = f"{top}/"

    def read(name: bytes) -> str | None:
        found = os.fsdecode(name)
        if found.startswith(inside):
            return found[len(inside) :]
        return "" if found == top else None

    return read


class Seen(NamedTuple):
    """A file that is there."""

    name: str
    modified_ns: int


def newest_first(top: Path, names: Iterable[str], is_kept: Callable[[Path], bool] | None) -> list[Seen]:
    """Regular files below a real directory that can be reached without a link and that no rule keeps from us, the one that
    changed last first."""
    if is_kept is not None:
        names = [name for name in names if not is_kept(top / name)]
    return sorted(_seen(top, names), key=lambda seen: (-seen.modified_ns, seen.name))


def _seen(top: Path, names: Iterable[str]) -> Iterator[Seen]:
    by_directory: dict[str, list[str]] = {}
    for name in names:
        directory, _, last = name.rpartition("/")
        by_directory.setdefault(directory, []).append(last)
    for directory, lasts in by_directory.items():
        try:
            with files.open_directory(top / directory) as parent:
                for last in lasts:
                    found = _look(last, parent)
                    if found is not None and stat.S_ISREG(found.st_mode):
                        yield Seen(f"{directory}/{last}" if directory else last, found.st_mtime_ns)
        except OSError:
            continue


def _look(name: str, parent: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except OSError:
        return None


def shown(text: str) -> str:
    """A name that is no UTF-8 cannot be sent as it is."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def seconds(ctx: ToolContext, tool: str, default: float) -> float:
    """How long a search may take, by the config."""
    return float((ctx.limits.get(tool) or {}).get("timeout_s") or default)


_REASON = re.compile(r": ([^:]{1,80} \(os error \d+\))$")


def complaint(problems: str) -> str:
    """What ripgrep could not do, by reasons. Names are not repeated: one that it came to over a link may lie anywhere."""
    lines = [line for line in problems.splitlines() if line.strip()]
    reasons = Counter(found[1] if (found := _REASON.search(line)) else "another problem" for line in lines)
    return ", ".join(f"{count} × {reason}" for reason, count in reasons.most_common(3))


def about_pattern(problems: str) -> str:
    """What ripgrep says of a pattern that it does not know, in a few lines."""
    return "\n".join(line.removeprefix("rg: ")[:300] for line in problems.splitlines()[:8] if line.strip())
