"""Where a workspace lives: the directory it works in, the one its data lies in, and the id that follows from them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bullpen.errors import BadRequest

_NAMESPACE = uuid.UUID("7f0c2a51-6c1e-5d0a-9d5c-3f1a0b8e4c77")
"""Turns a path into the workspace's id, the same after every restart."""


class Place(NamedTuple):
    id: str
    root: Path
    data_dir: Path


def find_place(path: str, data_dir: str, own: Path) -> Place:
    """The place that a client named, its directories made where they are missing; `own` is the server's data directory.

    It blocks. Raises `BadRequest` when the directories cannot be used.
    """
    with _refused(f"{path} cannot be used as a workspace"):
        root = Path(path).expanduser().resolve()
        root.mkdir(parents=True, exist_ok=True)
    elsewhere: Path | None = None
    if data_dir:
        with _refused(f"{data_dir} cannot be used as a data directory"):
            elsewhere = Path(data_dir).expanduser().resolve()
            elsewhere.mkdir(mode=0o700, parents=True, exist_ok=True)
            if elsewhere == own.resolve():
                elsewhere = None
    key = str(root) if elsewhere is None else f"{elsewhere}\0{root}"
    return Place(str(uuid.uuid5(_NAMESPACE, key)), root, elsewhere or own)


@contextmanager
def _refused(what: str) -> Iterator[None]:
    """Whatever is wrong with a path that a client named is the client's to mend."""
    try:
        yield
    except OSError as exc:
        raise BadRequest(f"{what}: {exc.strerror or exc}") from exc
    # A NUL byte; a loop of links, or the home of a user who does not exist.
    except (ValueError, RuntimeError) as exc:
        raise BadRequest(f"{what}: {exc}") from exc
