"""A workspace with nothing in it but files, a store, and what watches and undoes: turns are played by the test."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio

from bullpen.files.tracking import Tracking
from bullpen.files.undoing import Undoing
from bullpen.files.walk import Limits
from bullpen.schema.changes import Undone, UndoRequest
from bullpen.schema.message import decode_message
from bullpen.store import changes, sessions
from bullpen.store.changes import NewSet
from bullpen.store.store import Store, open_store
from bullpen.store.tx import Row, Tx
from bullpen.system.clock import SystemClock

WORKSPACE = "w"
SESSION = "s"
LIMITS = Limits()


class Yard:
    def __init__(self, root: Path, store: Store, tracking: Tracking, undoing: Undoing) -> None:
        self.root = root
        self.store = store
        self.tracking = tracking
        self.undoing = undoing

    def put(self, path: str, content: bytes | str) -> None:
        """What a person does in an editor: written beside, and renamed over it. `puts` does several."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        beside = place.with_name(f"{place.name}~")
        beside.write_bytes(content if isinstance(content, bytes) else content.encode())
        os.replace(beside, place)

    def puts(self, **contents: str) -> None:
        for path, content in contents.items():
            self.put(path, content)

    def read(self, path: str) -> bytes | None:
        place = self.root / path
        return place.read_bytes() if place.is_file() else None

    async def command(self, turn: int, work: Callable[[], object], *, session: str = SESSION) -> None:
        """A turn's shell command: whatever it does."""
        call = await self.tracking.before(NewSet(session, turn, "call", f"c{turn}"), None)
        assert call is not None
        try:
            work()
        finally:
            await self.tracking.after(call)

    async def edit(self, turn: int, path: str, content: bytes | str, *, session: str = SESSION) -> None:
        """A turn's file tool, which says which file it will touch."""
        owner = NewSet(session, turn, "call", f"c{turn}")
        call = await self.tracking.before(owner, (self.root / path,))
        self.put(path, content)
        if call is not None:
            await self.tracking.after(call)

    async def undo(self, turn: int, **request: object) -> Undone:
        return await self.undoing.undo(SESSION, turn, UndoRequest(**request), "ana")  # type: ignore[arg-type]

    async def redo(self, **request: object) -> Undone:
        return await self.undoing.redo(SESSION, UndoRequest(**request), "ana")  # type: ignore[arg-type]

    async def found(self, turn: int) -> dict[str, str]:
        """What a turn is known to have changed."""
        sets = await self.store.read(lambda tx: changes.of_turn(tx, WORKSPACE, SESSION, turn))
        return {
            change.path: change.verb for s in sets if s.kind in ("call", "unknown") for change in s.changes
        }

    async def said(self) -> list[str]:
        """The texts of the session's messages."""

        async def work(tx: Tx) -> list[Row]:
            return await tx.rows("SELECT body FROM messages ORDER BY position")

        return [decode_message(body).text for (body,) in await self.store.read(work)]

    def tree(self) -> dict[str, tuple[int, bytes]]:
        return tree_of(self.root)


def tree_of(root: Path) -> dict[str, tuple[int, bytes]]:
    """Everything below a directory: kind and mode, and content or target."""
    found = {}
    for place in sorted(root.rglob("*")):
        mode = place.lstat().st_mode
        content = (
            os.fsencode(os.readlink(place))
            if place.is_symlink()
            else place.read_bytes()
            if place.is_file()
            else b""
        )
        found[place.relative_to(root).as_posix()] = (mode, content)
    return found


@contextmanager
def unchanged(root: Path) -> Iterator[None]:
    before = tree_of(root)
    yield
    assert tree_of(root) == before


@asynccontextmanager
async def open_yard(directory: Path, *, limits: Limits = LIMITS) -> AsyncIterator[Yard]:
    root = (directory / "project").resolve()
    root.mkdir(parents=True, exist_ok=True)
    (directory / "data").mkdir(mode=0o700, exist_ok=True)
    async with open_store(
        directory / "data", clock=SystemClock(), attached=lambda workspace, session: 0
    ) as store:
        await store.open_feed(WORKSPACE, str(root))

        async def sit_down(tx: Tx) -> None:
            for session in (SESSION, "other"):
                if not await sessions.exists(tx, WORKSPACE, session):
                    await sessions.create(tx, WORKSPACE, session, "t")

        await store.write(sit_down)
        async with anyio.create_task_group() as tasks:
            tracking = Tracking(store, WORKSPACE, root, tasks, limits=lambda: limits, running=lambda: 0)
            undoing = Undoing(tracking, store, WORKSPACE, root, tasks)
            await undoing.find_left()
            await undoing.resume()
            try:
                yield Yard(root, store, tracking, undoing)
            finally:
                await tracking.close()
                store.close_feed(WORKSPACE)
                tasks.cancel_scope.cancel()
