"""The sessions of all workspaces of a database, also of those that are not open."""

from __future__ import annotations

from bullpen.schema.library import KnownHit, KnownSession, SessionState
from bullpen.store import search, sessions
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
    WHERE s.parent = '' AND ($1 = '' OR k.state = $1)
    AND ($2 = '' OR (s.updated_at, s.id) < (SELECT b.updated_at, b.id FROM sessions AS b
        JOIN workspaces AS v ON v.id = b.workspace WHERE b.id = $2))
    ORDER BY s.updated_at DESC, s.id DESC LIMIT $3"""


async def known(tx: Tx, state: SessionState | str, before: str, limit: int) -> list[KnownSession]:
    """The sessions that people see, the one used last first: those in a state, if one is named, and after another one in
    the list, if that is named. After an unknown one there are none."""
    found = []
    for workspace, path, session_id, its_state in await tx.rows(_KNOWN, state, before, limit):
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


async def find(tx: Tx, query: str, limit: int) -> list[KnownHit]:
    """The messages of all workspaces that hold all words of the query, best first."""
    found = []
    for workspace, hit in await search.find_everywhere(tx, query, limit):
        row = await tx.row(
            """SELECT w.path, s.title FROM sessions AS s JOIN workspaces AS w ON w.id = s.workspace
               WHERE s.workspace = $1 AND s.id = $2""",
            workspace,
            hit.session_id,
        )
        if row is not None:
            found.append(KnownHit(workspace_id=workspace, workspace_path=row[0], title=row[1], hit=hit))
    return found
