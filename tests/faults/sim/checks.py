"""What must be true of a simulated world, by its files and by what its people were told."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import apsw
import msgspec
from tests.faults.sim.agent import Agent
from tests.faults.sim.people import FOREVER, Asked, Book, Claim, Looked, Person

from bullpen.schema.events import RunComplete
from bullpen.schema.message import decode_message

ENDED = {"done", "failed", "cancelled", "interrupted"}
NOTICES = {"permission": "permission_notification", "question": "question_batch_notification"}

DEAD_PEER_S = 45.0
HEARTBEAT_S = 15.0
TRAVEL_S = 3.0
"""The longest that bytes and reads take on their way in these worlds, put together."""


class Records:
    """The files, read beside the server."""

    def __init__(self, database: Path) -> None:
        self._path = database
        self._connection: apsw.Connection | None = None

    def rows(self, sql: str, *values: Any) -> list[Any]:
        if self._connection is None:
            self._connection = apsw.Connection(str(self._path), flags=apsw.SQLITE_OPEN_READWRITE)
        return self._connection.execute(sql, values).fetchall()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def look(self, session: str) -> Looked:
        """How the session's prompts stand now, and its finished messages."""
        rows = self.rows("SELECT run_id, state, turn, text FROM prompts WHERE session = ?", session)
        finished = self.rows("SELECT id, body FROM messages WHERE session = ? AND finished = 1", session)
        return Looked(
            states={run_id: state for run_id, state, _, _ in rows},
            messages=dict(finished),
            begun={run_id: turn > 0 for run_id, _, turn, _ in rows},
            texts={run_id: text for run_id, _, _, text in rows},
        )

    def where(self, session: str, agent: Agent) -> str:
        """What a cancel would meet in the session now."""
        active = self.rows("SELECT kind FROM prompts WHERE session = ? AND state = 'active'", session)
        if ("summary",) in active:
            return "in a summary"
        if self.rows("SELECT 1 FROM asks WHERE session = ? AND state = 'open'", session):
            return "in an ask"
        return "in a tool" if session in agent.working else "in the answer"

    def has_asks(self) -> bool:
        return bool(self.rows("SELECT 1 FROM asks WHERE state = 'open'"))

    def busy(self) -> list[str]:
        """The sessions in which something runs or waits, the busiest first."""
        rows = self.rows(
            """SELECT session FROM prompts WHERE state IN ('accepted', 'active')
               GROUP BY session ORDER BY count(*) DESC, min(seq)"""
        )
        return [session for (session,) in rows]


def check(records: Records, book: Book, agent: Agent, people: list[Person], *, outlive: bool) -> list[str]:
    """Everything that is wrong, in words."""
    wrong = list(book.wrong)
    prompts = records.rows("SELECT seq, run_id, kind, session, text, state FROM prompts ORDER BY seq")
    events = records.rows("SELECT seq, kind, keep, key, body FROM events ORDER BY seq")
    wrong += _check_ends(prompts, events, book)
    wrong += _check_order(records, prompts, book)
    wrong += _check_cancels(records, prompts, book, outlive=outlive)
    wrong += _check_asks(records, events, book, agent)
    for person in people:
        wrong += _check_stream(person, events)
    leftovers = ("chunks", "intents", "messages WHERE finished = 0", "asks WHERE state = 'open'")
    wrong += [f"left behind: {table}" for table in leftovers if records.rows(f"SELECT 1 FROM {table}")]
    return wrong


def _check_ends(prompts: list[Any], events: list[Any], book: Book) -> list[str]:
    """R-06, and that nothing which was answered is missing."""
    ends: Counter[str] = Counter()
    for _, kind, _, _, body in events:
        if kind == "run_complete":
            end = msgspec.json.decode(body, type=RunComplete)
            ends.update(filter(None, (end.run_id, *end.run_ids)))
    stored = {run_id for _, run_id, kind, *_ in prompts if kind == "prompt"}
    wrong = [f"R-06: {run_id} has {ends[run_id]} ends" for run_id in stored | set(ends) if ends[run_id] != 1]
    wrong += [f"R-06: {run_id} is still {state}" for _, run_id, *_, state in prompts if state not in ENDED]
    wrong += [
        f"R-01: {p.text} was accepted and is gone"
        for p in book.prompts
        if p.answered_at < FOREVER and p.run_id not in stored
    ]
    texts = Counter(text for _, _, kind, _, text, _ in prompts if kind == "prompt")
    wrong += [
        f"R-02: {p.text} was stored {texts[p.text]} times"
        for p in book.prompts
        if p.key and texts[p.text] > 1
    ]
    return wrong


def _check_order(records: Records, prompts: list[Any], book: Book) -> list[str]:
    """R-03: prompts are numbered as they were answered, and run as they are numbered."""
    seqs = {text: seq for seq, _, kind, _, text, _ in prompts if kind == "prompt"}
    wrong = []
    for session in {row[3] for row in prompts}:
        bodies = records.rows(
            "SELECT body FROM messages WHERE session = ? AND role = 'user' ORDER BY position", session
        )
        ran = [seqs[text] for (body,) in bodies if (text := decode_message(body).text) in seqs]
        if ran != sorted(set(ran)):
            wrong.append(f"R-03: run in the order {ran}")
        answered = sorted(
            (p for p in book.prompts if p.session == session and p.answered_at < FOREVER and not p.key),
            key=lambda p: p.asked_at,
        )
        wrong += [
            f"R-03: {a.text} was answered before {b.text} was asked, and comes later"
            for a, b in pairwise(answered)
            if a.answered_at < b.asked_at and seqs.get(a.text, 0) > seqs.get(b.text, 0)
        ]
    return wrong


def _check_cancels(records: Records, prompts: list[Any], book: Book, *, outlive: bool) -> list[str]:
    """R-04: what was there before an answered cancel was over then, and stayed as it was. R-05: nothing else was."""
    final = {run_id: state for _, run_id, _, _, _, state in prompts}
    bodies = dict(records.rows("SELECT id, body FROM messages WHERE finished = 1"))
    wrong = []
    for covered in book.covered:
        for run_id, state in covered.states.items():
            if state not in ENDED or final.get(run_id) != state:
                wrong.append(
                    f"R-04: {run_id} was {state} when its cancel was answered, and is {final.get(run_id)}"
                )
        for message, body in covered.messages.items():
            if bodies.get(message, body) != body:
                wrong.append(f"R-04: message {message} was changed after the answer to a cancel")
    asked = {p.run_id: p for p in book.prompts}
    for _, run_id, kind, session, text, state in prompts:
        if state != "cancelled" or kind != "prompt":
            continue
        prompt = asked.get(run_id) or next(p for p in book.prompts if p.text == text)
        was_stopped = any(_may_have_ended(stop, prompt, session) for stop in book.stops)
        ended_at = book.ended.get(run_id, FOREVER)
        if not was_stopped and (outlive or not _was_deserted(book.claims, prompt.asked_at, ended_at)):
            wrong.append(f"R-05, R-29: {text} was cancelled, and nobody had said so")
    return wrong


def _may_have_ended(stop: Asked, prompt: Asked, session: str) -> bool:
    return stop.answered_at >= prompt.asked_at and (stop.what == "stop" or stop.session == session)


def _was_deserted(claims: list[Claim], since: float, until: float) -> bool:
    """Whether the last who held the workspace was gone at some moment of that time, which ends all work without `outlive`. A crash
    leaves nobody too, but ends nothing."""
    for last in claims:
        left_at, fellows = last.until, [c for c in claims if c.life is last.life]
        if left_at >= last.life.over_at or any(c.begins <= left_at < c.until for c in fellows):
            continue
        back_at = min((c.begins for c in fellows if c.begins > left_at), default=last.life.over_at)
        if left_at <= until and since <= back_at:
            return True
    return False


def _check_asks(records: Records, events: list[Any], book: Book, agent: Agent) -> list[str]:
    """R-28: settled once, and everybody was told how. R-07: no effect comes twice."""
    wrong = [f"R-28: {ask} was settled by {by}" for ask, by in book.answers.items() if len(by) > 1]
    wrong += [f"R-07: {name} happened {times} times" for name, times in agent.effects.items() if times > 1]
    told: Counter[tuple[str, str]] = Counter()
    for _, kind, _, key, body in events:
        if kind == "question_batch_notification" or (
            kind == "permission_notification" and (b'"granted":true' in body or b'"denied":true' in body)
        ):
            told[kind, key] += 1
    for ask, kind, state in records.rows("SELECT id, kind, state FROM asks"):
        if told[NOTICES[kind], ask] != 1:
            wrong.append(f"R-28: {told[NOTICES[kind], ask]} notices of the {state} {kind} {ask}")
    return wrong


def _check_stream(person: Person, events: list[Any]) -> list[str]:
    """R-13: every event once and in order. R-17: the server was never silent for longer than a heartbeat."""
    wrong = []
    if person.numbers != sorted(set(person.numbers)):
        wrong.append(f"R-13: {person.name} saw events twice or out of order")
    last = {(kind, key): seq for seq, kind, _, key, _ in events}
    replaced = {seq for seq, kind, keep, key, _ in events if keep == "latest" and last[kind, key] != seq}
    due = {seq for seq, *_ in events if seq > person.first}
    if missing := sorted(due - set(person.numbers) - replaced):
        wrong.append(f"R-13: {person.name} never saw {missing}")
    if person.longest_gap_s > HEARTBEAT_S + TRAVEL_S:
        wrong.append(f"R-17: {person.name} heard nothing for {person.longest_gap_s:.1f} s")
    return wrong
