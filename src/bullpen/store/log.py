"""The numbered log: every durable change of a workspace, gapless, in the order it happened.

A row holds the payload's JSON, except where the payload is a row that no longer changes (a finished
message, a file version): then it names that row. Of an object's `latest` states only the last is kept; the ones before
it stay as empty rows. Otherwise a long message would be stored anew with every call it makes.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from bullpen.broker.facts import Fact, Live
from bullpen.schema.events import KINDS, Action, Keep
from bullpen.schema.session import FileVersion, Session
from bullpen.schema.wire import Wire, encode
from bullpen.store.tx import Row, Tx

KEPT_EVENTS = 10_000
KEPT_S = 24 * 3600
"""A client that was away for no longer than this, or missed no more than that, can be replayed to. The time is that
in which the database was open: what the wall clock does meanwhile, and how long nobody ran a server, do not count."""

PRUNE_EVERY = 1000
"""A workspace that stays open for months must not keep them all."""

PAGE = 200
PAGE_BYTES = 96 * 1024
"""What is read at a time for a replay, at least one event: bounds what one reconnecting client costs in memory, also
when it stops reading in the middle."""

_REPLACED = frozenset({"message", "queue_changed"})
"""Kinds whose states may be large; a session is small, and changes too often to look for its last one."""

_FILE = ("id", "session_id", "path", "content", "version", "created_at", "updated_at")


class Replayed(NamedTuple):
    seq: int
    kind: str
    action: str
    body: bytes


class Page(NamedTuple):
    """`head` is the log's last number in the same snapshot and `tail` the first one kept; `last` is how far
    the page goes, `complete` when that is the head."""

    epoch: str
    head: int
    tail: int
    events: list[Replayed]
    last: int
    complete: bool


async def append(
    tx: Tx,
    workspace: str,
    payload: Wire,
    action: Action,
    *,
    key: str = "",
    keep: Keep = "each",
    body: bytes | None = None,
    by_reference: bool = False,
    live: Live | None = None,
) -> int:
    """Number the event, store it and publish it with the commit; gives back its number."""
    kind = KINDS[type(payload)]
    body = encode(payload) if body is None else body
    numbered = await tx.row("UPDATE workspaces SET head = head + 1 WHERE id = $1 RETURNING head", workspace)
    assert numbered is not None, "an event needs a workspace that has been opened once"
    seq = int(numbered[0])
    if kind in _REPLACED:
        await _empty_last(tx, workspace, kind, key)
    await tx.run(
        "INSERT INTO events (workspace, seq, kind, action, key, keep, body, at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        workspace,
        seq,
        kind,
        action,
        key,
        keep,
        None if by_reference else body,
        tx.steady,
    )
    tx.publish(Fact(workspace, kind, action, key, body, seq, live))
    if seq % PRUNE_EVERY == 0:
        await prune(tx, workspace)
    return seq


async def _empty_last(tx: Tx, workspace: str, kind: str, key: str) -> None:
    """What follows replaces the last state of the object that was logged. Sessions are excluded for the index's sake:
    it leaves them out."""
    await tx.run(
        """UPDATE events SET body = x'' WHERE workspace = $1 AND seq = (
               SELECT seq FROM events WHERE workspace = $1 AND kind = $2 AND key = $3
               AND keep = 'latest' AND kind <> 'session' ORDER BY seq DESC LIMIT 1)""",
        workspace,
        kind,
        key,
    )


def announce(tx: Tx, workspace: str, payload: Wire, action: Action, *, key: str = "") -> None:
    """Publish without storing: for what is only true now."""
    tx.publish(Fact(workspace, KINDS[type(payload)], action, key, encode(payload)))


async def next_number(tx: Tx, workspace: str) -> int:
    """The number the next event will get."""
    row = await tx.row("SELECT head + 1 FROM workspaces WHERE id = $1", workspace)
    return int(row[0]) if row else 0


async def read_page(tx: Tx, workspace: str, after: int) -> Page:
    """The next events after a number. Of the `latest` ones of an object only the last in the page is given:
    a longer replay may show an older state too, always before the newer."""
    row = await tx.row("SELECT epoch, head, tail FROM workspaces WHERE id = $1", workspace)
    assert row is not None, "only the log of an opened workspace is read"
    epoch, head, tail = row
    last = await _last_of_page(tx, workspace, after)
    rows = await tx.rows(
        """SELECT e.seq, e.kind, e.action, e.key, e.keep, coalesce(e.body, m.body),
                  f.id, f.session, f.path, f.content, f.version, f.created_at, f.updated_at
           FROM events AS e
           LEFT JOIN messages AS m ON e.body IS NULL AND e.kind = 'message' AND m.id = e.key AND m.workspace = e.workspace
           LEFT JOIN files AS f ON e.body IS NULL AND e.kind = 'file' AND f.id = e.key AND f.workspace = e.workspace
           WHERE e.workspace = $1 AND e.seq > $2 AND e.seq <= $3 ORDER BY e.seq""",
        workspace,
        after,
        last,
    )
    last_of = {(kind, key): seq for seq, kind, _, key, *_ in rows}
    events = [
        Replayed(row[0], row[1], row[2], body)
        for row in rows
        if (row[4] == "each" or last_of[row[1], row[3]] == row[0])
        and (body := await _body(tx, workspace, row)) is not None
    ]
    return Page(epoch, head, tail, events, last, complete=last >= head)


async def _last_of_page(tx: Tx, workspace: str, after: int) -> int:
    """Up to which number the events after another fit into a page."""
    room = PAGE_BYTES
    last = after
    for seq, size in await tx.rows(
        """SELECT e.seq, octet_length(coalesce(e.body, m.body, f.content, ''))
           FROM events AS e
           LEFT JOIN messages AS m ON e.body IS NULL AND e.kind = 'message' AND m.id = e.key AND m.workspace = e.workspace
           LEFT JOIN files AS f ON e.body IS NULL AND e.kind = 'file' AND f.id = e.key AND f.workspace = e.workspace
           WHERE e.workspace = $1 AND e.seq > $2 ORDER BY e.seq LIMIT $3""",
        workspace,
        after,
        PAGE,
    ):
        room -= size
        if room < 0 and last > after:
            break
        last = seq
    return last


async def _body(tx: Tx, workspace: str, row: Row) -> bytes | None:
    """The payload as it is told now; None when it was replaced, or the row it named has been deleted since."""
    _, kind, action, key, _, body, *file = row
    if body == b"":
        return None
    if kind == "file":
        return None if file[0] is None else encode(FileVersion(**dict(zip(_FILE, file, strict=True))))
    if kind == "session" and action != "deleted" and body is not None:
        busy = await tx.row(
            "SELECT 1 FROM prompts WHERE workspace = $1 AND session = $2 AND state IN ('accepted', 'active')",
            workspace,
            key,
        )
        session = msgspec.json.decode(body, type=Session)
        return encode(
            msgspec.structs.replace(
                session, is_busy=busy is not None, attached_clients=tx.attached(workspace, key)
            )
        )
    return None if body is None else bytes(body)


async def prune(tx: Tx, workspace: str) -> None:
    """Forget events that are both old and far behind."""
    row = await tx.row("SELECT head, tail FROM workspaces WHERE id = $1", workspace)
    if row is None or row[0] - KEPT_EVENTS <= row[1]:
        return
    keep_from = row[0] - KEPT_EVENTS
    recent = await tx.row(
        "SELECT min(seq) FROM events WHERE workspace = $1 AND at >= $2", workspace, tx.steady - KEPT_S
    )
    if recent is not None and recent[0] is not None:
        keep_from = min(keep_from, recent[0])
    await tx.run("DELETE FROM events WHERE workspace = $1 AND seq < $2", workspace, keep_from)
    await tx.run("UPDATE workspaces SET tail = $2 WHERE id = $1 AND tail < $2", workspace, keep_from)
