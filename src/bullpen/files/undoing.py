"""Undo and redo of what turns changed.

A preview and the undo go the same way: the changes of the turns, what stands there now, the steps between. An undo writes all its steps down before
it touches a file; one that a crash cut off is finished when the workspace is next opened. It is a change like any other, so it
can be redone, also where somebody went on working. The conversation stays as it is; a message in it tells people and the model what
is back.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

import anyio
from anyio.abc import TaskGroup

from bullpen.errors import (
    ChangesNotFound,
    NothingToUndo,
    PreviewOutdated,
    SessionBusy,
    SessionNotFound,
    StoreError,
    UndoConflict,
    WorkspaceClosing,
)
from bullpen.files.restoring import RestoreFailed, clear_remains, finish, restore
from bullpen.files.reverting import Contents, Step, chains, fingerprint, reverted
from bullpen.files.showing import chosen, preview_of
from bullpen.files.telling import notes, summary, told
from bullpen.files.tracking import Tracking
from bullpen.schema.changes import TurnSummary, Undone, UndoPreview, UndoRequest
from bullpen.schema.wire import INT64_MAX, encode
from bullpen.store import changes as rows
from bullpen.store import messages, prompts, rewinds, sessions
from bullpen.store.changes import Change, ChangeSet, NewSet
from bullpen.store.rewinds import Carried, Cut
from bullpen.store.store import Store
from bullpen.store.tx import Tx
from bullpen.system.failpoints import hit

T = TypeVar("T")
log = logging.getLogger("bullpen.files")


class _Plan(NamedTuple):
    turn: int
    steps: list[Step]
    sets: list[ChangeSet]


class Undoing:
    """Of one workspace."""

    def __init__(
        self, tracking: Tracking, store: Store, workspace: str, root: Path, tasks: TaskGroup
    ) -> None:
        self._tracking = tracking
        self._store = store
        self._workspace = workspace
        self._root = root
        self._tasks = tasks
        self._left: list[ChangeSet] = []
        self._resumed = anyio.Event()

    async def turns(self, session: str, *, before: int, limit: int) -> list[TurnSummary]:
        """The turns that changed files, newest first."""

        async def work(tx: Tx) -> list[TurnSummary]:
            await sessions.get(tx, self._workspace, session)
            found = await rows.turns(tx, self._workspace, session, before=before or INT64_MAX, limit=limit)
            return [await summary(tx, self._workspace, session, turn) for turn in found]

        return await self._store.read(work)

    async def preview(self, session: str, turn: int) -> UndoPreview:
        """What an undo would do now. Raises `ChangesNotFound`."""
        async with self._alone():
            return await self._shown(session, await self._plan_undo(session, turn))

    async def preview_redo(self, session: str) -> UndoPreview:
        """What a redo would do now. Raises `ChangesNotFound`."""
        async with self._alone():
            try:
                plan = await self._plan_redo(session)
            except NothingToUndo as exc:
                raise ChangesNotFound(exc.message) from exc
            return await self._shown(session, plan)

    async def undo(self, session: str, turn: int, request: UndoRequest, author: str) -> Undone:
        """Carried through even when its caller leaves. Raises `SessionBusy`, `ChangesNotFound`, or why nothing was undone."""

        async def work() -> Undone:
            async with self._alone():
                plan = await self._plan_undo(session, turn)
                owner = NewSet(plan.sets[0].session, turn, "undo", author=author, asked_in=session)
                return await self._carry_out(plan, request, owner)

        return await self._carried(work)

    async def redo(self, session: str, request: UndoRequest, author: str) -> Undone:
        """Take the session's last undo back. Raises `NothingToUndo` and what an undo raises."""

        async def work() -> Undone:
            async with self._alone():
                plan = await self._plan_redo(session)
                of = plan.sets[0]
                owner = NewSet(of.session, of.turn, "redo", author=author, of=of.id, asked_in=session)
                return await self._carry_out(plan, request, owner)

        return await self._carried(work)

    async def preview_rewind(self, cut: Cut) -> tuple[UndoPreview | None, str]:
        """What would become of the files with a rewind, and the fingerprint of all of it."""
        async with self._alone():
            plan = await self._plan_turns(cut.session, cut.turns)
            shown = await self._shown(cut.session, plan) if plan else None
            return shown, _fingerprint(cut, plan)

    async def rewind(
        self, cut: Cut, *, with_files: bool, wanted: str, author: str
    ) -> tuple[Carried, Undone | None]:
        """Cut the conversation, and undo what its turns changed with it, or nothing of both. `wanted` is the fingerprint that was seen.

        Carried through even when its caller leaves. Raises `SessionBusy`, `PreviewOutdated`, `UndoConflict`.
        """

        async def work() -> tuple[Carried, Undone | None]:
            async with self._alone():
                plan = await self._plan_turns(cut.session, cut.turns)
                if wanted and wanted != _fingerprint(cut, plan):
                    raise PreviewOutdated
                changes = await self._chosen(plan, UndoRequest()) if plan and with_files else []
                if plan is None or not changes:
                    return await self._store.write(lambda tx: self._cut(tx, cut)), None
                owner = NewSet(cut.session, plan.turn, "undo", author=author, asked_in=cut.session)
                carried = await self._apply(changes, owner, cut)
                if carried is None:
                    raise SessionNotFound(cut.session)
                return carried, _undone(plan, cut.session, changes)

        return await self._carried(work)

    async def find_left(self) -> None:
        """Look for what the server was in the middle of when it went down, before anything new begins."""
        self._left = await self._store.read(lambda tx: rows.unfinished(tx, self._workspace))
        if any(call.state == "open" for call in self._left):
            self._tracking.hold()

    async def finish_rewinds(self) -> None:
        """Before any turn begins: a conversation that is about to be cut must not go on."""

        async def work(tx: Tx) -> list[ChangeSet]:
            return [left for left in self._left if await rewinds.of_undo(tx, self._workspace, left.id)]

        for left in await self._store.read(work) if self._left else []:
            with _logged():
                await self._finish(left)
                self._left.remove(left)

    async def resume(self) -> None:
        """Finish it; until then nothing else is undone. What cannot be finished now is found again at the next opening."""
        try:
            calls = [call for call in self._left if call.state == "open"]
            for left in self._left:
                with _logged():
                    if left.state == "applying":
                        await self._finish(left)
            with _logged():
                if calls:
                    await self._tracking.take_up(calls)
        finally:
            self._resumed.set()

    # Inside

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        await self._resumed.wait()
        async with self._tracking.lock:
            yield

    async def _plan_undo(self, session: str, turn: int) -> _Plan:
        async def work(tx: Tx) -> list[ChangeSet]:
            await sessions.get(tx, self._workspace, session)
            return await rows.of_turn(tx, self._workspace, session, turn)

        sets = await self._store.read(work)
        if not sets:
            raise ChangesNotFound(f"turn {turn} of this session changed no files that are known")
        if all(s.state == "forgotten" for s in sets):
            raise ChangesNotFound(
                f"what turn {turn} changed is no longer kept: it made room for newer changes (options.undo.max_store)"
            )
        return _Plan(turn, await asyncio.to_thread(self._steps, sets), sets)

    async def _plan_turns(self, session: str, turns: Sequence[int]) -> _Plan | None:
        """Of several turns as one; None when they changed nothing that is known and kept."""

        async def work(tx: Tx) -> list[ChangeSet]:
            return [s for turn in turns for s in await rows.of_turn(tx, self._workspace, session, turn)]

        sets = sorted(await self._store.read(work), key=lambda s: s.id)
        if all(s.state == "forgotten" for s in sets):
            return None
        return _Plan(turns[0], await asyncio.to_thread(self._steps, sets), sets)

    async def _plan_redo(self, session: str) -> _Plan:
        """Of the last undo of which something is left that was not redone."""

        async def work(tx: Tx) -> list[ChangeSet]:
            await sessions.get(tx, self._workspace, session)
            return await rows.undos(tx, self._workspace, session)

        found = await self._store.read(work)
        for undo in found:
            if undo.kind == "undo":
                sets = [undo, *(redo for redo in reversed(found) if redo.of == undo.id)]
                if await asyncio.to_thread(chains, sets):
                    return _Plan(undo.turn, await asyncio.to_thread(self._steps, sets), sets)
        raise NothingToUndo("redo")

    async def _shown(self, session: str, plan: _Plan) -> UndoPreview:
        blobs = self._tracking.ground.blobs
        return UndoPreview(
            turn=plan.turn,
            session_id=session,
            fingerprint=await asyncio.to_thread(fingerprint, plan.steps),
            files=await asyncio.to_thread(preview_of, plan.steps, blobs),
            conflicts=sum(step.status == "conflict" for step in plan.steps),
            uncovered=sum(step.status == "uncovered" for step in plan.steps),
            notes=notes(plan.steps, plan.sets),
        )

    def _steps(self, sets: Sequence[ChangeSet]) -> list[Step]:
        limits = self._tracking.limits
        contents = Contents(self._tracking.ground.blobs, limits.store_bytes)
        steps = []
        for path, chain in sorted(chains(sets).items()):
            try:
                now = self._tracking.ground.state(path, limits)
            except OSError as exc:
                reason = f"it cannot be looked at: {exc.strerror}"
                steps.append(Step(path, chain[-1].after, chain[-1].after, "conflict", reason))
            else:
                if step := reverted(path, chain, now, contents):
                    steps.append(step)
        return steps

    async def _carry_out(self, plan: _Plan, request: UndoRequest, owner: NewSet) -> Undone:
        changes = await self._chosen(plan, request)
        if not changes:
            raise NothingToUndo(
                "redo" if owner.kind == "redo" else "undo", "; ".join(notes(plan.steps, plan.sets))
            )
        await self._apply(changes, owner)
        return _undone(plan, owner.asked_in, changes)

    async def _chosen(self, plan: _Plan, request: UndoRequest) -> list[Change]:
        blobs, room = self._tracking.ground.blobs, self._tracking.limits.store_bytes
        return await asyncio.to_thread(chosen, plan.steps, request, blobs, room)

    async def _apply(self, changes: list[Change], owner: NewSet, cut: Cut | None = None) -> Carried | None:
        """Bring the files back; with a cut the conversation as well, in the transaction that ends it."""
        blobs = self._tracking.ground.blobs
        await asyncio.to_thread(blobs.sync)

        async def begin(tx: Tx) -> int:
            for session in dict.fromkeys((owner.session, owner.asked_in)):
                await sessions.get(tx, self._workspace, session)
                if await prompts.is_busy(tx, self._workspace, session):
                    raise SessionBusy(session)
            number = await rows.begin(tx, self._workspace, owner, changes)
            if cut is not None:
                await _check(tx, self._workspace, cut)
                await rewinds.keep(tx, self._workspace, number, cut)
            return number

        number = await self._store.write(begin)
        hit("undo-begun")
        try:
            await asyncio.to_thread(restore, self._root, changes, blobs)
        except RestoreFailed as exc:
            await self._store.write(lambda tx: self._drop(tx, number), reserved=True)
            raise UndoConflict(f"nothing was changed, because of {exc}") from exc
        finally:
            await asyncio.to_thread(self._note, changes)
        hit("undo-restored")
        return await self._store.write(lambda tx: self._end(tx, number), reserved=True)

    async def _drop(self, tx: Tx, number: int) -> None:
        await rows.drop(tx, self._workspace, number)
        await rewinds.forget(tx, self._workspace, number)

    async def _cut(self, tx: Tx, cut: Cut) -> Carried:
        """The conversation alone."""
        if await prompts.is_busy(tx, self._workspace, cut.session):
            raise SessionBusy(cut.session)
        await _check(tx, self._workspace, cut)
        return await rewinds.carry_out(tx, self._workspace, cut)

    def _note(self, changes: Sequence[Change]) -> None:
        self._tracking.ground.note([change.path for change in changes], self._tracking.limits)

    async def _finish(self, undo: ChangeSet) -> None:
        """An undo that was cut off: go on with it where nobody has changed the files since."""
        async with self._tracking.lock:
            failed = await asyncio.to_thread(self._go_on, undo.changes)
            await asyncio.to_thread(self._note, undo.changes)
            await self._store.write(lambda tx: self._end(tx, undo.id, without=failed), reserved=True)

    def _go_on(self, changes: Sequence[Change]) -> set[str]:
        """Gives back the paths at which it could not."""
        ground, limits = self._tracking.ground, self._tracking.limits
        failed = set()
        clear_remains(self._root, changes, ground.blobs)
        # The way in which restoring goes: what goes from the inside out, what comes from the outside in.
        going = [change for change in reversed(changes) if not change.after.kind]
        for change in (*going, *(change for change in changes if change.after.kind)):
            try:
                now = ground.state(change.path, limits)
                is_done = finish(self._root, change, now, ground.blobs)
            except OSError:
                is_done = False
            if not is_done:
                failed.add(change.path)
        return failed

    async def _end(self, tx: Tx, number: int, *, without: Collection[str] = ()) -> Carried | None:
        done = await rows.end_undo(tx, self._workspace, number, without=without)
        cut = await rewinds.of_undo(tx, self._workspace, number)
        await rewinds.forget(tx, self._workspace, number)
        if done is None or not await sessions.exists(tx, self._workspace, done.session):
            return None
        if cut is not None:
            await rows.merge_turns(tx, self._workspace, cut.session, cut.turns)
            return await rewinds.carry_out(tx, self._workspace, cut)
        for session in dict.fromkeys((done.session, done.asked_in)) if done.changes else ():
            if await sessions.exists(tx, self._workspace, session):
                await messages.insert(tx, self._workspace, told(done, session, tx.now))
        return None

    async def _carried(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do it in a task of the workspace's own, so that nothing is left half done when the caller leaves."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        async def carry() -> None:
            try:
                with anyio.CancelScope(shield=True):
                    result = await work()
            except Exception as exc:
                if not done.done():
                    done.set_exception(exc)
                    done.exception()  # Seen: whoever asked may have left.
            else:
                if not done.done():
                    done.set_result(result)
            finally:
                if not done.done():
                    done.set_exception(WorkspaceClosing())

        self._tasks.start_soon(carry)
        return await asyncio.shield(done)


@contextmanager
def _logged() -> Iterator[None]:
    try:
        yield
    except (OSError, StoreError) as exc:
        log.error("what was being changed when the server went down could not be settled: %s", exc)


async def _check(tx: Tx, workspace: str, cut: Cut) -> None:
    """Raises `PreviewOutdated` when something was said since, or unsaid."""
    now, _ = await rewinds.plan(tx, workspace, cut.session, cut.message)
    if now != cut:
        raise PreviewOutdated


def _fingerprint(cut: Cut, plan: _Plan | None) -> str:
    steps = fingerprint(plan.steps) if plan else ""
    return hashlib.sha256(encode(cut) + steps.encode()).hexdigest()[:32]


def _undone(plan: _Plan, session: str, changes: Sequence[Change]) -> Undone:
    return Undone(
        turn=plan.turn,
        session_id=session,
        restored=tuple(change.path for change in changes),
        notes=notes(plan.steps, plan.sets),
    )
