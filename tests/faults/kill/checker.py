"""The checker: holds what the clients were promised against what is there when everything has come to rest.

Each `check_…` gives back sentences about what is wrong, so that one look shows all of it.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.kill.crowd import OLD, content_of, file_of
from tests.faults.kill.ledger import Ledger, Sent
from tests.journeys.stream import Seen, parts_of, reason_of, text_of

UNKNOWN = "outcome is unknown"


@dataclass
class Evidence:
    """What is there in the end, and what was seen on the way."""

    ledger: Ledger
    seen: list[Seen]
    """Everything the watcher was shown, over all lives."""
    replayed: list[Seen]
    """The log as a newcomer gets it now."""
    messages: dict[str, list[dict[str, Any]]]
    sessions: dict[str, str]
    """Title by id."""
    grants: set[tuple[str, str]]
    asks: dict[str, Any]
    compact: bool
    effects: list[str]
    project: Path
    heads: dict[int, int]
    """The last number of the log when each life ended."""
    ends: dict[str, list[tuple[int, dict[str, Any]]]] = field(default_factory=lambda: defaultdict(list))
    """Every completion that names a run, with its number."""

    def __post_init__(self) -> None:
        for event in self.replayed:
            if event.kind == "run_complete":
                for run_id in (event.data.get("run_id", ""), *event.data.get("run_ids", ())):
                    if run_id:
                        self.ends[run_id].append((event.seq, event.data))

    def said(self, sent: Sent) -> list[dict[str, Any]]:
        """The user messages that hold the prompt's mark."""
        found = self.messages.get(sent.session, [])
        return [m for m in found if m["role"] == "user" and sent.mark in text_of(m)]


def check(evidence: Evidence) -> list[str]:
    checks = (
        check_runs,
        check_order,
        check_cancels,
        check_effects,
        check_writes,
        check_nothing_open,
        check_log,
        check_shown_text,
    )
    return evidence.ledger.wrong + [wrong for one in checks for wrong in one(evidence)]


def check_runs(e: Evidence) -> Iterator[str]:
    """R-01, R-02, R-06: nothing accepted is lost, nothing runs twice, every run ends once."""
    for sent in e.ledger.prompts:
        ends = e.ends.get(sent.run_id, []) if sent.run_id else []
        said = len(e.said(sent))
        if sent.acked and len(ends) != 1:
            yield f"{sent.mark} was accepted and has {len(ends)} ends"
        if sent.own_run_id and len(ends) > 1:
            yield f"{sent.mark} has {len(ends)} ends"
        if said > 1:
            yield f"{sent.mark} was said {said} times"
        if sent.refused and (said or ends):
            yield f"{sent.mark} was refused and ran all the same"
        if sent.acked and ends and not said and not _never_began(ends[0][1]):
            yield f"{sent.mark} ended without a word: {ends[0][1]}"


def _never_began(end: dict[str, Any]) -> bool:
    return bool(end.get("cancelled")) or end.get("error", "").startswith("quarantined")


def check_order(e: Evidence) -> Iterator[str]:
    """Prompts of one session run in the order in which they were accepted."""
    places: dict[str, list[tuple[int, Sent]]] = defaultdict(list)
    for sent in e.ledger.prompts:
        for n, message in enumerate(e.messages.get(sent.session, [])):
            if message["role"] == "user" and sent.mark in text_of(message):
                places[sent.session].append((n, sent))
    for line in places.values():
        line.sort(key=lambda place: place[0])
        for (_, before), (_, after) in itertools.combinations(line, 2):
            if after.acked_at is not None and after.acked_at < before.sent_at and not before.key:
                yield f"{before.mark} overtook {after.mark}"


def check_cancels(e: Evidence) -> Iterator[str]:
    """R-04: what was accepted before an answered cancel has ended when that answer came."""
    for cancel in e.ledger.cancels:
        limit = cancel.seq if cancel.seq is not None else e.heads[cancel.life]
        for sent in e.ledger.prompts:
            covered = sent.acked_at is not None and sent.acked_at < cancel.sent_at
            if sent.session == cancel.session and covered:
                late = [seq for seq, _ in e.ends.get(sent.run_id, []) if seq > limit]
                if late:
                    yield f"{sent.mark} ended at {late}, after the cancel's {limit}"
    finished: set[str] = set()
    for event in e.seen:
        if event.kind == "message":
            if event.data["id"] in finished and event.action != "deleted":
                yield f"message {event.data['id']} changed after its end: {event}"
            if reason_of(event.data) and event.is_durable:
                finished.add(event.data["id"])


def check_effects(e: Evidence) -> Iterator[str]:
    """R-07: no effect twice, none without its call, and every result says what is true of it."""
    results: dict[str, dict[str, Any]] = {}
    for messages in e.messages.values():
        for message in messages:
            for result in parts_of(message, "tool_result"):
                results[result["tool_call_id"]] = result
    counts = Counter(e.effects)
    for mark, count in counts.items():
        if count > 1:
            yield f"the effect of {mark} happened {count} times"
    for sent in e.ledger.prompts:
        found = results.get(f"call-{sent.mark}")
        if sent.kind in ("write", "rewrite"):
            yield from _check_file(e, sent, found)
        elif sent.kind in ("tool", "ask", "stubborn"):
            happened = bool(counts[sent.mark])
            if happened and found is None:
                yield f"{sent.mark} had an effect and has no result"
            elif found is not None and not found.get("is_error") and not happened:
                yield f"{sent.mark} reports an effect that did not happen"
            elif happened and found and found.get("is_error") and not _admits(found["content"]):
                yield f"{sent.mark} had an effect, and its result says: {found['content']}"


def _admits(result: str) -> bool:
    """A cancelled call may have had an effect; one that a crash cut short says that nobody knows."""
    return UNKNOWN in result or "context canceled" in result


def _check_file(e: Evidence, sent: Sent, result: dict[str, Any] | None) -> Iterator[str]:
    file = e.project / file_of(sent.mark)
    content = file.read_text() if file.exists() else OLD
    happened = content == content_of(sent.mark)
    if not happened and content != OLD:
        yield f"{file.name} is torn"
    if result is not None and not result.get("is_error") and not happened:
        yield f"{file.name} was reported and is not there"
    if happened and result is not None and result.get("is_error") and not _admits(result["content"]):
        yield f"{file.name} is there, and its result says: {result['content']}"


def check_writes(e: Evidence) -> Iterator[str]:
    """R-08: whatever was answered with success is there."""
    for session, title in e.ledger.titles.items():
        deleted = e.ledger.deleted.get(session)
        if deleted is True and session in e.sessions:
            yield f"session {session} was deleted and is there"
        if deleted is None and session not in e.sessions:
            yield f"session {session} was made and is not there"
        if session in e.sessions and not title.may_be(e.sessions[session]):
            yield f"session {session} is called {e.sessions[session]!r}, expected {title}"
    for grant in e.ledger.grants - e.grants:
        yield f"the grant {grant} is not there"
    if not e.ledger.compact.may_be(e.compact):
        yield f"compact mode is {e.compact}, expected {e.ledger.compact}"
    for sent in e.ledger.prompts:
        for message in e.said(sent):
            if text_of(message) not in (sent.text, sent.wish):
                yield f"{sent.mark} ran as {text_of(message)!r}, not as {sent.text!r}"
            if text_of(message) != sent.text and sent.text == sent.wish:
                yield f"the edit of {sent.mark} is lost"
        if sent.withdrawn and (e.said(sent) or not _all_cancelled(e, sent)):
            yield f"{sent.mark} was withdrawn and ran"


def _all_cancelled(e: Evidence, sent: Sent) -> bool:
    return all(end.get("cancelled") for _, end in e.ends.get(sent.run_id, []))


def check_nothing_open(e: Evidence) -> Iterator[str]:
    for session, messages in e.messages.items():
        for message in messages:
            if not reason_of(message):
                yield f"message {message['id']} of {session} is open"
        calls = [c["id"] for m in messages for c in parts_of(m, "tool_call")]
        results = [r["tool_call_id"] for m in messages for r in parts_of(m, "tool_result")]
        if sorted(calls) != sorted(results):
            yield f"calls {calls} have the results {results}"
    if e.asks["permissions"] or e.asks["questions"]:
        yield f"asks are open: {e.asks}"


def check_log(e: Evidence) -> Iterator[str]:
    """R-13 across crashes: what was followed live and what is replayed are the same log, each event once."""
    live = [event for event in e.seen if event.is_durable]
    doubled = [i for i, n in Counter(event.id for event in live).items() if n > 1]
    if doubled:
        yield f"the watcher was shown twice: {doubled}"
    if [event.seq for event in live] != sorted(event.seq for event in live):
        yield "the watcher was shown events out of order"
    known = {event.id for event in live}
    newest = {_object(event): event.seq for event in live}
    # Of a state that another has replaced a longer replay may show more.
    missing = [
        str(event)
        for event in e.replayed
        if event.id not in known and not (_is_state(event) and newest.get(_object(event), 0) > event.seq)
    ]
    if missing:
        yield f"the watcher missed {missing[:5]}"
    stored = {event.id for event in e.replayed}
    lost = [
        str(event) for event in live if event.kind.startswith(("run_", "perm")) and event.id not in stored
    ]
    if lost:
        yield f"shown, and not in the log: {lost[:5]}"
    if any(event.kind == "resync" for event in e.seen):
        yield "a killed process is no reason for a resync"


def _is_state(event: Seen) -> bool:
    """Whether only the last of its kind is sure to be replayed."""
    if event.kind == "message":
        return event.action == "updated" and not reason_of(event.data)
    return event.kind in ("queue_changed", "config_changed") or (event.kind, event.action) == (
        "session",
        "updated",
    )


def _object(event: Seen) -> tuple[str, str]:
    return event.kind, event.data.get("id") or event.data.get("session_id", "")


def check_shown_text(e: Evidence) -> Iterator[str]:
    """Text that was shown while it grew is kept."""
    stored = {m["id"]: text_of(m) for messages in e.messages.values() for m in messages}
    for event in e.seen:
        if event.kind == "message" and not event.is_durable:
            kept = stored.get(event.data["id"])
            if kept is not None and not kept.startswith(text_of(event.data)):
                yield f"{event} was shown, {kept[:40]!r} is kept"
