"""A database as its rows: what two files have to share to be equal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw

TABLES = (
    "workspaces",
    "events",
    "sessions",
    "messages",
    "chunks",
    "prompts",
    "intents",
    "asks",
    "grants",
    "files",
    "read_files",
)


def dump(file: Path) -> dict[str, list[Any]]:
    """Every row of every table. Not the notes about this opening, nor the epochs: a copy begins new ones."""
    connection = apsw.Connection(str(file))
    try:
        rows: dict[str, list[Any]] = {}
        for table in TABLES:
            names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            kept = ["rowid", *(name for name in names if name != "epoch")]
            found = connection.execute(f"SELECT {', '.join(map(str, kept))} FROM {table} ORDER BY rowid")
            rows[table] = [dict(zip(kept, row, strict=True)) for row in found]
        searched = "SELECT rowid FROM message_search WHERE message_search MATCH 'word' ORDER BY rowid"
        rows["found"] = connection.execute(searched).fetchall()
        return rows
    finally:
        connection.close()


def schema(file: Path) -> list[Any]:
    connection = apsw.Connection(str(file))
    try:
        statement = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name"
        return connection.execute(statement).fetchall()
    finally:
        connection.close()
