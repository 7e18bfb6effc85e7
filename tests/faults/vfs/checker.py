"""Looks a database over: is it sound, is everything there that was promised, and is nothing half done?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
from tests.engine.bench import WORKSPACE
from tests.faults.vfs.workload import ENDED, Promised

from bullpen.engine.recovery import recover
from bullpen.store.store import DATABASE_NAME, open_store
from bullpen.system.clock import SystemClock


async def check(directory: Path, promised: Promised, *, power_cut: bool) -> None:
    """Check the files as they lie there, and again after the server's own recovery."""
    if power_cut:
        _raw(directory, "UPDATE meta SET value = 'before the power cut' WHERE key = 'boot'")
    look_over(directory)
    _check_promises(directory, promised)
    async with open_store(directory, clock=SystemClock(), attached=lambda w, s: 0) as store:
        await recover(store)
        opened = await store.open_feed(WORKSPACE, "")
        went_back = opened.head < promised.shown
        assert not went_back or opened.epoch != promised.epoch, "numbers that were shown may be given again"
    look_over(directory)
    _check_promises(directory, promised)
    states = dict(_raw(directory, "SELECT run_id, state FROM prompts"))
    assert set(states.values()) <= ENDED | {"accepted"}


def look_over(directory: Path) -> None:
    """Sound, gapless, and the tables agree with the log."""
    assert _raw(directory, "PRAGMA integrity_check") == [("ok",)]
    for rule in _RULES:
        assert _raw(directory, rule) == [], rule


def _check_promises(directory: Path, promised: Promised) -> None:
    states = dict(_raw(directory, "SELECT run_id, state FROM prompts"))
    assert promised.runs - states.keys() == frozenset(), "accepted prompts are lost"
    undone = {run: states[run] for run in promised.ended if states[run] not in ENDED}
    assert undone == {}, "cancelled prompts run again"
    titles = dict(_raw(directory, "SELECT id, title FROM sessions"))
    assert promised.titles.keys() <= titles.keys(), "sessions are lost"


_RULES = (
    # The log of a workspace has every number from its tail to its head.
    """SELECT w.id, w.head, count(e.seq) FROM workspaces AS w LEFT JOIN events AS e ON e.workspace = w.id
       GROUP BY w.id HAVING count(e.seq) <> w.head - w.tail + 1 OR coalesce(max(e.seq), w.head) <> w.head""",
    # Sessions know how many messages they have.
    """SELECT s.id FROM sessions AS s WHERE s.message_count <>
       (SELECT count(*) FROM messages AS m WHERE m.workspace = s.workspace AND m.session = s.id)""",
    # Every message was announced, and every finished one's end as well; the trash belongs to no workspace.
    """SELECT m.id FROM messages AS m JOIN workspaces AS w ON w.id = m.workspace WHERE NOT EXISTS (SELECT 1 FROM events AS e WHERE e.workspace = m.workspace
       AND e.kind = 'message' AND e.key = m.id AND e.action = 'created')""",
    """SELECT m.id FROM messages AS m JOIN workspaces AS w ON w.id = m.workspace WHERE m.finished = 1
       AND NOT EXISTS (SELECT 1 FROM events AS e WHERE e.workspace = m.workspace AND e.kind = 'message' AND e.key = m.id AND e.body IS NULL)""",
    # A prompt has one completion when it is over, and none before.
    """SELECT p.seq, p.state FROM prompts AS p WHERE p.turn IN (0, p.seq) AND (p.state NOT IN ('accepted', 'active')) <>
       (SELECT count(*) FROM events AS e WHERE e.workspace = p.workspace AND e.kind = 'run_complete'
        AND e.key = CAST(p.seq AS TEXT))""",
    # An active turn has one open message; nothing else is open.
    """SELECT p.seq FROM prompts AS p WHERE p.state = 'active' AND p.turn = p.seq AND 1 <> (SELECT count(*)
       FROM messages AS m WHERE m.workspace = p.workspace AND m.turn = p.seq AND m.finished = 0)""",
    """SELECT m.id FROM messages AS m WHERE m.finished = 0 AND NOT EXISTS (SELECT 1 FROM prompts AS p
       WHERE p.workspace = m.workspace AND p.seq = m.turn AND p.state = 'active')""",
    # Growing text belongs to an open message.
    "SELECT c.message FROM chunks AS c LEFT JOIN messages AS m ON m.id = c.message WHERE coalesce(m.finished, 1) = 1",
    # Every call of a finished answer has its result.
    """SELECT m.id, json_extract(part.value, '$.data.id') FROM messages AS m,
       json_each(CAST(m.body AS TEXT), '$.parts') AS part WHERE m.finished = 1 AND m.role = 'assistant'
       AND json_extract(part.value, '$.type') = 'tool_call' AND 1 <> (SELECT count(*) FROM messages AS r,
       json_each(CAST(r.body AS TEXT), '$.parts') AS result WHERE r.session = m.session AND r.role = 'tool'
       AND json_extract(result.value, '$.data.tool_call_id') = json_extract(part.value, '$.data.id'))""",
)
"""Each finds what must not be."""


def _raw(directory: Path, statement: str) -> list[Any]:
    connection = apsw.Connection(str(directory / DATABASE_NAME))
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()
