"""Summaries: a message that stands for all before it when the model is asked next.

A summary is written by the model and completed by us: what was pinned, the request that is being worked on and the list of tasks
follow word for word, for a model forgets just those. When even the request for a summary is too long, less and less of the
conversation is shown, and at last the summary is made without a model. It can be undone: the messages are all still there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from bullpen.engine import prompt as words
from bullpen.engine.active import Active
from bullpen.engine.answer import Answer, answered, stream_answer
from bullpen.engine.beginnings import open_answer
from bullpen.engine.draft import Draft
from bullpen.engine.history import History
from bullpen.engine.services import Chosen
from bullpen.engine.sizes import read_chars, tokens
from bullpen.errors import ProviderError
from bullpen.providers.base import AssistantTurn, ModelRequest, Settled, ToolTurn, Turn, UserTurn
from bullpen.schema.events import Compacted
from bullpen.schema.session import Todo
from bullpen.store import log, messages, pins, prompts, sessions, summaries
from bullpen.store.growth import show
from bullpen.store.tx import Tx
from bullpen.system.failpoints import hit

Compaction = Literal["asked", "full", "overflow"]

LARGE_WINDOW = 200_000
LEFT_IN_LARGE = 20_000
LEFT_SHARE = 0.2
"""A summary is made when less than this is left of the context: of a large one a fixed number, of a small one a share."""

CUT_RESULT_CHARS = 1_500
"""What is left of a tool's result in a conversation that is too long to be summarised whole."""

QUOTED_CHARS = 20_000
"""Of a request; beyond this it is material rather than a request, and the summary has to do."""


def is_full(chosen: Chosen, active: Active, used: int) -> bool:
    """Whether so much of the context is used that a summary is due. Of an unknown window nobody can tell."""
    window = chosen.model.context_window
    if not window or not used or active.agent.settings.options.disable_auto_summarize:
        return False
    return window - used < (LEFT_IN_LARGE if window > LARGE_WINDOW else window * LEFT_SHARE)


def tokens_of(system: str, turns: Sequence[Turn]) -> int:
    """Roughly what a conversation takes of the context."""
    return tokens(len(system) + sum(map(read_chars, turns)))


async def summarize(active: Active, chosen: Chosen, history: History, draft: Draft) -> None:
    """A summary that somebody asked for: a turn of its own."""
    answer = await write_summary(active, chosen, history.turns, history.settled, draft, requests=())
    pieces = active.services.store.growth.take_back(draft.open)

    async def place(tx: Tx) -> None:
        show(tx, draft.open, pieces)
        await _place(tx, active, answer, draft, why="asked", before=tokens_of("", history.turns))
        await prompts.end(tx, active.workspace, active.prompt.seq, "done")

    hit("summary-placing")
    await active.write(place, reserved=True)


async def write_summary(
    active: Active,
    chosen: Chosen,
    turns: Sequence[Turn],
    settled: Settled | None,
    draft: Draft,
    *,
    requests: Sequence[str],
) -> Answer:
    """Fill the draft with a summary of the conversation and with what has to be kept; the `requests` that are being worked on are
    among that. Raises `ProviderError`, `TurnCancelled`."""
    draft.become_summary()
    await active.settle(draft)  # Before its first word: nobody shall take it for an answer.
    todos, kept = await _kept(active, requests)
    hit("summary-asked")
    answer = await _ask(active, chosen, turns, settled, draft, todos)
    if not draft.text.strip():
        draft.say(_without_a_model(turns))
    elif answer.reason == "max_tokens":
        draft.say("\n\n(The summary was cut here: the model's answer reached its limit.)")
    draft.say(kept)
    return answer


async def _ask(
    active: Active,
    chosen: Chosen,
    turns: Sequence[Turn],
    settled: Settled | None,
    draft: Draft,
    todos: str,
) -> Answer:
    """The model's summary of as much of the conversation as it takes; when it takes none, one without it."""
    request = SummaryRequest(active, todos)
    for shown in _less_and_less(turns):
        request.turns, request.settled = shown, settled if shown is turns else None
        try:
            return await stream_answer(active, chosen, request, draft)
        except ProviderError as exc:
            if exc.kind != "overflow":
                raise
            draft.clear()
    draft.say(_without_a_model(turns))
    return answered(chosen, request(chosen), draft, "end_turn", usage=None)


class SummaryRequest:
    """What the model is asked, with the conversation as far as it is shown now."""

    def __init__(self, active: Active, todos: str) -> None:
        self._session_id = active.session_id
        self._request = "\n\n".join(filter(None, (words.SUMMARY_REQUEST, todos)))
        self.turns: Sequence[Turn] = ()
        self.settled: Settled | None = None

    def __call__(self, chosen: Chosen) -> ModelRequest:
        return ModelRequest(
            purpose="summary",
            session_id=self._session_id,
            model=chosen.selected.model,
            system=tuple(s for s in (chosen.prefix, words.SUMMARY) if s),
            turns=(*self.turns, UserTurn(self._request)),
            settled=self.settled,
            max_tokens=chosen.model.default_max_tokens,
            settings=chosen.selected,
            can_reason=chosen.model.can_reason,
        )


def _less_and_less(turns: Sequence[Turn]) -> Iterator[Sequence[Turn]]:
    """All of it, then without long results, then only the later parts."""
    yield turns
    short = [_shortened(turn) for turn in turns]
    yield short
    for share in (2, 4, 8):
        start = len(short) - len(short) // share
        later = next((n for n in range(start, len(short)) if isinstance(short[n], UserTurn)), None)
        if later:
            yield short[later:]


def _shortened(turn: Turn) -> Turn:
    match turn:
        case UserTurn(text=text):
            return UserTurn(_cut(text, QUOTED_CHARS))
        case AssistantTurn(text=text, tool_calls=calls):
            return AssistantTurn(text, tool_calls=calls)
        case ToolTurn(result=result):
            content = _cut(result.content, CUT_RESULT_CHARS)
            return ToolTurn(msgspec.structs.replace(result, content=content, data="", mime_type=""))


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]}\n[… {len(text) - limit} characters left out …]\n{text[-limit // 2 :]}"


def _without_a_model(turns: Sequence[Turn]) -> str:
    """What people asked for, in their words; the rest was too long for the model to summarise."""
    asked = [f"- {_cut(turn.text, CUT_RESULT_CHARS)}" for turn in turns if isinstance(turn, UserTurn)]
    return "The conversation was too long to be summarised. This is what was asked in it:\n\n" + "\n".join(
        asked[-20:]
    )


async def _kept(active: Active, requests: Sequence[str]) -> tuple[str, str]:
    """What the model is told of the tasks, and what follows the summary word for word."""

    async def work(tx: Tx) -> tuple[list[str], tuple[Todo, ...]]:
        session = await sessions.get(tx, active.workspace, active.session_id)
        return [p.text for p in await pins.of_session(tx, active.workspace, active.session_id)], session.todos

    pinned, todos = await active.services.store.read(work)
    listed = "\n".join(f"- [{t.status}] {t.content}" for t in todos)
    blocks = [f"<pinned>\n{text}\n</pinned>" for text in pinned]
    if listed:
        blocks.append(f"<tasks>\n{listed}\n</tasks>")
    blocks += [f"<request>\n{_cut(text, QUOTED_CHARS)}\n</request>" for text in requests if text]
    told = f"Carry this list of tasks over, with its states:\n{listed}" if listed else ""
    if not blocks:
        return told, ""
    return told, "\n\n" + words.KEPT + "\n" + "\n".join(blocks)


async def place_within(
    active: Active, summary: Answer, draft: Draft, *, why: Compaction, before: int
) -> tuple[str, Draft]:
    """Put the summary in place in the middle of a turn; gives back its text and the message that the turn goes on with."""
    pieces = active.services.store.growth.take_back(draft.open)

    async def place(tx: Tx) -> Draft:
        show(tx, draft.open, pieces)
        await _place(tx, active, summary, draft, why=why, before=before)
        return await open_answer(tx, active.workspace, active.session_id, active.prompt.seq, summary.chosen)

    hit("summary-placing")
    return draft.text, await active.write(place, durable=False)


async def _place(
    tx: Tx, active: Active, summary: Answer, draft: Draft, *, why: Compaction, before: int
) -> None:
    workspace, session = active.workspace, active.session_id
    await messages.rewrite(tx, workspace, draft.finished(tx.now, "end_turn"))
    await summaries.keep_previous(tx, workspace, session, draft.id)
    await active.note_spent(tx, summary.chosen, summary.usage, purpose="summary", estimated=summary.estimated)
    await sessions.set_summary(tx, workspace, session, draft.id, summary.spent.completion)
    told = Compacted(
        session_id=session,
        message_id=draft.id,
        reason=why,
        tokens_before=before,
        tokens_after=tokens(len(draft.text)),
    )
    await log.append(tx, workspace, told, "created", key=draft.id)
