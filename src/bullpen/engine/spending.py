"""What a model call costs, counted or estimated, and how it gets on the ledger: once, whatever becomes of the call.

A call that is under way is noted beside the ledger with what was sent. The answer's end makes it a row there. When the answer
never ends (a cancel, a failure, a crash), whatever closes its message makes it one, from the text that is stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from bullpen.engine.services import Chosen
from bullpen.engine.sizes import read_chars, tokens
from bullpen.providers.base import ModelRequest, Usage
from bullpen.schema.message import Message, ToolCall
from bullpen.store import ledger, sessions
from bullpen.store.ledger import Asked, Entry, Purpose
from bullpen.store.tx import Tx

MILLION = 1_000_000


class Payer(NamedTuple):
    """On whose behalf a model is asked; see `Entry`."""

    root: str
    session: str
    turn: int = 0
    author: str = ""
    client: str = ""
    tool: str = ""


def entry_of(payer: Payer, chosen: Chosen, usage: Usage, purpose: Purpose, *, estimated: bool) -> Entry:
    return Entry(
        **payer._asdict(),
        purpose=purpose,
        provider=chosen.selected.provider,
        model=chosen.selected.model,
        input=usage.input,
        output=usage.output,
        cache_read=usage.cache_read,
        cache_write=usage.cache_write,
        cost=cost_of(chosen, usage),
        estimated=estimated,
    )


def asked_of(payer: Payer, chosen: Chosen, request: ModelRequest) -> Asked:
    """The call that is about to be made, as far as it is known before the answer."""
    usage = Usage(input=heard(request))
    entry = entry_of(payer, chosen, usage, request.purpose, estimated=True)
    dearer = Usage(input=usage.input, output=MILLION)
    return Asked(entry=entry, cost_per_1m_out=cost_of(chosen, dearer) - entry.cost)


async def book(tx: Tx, workspace: str, entry: Entry) -> None:
    """Put a call on the ledger. It counts for the session that asked and for the one that a person sees."""
    await ledger.forget_asked(tx, workspace, entry.session, entry.turn)
    await ledger.add(tx, workspace, entry)
    for session in {entry.root, entry.session}:
        await sessions.add_cost(tx, workspace, session, entry.cost)


async def book_rest(tx: Tx, workspace: str, turn: int, message: Message) -> None:
    """The answer in this message will not end. A call of which nothing came is not counted: perhaps it was never made."""
    asked = await ledger.asked(tx, workspace, message.session_id, turn)
    if asked is None:
        return
    await ledger.forget_asked(tx, workspace, message.session_id, turn)
    if message.text or message.reasoning or message.tool_calls:
        output = said(message.text, message.reasoning, message.tool_calls)
        cost = asked.entry.cost + output * asked.cost_per_1m_out / MILLION
        await book(tx, workspace, msgspec.structs.replace(asked.entry, output=output, cost=cost))


def heard(request: ModelRequest) -> int:
    """About how many tokens the model is sent."""
    return tokens(sum(map(len, request.system)) + sum(map(read_chars, request.turns)))


def said(text: str, thinking: str, calls: Iterable[ToolCall]) -> int:
    """About how many tokens the model has answered."""
    return tokens(len(text.encode()) + len(thinking.encode()) + sum(len(call.input) for call in calls))


def cost_of(chosen: Chosen, usage: Usage) -> float:
    if chosen.flat_rate:
        return 0.0
    if usage.cost is not None:
        return usage.cost
    prices = chosen.model.prices_at(usage.input + usage.cache_read + usage.cache_write)
    return (
        usage.input * prices.cost_per_1m_in
        + usage.output * prices.cost_per_1m_out
        + usage.cache_write * prices.cost_per_1m_in_cached
        + usage.cache_read * prices.cost_per_1m_out_cached
    ) / MILLION
