"""Answers in their vendor's own form, beside the messages that everybody sees.

A message has one reasoning part and one text part. What a vendor wants to see again may be more: several signed
thoughts, their order among words and calls, encrypted reasoning. It is kept here word for word, only for messages
that have it, and never leaves for a client.
"""

from __future__ import annotations

from bullpen.store.tx import Tx


async def keep(tx: Tx, workspace: str, session: str, message: str, form: str, content: str) -> None:
    await tx.run(
        """INSERT INTO natives (message, workspace, session, form, content) VALUES ($1, $2, $3, $4, $5)
           ON CONFLICT (message) DO UPDATE SET form = excluded.form, content = excluded.content""",
        message,
        workspace,
        session,
        form,
        content,
    )


async def of_session(tx: Tx, workspace: str, session: str, *, start: int = 0) -> dict[str, tuple[str, str]]:
    """Form and content by message, of those from a position on."""
    rows = await tx.rows(
        """SELECT n.message, n.form, n.content FROM natives AS n JOIN messages AS m ON m.id = n.message
           WHERE n.workspace = $1 AND n.session = $2 AND m.position >= $3""",
        workspace,
        session,
        start,
    )
    return {row[0]: (row[1], row[2]) for row in rows}


async def forget(tx: Tx, message: str) -> None:
    await tx.run("DELETE FROM natives WHERE message = $1", message)


async def forget_session(tx: Tx, workspace: str, session: str) -> None:
    await tx.run("DELETE FROM natives WHERE workspace = $1 AND session = $2", workspace, session)
