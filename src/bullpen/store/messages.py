"""Messages: rows of wire JSON, the text that grows on open ones, and their events.

An open message is a body plus chunks. At the end of a part the body is written anew and the chunks go;
a finished message never changes again.
"""

from __future__ import annotations

import msgspec

from bullpen.broker.facts import Live
from bullpen.schema.message import (
    Message,
    Part,
    Reasoning,
    ReasoningPart,
    Text,
    TextPart,
    decode_message,
)
from bullpen.schema.wire import encode
from bullpen.store import log, natives, search, sessions
from bullpen.store.tx import Row, Tx

JOINED_CHUNKS = 128
"""As many chunks of an open message become one row."""


async def insert(
    tx: Tx, workspace: str, message: Message, *, turn: int = 0, live: Live | None = None
) -> None:
    """Store a new message and announce it. `turn` and `live` belong to one that is still to grow."""
    body = encode(message)
    finished = message.finish is not None
    await tx.run(
        """INSERT INTO messages (id, workspace, session, role, position, finished, turn, body)
           VALUES ($1, $2, $3, $4, $5, $6, $7, $8)""",
        message.id,
        workspace,
        message.session_id,
        message.role,
        await log.next_number(tx, workspace),
        int(finished),
        turn,
        body,
    )
    await sessions.count_message(tx, workspace, message.session_id)
    if finished:
        await search.index(tx, message.id, message.text)
    await log.append(
        tx, workspace, message, "created", key=message.id, body=body, by_reference=finished, live=live
    )


async def rewrite(tx: Tx, workspace: str, message: Message, *, live: Live | None = None) -> None:
    """Write an open message's new state whole; with a finish part it is closed for good."""
    body = encode(message)
    finished = message.finish is not None
    await tx.run(
        "UPDATE messages SET body = $2, finished = $3 WHERE id = $1", message.id, body, int(finished)
    )
    await tx.run("DELETE FROM chunks WHERE message = $1", message.id)
    if finished:
        await search.index(tx, message.id, message.text)
    await log.append(
        tx,
        workspace,
        message,
        "updated",
        key=message.id,
        keep="each" if finished else "latest",
        body=body,
        by_reference=finished,
        live=None if finished else live,
    )


async def append_chunk(tx: Tx, message_id: str, part: str, text: str) -> None:
    row = await tx.row(
        """INSERT INTO chunks (message, n, part, text, at)
           VALUES ($1, (SELECT coalesce(max(n), 0) + 1 FROM chunks WHERE message = $1), $2, $3, $4) RETURNING n""",
        message_id,
        part,
        text,
        tx.now,
    )
    assert row is not None
    if row[0] % JOINED_CHUNKS == 0:
        await _join_chunks(tx, message_id, row[0] - JOINED_CHUNKS)


async def _join_chunks(tx: Tx, message_id: str, after: int) -> None:
    """One row per part for what was said after a chunk: a row takes many times the room of a word."""
    rows = await tx.rows(
        "SELECT n, part, text, at FROM chunks WHERE message = $1 AND n > $2 ORDER BY n", message_id, after
    )
    await tx.run("DELETE FROM chunks WHERE message = $1 AND n > $2", message_id, after)
    for part in dict.fromkeys(row[1] for row in rows):
        of_part = [row for row in rows if row[1] == part]
        await tx.run(
            "INSERT INTO chunks (message, n, part, text, at) VALUES ($1, $2, $3, $4, $5)",
            message_id,
            of_part[-1][0],
            part,
            "".join(row[2] for row in of_part),
            of_part[0][3],
        )


async def get(tx: Tx, message_id: str) -> Message | None:
    """The message with all text that was stored of it."""
    row = await tx.row("SELECT id, finished, body FROM messages WHERE id = $1", message_id)
    return None if row is None else await _whole(tx, row)


async def open_of_turn(tx: Tx, workspace: str, turn: int) -> list[Message]:
    """The unfinished messages that a turn has made, sub-agents' included, oldest first."""
    rows = await tx.rows(
        """SELECT id, finished, body FROM messages WHERE workspace = $1 AND turn = $2 AND finished = 0
           ORDER BY position""",
        workspace,
        turn,
    )
    return [await _whole(tx, row) for row in rows]


async def open_ids(tx: Tx, workspace: str, turn: int) -> list[tuple[str, str]]:
    """Their ids and sessions alone, oldest first."""
    rows = await tx.rows(
        """SELECT id, session FROM messages WHERE workspace = $1 AND turn = $2 AND finished = 0
           ORDER BY position""",
        workspace,
        turn,
    )
    return [(row[0], row[1]) for row in rows]


async def answered_calls(tx: Tx, workspace: str, session: str, after: str) -> set[str]:
    """The ids of the calls that have a result in the rows after a message."""
    rows = await tx.rows(
        """SELECT body FROM messages WHERE workspace = $1 AND session = $2 AND role = 'tool'
           AND position > (SELECT position FROM messages WHERE id = $3)""",
        workspace,
        session,
        after,
    )
    return {result.tool_call_id for row in rows for result in decode_message(row[0]).tool_results}


async def of_session(tx: Tx, workspace: str, session: str, *, start: int = 0) -> list[Message]:
    """The conversation, oldest first; from a position on when one is given."""
    rows = await tx.rows(
        """SELECT id, finished, body FROM messages WHERE workspace = $1 AND session = $2 AND position >= $3
           ORDER BY position""",
        workspace,
        session,
        start,
    )
    return [await _whole(tx, row) for row in rows]


async def position_of(tx: Tx, message_id: str) -> int:
    """Where a message stands in its workspace; 0 when there is none."""
    row = await tx.row("SELECT position FROM messages WHERE id = $1", message_id)
    return 0 if row is None else int(row[0])


async def count_between(tx: Tx, workspace: str, session: str, start: int, end: int) -> int:
    """How many messages of a session stand from one position up to another."""
    row = await tx.row(
        "SELECT count(*) FROM messages WHERE workspace = $1 AND session = $2 AND position >= $3 AND position < $4",
        workspace,
        session,
        start,
        end,
    )
    return int(row[0]) if row else 0


async def list_json(tx: Tx, workspace: str, session: str) -> bytes:
    """The conversation as one JSON list, stored bodies unopened."""
    rows = await tx.rows(
        "SELECT id, finished, body FROM messages WHERE workspace = $1 AND session = $2 ORDER BY position",
        workspace,
        session,
    )
    return await _join(tx, rows)


async def page_json(tx: Tx, workspace: str, session: str, limit: int, before: str) -> bytes:
    """The last messages before one, or of all; as `list_json`. An unknown one has none before it."""
    rows = await tx.rows(
        """SELECT id, finished, body FROM messages WHERE workspace = $1 AND session = $2
           AND ($3 = '' OR position < (SELECT position FROM messages WHERE id = $3)) ORDER BY position DESC LIMIT $4""",
        workspace,
        session,
        before,
        limit,
    )
    return await _join(tx, rows[::-1])


async def user_json(tx: Tx, workspace: str, session: str | None) -> bytes:
    """What people wrote, newest first, in one session or in all top-level ones."""
    if session is not None:
        rows = await tx.rows(
            """SELECT id, finished, body FROM messages WHERE workspace = $1 AND session = $2 AND role = 'user'
               ORDER BY position DESC""",
            workspace,
            session,
        )
    else:
        rows = await tx.rows(
            """SELECT m.id, m.finished, m.body FROM messages AS m
               JOIN sessions AS s ON s.workspace = m.workspace AND s.id = m.session AND s.parent = ''
               WHERE m.workspace = $1 AND m.role = 'user' ORDER BY m.position DESC""",
            workspace,
        )
    return await _join(tx, rows)


async def delete(tx: Tx, workspace: str, message: Message) -> None:
    await tx.run("DELETE FROM chunks WHERE message = $1", message.id)
    await natives.forget(tx, message.id)
    await search.forget_message(tx, message.id)
    await tx.run("DELETE FROM messages WHERE id = $1", message.id)
    await tx.run(
        "UPDATE sessions SET message_count = message_count - 1 WHERE workspace = $1 AND id = $2",
        workspace,
        message.session_id,
    )
    await log.append(tx, workspace, message, "deleted", key=message.id)


async def forget_session(tx: Tx, workspace: str, session: str) -> None:
    await search.forget_session(tx, workspace, session)
    await natives.forget_session(tx, workspace, session)
    await tx.run(
        "DELETE FROM chunks WHERE message IN (SELECT id FROM messages WHERE workspace = $1 AND session = $2)",
        workspace,
        session,
    )
    await tx.run("DELETE FROM messages WHERE workspace = $1 AND session = $2", workspace, session)


async def _join(tx: Tx, rows: list[Row]) -> bytes:
    bodies = [row[2] if row[1] else encode(await _whole(tx, row)) for row in rows]
    return b"[" + b",".join(bodies) + b"]"


async def _whole(tx: Tx, row: Row) -> Message:
    message_id, finished, body = row
    message = decode_message(body)
    if finished:
        return message
    chunks = await tx.rows("SELECT part, text, at FROM chunks WHERE message = $1 ORDER BY n", message_id)
    return grown(message, chunks)


def grown(message: Message, chunks: list[Row]) -> Message:
    """The message with the chunks' text in its place: one text part, one reasoning part."""
    if not chunks:
        return message
    parts = list(message.parts)
    pieces: dict[str, list[str]] = {}
    for part, text, _ in chunks:
        pieces.setdefault(part, []).append(text)
    for part, texts in pieces.items():
        _grow(parts, part, "".join(texts), chunks[0][2])
    return msgspec.structs.replace(message, parts=tuple(parts))


def _grow(parts: list[Part], part: str, text: str, at: int) -> None:
    for n, found in enumerate(parts):
        if part == "text" and isinstance(found, TextPart):
            parts[n] = TextPart(data=Text(text=found.data.text + text))
            return
        if part == "reasoning" and isinstance(found, ReasoningPart):
            thinking = found.data.thinking + text
            parts[n] = ReasoningPart(data=msgspec.structs.replace(found.data, thinking=thinking))
            return
    if part == "text":
        parts.append(TextPart(data=Text(text=text)))
    else:
        parts.append(ReasoningPart(data=Reasoning(thinking=text, signature="", started_at=at)))
