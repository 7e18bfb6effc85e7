"""Prompts: the one table behind acceptance, queue, idempotency, cancel and crash recovery.

    accepted ──▶ active ──▶ done | failed | cancelled | interrupted
        └──────▶ cancelled              (withdrawn, dropped, or cancelled before it began)

`seq` is the order of acceptance and what a cancel goes by; `position` is the order of running and what a
person may change. A prompt that joined another's turn (`turn` ≠ `seq`) ends with that turn. A row of
kind `summary` is a summary that was asked for; it takes its place in the session like a prompt.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from bullpen.schema.agent import QueuedPrompt
from bullpen.schema.api import Attachment
from bullpen.schema.events import QueueChanged
from bullpen.schema.wire import encode
from bullpen.store import log
from bullpen.store.tx import Row, Tx

State = Literal["accepted", "active", "done", "failed", "cancelled", "interrupted"]
Kind = Literal["prompt", "summary"]
Timing = Literal["", "now", "step", "after"]
"""When it wants to be heard by a turn that is under way: now, at its next step, or after it. Without a word, a prompt with a run id
of its caller's waits, and any other joins."""

KEPT_PROMPTS = 10_000
PRUNE_EVERY = 500
"""Accepted prompts between two looks for old ones."""

_attachments = msgspec.json.Decoder(tuple[Attachment, ...])

_SELECT = """SELECT seq, position, kind, session, author, run_id, own_run_id, permissions, interactive, text,
    attachments, state, turn, attempts, queued, created_at, timing, client FROM prompts WHERE workspace = $1"""


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    position: float
    kind: Kind
    session: str
    author: str
    run_id: str
    own_run_id: bool
    permissions: str
    interactive: bool
    text: str
    attachments: tuple[Attachment, ...]
    state: State
    turn: int
    attempts: int
    """How often it was set about, this time included: to begin it while it waits, to end it once it runs."""
    queued: bool
    """It had to wait behind another, so the room was shown a queue with it in."""
    created_at: int
    timing: Timing = ""
    client: str = ""

    @property
    def folds(self) -> bool:
        """Whether it may share a turn. What the server did not survive once is tried again alone."""
        joins = self.timing in ("now", "step") or (not self.timing and not self.own_run_id)
        return self.kind == "prompt" and joins and self.attempts <= 1


class NewRow(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a prompt when it is accepted."""

    session: str
    text: str
    run_id: str
    own_run_id: bool
    kind: Kind = "prompt"
    author: str = ""
    idempotency_key: str = ""
    permissions: str = "ask"
    interactive: bool = True
    attachments: tuple[Attachment, ...] = ()
    timing: Timing = ""
    client: str = ""


class Accepted(NamedTuple):
    """`is_new` is False where a known idempotency key gave back those of its first use, and nothing was stored."""

    seq: int
    run_id: str
    is_new: bool = True


async def accept(tx: Tx, workspace: str, new: NewRow) -> Accepted:
    """Store the prompt."""
    if new.idempotency_key:
        known = await tx.row(
            "SELECT seq, run_id FROM prompts WHERE workspace = $1 AND idempotency_key = $2",
            workspace,
            new.idempotency_key,
        )
        if known is not None:
            return Accepted(int(known[0]), str(known[1]), is_new=False)
    row = await tx.row(
        "UPDATE workspaces SET last_prompt = last_prompt + 1 WHERE id = $1 RETURNING last_prompt", workspace
    )
    assert row is not None
    seq = int(row[0])
    if seq % PRUNE_EVERY == 0:
        await prune(tx, workspace)
    queued = await is_busy(tx, workspace, new.session)
    await tx.run(
        """INSERT INTO prompts (workspace, seq, position, kind, session, author, run_id, own_run_id, idempotency_key,
               permissions, interactive, text, attachments, state, turn, attempts, queued, created_at, ended_at,
               timing, client)
           VALUES ($1, $2, $17, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 'accepted', 0, 1, $13, $14, 0, $15, $16)""",
        workspace,
        seq,
        new.kind,
        new.session,
        new.author,
        new.run_id,
        int(new.own_run_id),
        new.idempotency_key or None,
        new.permissions,
        int(new.interactive),
        new.text,
        encode(new.attachments),
        int(queued),
        tx.now,
        new.timing,
        new.client,
        await _place_of(tx, workspace, new, seq),
    )
    if queued:
        await queue_changed(tx, workspace, new.session)
    return Accepted(seq, new.run_id)


async def text_of(tx: Tx, workspace: str, idempotency_key: str) -> str | None:
    """What the prompt reads that was accepted with this key, None when none was."""
    known = await tx.row(
        "SELECT text FROM prompts WHERE workspace = $1 AND idempotency_key = $2", workspace, idempotency_key
    )
    return None if known is None else str(known[0])


async def _place_of(tx: Tx, workspace: str, new: NewRow, seq: int) -> float:
    """Behind all others; what wants to be heard now goes before those that wait for a turn of their own."""
    if new.timing != "now":
        return seq
    before = 0.0
    for prompt in await waiting(tx, workspace, new.session):
        if not prompt.folds:
            return (before + prompt.position) / 2
        before = prompt.position
    return seq


async def is_busy(tx: Tx, workspace: str, session: str) -> bool:
    """Whether something runs or waits in the session."""
    row = await tx.row(
        "SELECT 1 FROM prompts WHERE workspace = $1 AND session = $2 AND state IN ('accepted', 'active')",
        workspace,
        session,
    )
    return row is not None


async def get(tx: Tx, workspace: str, seq: int) -> Prompt | None:
    row = await tx.row(_SELECT + " AND seq = $2", workspace, seq)
    return None if row is None else _prompt(row)


async def waiting(tx: Tx, workspace: str, session: str) -> list[Prompt]:
    """The accepted prompts of a session, in the order they will run."""
    rows = await tx.rows(
        _SELECT + " AND session = $2 AND state = 'accepted' ORDER BY position", workspace, session
    )
    return [_prompt(row) for row in rows]


async def active(tx: Tx, workspace: str, session: str) -> Prompt | None:
    """The prompt whose turn is running in the session."""
    row = await tx.row(_SELECT + " AND session = $2 AND state = 'active' AND turn = seq", workspace, session)
    return None if row is None else _prompt(row)


async def all_active(tx: Tx, workspace: str) -> list[Prompt]:
    rows = await tx.rows(_SELECT + " AND state = 'active' AND turn = seq ORDER BY seq", workspace)
    return [_prompt(row) for row in rows]


async def folded_into(tx: Tx, workspace: str, turn: int) -> list[Prompt]:
    rows = await tx.rows(_SELECT + " AND turn = $2 AND seq <> $2 ORDER BY position", workspace, turn)
    return [_prompt(row) for row in rows]


async def sessions_waiting(tx: Tx, workspace: str) -> list[str]:
    """The sessions in which something is still to run."""
    rows = await tx.rows(
        "SELECT DISTINCT session FROM prompts WHERE workspace = $1 AND state = 'accepted'", workspace
    )
    return [row[0] for row in rows]


async def is_active(tx: Tx, workspace: str, seq: int) -> bool:
    row = await tx.row("SELECT state FROM prompts WHERE workspace = $1 AND seq = $2", workspace, seq)
    return row is not None and row[0] == "active"


async def any_unfinished(tx: Tx, workspace: str) -> bool:
    row = await tx.row(
        "SELECT 1 FROM prompts WHERE workspace = $1 AND state IN ('accepted', 'active')", workspace
    )
    return row is not None


async def activate(tx: Tx, workspace: str, seq: int, turn: int) -> None:
    """Give the prompt a turn: its own, or the one it joins. From here on its message holds the attachments."""
    await tx.run(
        """UPDATE prompts SET state = 'active', turn = $3, attempts = 1, attachments = $4
           WHERE workspace = $1 AND seq = $2""",
        workspace,
        seq,
        turn,
        b"[]",
    )


async def count_attempt(tx: Tx, workspace: str, seq: int) -> None:
    await tx.run(
        "UPDATE prompts SET attempts = attempts + 1 WHERE workspace = $1 AND seq = $2", workspace, seq
    )


async def absolve(tx: Tx, workspace: str) -> None:
    """The server leaves in peace: nothing that waits has done any harm."""
    await tx.run("UPDATE prompts SET attempts = 0 WHERE workspace = $1 AND state = 'accepted'", workspace)


async def end(tx: Tx, workspace: str, seq: int, state: State) -> None:
    """End a prompt and all that joined its turn."""
    await tx.run(
        """UPDATE prompts SET state = $3, ended_at = $4, attachments = $5 WHERE workspace = $1
           AND (seq = $2 OR turn = $2) AND state IN ('accepted', 'active')""",
        workspace,
        seq,
        state,
        tx.steady,
        # What never began still holds its attachments, and would for a day.
        b"[]",
    )


async def edit(tx: Tx, workspace: str, seq: int, text: str) -> None:
    await tx.run(
        "UPDATE prompts SET text = $3 WHERE workspace = $1 AND seq = $2 AND state = 'accepted'",
        workspace,
        seq,
        text,
    )


async def move(tx: Tx, workspace: str, prompt: Prompt, index: int) -> None:
    """Give a waiting prompt the place `index` among those of its session."""
    line = await waiting(tx, workspace, prompt.session)
    places = [p.position for p in line]
    order = [p.seq for p in line if p.seq != prompt.seq]
    order.insert(max(0, index), prompt.seq)
    # The same places are dealt out anew: whoever is accepted later still comes last.
    for seq, place in zip(order, places, strict=True):
        await tx.run(
            "UPDATE prompts SET position = $3 WHERE workspace = $1 AND seq = $2", workspace, seq, place
        )


async def forget_session(tx: Tx, workspace: str, session: str) -> None:
    """Blank what was said; the rows stay for their idempotency keys."""
    await tx.run(
        "UPDATE prompts SET text = '', attachments = $3 WHERE workspace = $1 AND session = $2",
        workspace,
        session,
        b"[]",
    )


async def prune(tx: Tx, workspace: str) -> None:
    """Forget prompts, and with them their idempotency keys, that both ended long ago and lie far behind: a clock that
    is put forward by a day must not make anybody's last prompt a new one."""
    await tx.run(
        """DELETE FROM prompts WHERE workspace = $1 AND ended_at < $2 AND state NOT IN ('accepted', 'active')
           AND seq <= (SELECT last_prompt FROM workspaces WHERE id = $1) - $3""",
        workspace,
        tx.steady - log.KEPT_S,
        KEPT_PROMPTS,
    )


async def queue_changed(tx: Tx, workspace: str, session: str) -> None:
    """Tell the room what waits in the session now."""
    prompts = tuple(queued(p) for p in await waiting(tx, workspace, session) if p.kind == "prompt")
    await log.append(
        tx,
        workspace,
        QueueChanged(session_id=session, prompts=prompts),
        "updated",
        key=session,
        keep="latest",
    )


def queued(prompt: Prompt) -> QueuedPrompt:
    return QueuedPrompt(
        seq=prompt.seq,
        session_id=prompt.session,
        run_id=prompt.run_id,
        text=prompt.text,
        author=prompt.author,
        attachments=len(prompt.attachments),
        created_at=prompt.created_at,
    )


def _prompt(row: Row) -> Prompt:
    return Prompt(
        seq=row[0],
        position=row[1],
        kind=row[2],
        session=row[3],
        author=row[4],
        run_id=row[5],
        own_run_id=bool(row[6]),
        permissions=row[7],
        interactive=bool(row[8]),
        text=row[9],
        attachments=_attachments.decode(row[10]),
        state=row[11],
        turn=row[12],
        attempts=row[13],
        queued=bool(row[14]),
        created_at=row[15],
        timing=row[16],
        client=row[17],
    )
