"""Full-text search over messages (SQLite only: FTS5 with external content).

The index holds no text of its own: a view takes it out of the message's JSON when a snippet is wanted. A long text is
indexed in pieces, because SQLite keeps all words of a row in memory until the row is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from bullpen.schema.session import SearchHit
from bullpen.store.tx import Tx

PIECE_BYTES = 16 * 1024
"""What is indexed at a time. Smaller pieces take no less memory, and larger ones hardly less time."""

MAX_WORDS_APART = 8
"""Each word that may stand in another piece of a message is a search of its own."""

_LONGEST_WORD_BYTES = 1024
"""How far before its end a piece may be cut so that no word is: what is longer is nothing that anybody types."""

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

PIECES = (
    "DROP TABLE message_search",
    "DROP VIEW message_texts",
    # Which bytes of a message's text are indexed under a number.
    """CREATE TABLE message_pieces (
        id INTEGER PRIMARY KEY, message TEXT NOT NULL, start BIGINT NOT NULL, length BIGINT NOT NULL)""",
    "CREATE INDEX message_pieces_by_message ON message_pieces (message)",
    "CREATE INDEX message_pieces_further ON message_pieces (message) WHERE start > 0",
    """CREATE VIEW message_texts AS SELECT m.id AS message,
        (SELECT coalesce(group_concat(json_extract(p.value, '$.data.text'), ''), '')
         FROM json_each(CAST(m.body AS TEXT), '$.parts') AS p WHERE json_extract(p.value, '$.type') = 'text') AS text
       FROM messages AS m""",
    """CREATE VIEW message_piece_texts AS SELECT p.id AS id,
        CAST(substr(CAST(t.text AS BLOB), p.start + 1, p.length) AS TEXT) AS text
       FROM message_pieces AS p JOIN message_texts AS t ON t.message = p.message""",
    """CREATE VIRTUAL TABLE message_search USING fts5(
        text, content='message_piece_texts', content_rowid='id', tokenize='unicode61 remove_diacritics 2')""",
    SMALLER,
    # What is there already stays whole: its words have been through memory once, and no word of it is cut.
    """INSERT INTO message_pieces (message, start, length) SELECT m.id, 0, octet_length(t.text)
       FROM messages AS m JOIN message_texts AS t ON t.message = m.id WHERE m.finished = 1 AND t.text <> ''""",
    "INSERT INTO message_search (rowid, text) SELECT id, text FROM message_piece_texts",
)


async def index(tx: Tx, message_id: str, text: str) -> None:
    """Make a finished message findable; it never changes again."""
    start = 0
    for piece in _pieces(text.encode()):
        row = await tx.row(
            "INSERT INTO message_pieces (message, start, length) VALUES ($1, $2, $3) RETURNING id",
            message_id,
            start,
            len(piece),
        )
        assert row is not None
        await tx.run("INSERT INTO message_search (rowid, text) VALUES ($1, $2)", row[0], piece.decode())
        start += len(piece)


def _pieces(text: bytes) -> Iterator[bytes]:
    """The text in parts, each cut behind a space where there is one, and never inside a character."""
    start = 0
    while len(text) - start > PIECE_BYTES:
        end = start + PIECE_BYTES
        found = max(text.rfind(space, end - _LONGEST_WORD_BYTES, end) for space in (b" ", b"\n", b"\t"))
        if found >= 0:
            end = found + 1
        while text[end] & 0xC0 == 0x80:  # Within a character.
            end -= 1
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


async def forget_session(tx: Tx, workspace: str, session: str) -> None:
    """Take a session's messages out of the index; to be called before the rows go."""
    rows = await tx.rows(
        """SELECT p.id FROM message_pieces AS p JOIN messages AS m ON m.id = p.message
           WHERE m.workspace = $1 AND m.session = $2""",
        workspace,
        session,
    )
    await _forget(tx, [row[0] for row in rows])


async def forget_message(tx: Tx, message_id: str) -> None:
    """Take one message out of the index; to be called before the row goes."""
    rows = await tx.rows("SELECT id FROM message_pieces WHERE message = $1", message_id)
    await _forget(tx, [row[0] for row in rows])


async def _forget(tx: Tx, pieces: Sequence[int]) -> None:
    for piece in pieces:
        await tx.run(
            """INSERT INTO message_search (message_search, rowid, text)
               SELECT 'delete', id, text FROM message_piece_texts WHERE id = $1""",
            piece,
        )
        await tx.run("DELETE FROM message_pieces WHERE id = $1", piece)


async def find(tx: Tx, workspace: str, query: str, limit: int) -> list[SearchHit]:
    """The messages that hold all words of the query, best first."""
    return [hit for _, hit in await _find(tx, workspace, query, limit)]


async def find_everywhere(tx: Tx, query: str, limit: int) -> list[tuple[str, SearchHit]]:
    """The same in all workspaces; each hit with the one it is in."""
    return await _find(tx, "", query, limit)


async def _find(tx: Tx, workspace: str, query: str, limit: int) -> list[tuple[str, SearchHit]]:
    words = ['"' + word.replace('"', '""') + '"' for word in query.replace("\0", " ").split()]
    if not words:
        return []
    match = " ".join(words)
    best = await _best(tx, workspace, match, limit)
    if len(best) < limit and 1 < len(words) <= MAX_WORDS_APART:
        apart = await _words_apart(tx, workspace, words, limit)
        match = " OR ".join(words)
        best |= {message: piece for message, piece in apart.items() if message not in best}
    return [await _hit(tx, message, piece, match) for message, piece in list(best.items())[:limit]]


_LONG_WITH = """SELECT p.message FROM message_search JOIN message_pieces AS p ON p.id = message_search.rowid
    WHERE message_search MATCH $1 AND p.message IN (SELECT message FROM message_pieces WHERE start > 0)"""

_BEST = """SELECT p.message, p.id, min(rank) FROM message_search JOIN message_pieces AS p ON p.id = message_search.rowid
    JOIN messages AS m ON m.id = p.message WHERE message_search MATCH $2 AND ($1 = '' OR m.workspace = $1)"""


async def _best(tx: Tx, workspace: str, match: str, limit: int) -> dict[str, int]:
    """The best piece of each message that has one with all the words, best first."""
    rows = await tx.rows(f"{_BEST} GROUP BY p.message ORDER BY 3 LIMIT $3", workspace, match, limit)
    return {message: piece for message, piece, _ in rows}


async def _words_apart(tx: Tx, workspace: str, words: Sequence[str], limit: int) -> dict[str, int]:
    """The best piece of each long message that has all the words, though none of its pieces has."""
    having = [{message for (message,) in await tx.rows(_LONG_WITH, word)} for word in words]
    long = set.intersection(*having)
    if not long:
        return {}
    rows = await tx.rows(f"{_BEST} GROUP BY p.message ORDER BY 3", workspace, " OR ".join(words))
    found = ((message, piece) for message, piece, _ in rows if message in long)
    return dict(islice(found, limit))


async def _hit(tx: Tx, message: str, piece: int, match: str) -> tuple[str, SearchHit]:
    row = await tx.row(
        """SELECT m.workspace, m.session, m.role, snippet(message_search, 0, '[', ']', '…', 16),
                  json_extract(CAST(m.body AS TEXT), '$.created_at')
           FROM message_search JOIN messages AS m ON m.id = $1
           WHERE message_search MATCH $3 AND message_search.rowid = $2""",
        message,
        piece,
        match,
    )
    assert row is not None
    workspace, session, role, snippet, at = row
    hit = SearchHit(session_id=session, message_id=message, role=role, snippet=snippet, created_at=at)
    return workspace, hit
