"""The schema's history: a list of named steps, each run once, in order, in one transaction.

Written in the SQL that SQLite and PostgreSQL share: text ids, bigint times, no identity columns. What
only SQLite has (full-text search) is marked and lives in `search.py`.
"""

from __future__ import annotations

from typing import NamedTuple

from bullpen.store import search


class Migration(NamedTuple):
    name: str
    statements: tuple[str, ...]


_FOUNDATION = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    # One row per directory ever opened. `head` is the number of the last event, `tail` of the first one kept;
    # `opened` counts openings and keeps volatile ids apart.
    """CREATE TABLE workspaces (
        id TEXT PRIMARY KEY, path TEXT NOT NULL, epoch TEXT NOT NULL,
        head BIGINT NOT NULL, tail BIGINT NOT NULL, opened BIGINT NOT NULL, last_prompt BIGINT NOT NULL,
        created_at BIGINT NOT NULL, opened_at BIGINT NOT NULL)""",
    # The log. `keep` is 'each' or 'latest'. A NULL body means: the row that `key` names, which no longer changes.
    """CREATE TABLE events (
        workspace TEXT NOT NULL, seq BIGINT NOT NULL, kind TEXT NOT NULL, action TEXT NOT NULL,
        key TEXT NOT NULL, keep TEXT NOT NULL, body BLOB, at BIGINT NOT NULL,
        PRIMARY KEY (workspace, seq))""",
    # `touched` is the number of the event that last changed the session: an order finer than seconds.
    """CREATE TABLE sessions (
        id TEXT NOT NULL, workspace TEXT NOT NULL, parent TEXT NOT NULL, title TEXT NOT NULL,
        message_count BIGINT NOT NULL, prompt_tokens BIGINT NOT NULL, completion_tokens BIGINT NOT NULL,
        summary_message TEXT NOT NULL, cost DOUBLE PRECISION NOT NULL, todos TEXT NOT NULL,
        created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL, touched BIGINT NOT NULL,
        PRIMARY KEY (workspace, id))""",
    "CREATE INDEX sessions_by_time ON sessions (workspace, parent, touched)",
    # `body` is the message's wire JSON and goes out as it lies here. `turn` is the prompt that made it, while open.
    """CREATE TABLE messages (
        id TEXT PRIMARY KEY, workspace TEXT NOT NULL, session TEXT NOT NULL, role TEXT NOT NULL,
        position BIGINT NOT NULL, finished INTEGER NOT NULL, turn BIGINT NOT NULL, body BLOB NOT NULL)""",
    "CREATE INDEX messages_by_session ON messages (workspace, session, position)",
    "CREATE INDEX messages_by_role ON messages (workspace, role, position)",
    "CREATE INDEX messages_open ON messages (workspace, turn) WHERE finished = 0",
    # Text that an open message has grown by since its body was written.
    """CREATE TABLE chunks (
        message TEXT NOT NULL, n BIGINT NOT NULL, part TEXT NOT NULL, text TEXT NOT NULL, at BIGINT NOT NULL,
        PRIMARY KEY (message, n))""",
    # What a person sent. `seq` is the order of acceptance, `position` the order of running.
    """CREATE TABLE prompts (
        workspace TEXT NOT NULL, seq BIGINT NOT NULL, position DOUBLE PRECISION NOT NULL,
        kind TEXT NOT NULL, session TEXT NOT NULL, author TEXT NOT NULL, run_id TEXT NOT NULL,
        own_run_id INTEGER NOT NULL, idempotency_key TEXT, permissions TEXT NOT NULL, interactive INTEGER NOT NULL,
        text TEXT NOT NULL, attachments BLOB NOT NULL, state TEXT NOT NULL, turn BIGINT NOT NULL,
        attempts BIGINT NOT NULL, queued INTEGER NOT NULL, created_at BIGINT NOT NULL, ended_at BIGINT NOT NULL,
        PRIMARY KEY (workspace, seq))""",
    "CREATE UNIQUE INDEX prompts_by_key ON prompts (workspace, idempotency_key) WHERE idempotency_key IS NOT NULL",
    "CREATE INDEX prompts_unfinished ON prompts (workspace, session, position) WHERE state IN ('accepted', 'active')",
    # A tool call that was let loose on the world. Without a result after a crash its outcome is unknown.
    """CREATE TABLE intents (
        workspace TEXT NOT NULL, turn BIGINT NOT NULL, message TEXT NOT NULL, call TEXT NOT NULL,
        fingerprint TEXT NOT NULL, at BIGINT NOT NULL, PRIMARY KEY (message, call))""",
    # `state` is open, granted, denied, answered, cancelled or dead.
    """CREATE TABLE asks (
        id TEXT PRIMARY KEY, workspace TEXT NOT NULL, kind TEXT NOT NULL, session TEXT NOT NULL,
        turn BIGINT NOT NULL, message TEXT NOT NULL, call TEXT NOT NULL, seq BIGINT NOT NULL, body BLOB NOT NULL,
        fingerprint TEXT NOT NULL, state TEXT NOT NULL, answered_by TEXT NOT NULL, answer BLOB,
        created_at BIGINT NOT NULL, answered_at BIGINT NOT NULL)""",
    "CREATE INDEX asks_open ON asks (workspace, seq) WHERE state = 'open'",
    """CREATE TABLE grants (
        id TEXT PRIMARY KEY, workspace TEXT NOT NULL, scope TEXT NOT NULL, session TEXT NOT NULL,
        tool TEXT NOT NULL, action TEXT NOT NULL, path TEXT NOT NULL, fingerprint TEXT NOT NULL,
        granted_by TEXT NOT NULL, created_at BIGINT NOT NULL)""",
    "CREATE INDEX grants_by_workspace ON grants (workspace, tool, action)",
    """CREATE TABLE files (
        id TEXT PRIMARY KEY, workspace TEXT NOT NULL, session TEXT NOT NULL, path TEXT NOT NULL,
        content TEXT NOT NULL, version BIGINT NOT NULL, position BIGINT NOT NULL,
        created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL, UNIQUE (workspace, session, path, version))""",
    """CREATE TABLE read_files (
        workspace TEXT NOT NULL, session TEXT NOT NULL, path TEXT NOT NULL, read_at DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (workspace, session, path))""",
)

_SUPERSEDED = (
    # Finds the state of an object that a new one replaces in the log.
    "CREATE INDEX events_latest ON events (workspace, kind, key, seq) WHERE keep = 'latest' AND kind <> 'session'",
)

_ENGINE = (
    # An answer in its vendor's form, for those that a message's parts cannot say in full.
    """CREATE TABLE natives (
        message TEXT PRIMARY KEY, workspace TEXT NOT NULL, session TEXT NOT NULL, form TEXT NOT NULL,
        content TEXT NOT NULL)""",
    "CREATE INDEX natives_by_session ON natives (workspace, session)",
    # What a session was told to do otherwise than its workspace: models, policy, budget.
    """CREATE TABLE session_choices (
        workspace TEXT NOT NULL, session TEXT NOT NULL, body BLOB NOT NULL, PRIMARY KEY (workspace, session))""",
    # One row per model call. `root` is the session that a person sees, `tool` the call on whose behalf a sub-agent asked.
    """CREATE TABLE ledger (
        workspace TEXT NOT NULL, n BIGINT NOT NULL, at BIGINT NOT NULL, turn BIGINT NOT NULL,
        root TEXT NOT NULL, session TEXT NOT NULL, author TEXT NOT NULL, client TEXT NOT NULL,
        purpose TEXT NOT NULL, tool TEXT NOT NULL,
        provider TEXT NOT NULL, model TEXT NOT NULL, input BIGINT NOT NULL, output BIGINT NOT NULL,
        cache_read BIGINT NOT NULL, cache_write BIGINT NOT NULL, cost DOUBLE PRECISION NOT NULL,
        estimated INTEGER NOT NULL, PRIMARY KEY (workspace, n))""",
    "CREATE INDEX ledger_by_root ON ledger (workspace, root)",
    "CREATE INDEX ledger_by_time ON ledger (workspace, at)",
    # What a summary has to carry word for word.
    """CREATE TABLE pins (
        id TEXT PRIMARY KEY, workspace TEXT NOT NULL, session TEXT NOT NULL, text TEXT NOT NULL,
        author TEXT NOT NULL, created_at BIGINT NOT NULL)""",
    "CREATE INDEX pins_by_session ON pins (workspace, session)",
    # A turn that waits for its model's host, and why.
    """CREATE TABLE waits (
        workspace TEXT NOT NULL, session TEXT NOT NULL, turn BIGINT NOT NULL, body BLOB NOT NULL,
        PRIMARY KEY (workspace, session))""",
    # When a prompt wants to be heard: now, at the next step, or after the turn.
    "ALTER TABLE prompts ADD COLUMN timing TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE prompts ADD COLUMN client TEXT NOT NULL DEFAULT ''",
    # Which summary stood before this one: what undoing it goes back to.
    """CREATE TABLE summaries (
        message TEXT PRIMARY KEY, workspace TEXT NOT NULL, session TEXT NOT NULL, previous TEXT NOT NULL,
        prompt_tokens BIGINT NOT NULL, completion_tokens BIGINT NOT NULL)""",
    "CREATE INDEX summaries_by_session ON summaries (workspace, session)",
)

_ASKED = (
    # A model call under way, so that it is paid for although its answer never ends.
    """CREATE TABLE asked (
        workspace TEXT NOT NULL, session TEXT NOT NULL, turn BIGINT NOT NULL, body BLOB NOT NULL,
        PRIMARY KEY (workspace, session))""",
)

_RULES = (
    # What is let through, asked about or refused. `workspace` is empty for a person's own, which hold everywhere.
    """CREATE TABLE rules (
        id TEXT PRIMARY KEY, workspace TEXT NOT NULL, effect TEXT NOT NULL, tool TEXT NOT NULL, command TEXT NOT NULL,
        path TEXT NOT NULL, host TEXT NOT NULL, scope TEXT NOT NULL, session TEXT NOT NULL, origin TEXT NOT NULL,
        created_by TEXT NOT NULL, created_at BIGINT NOT NULL, expires_at BIGINT NOT NULL)""",
    "CREATE INDEX rules_by_workspace ON rules (workspace)",
    "ALTER TABLE grants ADD COLUMN expires_at BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE grants ADD COLUMN covers TEXT NOT NULL DEFAULT ''",
    # Grants for a whole tool in a directory become rules. For commands such a rule covers nothing: it never said which.
    """INSERT INTO rules SELECT id, workspace, 'allow', tool || ':' || action, '', '', '', 'workspace', '', 'answer',
        granted_by, created_at, created_at + 2592000 FROM grants WHERE scope = 'rule'""",
    "DELETE FROM grants WHERE scope = 'rule'",
)

_CHANGES = (
    # What one call of a turn did to the files, or one undo or redo. The body says what stood at each path before and after; a
    # file's content is the name under which it lies beside the database.
    """CREATE TABLE change_sets (
        workspace TEXT NOT NULL, id BIGINT NOT NULL, session TEXT NOT NULL, turn BIGINT NOT NULL, kind TEXT NOT NULL,
        call TEXT NOT NULL, author TEXT NOT NULL, state TEXT NOT NULL, undid BIGINT NOT NULL, partial INTEGER NOT NULL,
        shared INTEGER NOT NULL, at BIGINT NOT NULL, body BLOB NOT NULL, PRIMARY KEY (workspace, id))""",
    "CREATE INDEX change_sets_by_turn ON change_sets (workspace, session, turn)",
    "CREATE INDEX change_sets_unfinished ON change_sets (workspace, id) WHERE state IN ('open', 'applying')",
)

_TRASH = (
    # Sessions that were thrown away: their rows have moved to the workspace's trash.
    """CREATE TABLE trash (
        workspace TEXT NOT NULL, session TEXT NOT NULL, deleted_at BIGINT NOT NULL, PRIMARY KEY (workspace, session))""",
    # What of a conversation goes with the undo that brings its files back.
    """CREATE TABLE rewinds (
        workspace TEXT NOT NULL, change_set BIGINT NOT NULL, body BLOB NOT NULL, PRIMARY KEY (workspace, change_set))""",
    # Where an imported session came from, so that it is imported once.
    """CREATE TABLE imports (
        workspace TEXT NOT NULL, origin TEXT NOT NULL, session TEXT NOT NULL, PRIMARY KEY (workspace, origin))""",
    "CREATE INDEX sessions_by_use ON sessions (updated_at, id) WHERE parent = ''",
)

_TOOL_CALLS = (
    # One row per result of a call. `took_ms` is NULL where nobody knows.
    """CREATE TABLE tool_calls (
        message TEXT PRIMARY KEY, workspace TEXT NOT NULL, tool TEXT NOT NULL, at BIGINT NOT NULL,
        failed INTEGER NOT NULL, took_ms BIGINT)""",
    "CREATE INDEX tool_calls_by_tool ON tool_calls (workspace, tool, at, failed, took_ms)",
)

_INHERITED = (
    # The turns of a fork that ran in another session, up to where it was made. `position` is where each of them ends.
    """CREATE TABLE inherited_turns (
        workspace TEXT NOT NULL, session TEXT NOT NULL, turn BIGINT NOT NULL, origin TEXT NOT NULL,
        position BIGINT NOT NULL, PRIMARY KEY (workspace, session, turn))""",
    # The session in which somebody asked for an undo or redo.
    "ALTER TABLE change_sets ADD COLUMN asked_in TEXT NOT NULL DEFAULT ''",
)

MIGRATIONS: tuple[Migration, ...] = (
    Migration("foundation", (*_FOUNDATION, *search.TABLES)),
    Migration("superseded states", _SUPERSEDED),
    Migration("engine", (*_ENGINE, search.SMALLER)),
    Migration("calls under way", _ASKED),
    Migration("permission rules", _RULES),
    Migration("changes", _CHANGES),
    Migration("long texts in pieces", search.PIECES),
    Migration("trash, rewinds, imports", _TRASH),
    Migration("calls of tools", _TOOL_CALLS),
    Migration("turns of forks", _INHERITED),
)
"""Append only: a released step never changes."""
