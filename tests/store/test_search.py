"""Words find their messages, deleted ones no longer, and the index stays in step with the rows, also with those of long texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.store.conftest import SESSION, WORKSPACE

from bullpen.schema.message import BORN_FINISHED, Message, Text, TextPart
from bullpen.store import messages, search, sessions
from bullpen.store.database import open_database
from bullpen.store.migrations import MIGRATIONS, Migration
from bullpen.store.store import Store
from bullpen.store.tx import Tx
from bullpen.system.clock import SystemClock


def message(message_id: str, text: str, session: str = SESSION) -> Message:
    return Message(
        parts=(TextPart(data=Text(text=text)), BORN_FINISHED),
        id=message_id,
        role="user",
        session_id=session,
        model="",
        provider="",
        created_at=7,
        updated_at=7,
    )


async def add(store: Store, message_id: str, text: str, session: str = SESSION) -> None:
    await store.write(lambda tx: messages.insert(tx, WORKSPACE, message(message_id, text, session)))


async def found(store: Store, query: str, workspace: str = WORKSPACE) -> list[str]:
    return [h.message_id for h in await store.read(lambda tx: search.find(tx, workspace, query, 10))]


def index_of(file: Path) -> tuple[list[Any], list[Any]]:
    """Each term with its row and place: as the index has it, and as an index made anew from the rows would."""
    connection = apsw.Connection(str(file))
    try:
        connection.execute(
            """CREATE VIRTUAL TABLE temp.kept USING fts5vocab(main, message_search, instance);
               CREATE VIRTUAL TABLE temp.fresh USING fts5(text, tokenize='unicode61 remove_diacritics 2');
               INSERT INTO temp.fresh (rowid, text) SELECT t.id, t.text FROM message_piece_texts AS t;
               CREATE VIRTUAL TABLE temp.remade USING fts5vocab(temp, fresh, instance)"""
        )
        kept, remade = (
            connection.execute(f"SELECT doc, term, offset FROM temp.{name} ORDER BY 1, 2, 3").fetchall()
            for name in ("kept", "remade")
        )
        return kept, remade
    finally:
        connection.close()


def check(store: Store) -> None:
    kept, remade = index_of(store.directory / "bullpen.db")
    assert kept == remade


async def test_all_words_must_be_there_and_marks_are_put_around_them(store: Store) -> None:
    await add(store, "m1", "the quick brown fox")
    await add(store, "m2", "a slow brown bear")
    assert await found(store, "brown") == ["m1", "m2"] or set(await found(store, "brown")) == {"m1", "m2"}
    assert await found(store, "brown quick") == ["m1"]
    hits = await store.read(lambda tx: search.find(tx, WORKSPACE, "quick", 10))
    assert (hits[0].snippet, hits[0].role, hits[0].created_at) == ("the [quick] brown fox", "user", 7)


@pytest.mark.parametrize(
    "query", ['"', 'a"b', "NOT", "fox*", "text:", "(", "^", "a OR b", "\0", "", "NEAR(a b)"]
)
async def test_no_query_is_an_error(store: Store, query: str) -> None:
    await add(store, "m1", "the quick brown fox")
    await found(store, query)


async def test_accents_do_not_matter_and_workspaces_do(store: Store) -> None:
    await add(store, "m1", "Große Überraschung im Café")
    assert await found(store, "uberraschung cafe") == ["m1"]
    assert await found(store, "cafe", "w2") == []


async def test_an_open_message_is_found_when_it_is_finished(store: Store) -> None:
    open_message = msg_without_end("m1")
    await store.write(lambda tx: messages.insert(tx, WORKSPACE, open_message, turn=1))
    await store.write(lambda tx: messages.append_chunk(tx, "m1", "text", "zebra"))
    assert await found(store, "zebra") == []
    await store.write(lambda tx: messages.rewrite(tx, WORKSPACE, message("m1", "zebra")))
    assert await found(store, "zebra") == ["m1"]
    check(store)


def msg_without_end(message_id: str) -> Message:
    return message(message_id, "").with_parts((), 7)


ODD = [
    "plain words",
    "tab\tand\nline",
    "nul \0 inside",
    "quote ' \" \\",
    "emoji 🐝 e\u0301",
    "\u2028 separators",
    "",
]


async def test_a_deleted_session_leaves_nothing_in_the_index(store: Store) -> None:
    await store.write(lambda tx: sessions.create(tx, WORKSPACE, "s2", "x"))
    for n, text in enumerate(ODD):
        await add(store, f"a{n}", f"{text} first")
        await add(store, f"b{n}", f"{text} second", "s2")
    check(store)
    await store.write(lambda tx: messages.forget_session(tx, WORKSPACE, SESSION))
    check(store)
    assert await found(store, "first") == []
    assert len(await found(store, "second")) == len(ODD)


async def test_numbers_of_deleted_rows_are_used_again_without_confusion(store: Store) -> None:
    await add(store, "m1", "giraffe")
    await store.write(lambda tx: messages.forget_session(tx, WORKSPACE, SESSION))
    await add(store, "m2", "walrus")
    assert await found(store, "giraffe") == []
    assert await found(store, "walrus") == ["m2"]
    check(store)


LONG = " ".join(f"wörd{n}" for n in range(9000))
"""Some hundred KiB in which no word comes twice."""


async def test_a_long_text_is_indexed_in_pieces_and_found_as_one_message(store: Store) -> None:
    """No word is lost at a cut; words of different pieces find it too, once, with a snippet around them."""
    await add(store, "long", LONG)
    await add(store, "short", "wörd1 wörd2")

    async def pieces_of(tx: Tx) -> list[Any]:
        return await tx.rows("SELECT start, length FROM message_pieces WHERE message = 'long'")

    pieces = await store.read(pieces_of)
    assert len(pieces) > 4
    assert sum(length for _, length in pieces) == len(LONG.encode())
    hits = {n: await found(store, f"word{n}") for n in range(0, 9000, 50)}
    assert all(ids == ["long"] for ids in hits.values())
    assert sorted(await found(store, "word1 word2")) == ["long", "short"]
    assert await found(store, "word1 word8999") == ["long"]
    assert await found(store, "word1 word9000") == []
    (hit,) = await store.read(lambda tx: search.find(tx, WORKSPACE, "word5000 word5001", 10))
    assert "[wörd5000] [wörd5001] wörd5002" in hit.snippet
    check(store)
    await store.write(lambda tx: messages.forget_session(tx, WORKSPACE, SESSION))
    assert await found(store, "word5000") == []
    check(store)


async def test_a_text_without_spaces_is_cut_between_characters(store: Store) -> None:
    await add(store, "m1", "🐝" * 20_000)
    await add(store, "m2", "x" * 40_000)
    assert await found(store, "🐝") == []
    check(store)


async def test_a_deleted_message_leaves_nothing_in_the_index(store: Store) -> None:
    await add(store, "m1", LONG)
    await add(store, "m2", "wörd1")
    await store.write(lambda tx: messages.delete(tx, WORKSPACE, message("m1", LONG)))
    assert await found(store, "word1") == ["m2"]
    check(store)


async def test_the_backup_before_a_migration_can_still_be_searched(store: Store, tmp_path: Path) -> None:
    """Its rows keep the numbers by which the index knows them, gaps included."""
    await store.write(lambda tx: sessions.create(tx, WORKSPACE, "s2", "x"))
    for n in range(20):
        await add(store, f"a{n}", f"first {n}")
        await add(store, f"b{n}", f"second {n}", "s2")
    await store.write(lambda tx: messages.forget_session(tx, WORKSPACE, SESSION))
    copy = tmp_path / "copy"
    copy.mkdir()

    async def take(tx: Tx) -> None:
        for name in ("bullpen.db", "bullpen.db-wal"):
            (copy / name).write_bytes((tmp_path / name).read_bytes())

    await store.write(take)
    later = await open_database(
        copy / "bullpen.db",
        clock=SystemClock(),
        attached=lambda w, s: 0,
        publish=lambda facts: None,
        migrations=(*MIGRATIONS, Migration("more", ("CREATE TABLE more (id TEXT)",))),
    )
    await later.close()
    backup = apsw.Connection(str(copy / f"bullpen.db.before-{len(MIGRATIONS) + 1}"))
    try:
        rows = backup.execute(
            """SELECT p.message FROM message_search JOIN message_pieces AS p ON p.id = message_search.rowid
               WHERE message_search MATCH '"17"'"""
        ).fetchall()
    finally:
        backup.close()
    assert rows == [("b17",)]
    kept, remade = index_of(copy / f"bullpen.db.before-{len(MIGRATIONS) + 1}")
    assert kept == remade
