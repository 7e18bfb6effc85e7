"""What turns did to the files of a workspace, and what was undone of it.

A set is what one call of a turn changed, or one undo or redo of that. Its body says what stood at each path before and after.

    open ──▶ done ──▶ forgotten     a call, from before it runs until what it changed is known; then until there is no more room
    applying ──▶ done               an undo or redo: everything it will do is on disk before it touches a file
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

import msgspec

from bullpen.schema.changes import TurnChanges, Verb
from bullpen.store import log
from bullpen.store.tx import Row, Tx

SetKind = Literal["call", "unknown", "undo", "redo"]
"""`unknown`: found after a crash, so it may be the turn's work or what somebody did since."""

PathKind = Literal["", "file", "link", "dir"]

NOT_KEPT = "~"
"""How the name of a content begins that is not kept: it tells that a file changed, and nothing can be made from it."""

TRASH = "/trash"
"""How the name of the workspace ends to which thrown-away sessions move. Their sets keep their numbers there."""

TOLD_PATHS = 50
"""Of a turn's changes an event names this many; the rest is counted."""


class State(NamedTuple):
    """What stands at a path: nothing, a file, a link or a directory. `content` is the name of a file's content or the
    target of a link."""

    kind: PathKind = ""
    mode: int = 0
    content: str = ""

    @property
    def is_kept(self) -> bool:
        """Whether a path can be brought to this. Of a link's target that is no text only its looks are known."""
        if self.kind == "link":
            return "\N{REPLACEMENT CHARACTER}" not in self.content
        return self.kind != "file" or not self.content.startswith(NOT_KEPT)


ABSENT = State()


class Change(NamedTuple):
    """`path` is relative to the workspace, with slashes; absolute for what lies outside."""

    path: str
    before: State
    after: State

    @property
    def verb(self) -> Verb:
        if not self.before.kind:
            return "created"
        return "modified" if self.after.kind else "deleted"

    @property
    def is_directory(self) -> bool:
        """Whether it is about a directory alone, which people seldom care for."""
        return {self.before.kind, self.after.kind} <= {"", "dir"}


class ChangeSet(NamedTuple):
    """`of` is the undo that a redo takes back. `asked_in` is the session in which an undo or redo was asked for: a fork's
    perhaps, of a turn that ran in the `session`."""

    id: int
    session: str
    turn: int
    kind: SetKind
    call: str
    author: str
    state: str
    of: int
    asked_in: str
    partial: bool
    shared: bool
    at: int
    changes: list[Change]


class NewSet(NamedTuple):
    session: str
    turn: int
    kind: SetKind
    call: str = ""
    author: str = ""
    of: int = 0
    asked_in: str = ""


_SET = """SELECT id, session, turn, kind, call, author, state, undid, asked_in, partial, shared, at, body
    FROM change_sets WHERE workspace = $1"""


async def begin(tx: Tx, workspace: str, new: NewSet, changes: Sequence[Change] = ()) -> int:
    """A set that is not finished: what a crash leaves is found by it."""
    row = await tx.row(
        "SELECT coalesce(max(id), 0) + 1 FROM change_sets WHERE workspace IN ($1, $2)",
        workspace,
        workspace + TRASH,
    )
    number = int(row[0]) if row else 1
    await tx.run(
        """INSERT INTO change_sets (workspace, id, session, turn, kind, call, author, state, undid, asked_in, partial, shared, at,
               body)
           VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0, 0, $11, $12)""",
        workspace,
        number,
        new.session,
        new.turn,
        new.kind,
        new.call,
        new.author,
        "open" if new.kind == "call" else "applying",
        new.of,
        new.asked_in,
        tx.now,
        _body(changes),
    )
    return number


async def end_call(
    tx: Tx,
    workspace: str,
    number: int,
    changes: Sequence[Change],
    *,
    partial: bool = False,
    shared: bool = False,
    kind: SetKind = "call",
) -> None:
    """A call is over, and this is what it changed. `partial` says that there may be more, `shared` that others ran beside it."""
    if not changes and not partial:
        await drop(tx, workspace, number)
        return
    known = await tx.run(
        """UPDATE change_sets SET state = 'done', kind = $3, partial = $4, shared = $5, body = $6
           WHERE workspace = $1 AND id = $2""",
        workspace,
        number,
        kind,
        int(partial),
        int(shared),
        _body(changes),
    )
    if known:  # Its session may have been deleted meanwhile.
        await _tell(tx, workspace, number, "changed")


async def end_undo(tx: Tx, workspace: str, number: int, *, without: Collection[str] = ()) -> ChangeSet | None:
    """All of it is done, but for the paths in `without`."""
    found = await get(tx, workspace, number)
    if found is None:
        return None
    done = [change for change in found.changes if change.path not in without]
    await tx.run(
        "UPDATE change_sets SET state = 'done', body = $3 WHERE workspace = $1 AND id = $2",
        workspace,
        number,
        _body(done),
    )
    await _tell(tx, workspace, number, "redone" if found.kind == "redo" else "undone")
    return found._replace(changes=done)


async def drop(tx: Tx, workspace: str, number: int) -> None:
    await tx.run("DELETE FROM change_sets WHERE workspace = $1 AND id = $2", workspace, number)


async def get(tx: Tx, workspace: str, number: int) -> ChangeSet | None:
    row = await tx.row(_SET + " AND id = $2", workspace, number)
    return None if row is None else _set(row)


async def unfinished(tx: Tx, workspace: str) -> list[ChangeSet]:
    """What was under way when the server went down, oldest first."""
    rows = await tx.rows(_SET + " AND state IN ('open', 'applying') ORDER BY id", workspace)
    return [_set(row) for row in rows]


async def of_turn(tx: Tx, workspace: str, session: str, turn: int) -> list[ChangeSet]:
    """The finished sets of a turn, oldest first; also of one that a fork has from elsewhere."""
    rows = await tx.rows(
        _SET
        + """ AND turn = $3 AND state IN ('done', 'forgotten') AND session = coalesce(
              (SELECT origin FROM inherited_turns WHERE workspace = $1 AND session = $2 AND turn = $3), $2) ORDER BY id""",
        workspace,
        session,
        turn,
    )
    return [_set(row) for row in rows]


async def turns(tx: Tx, workspace: str, session: str, *, before: int, limit: int) -> list[int]:
    """The turns of a session that changed something, those included that a fork has from elsewhere, newest first."""
    rows = await tx.rows(
        """SELECT turn FROM change_sets WHERE workspace = $1 AND session = $2 AND turn < $3
               AND kind IN ('call', 'unknown') AND state IN ('done', 'forgotten')
           UNION
           SELECT c.turn FROM inherited_turns AS i
               JOIN change_sets AS c ON c.workspace = i.workspace AND c.session = i.origin AND c.turn = i.turn
               WHERE i.workspace = $1 AND i.session = $2 AND i.turn < $3
               AND c.kind IN ('call', 'unknown') AND c.state IN ('done', 'forgotten')
           ORDER BY 1 DESC LIMIT $4""",
        workspace,
        session,
        before,
        limit,
    )
    return [int(row[0]) for row in rows]


async def asked(tx: Tx, workspace: str, turn: int, length: int) -> str:
    """The beginning of what was asked in a turn; empty once that is forgotten."""
    row = await tx.row(
        "SELECT substr(text, 1, $3) FROM prompts WHERE workspace = $1 AND seq = $2", workspace, turn, length
    )
    return str(row[0]) if row else ""


async def undos(tx: Tx, workspace: str, session: str) -> list[ChangeSet]:
    """The finished undos and redos of what a session's turns changed, or that were asked for in it, newest first."""
    rows = await tx.rows(
        _SET
        + """ AND kind IN ('undo', 'redo') AND state = 'done' AND (session = $2 OR asked_in = $2
              OR undid IN (SELECT id FROM change_sets WHERE workspace = $1 AND asked_in = $2)) ORDER BY id DESC""",
        workspace,
        session,
    )
    return [_set(row) for row in rows]


async def contents(tx: Tx, workspace: str) -> set[str]:
    """The names of all contents that some change needs, or will need when its session is had back."""
    rows = await tx.rows(
        "SELECT body FROM change_sets WHERE workspace IN ($1, $2)", workspace, workspace + TRASH
    )
    return {name for (body,) in rows for name in contents_of(_changes(body))}


def contents_of(changes: Sequence[Change]) -> set[str]:
    states = (state for change in changes for state in (change.before, change.after))
    return {state.content for state in states if state.kind == "file" and state.is_kept}


async def forget_oldest(tx: Tx, workspace: str, share: int) -> int:
    """Forget what the oldest sets changed, one in `share`, at least one, and all else of those turns; gives back how many sets
    that were."""
    row = await tx.row("SELECT count(*) FROM change_sets WHERE workspace = $1 AND state = 'done'", workspace)
    count = int(row[0]) if row else 0
    return await tx.run(
        """UPDATE change_sets SET state = 'forgotten', body = $3
           WHERE workspace = $1 AND state = 'done' AND (session, turn) IN
           (SELECT session, turn FROM change_sets WHERE workspace = $1 AND state = 'done' ORDER BY id LIMIT $2)""",
        workspace,
        max(1, count // share),
        _body(()),
    )


async def forget_session(tx: Tx, workspace: str, session: str) -> None:
    await tx.run("DELETE FROM change_sets WHERE workspace = $1 AND session = $2", workspace, session)


async def forget_unfinished(tx: Tx, workspace: str, session: str) -> None:
    """What is under way in a session that goes: nobody will hear of its end."""
    await tx.run(
        "DELETE FROM change_sets WHERE workspace = $1 AND session = $2 AND state IN ('open', 'applying')",
        workspace,
        session,
    )


async def merge_turns(tx: Tx, workspace: str, session: str, turns: Sequence[int]) -> None:
    """What these turns changed counts as one, the first of them, from now on."""
    for turn in turns[1:]:
        await tx.run(
            "UPDATE change_sets SET turn = $4 WHERE workspace = $1 AND session = $2 AND turn = $3",
            workspace,
            session,
            turn,
            turns[0],
        )


async def _tell(tx: Tx, workspace: str, number: int, action: Literal["changed", "undone", "redone"]) -> None:
    found = await get(tx, workspace, number)
    assert found is not None
    files = [change for change in found.changes if not change.is_directory]
    event = TurnChanges(
        session_id=found.session,
        turn=found.turn,
        action=action,
        tool_call_id=found.call,
        created=sum(change.verb == "created" for change in files),
        modified=sum(change.verb == "modified" for change in files),
        deleted=sum(change.verb == "deleted" for change in files),
        paths=tuple(change.path for change in files[:TOLD_PATHS]),
        more=max(0, len(files) - TOLD_PATHS),
        partial=found.partial,
        author=found.author,
    )
    await log.append(tx, workspace, event, "created", key=str(number))


def _body(changes: Sequence[Change]) -> bytes:
    return msgspec.msgpack.encode(list(changes))


def _changes(body: bytes) -> list[Change]:
    return msgspec.msgpack.decode(body, type=list[Change])


def _set(row: Row) -> ChangeSet:
    *facts, partial, shared, at, body = row
    return ChangeSet._make((*facts, bool(partial), bool(shared), at, _changes(body)))
