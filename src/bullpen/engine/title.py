"""Naming a session after its first prompt. A name somebody chose is never replaced."""

from __future__ import annotations

import logging
import re
from contextlib import aclosing

from bullpen.engine import prompt
from bullpen.engine.services import Agent, Chosen, Services, choose, preferred
from bullpen.engine.spending import Payer, book, entry_of
from bullpen.providers.base import ModelRequest, StepDone, TextDelta, Usage, UserTurn
from bullpen.store import sessions
from bullpen.store.ledger import Entry
from bullpen.store.tx import Tx

log = logging.getLogger("bullpen.engine")

LONGEST = 50
MAX_TOKENS = 40

_THOUGHT = re.compile(r"<think>.*?(</think>|\Z)", re.DOTALL)


async def name_session(services: Services, agent: Agent, session_id: str, text: str) -> None:
    """Ask the small model, then the large one, for a name; without an answer take the prompt's beginning."""
    title = ""
    entries: list[Entry] = []
    own, usual = services.choices.of(session_id), agent.settings
    for selected in (preferred(own.small, usual.small), preferred(own.large, usual.large)):
        if selected is None or selected.provider not in usual.providers:
            continue
        try:
            title, entry = await _ask(await choose(agent, selected), session_id, text)
            entries.append(entry)
        except Exception as exc:
            log.info("no title from %s: %s", selected.model, exc)
        if title:
            break
    title = title or shortened(text) or "Untitled Session"

    async def work(tx: Tx) -> None:
        for entry in entries:
            await book(tx, services.workspace, entry)
        await sessions.set_generated_title(tx, services.workspace, session_id, title)

    await services.store.write(work, durable=False)


async def _ask(chosen: Chosen, session_id: str, text: str) -> tuple[str, Entry]:
    request = ModelRequest(
        purpose="title",
        session_id=session_id,
        model=chosen.selected.model,
        system=tuple(s for s in (chosen.prefix, prompt.TITLE) if s),
        turns=(UserTurn(text),),
        max_tokens=chosen.model.default_max_tokens if chosen.model.can_reason else MAX_TOKENS,
    )
    pieces: list[str] = []
    usage = Usage()
    async with aclosing(chosen.provider.stream(request)) as events:
        async for event in events:
            if isinstance(event, TextDelta):
                pieces.append(event.text)
            elif isinstance(event, StepDone):
                usage = event.usage
    entry = entry_of(Payer(session_id, session_id), chosen, usage, "title", estimated=False)
    return shortened(_THOUGHT.sub("", "".join(pieces))), entry


def shortened(text: str) -> str:
    """One line of at most `LONGEST` characters."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1].rstrip() + "…"
