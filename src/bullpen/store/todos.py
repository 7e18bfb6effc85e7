"""The list of things to do as it was earlier in a conversation: what the results of its calls say of it.

Only the last list is stored with a session. Each call that changed it has left the whole list in its result, so an earlier one
is found there.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bullpen.schema.message import Message, decode_message
from bullpen.schema.session import Todo
from bullpen.store import messages
from bullpen.store.tx import Tx


class _Listed(msgspec.Struct, frozen=True):
    """What a call of the tool says for people."""

    todos: tuple[Todo, ...]
    is_new: bool


_decode = msgspec.json.Decoder(_Listed).decode


async def without(
    tx: Tx, workspace: str, session: str, end: int, going: Iterable[Message] | None = None
) -> tuple[Todo, ...] | None:
    """The list as it was before the place `end`; None when nothing from there on has changed it. `going` is what stands
    from there on, for a caller who knows."""
    if going is None:
        going = await messages.of_session(tx, workspace, session, start=end)
    if all(_listed(message) is None for message in going):
        return None
    rows = await tx.rows(
        """SELECT id FROM messages WHERE workspace = $1 AND session = $2 AND role = 'tool' AND position < $3
           ORDER BY position DESC""",
        workspace,
        session,
        end,
    )
    for (message_id,) in rows:
        row = await tx.row("SELECT body FROM messages WHERE id = $1", message_id)
        if row is not None and (found := _listed(decode_message(row[0]))) is not None:
            return found
    return ()


def _listed(message: Message) -> tuple[Todo, ...] | None:
    """The list that a call left, if this is the result of one."""
    for result in message.tool_results:
        if not result.is_error and '"todos"' in result.metadata:
            try:
                return _decode(result.metadata).todos
            except msgspec.MsgspecError:
                continue  # Somebody else's word for something else.
    return None
