"""Asks, their answers, standing grants and the intents of what was allowed.

An ask is answered by one conditional update, so that the first answer wins whoever gives it and however
many come at once. An ask that dies with its turn gets its last event like an answered one.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from bullpen.schema.asks import (
    Grant,
    PermissionNotification,
    PermissionRequest,
    QuestionBatch,
    QuestionBatchNotification,
)
from bullpen.schema.wire import encode
from bullpen.store import log
from bullpen.store.tx import Row, Tx

Kind = Literal["permission", "question"]
State = Literal["open", "granted", "denied", "answered", "cancelled", "dead"]


class Ask(NamedTuple):
    id: str
    kind: Kind
    session: str
    turn: int
    message: str
    call: str
    seq: int
    body: bytes
    fingerprint: str


_SELECT = (
    "SELECT id, kind, session, turn, message, call, seq, body, fingerprint FROM asks WHERE workspace = $1"
)


async def open_permission(
    tx: Tx, workspace: str, request: PermissionRequest, *, turn: int, message: str, fingerprint: str
) -> None:
    pending = PermissionNotification(
        tool_call_id=request.tool_call_id, granted=False, denied=False, session_id=request.session_id
    )
    await log.append(tx, workspace, pending, "created", key=request.id)
    body = encode(request)
    seq = await log.append(tx, workspace, request, "created", key=request.id, body=body)
    call = request.tool_call_id
    ask = Ask(request.id, "permission", request.session_id, turn, message, call, seq, body, fingerprint)
    await _insert(tx, workspace, ask)


async def open_question(tx: Tx, workspace: str, batch: QuestionBatch, *, turn: int) -> None:
    body = encode(batch)
    seq = await log.append(tx, workspace, batch, "created", key=batch.id, body=body)
    ask = Ask(batch.id, "question", batch.session_id, turn, "", batch.tool_call_id, seq, body, "")
    await _insert(tx, workspace, ask)


async def answer(
    tx: Tx, workspace: str, ask_id: str, state: State, *, by: str, answer: bytes | None = None
) -> Ask | None:
    """Close the ask if it is still open and tell everybody; None when somebody was quicker."""
    ask = await get_open(tx, workspace, ask_id)
    if ask is None:
        return None
    await tx.run(
        "UPDATE asks SET state = $2, answered_by = $3, answer = $4, answered_at = $5 WHERE id = $1",
        ask_id,
        state,
        by,
        answer,
        tx.steady,
    )
    await _notify(tx, workspace, ask, granted=state == "granted", by=by)
    return ask


async def close_turn(tx: Tx, workspace: str, turn: int, *, session: str = "") -> None:
    """The turn is over, or what one session had to do in it: what it still asked dies, with a notice for every open dialog."""
    rows = await tx.rows(_SELECT + " AND turn = $2 AND state = 'open' ORDER BY seq", workspace, turn)
    for ask in map(_ask, rows):
        if session and ask.session != session:
            continue
        await tx.run("UPDATE asks SET state = 'dead', answered_at = $2 WHERE id = $1", ask.id, tx.steady)
        await _notify(tx, workspace, ask, granted=False, by="")


async def get_open(tx: Tx, workspace: str, ask_id: str) -> Ask | None:
    row = await tx.row(_SELECT + " AND id = $2 AND state = 'open'", workspace, ask_id)
    return None if row is None else _ask(row)


async def all_open(tx: Tx, workspace: str) -> list[Ask]:
    """Oldest first."""
    return [_ask(row) for row in await tx.rows(_SELECT + " AND state = 'open' ORDER BY seq", workspace)]


async def note_granted(tx: Tx, workspace: str, request: PermissionRequest) -> None:
    """Say that a call was let through without asking."""
    await log.append(
        tx,
        workspace,
        PermissionNotification(
            tool_call_id=request.tool_call_id, granted=True, denied=False, session_id=request.session_id
        ),
        "created",
        key=request.id,
    )


# Grants


async def add_grant(tx: Tx, workspace: str, grant: Grant) -> None:
    await tx.run(
        """INSERT INTO grants (id, workspace, scope, session, tool, action, path, fingerprint, granted_by, created_at,
               expires_at, covers) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)""",
        grant.id,
        workspace,
        grant.scope,
        grant.session_id,
        grant.tool_name,
        grant.action,
        grant.path,
        grant.fingerprint,
        grant.granted_by,
        grant.created_at,
        grant.expires_at,
        grant.covers,
    )


async def standing(tx: Tx, workspace: str, request: PermissionRequest, fingerprint: str) -> frozenset[str]:
    """The scopes of the grants that cover the request: `session` for the session's own, `exact` for the very same call."""
    rows = await tx.rows(
        """SELECT DISTINCT scope FROM grants WHERE workspace = $1 AND tool = $2 AND action = $3 AND path = $4 AND (
               (scope = 'session' AND session = $5) OR (scope = 'exact' AND fingerprint = $6))
           AND (expires_at = 0 OR expires_at > $7)""",
        workspace,
        request.tool_name,
        request.action,
        request.path,
        request.session_id,
        fingerprint,
        tx.now,
    )
    return frozenset(row[0] for row in rows)


async def grants(tx: Tx, workspace: str) -> list[Grant]:
    rows = await tx.rows(
        """SELECT id, scope, session, tool, action, path, fingerprint, created_at, granted_by, expires_at, covers FROM grants
           WHERE workspace = $1 AND (expires_at = 0 OR expires_at > $2) ORDER BY created_at, id""",
        workspace,
        tx.now,
    )
    return [
        Grant(
            id=row[0],
            scope=row[1],
            session_id=row[2],
            tool_name=row[3],
            action=row[4],
            path=row[5],
            fingerprint=row[6],
            created_at=row[7],
            granted_by=row[8],
            expires_at=row[9],
            covers=row[10],
        )
        for row in rows
    ]


async def revoke(tx: Tx, workspace: str, grant_id: str) -> bool:
    return bool(await tx.run("DELETE FROM grants WHERE workspace = $1 AND id = $2", workspace, grant_id))


# Intents


async def intend(tx: Tx, workspace: str, *, turn: int, message: str, call: str, fingerprint: str) -> None:
    """Write down that a call is about to act on the world."""
    await tx.run(
        """INSERT INTO intents (workspace, turn, message, call, fingerprint, at) VALUES ($1, $2, $3, $4, $5, $6)
           ON CONFLICT (message, call) DO NOTHING""",
        workspace,
        turn,
        message,
        call,
        fingerprint,
        tx.steady,
    )


async def intended(tx: Tx, message: str) -> set[str]:
    """The calls of a message that were let loose and have no result yet."""
    return {row[0] for row in await tx.rows("SELECT call FROM intents WHERE message = $1", message)}


async def fulfil(tx: Tx, message: str, call: str) -> None:
    await tx.run("DELETE FROM intents WHERE message = $1 AND call = $2", message, call)


async def forget_session(tx: Tx, workspace: str, session: str) -> None:
    await tx.run("DELETE FROM asks WHERE workspace = $1 AND session = $2", workspace, session)
    await tx.run(
        "DELETE FROM grants WHERE workspace = $1 AND session = $2 AND scope = 'session'", workspace, session
    )


async def _insert(tx: Tx, workspace: str, ask: Ask) -> None:
    await tx.run(
        """INSERT INTO asks (id, workspace, kind, session, turn, message, call, seq, body, fingerprint, state,
               answered_by, answer, created_at, answered_at)
           VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 'open', '', NULL, $11, 0)""",
        ask.id,
        workspace,
        ask.kind,
        ask.session,
        ask.turn,
        ask.message,
        ask.call,
        ask.seq,
        ask.body,
        ask.fingerprint,
        tx.now,
    )


async def _notify(tx: Tx, workspace: str, ask: Ask, *, granted: bool, by: str) -> None:
    notice: PermissionNotification | QuestionBatchNotification
    if ask.kind == "permission":
        notice = PermissionNotification(
            tool_call_id=ask.call,
            granted=granted,
            denied=not granted,
            session_id=ask.session,
            answered_by=by,
        )
    else:
        notice = QuestionBatchNotification(batch_id=ask.id, answered_by=by)
    await log.append(tx, workspace, notice, "created", key=ask.id)


def _ask(row: Row) -> Ask:
    return Ask(*row)


async def prune(tx: Tx, workspace: str) -> None:
    """Forget what was asked, and what was intended by turns that are over, when both long ago and far behind."""
    before = tx.steady - log.KEPT_S
    await tx.run(
        """DELETE FROM asks WHERE workspace = $1 AND state <> 'open' AND answered_at < $2
           AND seq <= (SELECT head FROM workspaces WHERE id = $1) - $3""",
        workspace,
        before,
        log.KEPT_EVENTS,
    )
    # A turn that is so old has ended, and its prompt was forgotten.
    await tx.run(
        """DELETE FROM intents WHERE workspace = $1 AND at < $2 AND NOT EXISTS (SELECT 1 FROM prompts AS p
               WHERE p.workspace = $1 AND p.seq = intents.turn)""",
        workspace,
        before,
    )
