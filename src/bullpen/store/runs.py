"""Prompts as runs: which are under way, and what became of one."""

from __future__ import annotations

import msgspec

from bullpen.errors import RunNotFound
from bullpen.schema.events import RunComplete
from bullpen.schema.runs import Run
from bullpen.store.tx import Row, Tx

_SELECT = (
    "SELECT run_id, session, state, text, author, created_at, seq, turn FROM prompts WHERE workspace = $1"
)


async def under_way(tx: Tx, workspace: str) -> list[Run]:
    """Those that wait or run, in the order in which they were accepted."""
    rows = await tx.rows(
        f"{_SELECT} AND kind = 'prompt' AND state IN ('accepted', 'active') ORDER BY seq", workspace
    )
    return [_run(row, None) for row in rows]


async def get(tx: Tx, workspace: str, run_id: str) -> Run:
    """Raises `RunNotFound`. An id that was used more than once means its last use."""
    row = await tx.row(f"{_SELECT} AND run_id = $2 ORDER BY seq DESC LIMIT 1", workspace, run_id)
    if row is None:
        raise RunNotFound(run_id)
    end = None
    if row[2] not in ("accepted", "active"):
        # A prompt that joined another's turn ended with that.
        told = await tx.row(
            """SELECT body FROM events WHERE workspace = $1 AND kind = 'run_complete' AND key = $2
               ORDER BY seq DESC LIMIT 1""",
            workspace,
            str(row[7] or row[6]),
        )
        end = msgspec.json.decode(told[0], type=RunComplete) if told and told[0] else None
    return _run(row, end)


def _run(row: Row, end: RunComplete | None) -> Run:
    return Run(
        run_id=row[0],
        session_id=row[1],
        state=row[2],
        prompt=row[3],
        author=row[4],
        created_at=row[5],
        end=end,
    )
