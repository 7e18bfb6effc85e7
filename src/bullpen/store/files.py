"""What sessions read and wrote: versions of files, and when each was last read."""

from __future__ import annotations

import uuid

from bullpen.schema.session import FileVersion, HistoryItem
from bullpen.store import log
from bullpen.store.tx import Tx


async def history(tx: Tx, workspace: str, session: str) -> list[HistoryItem]:
    rows = await tx.rows(
        """SELECT id, session, path, content, version, created_at, updated_at FROM files
           WHERE workspace = $1 AND session = $2 ORDER BY position""",
        workspace,
        session,
    )
    names = ("id", "session_id", "path", "content", "version", "created_at", "updated_at")
    return [HistoryItem(**dict(zip(names, row, strict=True))) for row in rows]


async def record_change(tx: Tx, workspace: str, session: str, path: str, before: str, after: str) -> None:
    """Store what stood there (once) and what stands there now, each with its event."""
    last = await tx.row(
        """SELECT version, content FROM files WHERE workspace = $1 AND session = $2 AND path = $3
           ORDER BY version DESC LIMIT 1""",
        workspace,
        session,
        path,
    )
    version = -1 if last is None else int(last[0])
    if last is None or last[1] != before:
        version += 1
        await add(tx, workspace, session, path, before, version)
    await add(tx, workspace, session, path, after, version + 1)


async def add(tx: Tx, workspace: str, session: str, path: str, content: str, version: int) -> None:
    file = FileVersion(
        id=str(uuid.uuid4()),
        session_id=session,
        path=path,
        content=content,
        version=version,
        created_at=tx.now,
        updated_at=tx.now,
    )
    await tx.run(
        """INSERT INTO files (id, workspace, session, path, content, version, position, created_at, updated_at)
           VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8)""",
        file.id,
        workspace,
        session,
        path,
        content,
        version,
        await log.next_number(tx, workspace),
        tx.now,
    )
    await log.append(tx, workspace, file, "created", key=file.id, by_reference=True)


async def mark_read(tx: Tx, workspace: str, session: str, path: str, at: float) -> None:
    await tx.run(
        """INSERT INTO read_files (workspace, session, path, read_at) VALUES ($1, $2, $3, $4)
           ON CONFLICT (workspace, session, path) DO UPDATE SET read_at = excluded.read_at""",
        workspace,
        session,
        path,
        at,
    )


async def read_at(tx: Tx, workspace: str, session: str, path: str) -> float | None:
    row = await tx.row(
        "SELECT read_at FROM read_files WHERE workspace = $1 AND session = $2 AND path = $3",
        workspace,
        session,
        path,
    )
    return None if row is None else float(row[0])


async def read_paths(tx: Tx, workspace: str, session: str) -> list[str]:
    rows = await tx.rows(
        "SELECT path FROM read_files WHERE workspace = $1 AND session = $2 ORDER BY path", workspace, session
    )
    return [row[0] for row in rows]


async def forget_session(tx: Tx, workspace: str, session: str) -> None:
    await tx.run("DELETE FROM files WHERE workspace = $1 AND session = $2", workspace, session)
    await tx.run("DELETE FROM read_files WHERE workspace = $1 AND session = $2", workspace, session)
