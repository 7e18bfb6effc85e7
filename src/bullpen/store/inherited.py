"""The turns that a fork has from the session it was made of: what they changed in the files is the fork's to undo as well.

The changes stay the original's, in whose name they are undone, so both see what became of them. A turn that is not whole in the
fork does not come with it.
"""

from __future__ import annotations

from bullpen.store.tx import Tx


async def inherit(tx: Tx, workspace: str, session: str, made: str, into: str, end: int) -> None:
    """A copy of a session up to the place `end`, perhaps in another workspace, has its turns from it."""
    await tx.run(
        """INSERT INTO inherited_turns (workspace, session, turn, origin, position)
           SELECT $4, $3, turn, $2, max(position) FROM messages
           WHERE workspace = $1 AND session = $2 AND role = 'assistant' AND turn > 0
           GROUP BY turn HAVING max(position) < $5 AND min(finished) = 1
           UNION ALL
           SELECT $4, $3, turn, origin, position FROM inherited_turns
           WHERE workspace = $1 AND session = $2 AND position < $5""",
        workspace,
        session,
        made,
        into,
        end,
    )


async def cut_off(tx: Tx, workspace: str, session: str, first: int) -> None:
    """Of the conversation all from a place on has gone."""
    await tx.run(
        "DELETE FROM inherited_turns WHERE workspace = $1 AND session = $2 AND position >= $3",
        workspace,
        session,
        first,
    )


async def forget_session(tx: Tx, workspace: str, session: str) -> None:
    await tx.run("DELETE FROM inherited_turns WHERE workspace = $1 AND session = $2", workspace, session)
