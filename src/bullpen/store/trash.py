"""Sessions that were thrown away, for as long as they can be had back.

What is in the trash has moved, row by row, to a workspace that nobody can open: so no query of the living one meets it.
Only the rights that people gave for the session are gone for good.
"""

from __future__ import annotations

from bullpen.errors import NotFound
from bullpen.schema.library import TrashedSession
from bullpen.schema.session import Session
from bullpen.store import (
    changes,
    choices,
    files,
    inherited,
    messages,
    pins,
    prompts,
    search,
    sessions,
    summaries,
)
from bullpen.store.tx import Tx

KEPT_DAYS = 30
KEPT_S = KEPT_DAYS * 24 * 3600

_MOVES = (
    "UPDATE messages SET workspace = $3 WHERE workspace = $1 AND session = $2",
    "UPDATE files SET workspace = $3 WHERE workspace = $1 AND session = $2",
    "UPDATE read_files SET workspace = $3 WHERE workspace = $1 AND session = $2",
    "UPDATE natives SET workspace = $3 WHERE workspace = $1 AND session = $2",
    "UPDATE session_choices SET workspace = $3 WHERE workspace = $1 AND session = $2",
    "UPDATE pins SET workspace = $3 WHERE workspace = $1 AND session = $2",
    "UPDATE summaries SET workspace = $3 WHERE workspace = $1 AND session = $2",
    "UPDATE change_sets SET workspace = $3 WHERE workspace = $1 AND session = $2",
    "UPDATE inherited_turns SET workspace = $3 WHERE workspace = $1 AND session = $2",
    "UPDATE sessions SET workspace = $3 WHERE workspace = $1 AND id = $2",
)


def trash_of(workspace: str) -> str:
    """Where the trash of a workspace lies."""
    return f"{workspace}{changes.TRASH}"


async def throw_away(tx: Tx, workspace: str, session: str, *, is_top: bool) -> None:
    """Move a session, which nothing runs in any more; what lay below it has been moved before. Tells nobody."""
    await search.forget_session(tx, workspace, session)
    await changes.forget_unfinished(tx, workspace, session)
    await _move(tx, session, workspace, trash_of(workspace))
    if is_top:
        await note(tx, workspace, session)


async def note(tx: Tx, workspace: str, session: str) -> None:
    """From now on the session is in the trash under its own name."""
    await tx.run(
        "INSERT INTO trash (workspace, session, deleted_at) VALUES ($1, $2, $3)", workspace, session, tx.now
    )


async def listed(tx: Tx, workspace: str) -> list[TrashedSession]:
    """What can be had back, the latest first."""
    rows = await tx.rows(
        """SELECT session, deleted_at FROM trash WHERE workspace = $1 ORDER BY deleted_at DESC, session""",
        workspace,
    )
    return [
        TrashedSession(
            session=await sessions.get(tx, trash_of(workspace), session), deleted_at=at, until=at + KEPT_S
        )
        for session, at in rows
    ]


async def restore(tx: Tx, workspace: str, session: str) -> Session:
    """Bring a session back with those of its sub-agents. Raises `NotFound`."""
    await _take_out(tx, workspace, session)
    for each in await _with_children(tx, workspace, session):
        await _move(tx, each, trash_of(workspace), workspace)
        for message in await messages.of_session(tx, workspace, each):
            await search.index(tx, message.id, message.text)
        await sessions.appear(tx, workspace, each)
        if chosen := await choices.get(tx, workspace, each):
            await choices.put(tx, workspace, chosen)
    return await sessions.get(tx, workspace, session)


async def forget(tx: Tx, workspace: str, session: str) -> None:
    """Delete a session of the trash for good. Raises `NotFound`."""
    await _take_out(tx, workspace, session)
    for each in await _with_children(tx, workspace, session):
        await forget_rows(tx, trash_of(workspace), each)
        await prompts.forget_session(tx, workspace, each)
        await tx.run("DELETE FROM sessions WHERE workspace = $1 AND id = $2", trash_of(workspace), each)


async def forget_rows(tx: Tx, workspace: str, session: str) -> None:
    """All that a session holds, but for itself."""
    for noun in (messages, files, changes, choices, inherited, pins, summaries):
        await noun.forget_session(tx, workspace, session)


async def prune(tx: Tx, workspace: str) -> None:
    """Forget what has been in the trash for long enough."""
    rows = await tx.rows(
        "SELECT session FROM trash WHERE workspace = $1 AND deleted_at <= $2", workspace, tx.now - KEPT_S
    )
    for (session,) in rows:
        await forget(tx, workspace, session)


async def _take_out(tx: Tx, workspace: str, session: str) -> None:
    found = await tx.run("DELETE FROM trash WHERE workspace = $1 AND session = $2", workspace, session)
    if not found:
        raise NotFound(f"no session {session!r} is in the trash")


async def _with_children(tx: Tx, workspace: str, session: str) -> list[str]:
    """The session and all below it, from the top down."""
    found = [session]
    for each in found:
        found += await sessions.children(tx, trash_of(workspace), each)
    return found


async def _move(tx: Tx, session: str, source: str, target: str) -> None:
    for statement in _MOVES:
        await tx.run(statement, source, session, target)
