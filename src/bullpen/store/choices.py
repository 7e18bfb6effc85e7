"""What sessions were told to do otherwise than their workspace."""

from __future__ import annotations

import msgspec

from bullpen.schema.choices import SessionChoices
from bullpen.schema.wire import encode
from bullpen.store import log
from bullpen.store.tx import Tx

_decode = msgspec.json.Decoder(SessionChoices).decode


async def all_of(tx: Tx, workspace: str) -> list[SessionChoices]:
    rows = await tx.rows("SELECT body FROM session_choices WHERE workspace = $1", workspace)
    return [_decode(row[0]) for row in rows]


async def get(tx: Tx, workspace: str, session: str) -> SessionChoices | None:
    row = await tx.row(
        "SELECT body FROM session_choices WHERE workspace = $1 AND session = $2", workspace, session
    )
    return None if row is None else _decode(row[0])


async def put(tx: Tx, workspace: str, choices: SessionChoices) -> None:
    body = encode(choices)
    await tx.run(
        """INSERT INTO session_choices (workspace, session, body) VALUES ($1, $2, $3)
           ON CONFLICT (workspace, session) DO UPDATE SET body = excluded.body""",
        workspace,
        choices.session_id,
        body,
    )
    await log.append(tx, workspace, choices, "updated", key=choices.session_id, keep="latest", body=body)


async def forget_session(tx: Tx, workspace: str, session: str) -> None:
    await tx.run("DELETE FROM session_choices WHERE workspace = $1 AND session = $2", workspace, session)
