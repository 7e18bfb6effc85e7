"""The sessions of all workspaces of a database, also of those that are not open."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from bullpen.errors import SessionNotFound
from bullpen.schema.library import KnownHit, KnownSession, TrashedSession
from bullpen.store import search, sessions, trash
from bullpen.store.tx import Tx

# What is in the trash belongs to no workspace that has a row.
_KNOWN = """SELECT s.workspace, w.path, s.id, k.state FROM sessions AS s JOIN workspaces AS w ON w.id = s.workspace
    JOIN (SELECT s.workspace AS workspace, s.id AS id, CASE
            WHEN EXISTS (SELECT 1 FROM asks AS a WHERE a.workspace = s.workspace AND a.state = 'open' AND (a.session = s.id
                OR a.session IN (SELECT c.id FROM sessions AS c WHERE c.workspace = s.workspace AND c.parent = s.id)))
            THEN 'waiting'
            WHEN EXISTS (SELECT 1 FROM prompts AS p WHERE p.workspace = s.workspace AND p.session = s.id
                AND p.state IN ('accepted', 'active')) THEN 'running'
            ELSE 'done' END AS state FROM sessions AS s WHERE s.parent = '') AS k
    ON k.workspace = s.workspace AND k.id = s.id
    WHERE s.parent = '' AND ($1 = '' OR k.state = $1) AND ($4 = '' OR w.path = $4)
    AND ($5 = '' OR instr(lower(s.title), lower($5)) > 0)
    AND ($2 = '' OR (s.updated_at, s.id) < (SELECT b.updated_at, b.id FROM sessions AS b
        JOIN workspaces AS v ON v.id = b.workspace WHERE b.id = $2))
    ORDER BY s.updated_at DESC, s.id DESC LIMIT $3"""


class Wanted(NamedTuple):
    """Which sessions, and how many. What is empty is no condition."""

    limit: int
    state: str = ""
    before: str = ""
    """What follows this session in the list; after an unknown one nothing does."""
    path: str = ""
    title: str = ""
    """A part of it, in any case."""


async def known(tx: Tx, wanted: Wanted) -> list[KnownSession]:
    """The sessions that people see, the one used last first."""
    found = []
    for workspace, path, session_id, its_state in await tx.rows(
        _KNOWN, wanted.state, wanted.before, wanted.limit, wanted.path, wanted.title
    ):
        model, provider = await _answered_by(tx, workspace, session_id)
        found.append(
            KnownSession(
                workspace_id=workspace,
                workspace_path=path,
                state=its_state,
                model=model,
                provider=provider,
                session=await sessions.get(tx, workspace, session_id),
            )
        )
    return found


async def _answered_by(tx: Tx, workspace: str, session: str) -> tuple[str, str]:
    row = await tx.row(
        """SELECT json_extract(CAST(body AS TEXT), '$.model'), json_extract(CAST(body AS TEXT), '$.provider')
           FROM messages WHERE workspace = $1 AND session = $2 AND role = 'assistant' ORDER BY position DESC LIMIT 1""",
        workspace,
        session,
    )
    return (str(row[0] or ""), str(row[1] or "")) if row else ("", "")


async def thrown_away(tx: Tx, path: str) -> list[TrashedSession]:
    """What is in the trash of the workspaces at a path, the latest first."""
    rows = await tx.rows("SELECT id FROM workspaces WHERE path = $1", path)
    return [each for (workspace,) in rows for each in await trash.listed(tx, workspace)]


async def place_of(tx: Tx, session: str) -> tuple[str, Path]:
    """The workspace that a session belongs to, and its directory. Raises `SessionNotFound`."""
    row = await tx.row(
        "SELECT w.id, w.path FROM sessions AS s JOIN workspaces AS w ON w.id = s.workspace WHERE s.id = $1",
        session,
    )
    if row is None:
        raise SessionNotFound(session)
    return row[0], Path(row[1])


async def find(tx: Tx, query: str, limit: int, *, path: str = "") -> list[KnownHit]:
    """The messages of all workspaces, or of those at a path, that hold all words of the query, best first."""
    if path:
        rows = await tx.rows("SELECT id FROM workspaces WHERE path = $1", path)
        hits = [(w, hit) for (w,) in rows for hit in await search.find(tx, w, query, limit)][:limit]
    else:
        hits = await search.find_everywhere(tx, query, limit)
    found = []
    for workspace, hit in hits:
        row = await tx.row(
            """SELECT w.path, s.title FROM sessions AS s JOIN workspaces AS w ON w.id = s.workspace
               WHERE s.workspace = $1 AND s.id = $2""",
            workspace,
            hit.session_id,
        )
        if row is not None:
            found.append(KnownHit(workspace_id=workspace, workspace_path=row[0], title=row[1], hit=hit))
    return found
