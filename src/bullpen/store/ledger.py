"""What model calls cost: one row per call, never changed.

Rows are counted up in every way that somebody asks for: by turn, session, person, model, tool, sub-agent and day. A
session's deletion leaves its rows, for the money is spent. `asked` holds the calls that are under way, one per session at most:
whoever finds an answer that was cut short knows from it what was sent, to whom and at what price.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from bullpen.schema.agent import Group, SpentRow
from bullpen.schema.events import RunSpent
from bullpen.schema.wire import encode
from bullpen.store.tx import Row, Tx

Purpose = Literal["turn", "title", "summary"]

DAY_S = 86_400

_SPENT = "SELECT coalesce(sum(cost), 0) FROM ledger WHERE workspace = $1"
_SUMS = "count(*), sum(input), sum(output), sum(cache_read), sum(cache_write), sum(cost), sum(estimated)"
_SINCE = "FROM ledger WHERE workspace = $1 AND at >= $2 GROUP BY 1"
_DEAREST = f"{_SINCE} ORDER BY 7 DESC, 2 DESC"

_GROUPED: dict[Group, str] = {
    "day": f"SELECT CAST(at / 86400 AS BIGINT), {_SUMS} {_SINCE} ORDER BY 1",
    "hour": f"SELECT CAST(at / 3600 AS BIGINT), {_SUMS} {_SINCE} ORDER BY 1",
    "session": f"SELECT root, {_SUMS} {_DEAREST}",
    "turn": f"SELECT turn, {_SUMS} {_DEAREST}",
    "model": f"SELECT provider || '/' || model, {_SUMS} {_DEAREST}",
    "person": f"SELECT author, {_SUMS} {_DEAREST}",
    "client": f"SELECT client, {_SUMS} {_DEAREST}",
    "agent": f"SELECT session, {_SUMS} {_DEAREST}",
    "tool": f"SELECT tool, {_SUMS} {_DEAREST}",
    "purpose": f"SELECT purpose, {_SUMS} {_DEAREST}",
}


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One call. `root` is the session that a person sees, `session` the one that asked, a sub-agent's perhaps; `tool` is then the
    tool that sent it."""

    turn: int
    root: str
    session: str
    author: str
    client: str
    purpose: Purpose
    tool: str
    provider: str
    model: str
    input: int
    output: int
    cache_read: int
    cache_write: int
    cost: float
    estimated: bool


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A call without its answer, and what the answer would cost."""

    entry: Entry
    cost_per_1m_out: float


_decode = msgspec.json.Decoder(Asked).decode


async def note_asked(tx: Tx, workspace: str, asked: Asked) -> None:
    """The session's call under way is this one."""
    await tx.run(
        """INSERT INTO asked (workspace, session, turn, body) VALUES ($1, $2, $3, $4)
           ON CONFLICT (workspace, session) DO UPDATE SET turn = excluded.turn, body = excluded.body""",
        workspace,
        asked.entry.session,
        asked.entry.turn,
        encode(asked),
    )


async def asked(tx: Tx, workspace: str, session: str, turn: int) -> Asked | None:
    row = await tx.row(
        "SELECT body FROM asked WHERE workspace = $1 AND session = $2 AND turn = $3", workspace, session, turn
    )
    return None if row is None else _decode(row[0])


async def forget_asked(tx: Tx, workspace: str, session: str, turn: int) -> None:
    await tx.run(
        "DELETE FROM asked WHERE workspace = $1 AND session = $2 AND turn = $3", workspace, session, turn
    )


async def forget_turn(tx: Tx, workspace: str, turn: int) -> None:
    await tx.run("DELETE FROM asked WHERE workspace = $1 AND turn = $2", workspace, turn)


async def add(tx: Tx, workspace: str, entry: Entry) -> None:
    await tx.run(
        """INSERT INTO ledger (workspace, n, at, turn, root, session, author, client, purpose, tool, provider, model, input,
               output, cache_read, cache_write, cost, estimated)
           VALUES ($1, (SELECT coalesce(max(n), 0) + 1 FROM ledger WHERE workspace = $1), $2, $3, $4, $5, $6, $7, $8, $9,
               $10, $11, $12, $13, $14, $15, $16, $17)""",
        workspace,
        tx.now,
        *msgspec.structs.astuple(entry)[:-1],
        int(entry.estimated),
    )


async def spent_in_turn(tx: Tx, workspace: str, root: str, turn: int) -> float:
    return _dollars(await tx.row(_SPENT + " AND root = $2 AND turn = $3", workspace, root, turn))


async def sum_of_turn(tx: Tx, workspace: str, root: str, turn: int) -> RunSpent:
    """All calls of a turn, those that name its session included."""
    row = await tx.row(
        f"SELECT {_SUMS} FROM ledger WHERE workspace = $1 AND root = $2 AND turn = $3", workspace, root, turn
    )
    if row is None or not row[0]:
        return RunSpent()
    return RunSpent(
        calls=row[0],
        input=row[1],
        output=row[2],
        cache_read=row[3],
        cache_write=row[4],
        cost=row[5],
        estimated=row[6],
    )


async def spent_in_session(tx: Tx, workspace: str, root: str) -> float:
    return _dollars(await tx.row(_SPENT + " AND root = $2", workspace, root))


async def spent_by_agent(tx: Tx, workspace: str, root: str, session: str) -> float:
    return _dollars(await tx.row(_SPENT + " AND root = $2 AND session = $3", workspace, root, session))


async def spent_since(tx: Tx, workspace: str, at: int) -> float:
    return _dollars(await tx.row(_SPENT + " AND at >= $2", workspace, at))


def _dollars(row: Row | None) -> float:
    return float(row[0]) if row else 0.0


async def grouped(tx: Tx, workspace: str, by: Group, since: int) -> list[SpentRow]:
    """Sums by one thing, the dearest first; days in their order."""
    rows = await tx.rows(_GROUPED[by], workspace, since)
    return [
        SpentRow(
            key=str(row[0]),
            calls=row[1],
            input=row[2],
            output=row[3],
            cache_read=row[4],
            cache_write=row[5],
            cost=row[6],
            estimated=row[7],
        )
        for row in rows
    ]
