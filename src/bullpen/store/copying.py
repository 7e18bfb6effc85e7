"""Copies of conversations: what a fork begins with, and what a rewind keeps of the way that was gone.

A copy's messages have ids of their own and the places of those they were made from, so that they stand in order without
an event each: who wants to see them reads them, as with any session that was there before.
"""

from __future__ import annotations

import math
import uuid

import msgspec

from bullpen.schema.message import decode_message
from bullpen.schema.wire import INT64_MAX, encode
from bullpen.store import inherited, search, sessions, todos
from bullpen.store.tx import Tx


async def copy_session(
    tx: Tx,
    workspace: str,
    session: str,
    *,
    title: str,
    end: int = INT64_MAX,
    read_before: float = math.inf,
    target: str = "",
) -> str:
    """A copy of a session up to, and not including, the place `end`: its finished messages, summaries, notes and things to
    do, and which files it had read before a moment. Gives back its id. `target` is the workspace it goes to, when it is another: what is
    there cannot be found by its words. Nothing is told. It has cost nothing yet."""
    made, into = str(uuid.uuid4()), target or workspace
    await tx.run(
        """INSERT INTO sessions (id, workspace, parent, title, message_count, prompt_tokens, completion_tokens,
               summary_message, cost, todos, created_at, updated_at, touched)
           SELECT $3, $4, '', $5, 0, prompt_tokens, completion_tokens, '', 0, todos, $6, $6,
               (SELECT head + 1 FROM workspaces WHERE id = $1)
           FROM sessions WHERE workspace = $1 AND id = $2""",
        workspace,
        session,
        made,
        into,
        title,
        tx.now,
    )
    known = await _copy_messages(tx, workspace, session, made, into, end)
    await tx.run(
        "UPDATE sessions SET message_count = $3 WHERE workspace = $1 AND id = $2", into, made, len(known)
    )
    if (earlier := await todos.without(tx, workspace, session, end)) is not None:
        await sessions.set_todos(tx, into, made, earlier)
    await inherited.inherit(tx, workspace, session, made, into, end)
    await _copy_summaries(tx, workspace, session, made, into, known)
    await _copy_notes(tx, workspace, session, made, into, read_before)
    return made


async def _copy_messages(
    tx: Tx, workspace: str, session: str, made: str, into: str, end: int
) -> dict[str, str]:
    """The copies' ids by those of the originals."""
    rows = await tx.rows(
        """SELECT id FROM messages WHERE workspace = $1 AND session = $2 AND finished = 1 AND position < $3
           ORDER BY position""",
        workspace,
        session,
        end,
    )
    known = {row[0]: str(uuid.uuid4()) for row in rows}
    for old, new in known.items():
        row = await tx.row("SELECT body FROM messages WHERE id = $1", old)
        assert row is not None
        message = msgspec.structs.replace(decode_message(row[0]), id=new, session_id=made)
        await tx.run(
            """INSERT INTO messages (id, workspace, session, role, position, finished, turn, body)
               SELECT $2, $3, $4, role, position, 1, 0, $5 FROM messages WHERE id = $1""",
            old,
            new,
            into,
            made,
            encode(message),
        )
        await tx.run(
            """INSERT INTO natives (message, workspace, session, form, content)
               SELECT $2, $3, $4, form, content FROM natives WHERE message = $1""",
            old,
            new,
            into,
            made,
        )
        if into == workspace:
            await search.index(tx, new, message.text)
    return known


async def _copy_summaries(
    tx: Tx, workspace: str, session: str, made: str, into: str, known: dict[str, str]
) -> None:
    """The summaries that are in the copy, and the last of them in force."""
    rows = await tx.rows(
        "SELECT message, previous, prompt_tokens, completion_tokens FROM summaries WHERE workspace = $1 AND session = $2",
        workspace,
        session,
    )
    for message, previous, prompt_tokens, completion_tokens in rows:
        if message in known:
            await tx.run(
                """INSERT INTO summaries (message, workspace, session, previous, prompt_tokens, completion_tokens)
                   VALUES ($1, $2, $3, $4, $5, $6)""",
                known[message],
                into,
                made,
                known.get(previous, ""),
                prompt_tokens,
                completion_tokens,
            )
    row = await tx.row(
        "SELECT summary_message FROM sessions WHERE workspace = $1 AND id = $2", workspace, session
    )
    before = {message: previous for message, previous, *_ in rows}
    last = str(row[0]) if row else ""
    while last and last not in known:
        last = before.get(last, "")
    await tx.run(
        "UPDATE sessions SET summary_message = $3 WHERE workspace = $1 AND id = $2",
        into,
        made,
        known.get(last, ""),
    )


async def _copy_notes(tx: Tx, workspace: str, session: str, made: str, into: str, read_before: float) -> None:
    for text, author, created_at in await tx.rows(
        "SELECT text, author, created_at FROM pins WHERE workspace = $1 AND session = $2 ORDER BY created_at, id",
        workspace,
        session,
    ):
        await tx.run(
            "INSERT INTO pins (id, workspace, session, text, author, created_at) VALUES ($1, $2, $3, $4, $5, $6)",
            str(uuid.uuid4()),
            into,
            made,
            text,
            author,
            created_at,
        )
    await tx.run(
        """INSERT INTO read_files (workspace, session, path, read_at)
           SELECT $3, $4, path, read_at FROM read_files WHERE workspace = $1 AND session = $2 AND read_at < $5""",
        workspace,
        session,
        into,
        made,
        read_before,
    )
