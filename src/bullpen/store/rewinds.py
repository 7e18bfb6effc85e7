"""A conversation goes back to before a message; the way that was gone is kept in the trash.

    stored with an undo ──▶ carried out in the transaction that ends the undo

So files and conversation go back together or not at all, also when the server dies in between.
"""

from __future__ import annotations

import msgspec

from bullpen.errors import BadRequest
from bullpen.schema.message import Message
from bullpen.schema.session import Session
from bullpen.schema.wire import encode
from bullpen.store import copying, inherited, messages, sessions, todos, trash
from bullpen.store.tx import Tx


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """What goes: the messages from the place `first` to `last`. `turns` are those that began there, in their order."""

    session: str
    message: str
    first: int
    last: int
    turns: tuple[int, ...] = ()
    joined: bool = False
    """The message came into a turn that had begun before it; what that turn changed stays."""


class Carried(msgspec.Struct, frozen=True):
    session: Session
    removed: int
    trash: str


_decode = msgspec.json.Decoder(Cut).decode


async def plan(tx: Tx, workspace: str, session: str, message_id: str) -> tuple[Cut, list[Message]]:
    """What a rewind to before a message cuts off. Raises `SessionNotFound`, and `BadRequest` for what is no message of a
    person's in it."""
    await sessions.get(tx, workspace, session)
    rows = await tx.rows(
        """SELECT position, role, turn FROM messages WHERE workspace = $1 AND session = $2 AND position >= (
               SELECT position FROM messages WHERE workspace = $1 AND session = $2 AND id = $3 AND role = 'user')
           ORDER BY position""",
        workspace,
        session,
        message_id,
    )
    if not rows:
        raise BadRequest("message_id names no message of a person's in this session")
    first = int(rows[0][0])
    before = await tx.row(
        """SELECT turn FROM messages WHERE workspace = $1 AND session = $2 AND position < $3 AND role = 'assistant'
           ORDER BY position DESC LIMIT 1""",
        workspace,
        session,
        first,
    )
    running = int(before[0]) if before else 0
    turns = dict.fromkeys(int(turn) for _, role, turn in rows if role == "assistant" and turn)
    cut = Cut(
        session=session,
        message=message_id,
        first=first,
        last=int(rows[-1][0]),
        turns=tuple(turn for turn in turns if turn != running),
        joined=running in turns,
    )
    return cut, await messages.of_session(tx, workspace, session, start=first)


async def keep(tx: Tx, workspace: str, change_set: int, cut: Cut) -> None:
    """It goes with an undo that is about to begin."""
    await tx.run(
        "INSERT INTO rewinds (workspace, change_set, body) VALUES ($1, $2, $3)",
        workspace,
        change_set,
        encode(cut),
    )


async def of_undo(tx: Tx, workspace: str, change_set: int) -> Cut | None:
    row = await tx.row(
        "SELECT body FROM rewinds WHERE workspace = $1 AND change_set = $2", workspace, change_set
    )
    return None if row is None else _decode(row[0])


async def forget(tx: Tx, workspace: str, change_set: int) -> None:
    await tx.run("DELETE FROM rewinds WHERE workspace = $1 AND change_set = $2", workspace, change_set)


async def carry_out(tx: Tx, workspace: str, cut: Cut) -> Carried:
    """The conversation as it was goes to the trash as a session of its own; then its end is cut off. Raises `SessionNotFound`."""
    session = await sessions.get(tx, workspace, cut.session)
    kept = await copying.copy_session(
        tx,
        workspace,
        cut.session,
        title=f"{session.title} (before a rewind)",
        target=trash.trash_of(workspace),
    )
    await trash.note(tx, workspace, kept)
    going = [
        message
        for message in await messages.of_session(tx, workspace, cut.session, start=cut.first)
        if await messages.position_of(tx, message.id) <= cut.last
    ]
    if (earlier := await todos.without(tx, workspace, cut.session, cut.first, going)) is not None:
        await sessions.set_todos(tx, workspace, cut.session, earlier)
    for message in going:
        # Clients need no more of what goes than its name.
        await messages.delete(tx, workspace, message.with_parts((), tx.now))
    await inherited.cut_off(tx, workspace, cut.session, cut.first)
    await tx.run(
        "DELETE FROM read_files WHERE workspace = $1 AND session = $2 AND read_at >= $3",
        workspace,
        cut.session,
        going[0].created_at if going else tx.now,
    )
    return Carried(await _find_summary(tx, workspace, session), len(going), kept)


async def _find_summary(tx: Tx, workspace: str, session: Session) -> Session:
    """The last summary that is left is in force again; how full the context is will be known with the next answer."""
    last = session.summary_message_id
    while last and await messages.position_of(tx, last) == 0:
        row = await tx.row("SELECT previous FROM summaries WHERE message = $1", last)
        await tx.run("DELETE FROM summaries WHERE message = $1", last)
        last = str(row[0]) if row else ""
    return await sessions.restore_summary(tx, workspace, session.id, last, 0, 0)
