"""Directories that were opened: their log's epoch, head and tail."""

from __future__ import annotations

import secrets
from typing import NamedTuple

from bullpen.store.tx import Tx


class Opened(NamedTuple):
    epoch: str
    head: int
    generation: int


async def open_log(tx: Tx, workspace: str, path: str) -> Opened:
    """Make the workspace's log if it is new, and count the opening."""
    await tx.run(
        """INSERT INTO workspaces (id, path, epoch, head, tail, opened, last_prompt, created_at, opened_at)
           VALUES ($1, $2, $3, 0, 1, 0, 0, $4, $4) ON CONFLICT (id) DO NOTHING""",
        workspace,
        path,
        secrets.token_hex(4),
        tx.now,
    )
    row = await tx.row(
        "UPDATE workspaces SET opened = opened + 1, opened_at = $2 WHERE id = $1 RETURNING epoch, head, opened",
        workspace,
        tx.now,
    )
    assert row is not None
    return Opened(*row)
