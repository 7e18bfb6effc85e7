"""Which summary stood before each: what undoing it goes back to."""

from __future__ import annotations

from bullpen.errors import BadRequest, SessionBusy
from bullpen.schema.session import Session
from bullpen.store import prompts, sessions
from bullpen.store.tx import Tx


async def keep_previous(tx: Tx, workspace: str, session: str, message: str) -> None:
    """To be called before the summary takes its place."""
    await tx.run(
        """INSERT INTO summaries (message, workspace, session, previous, prompt_tokens, completion_tokens)
           SELECT $3, workspace, id, summary_message, prompt_tokens, completion_tokens FROM sessions
           WHERE workspace = $1 AND id = $2""",
        workspace,
        session,
        message,
    )


async def undo(tx: Tx, workspace: str, session: str) -> Session:
    """The model sees again what the session's last summary stands for. Raises `SessionBusy`, `SessionNotFound`, and `BadRequest` when
    there is none."""
    now = await sessions.get(tx, workspace, session)
    if await prompts.is_busy(tx, workspace, session):
        raise SessionBusy(session)
    row = await tx.row(
        "SELECT previous, prompt_tokens, completion_tokens FROM summaries WHERE message = $1",
        now.summary_message_id,
    )
    if row is None:
        raise BadRequest("the session has no summary that could be undone")
    await tx.run("DELETE FROM summaries WHERE message = $1", now.summary_message_id)
    return await sessions.restore_summary(tx, workspace, session, row[0], row[1], row[2])


async def forget_session(tx: Tx, workspace: str, session: str) -> None:
    await tx.run("DELETE FROM summaries WHERE workspace = $1 AND session = $2", workspace, session)
