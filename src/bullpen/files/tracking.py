"""What the calls of turns do to the files: looked at before a call with effects runs, and again when it is over.

A call that names its files (an edit) is watched at those paths alone. One that may touch anything (a command, an outside tool) is
watched as a whole: everything is looked at before it, so that what people did until then is theirs, and after it. What is found
then belongs to the call; when calls of several sessions overlap, that is said.

The first look at a workspace begins with the first call that may change something, and after it the contents of all files are read, in the
background. A command waits a little for both; what it changes before it was read is known to have changed, and cannot be undone. A turn
without such calls costs nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

import anyio
from anyio.abc import TaskGroup

from bullpen.errors import StoreError
from bullpen.files.ground import Ground, Look, drop_unused
from bullpen.files.walk import Limits, WalkStopped
from bullpen.store import changes as rows
from bullpen.store.changes import ABSENT, Change, ChangeSet, NewSet, State
from bullpen.store.store import Store
from bullpen.store.tx import Tx

log = logging.getLogger("bullpen.files")

PATIENCE_S = 10.0
"""How long a command waits for the look before it, which takes some tenths of a second for 20,000 files. After that it runs unwatched."""

FILL_PATIENCE_S = 3.0
"""How long a command waits for the contents of all files to be read, once in a workspace's life: enough for some 20,000."""

FILL_FILES = 100
"""So many are read at a time; a look comes in between."""

AFTERWARDS_S = 30.0
"""How long a call's result waits for the look after it."""

UNUSED_S = 30 * 86_400
"""What is kept of a workspace goes when nobody has changed anything there for a month."""

NEARLY_FULL = 0.9
ROOM_AGAIN = 0.7
FORGET_SHARE = 10
"""Contents are dropped when this much of their room is taken, until it is less again: a tenth of all changes at a time, oldest
first."""


class Watched:
    """A call under way. `paths` are those it named with what stood there, None when it may touch anything; `held` are the contents
    that only this call knows of yet."""

    def __init__(self, owner: NewSet, paths: dict[str, State] | None, running: int) -> None:
        self.owner = owner
        self.paths = paths
        self.running = running
        self.number = 0
        self.held: set[str] = set()
        self.unwatched = False
        self.shared = False


class Tracking:
    """Of one workspace. `limits` gives None where undo is switched off."""

    def __init__(
        self,
        store: Store,
        workspace: str,
        root: Path,
        tasks: TaskGroup,
        *,
        limits: Callable[[], Limits | None],
        running: Callable[[], int],
    ) -> None:
        """`running` counts the commands that run in the background."""
        own = store.directory.resolve()
        self._directory = own / "undo" / workspace
        self.ground = Ground(root, self._directory, own=own)
        self.lock = anyio.Lock()
        """Held while files are looked at or restored, so that each change is told once."""
        self._store = store
        self._workspace = workspace
        self._tasks = tasks
        self._limits = limits
        self._running = running
        self._calls: list[Watched] = []
        self._is_begun = False
        self._seen = anyio.Event()
        self._filled = anyio.Event()
        self._has_waited = False
        self._full_at = 0
        self._is_synced = True
        self._is_syncing = False

    @property
    def limits(self) -> Limits:
        return self._limits() or Limits()

    async def close(self) -> None:
        """An undo that is under way is carried through first."""
        self.ground.stop()
        with anyio.CancelScope(shield=True):
            async with self.lock:
                await asyncio.to_thread(self.ground.blobs.close)

    async def before(self, owner: NewSet, paths: Sequence[Path] | None) -> Watched | None:
        """A call may run as soon as this is over. `paths` is None when it may touch anything."""
        if self._limits() is None:
            return None
        self._begin()
        call = Watched(owner, None if paths is None else {}, self._running())
        if paths is None:
            call.unwatched = not await self._look_before(call)
            await self._wait_for_contents()
            for other in self._others(call):
                call.shared = other.shared = True
        self._calls.append(call)
        try:
            if paths is not None:
                call.paths = await asyncio.to_thread(self._states, paths, call.held)
                if not call.paths:
                    self._leave(call)
                    return None
            call.number = await self._store.write(
                lambda tx: rows.begin(tx, self._workspace, owner), durable=False
            )
        except BaseException:
            self._leave(call)
            raise
        return call

    async def after(self, call: Watched) -> None:
        """The call is over, whatever became of it: find out what it changed, and write that down."""
        with anyio.CancelScope(shield=True):
            try:
                with anyio.move_on_after(AFTERWARDS_S) as patience:
                    if call.paths is None:
                        await self._end_whole(call)
                    else:
                        await self._end_named(call, call.paths)
                if patience.cancelled_caught:
                    await self._end(call, [], partial=True)
            except (OSError, StoreError) as exc:
                log.error("what a call changed could not be written down: %s", exc)
            self._leave(call)

    def hold(self) -> None:
        """Something was under way when the server went down: nobody looks before `take_up` has."""
        self._is_begun = True

    async def take_up(self, left: Sequence[ChangeSet]) -> None:
        """Calls were under way when the server went down. What has changed since the last look may be theirs."""
        try:
            async with self.lock:
                look = await self._look()
                if look is not None:
                    await self._account_for(left, look)
        finally:
            self._seen.set()
        self._tasks.start_soon(self._fill)

    # Looking

    def _begin(self) -> None:
        if not self._is_begun:
            self._is_begun = True
            self._tasks.start_soon(self._first_look)

    async def _first_look(self) -> None:
        async with self.lock:
            await self._look()
        self._seen.set()
        await self._fill()
        await asyncio.to_thread(drop_unused, self._directory.parent, but=self._workspace, unused_s=UNUSED_S)

    async def _wait_for_contents(self) -> None:
        """Once: who has waited in vain would again."""
        if not self._has_waited:
            self._has_waited = True
            with anyio.move_on_after(FILL_PATIENCE_S):
                await self._filled.wait()

    async def _fill(self) -> None:
        """Read the contents that are not kept yet."""
        limits = self.limits
        left = await asyncio.to_thread(self.ground.unread, limits)
        while left:
            await asyncio.to_thread(self.ground.fill, left[:FILL_FILES], limits)
            left = left[FILL_FILES:]
        self._filled.set()
        await asyncio.to_thread(self.ground.save)

    async def _look(self) -> Look | None:
        """None when the workspace closes meanwhile, or its files cannot be looked at."""
        limits = self.limits
        try:
            return await asyncio.to_thread(self.ground.look, limits, leave=self._named)
        except WalkStopped:
            return None
        except OSError as exc:
            log.warning("the files of the workspace could not be looked at: %s", exc)
            return None

    def _others(self, call: Watched) -> list[Watched]:
        """The commands of other turns that are under way."""
        return [
            other
            for other in self._calls
            if other.paths is None
            and (other.owner.session, other.owner.turn) != (call.owner.session, call.owner.turn)
        ]

    def _named(self) -> set[str]:
        """What the calls under way account for themselves."""
        return {path for call in self._calls for path in call.paths or ()}

    async def _look_before(self, call: Watched) -> bool:
        """What has changed until now belongs to calls that are under way, or else to people. False when there was no time."""
        is_seen = False
        over = anyio.Event()

        async def look() -> None:
            nonlocal is_seen
            try:
                is_seen = await self._catch_up(call)
            finally:
                over.set()

        self._tasks.start_soon(look)
        with anyio.move_on_after(PATIENCE_S):
            await over.wait()
        return is_seen

    async def _catch_up(self, call: Watched) -> bool:
        await self._seen.wait()
        async with self.lock:
            under_way = [other for other in self._calls if other.paths is None and not other.unwatched]
            look = await self._look()
            if look is not None and look.changes and under_way:
                try:
                    await self._record(under_way[0].owner, look.changes, shared=bool(self._others(call)))
                except StoreError as exc:
                    log.error("what a call changed could not be written down: %s", exc)
            return look is not None

    def _states(self, paths: Sequence[Path], held: set[str]) -> dict[str, State]:
        limits = self.limits
        states: dict[str, State] = {}
        for name in filter(None, map(self.ground.covers, paths)):
            states[name] = self.ground.state(name, limits, held)
            for parent in PurePosixPath(name).parents:
                # Directories that are there stay as they are; those that are missing are made with the file.
                if not parent.name or self.ground.state(str(parent), limits) != ABSENT:
                    break
                states[str(parent)] = ABSENT
        return states

    # Writing down

    async def _end_whole(self, call: Watched) -> None:
        look = None
        if not call.unwatched:  # Else what stood there before it is not known.
            async with self.lock:
                look = await self._look()
                if look is not None:
                    await self._end(call, look.changes, partial=look.is_cut and bool(look.changes))
        if look is None:
            await self._end(call, [], partial=True)
        await self._make_room()

    async def _end_named(self, call: Watched, before: dict[str, State]) -> None:
        after = await asyncio.to_thread(self._after, before, call.held)
        found = [Change(path, before[path], after[path]) for path in sorted(before)]
        await self._end(call, [change for change in found if change.before != change.after], partial=False)

    def _after(self, before: dict[str, State], held: set[str]) -> dict[str, State]:
        limits = self.limits
        found = {path: self.ground.state(path, limits, held) for path in before}
        self.ground.note(before, limits)
        return found

    async def _end(self, call: Watched, changes: list[Change], *, partial: bool) -> None:
        # A command that went on in the background may change more; without any change that is no news.
        went_on = bool(changes) and self._running() > call.running
        await self._store.write(
            lambda tx: rows.end_call(
                tx, self._workspace, call.number, changes, partial=partial or went_on, shared=call.shared
            ),
            durable=False,
        )
        self._sync(changes)

    async def _record(self, owner: NewSet, changes: list[Change], *, shared: bool) -> None:
        async def work(tx: Tx) -> None:
            number = await rows.begin(tx, self._workspace, owner)
            await rows.end_call(tx, self._workspace, number, changes, shared=shared)

        await self._store.write(work, durable=False)
        self._sync(changes)

    async def _account_for(self, left: Sequence[ChangeSet], look: Look) -> None:
        async def work(tx: Tx) -> None:
            *others, newest = left
            for other in others:
                await rows.drop(tx, self._workspace, other.id)
            await rows.end_call(
                tx,
                self._workspace,
                newest.id,
                look.changes,
                partial=look.is_first or look.is_cut,
                shared=bool(others),
                kind="unknown",
            )

        await self._store.write(work)
        self._sync(look.changes)

    def _sync(self, changes: Sequence[Change]) -> None:
        """Have contents that a change names survive a power cut, soon: nobody waits for it."""
        if changes:
            self._is_synced = False
            if not self._is_syncing:
                self._is_syncing = True
                self._tasks.start_soon(self._sync_all)

    async def _sync_all(self) -> None:
        try:
            while not self._is_synced:
                self._is_synced = True
                await asyncio.to_thread(self.ground.blobs.sync)
        finally:
            self._is_syncing = False

    def _leave(self, call: Watched) -> None:
        self._calls = [other for other in self._calls if other is not call]

    # Room

    async def _make_room(self) -> None:
        """Drop what is not needed any more once it is nearly too much, then the oldest changes."""
        room = self.limits.store_bytes
        try:
            total = await asyncio.to_thread(lambda: self.ground.blobs.total)
            # Where even the files as they are need more, looking again and again would not help.
            if total >= room * NEARLY_FULL and total > self._full_at:
                self._full_at = await self._drop_oldest(int(room * ROOM_AGAIN))
                await self._fill()
        except (OSError, StoreError) as exc:
            log.warning("old contents of files could not be dropped: %s", exc)

    async def _drop_oldest(self, enough: int) -> int:
        """Gives back how much is left."""
        ground = self.ground
        async with self.lock:
            await asyncio.to_thread(ground.blobs.mark)
            held = [call.held for call in self._calls]
            while True:
                needed = await self._store.read(lambda tx: rows.contents(tx, self._workspace))
                if await asyncio.to_thread(ground.size_of, needed) <= enough:
                    break
                if not await self._store.write(
                    lambda tx: rows.forget_oldest(tx, self._workspace, FORGET_SHARE), durable=False
                ):
                    break
            await asyncio.to_thread(ground.sweep, needed, held)
            return await asyncio.to_thread(lambda: ground.blobs.total)
