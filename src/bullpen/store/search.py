"""Full-text search over messages (SQLite only: FTS5 with external content).

The index holds no text of its own: a view takes it out of the message's JSON when a snippet is wanted.
"""

from __future__ import annotations

from bullpen.schema.session import SearchHit
from bullpen.store.tx import Tx

TABLES = (
    """CREATE VIEW message_texts AS SELECT m.rowid AS rowid,
        (SELECT coalesce(group_concat(json_extract(p.value, '$.data.text'), ' '), '')
         FROM json_each(CAST(m.body AS TEXT), '$.parts') AS p WHERE json_extract(p.value, '$.type') = 'text') AS text
       FROM messages AS m""",
    """CREATE VIRTUAL TABLE message_search USING fts5(
        text, content='message_texts', content_rowid='rowid', tokenize='unicode61 remove_diacritics 2')""",
)


SMALLER = "INSERT INTO message_search (message_search, rank) VALUES ('hashsize', 65536)"
"""What a long message's words may take in memory before they are written; unset, a hundred thousand of them take 20 MiB."""


async def index(tx: Tx, message_id: str, text: str) -> None:
    """Make a finished message findable; it never changes again."""
    if text:
        await tx.run(
            "INSERT INTO message_search (rowid, text) SELECT rowid, $2 FROM messages WHERE id = $1",
            message_id,
            text,
        )


async def forget_session(tx: Tx, workspace: str, session: str) -> None:
    """Take a session's messages out of the index; to be called before the rows go."""
    await tx.run(
        """INSERT INTO message_search (message_search, rowid, text)
           SELECT 'delete', t.rowid, t.text FROM message_texts AS t JOIN messages AS m ON m.rowid = t.rowid
           WHERE m.workspace = $1 AND m.session = $2 AND m.finished = 1 AND t.text <> ''""",
        workspace,
        session,
    )


async def find(tx: Tx, workspace: str, query: str, limit: int) -> list[SearchHit]:
    """The messages that hold all words of the query, best first."""
    words = ['"' + word.replace('"', '""') + '"' for word in query.replace("\0", " ").split()]
    if not words:
        return []
    rows = await tx.rows(
        """SELECT m.session, m.id, m.role, snippet(message_search, 0, '[', ']', '…', 16),
                  json_extract(CAST(m.body AS TEXT), '$.created_at')
           FROM message_search JOIN messages AS m ON m.rowid = message_search.rowid
           WHERE message_search MATCH $2 AND m.workspace = $1 ORDER BY rank LIMIT $3""",
        workspace,
        " ".join(words),
        limit,
    )
    return [
        SearchHit(session_id=s, message_id=m, role=role, snippet=snippet, created_at=at)
        for s, m, role, snippet, at in rows
    ]
