"""Notes that every summary of a session carries word for word."""

from __future__ import annotations

import uuid

from bullpen.schema.session import Pin
from bullpen.store import log, sessions
from bullpen.store.tx import Row, Tx

_SELECT = "SELECT id, session, text, author, created_at FROM pins WHERE workspace = $1"


async def add(tx: Tx, workspace: str, session: str, text: str, author: str) -> Pin:
    """Raises `SessionNotFound`."""
    await sessions.get(tx, workspace, session)
    pin = Pin(id=str(uuid.uuid4()), session_id=session, text=text, author=author, created_at=tx.now)
    await tx.run(
        "INSERT INTO pins (id, workspace, session, text, author, created_at) VALUES ($1, $2, $3, $4, $5, $6)",
        pin.id,
        workspace,
        session,
        text,
        author,
        tx.now,
    )
    await log.append(tx, workspace, pin, "created", key=pin.id)
    return pin


async def of_session(tx: Tx, workspace: str, session: str) -> list[Pin]:
    rows = await tx.rows(_SELECT + " AND session = $2 ORDER BY created_at, id", workspace, session)
    return [_pin(row) for row in rows]


async def remove(tx: Tx, workspace: str, session: str, pin_id: str) -> bool:
    row = await tx.row(_SELECT + " AND session = $2 AND id = $3", workspace, session, pin_id)
    if row is None:
        return False
    await tx.run("DELETE FROM pins WHERE id = $1", pin_id)
    await log.append(tx, workspace, _pin(row), "deleted", key=pin_id)
    return True


async def forget_session(tx: Tx, workspace: str, session: str) -> None:
    await tx.run("DELETE FROM pins WHERE workspace = $1 AND session = $2", workspace, session)


def _pin(row: Row) -> Pin:
    return Pin(id=row[0], session_id=row[1], text=row[2], author=row[3], created_at=row[4])
