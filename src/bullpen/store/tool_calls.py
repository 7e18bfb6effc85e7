"""The calls of tools, counted: one row for each that has a result, never changed.

As on the ledger, a session's deletion leaves its rows. How long a call took is not known of one that was cut short.
"""

from __future__ import annotations

from bullpen.schema.agent import ToolCallsRow
from bullpen.store.tx import Tx


async def add(
    tx: Tx, workspace: str, message: str, tool: str, *, failed: bool, took_s: float | None = None
) -> None:
    """`message` is the one that holds the call's result."""
    await tx.run(
        "INSERT INTO tool_calls (message, workspace, tool, at, failed, took_ms) VALUES ($1, $2, $3, $4, $5, $6)",
        message,
        workspace,
        tool,
        tx.now,
        int(failed),
        None if took_s is None else round(took_s * 1000),
    )


async def by_tool(tx: Tx, workspace: str, since: int) -> list[ToolCallsRow]:
    """Sums by tool, the one that was called most first."""
    rows = await tx.rows(
        """SELECT tool, count(*), sum(failed), coalesce(sum(took_ms), 0) FROM tool_calls
           WHERE workspace = $1 AND at >= $2 GROUP BY tool ORDER BY 2 DESC, 1""",
        workspace,
        since,
    )
    return [
        ToolCallsRow(key=tool, calls=calls, failed=failed, took_s=took_ms / 1000)
        for tool, calls, failed, took_ms in rows
    ]
