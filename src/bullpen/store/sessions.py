"""Sessions: rows, and the events that say how they changed."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from bullpen.errors import SessionNotFound
from bullpen.schema.session import PLACEHOLDER_TITLES, Session, Todo
from bullpen.schema.wire import encode
from bullpen.store import log
from bullpen.store.tx import Row, Tx

_SELECT = """SELECT s.id, s.parent, s.title, s.message_count, s.prompt_tokens, s.completion_tokens,
        s.summary_message, s.cost, s.todos, s.created_at, s.updated_at,
        EXISTS (SELECT 1 FROM prompts AS p WHERE p.workspace = s.workspace AND p.session = s.id
                AND p.state IN ('accepted', 'active'))
    FROM sessions AS s WHERE s.workspace = $1"""

_TOUCH = "updated_at = $3, touched = (SELECT head + 1 FROM workspaces WHERE id = $1)"


class Spent(NamedTuple):
    """The tokens of a model answer: they fill the context now."""

    prompt: int = 0
    completion: int = 0


_todos = msgspec.json.Decoder(tuple[Todo, ...])


async def create(tx: Tx, workspace: str, session_id: str, title: str, *, parent: str = "") -> Session:
    await tx.run(
        """INSERT INTO sessions (id, workspace, parent, title, message_count, prompt_tokens, completion_tokens,
               summary_message, cost, todos, created_at, updated_at, touched)
           VALUES ($2, $1, $3, $4, 0, 0, 0, '', 0, '[]', $5, $5, (SELECT head + 1 FROM workspaces WHERE id = $1))""",
        workspace,
        session_id,
        parent,
        title,
        tx.now,
    )
    return await appear(tx, workspace, session_id)


async def appear(tx: Tx, workspace: str, session_id: str) -> Session:
    """Log that the session is there: new, copied, or had back."""
    await tx.run(
        "UPDATE sessions SET touched = (SELECT head + 1 FROM workspaces WHERE id = $1) WHERE workspace = $1 AND id = $2",
        workspace,
        session_id,
    )
    session = await get(tx, workspace, session_id)
    await log.append(tx, workspace, session, "created", key=session_id)
    return session


async def get(tx: Tx, workspace: str, session_id: str) -> Session:
    """Raises `SessionNotFound`."""
    row = await tx.row(_SELECT + " AND s.id = $2", workspace, session_id)
    if row is None:
        raise SessionNotFound(session_id)
    return _session(tx, workspace, row)


async def exists(tx: Tx, workspace: str, session_id: str) -> bool:
    return (
        await tx.row("SELECT 1 FROM sessions WHERE workspace = $1 AND id = $2", workspace, session_id)
        is not None
    )


async def top_level(tx: Tx, workspace: str) -> list[Session]:
    """Sessions without a parent, the one that changed last first."""
    rows = await tx.rows(_SELECT + " AND s.parent = '' ORDER BY s.touched DESC", workspace)
    return [_session(tx, workspace, row) for row in rows]


async def change(
    tx: Tx, workspace: str, session_id: str, *, title: str | None, todos: tuple[Todo, ...] | None
) -> Session:
    """What a person may change. Raises `SessionNotFound`."""
    if title is not None:
        await tx.run(
            f"UPDATE sessions SET title = $4, {_TOUCH} WHERE workspace = $1 AND id = $2",
            workspace,
            session_id,
            tx.now,
            title,
        )
    if todos is not None:
        await set_todos(tx, workspace, session_id, todos)
    return await changed(tx, workspace, session_id)


async def set_todos(tx: Tx, workspace: str, session_id: str, todos: tuple[Todo, ...]) -> None:
    """Tells nobody: whoever calls this shows the session."""
    await tx.run(
        f"UPDATE sessions SET todos = $4, {_TOUCH} WHERE workspace = $1 AND id = $2",
        workspace,
        session_id,
        tx.now,
        encode(todos).decode(),
    )


async def set_generated_title(tx: Tx, workspace: str, session_id: str, title: str) -> None:
    """Name the session, unless a person has named it or it is gone by now; it is shown either way, for its cost."""
    places = ", ".join(f"${n}" for n in range(5, 5 + len(PLACEHOLDER_TITLES)))
    found = await tx.run(
        f"""UPDATE sessions SET title = CASE WHEN title IN ({places}) THEN $4 ELSE title END, {_TOUCH}
            WHERE workspace = $1 AND id = $2""",
        workspace,
        session_id,
        tx.now,
        title,
        *PLACEHOLDER_TITLES,
    )
    if found:
        await changed(tx, workspace, session_id)


async def add_usage(tx: Tx, workspace: str, session_id: str, spent: Spent) -> Session:
    """The last step's counts replace the old ones."""
    await tx.run(
        f"""UPDATE sessions SET {_TOUCH},
               prompt_tokens = CASE WHEN $4 > 0 THEN $4 ELSE prompt_tokens END,
               completion_tokens = CASE WHEN $5 > 0 THEN $5 ELSE completion_tokens END
           WHERE workspace = $1 AND id = $2""",
        workspace,
        session_id,
        tx.now,
        spent.prompt,
        spent.completion,
    )
    return await changed(tx, workspace, session_id)


async def add_cost(tx: Tx, workspace: str, session_id: str, cost: float) -> None:
    """What a model call cost; whoever books it shows the session."""
    if cost:
        await tx.run(
            f"UPDATE sessions SET cost = cost + $4, {_TOUCH} WHERE workspace = $1 AND id = $2",
            workspace,
            session_id,
            tx.now,
            cost,
        )


async def set_summary(tx: Tx, workspace: str, session_id: str, message_id: str, completion: int) -> None:
    """From here on the model sees the summary instead of what it covers."""
    await tx.run(
        f"""UPDATE sessions SET summary_message = $4, prompt_tokens = 0, completion_tokens = $5, {_TOUCH}
            WHERE workspace = $1 AND id = $2""",
        workspace,
        session_id,
        tx.now,
        message_id,
        completion,
    )
    await changed(tx, workspace, session_id)


async def restore_summary(
    tx: Tx, workspace: str, session_id: str, message_id: str, prompt: int, completion: int
) -> Session:
    """The summary that stood before, or none, counts again."""
    await tx.run(
        f"""UPDATE sessions SET summary_message = $4, prompt_tokens = $5, completion_tokens = $6, {_TOUCH}
            WHERE workspace = $1 AND id = $2""",
        workspace,
        session_id,
        tx.now,
        message_id,
        prompt,
        completion,
    )
    return await changed(tx, workspace, session_id)


async def changed(tx: Tx, workspace: str, session_id: str) -> Session:
    """Log how the session looks now."""
    session = await get(tx, workspace, session_id)
    await log.append(tx, workspace, session, "updated", key=session_id, keep="latest")
    return session


async def announce(tx: Tx, workspace: str, session_id: str) -> None:
    """Tell the room who is there and whether it is busy; nothing is stored."""
    if await exists(tx, workspace, session_id):
        log.announce(tx, workspace, await get(tx, workspace, session_id), "updated", key=session_id)


async def count_message(tx: Tx, workspace: str, session_id: str) -> None:
    await tx.run(
        "UPDATE sessions SET message_count = message_count + 1, updated_at = $3 WHERE workspace = $1 AND id = $2",
        workspace,
        session_id,
        tx.now,
    )


async def delete(tx: Tx, workspace: str, session_id: str, by: str = "") -> None:
    session = await get(tx, workspace, session_id)
    await tx.run("DELETE FROM sessions WHERE workspace = $1 AND id = $2", workspace, session_id)
    await disappear(tx, workspace, session, by)


async def disappear(tx: Tx, workspace: str, session: Session, by: str = "") -> None:
    """Log that the session is gone, and by whom."""
    gone = msgspec.structs.replace(session, deleted_by=by)
    await log.append(tx, workspace, gone, "deleted", key=session.id)


async def children(tx: Tx, workspace: str, session_id: str) -> list[str]:
    rows = await tx.rows(
        "SELECT id FROM sessions WHERE workspace = $1 AND parent = $2", workspace, session_id
    )
    return [row[0] for row in rows]


def _session(tx: Tx, workspace: str, row: Row) -> Session:
    return Session(
        id=row[0],
        parent_session_id=row[1],
        title=row[2],
        message_count=row[3],
        prompt_tokens=row[4],
        completion_tokens=row[5],
        summary_message_id=row[6],
        cost=row[7],
        todos=_todos.decode(row[8]),
        created_at=row[9],
        updated_at=row[10],
        is_busy=bool(row[11]),
        attached_clients=tx.attached(workspace, row[0]),
    )
