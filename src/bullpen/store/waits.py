"""Turns that wait for a model's host: what everybody sees, and anybody may end."""

from __future__ import annotations

import msgspec

from bullpen.schema.events import RunWaiting
from bullpen.schema.wire import encode
from bullpen.store import log
from bullpen.store.tx import Row, Tx

_decode = msgspec.json.Decoder(RunWaiting).decode


async def begin(tx: Tx, workspace: str, turn: int, waiting: RunWaiting) -> None:
    body = encode(waiting)
    await tx.run(
        """INSERT INTO waits (workspace, session, turn, body) VALUES ($1, $2, $3, $4)
           ON CONFLICT (workspace, session) DO UPDATE SET turn = excluded.turn, body = excluded.body""",
        workspace,
        waiting.session_id,
        turn,
        body,
    )
    await log.append(tx, workspace, waiting, "updated", key=waiting.session_id, keep="latest", body=body)


async def end(tx: Tx, workspace: str, session: str) -> None:
    await _end(
        tx,
        workspace,
        await tx.rows("SELECT body FROM waits WHERE workspace = $1 AND session = $2", workspace, session),
    )


async def end_turn(tx: Tx, workspace: str, turn: int) -> None:
    """Whatever of a turn waits, its sub-agents included, waits no more."""
    await _end(
        tx,
        workspace,
        await tx.rows("SELECT body FROM waits WHERE workspace = $1 AND turn = $2", workspace, turn),
    )


async def all_of(tx: Tx, workspace: str) -> list[RunWaiting]:
    rows = await tx.rows("SELECT body FROM waits WHERE workspace = $1 ORDER BY session", workspace)
    return [_decode(row[0]) for row in rows]


async def _end(tx: Tx, workspace: str, rows: list[Row]) -> None:
    for row in rows:
        waited = _decode(row[0])
        await tx.run("DELETE FROM waits WHERE workspace = $1 AND session = $2", workspace, waited.session_id)
        await log.append(tx, workspace, waited, "deleted", key=waited.session_id, keep="latest")
