"""A Crush database, read: its sessions as documents that an import takes.

It is never written. Columns that are missing, parts of kinds that are not known and values that make no sense are passed over and counted.
"""

from __future__ import annotations

import json
import math
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, get_args

import click
import msgspec

from bullpen.schema.message import BORN_FINISHED, Finish, FinishPart, Message, Part, Role
from bullpen.schema.session import Todo
from bullpen.schema.transfer import FORMAT, VERSION, ExportedFile, ExportedSession, SessionDocument

PLACES = (".crush/crush.db", "crush.db")
MILLISECONDS = 100_000_000_000
"""A time past this many seconds lies thousands of years ahead: then it was told in milliseconds."""

Row = dict[str, Any]


@contextmanager
def open_crush(directory: Path) -> Iterator[CrushDatabase]:
    """Raises a `ClickException` when there is none, or it is none."""
    found = [directory / place for place in PLACES if (directory / place).is_file()]
    if not found:
        raise click.ClickException(
            f"there is no Crush database in {directory}: neither {' nor '.join(PLACES)}"
        )
    with ExitStack() as stack:
        file = found[0]
        log = file.with_name(f"{file.name}-wal")
        if log.is_file() and log.stat().st_size:
            # What is in the log alone is only read by somebody who may write beside it: so it is read from a copy.
            copies = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bullpen-")))
            for each in (file, log):
                shutil.copyfile(each, copies / each.name)
            address = f"{(copies / file.name).as_uri()}?mode=rw"
        else:
            address = f"{file.absolute().as_uri()}?mode=ro&immutable=1"
        try:
            connection = stack.enter_context(closing(sqlite3.connect(address, uri=True)))
            connection.row_factory = sqlite3.Row
            yield CrushDatabase(connection, directory)
        except sqlite3.Error as exc:
            raise click.ClickException(f"{file} cannot be read: {exc}") from exc


class CrushDatabase:
    """`skipped` counts what was passed over, by what it is."""

    def __init__(self, connection: sqlite3.Connection, root: Path) -> None:
        self._connection = connection
        self._root = root
        self.skipped: Counter[str] = Counter()

    def sessions(self) -> list[str]:
        """The ids of those that people see, the oldest first, so that the newest is imported last."""
        rows = self._rows("SELECT * FROM sessions")
        own = [row for row in rows if not row.get("parent_session_id")]
        self._skip("sessions of sub-agents", len(rows) - len(own))
        own.sort(key=lambda row: _time(row.get("updated_at")))
        return [str(row["id"]) for row in own]

    def document(self, session: str) -> SessionDocument:
        (row,) = self._rows("SELECT * FROM sessions WHERE id = ?", session)
        said = self._rows("SELECT * FROM messages WHERE session_id = ? ORDER BY created_at, rowid", session)
        messages = tuple(m for m in map(self._message, said) if m is not None)
        summary = _text(row.get("summary_message_id"))
        return SessionDocument(
            format=FORMAT,
            version=VERSION,
            origin=f"crush:{session}",
            session=ExportedSession(
                title=_text(row.get("title")),
                created_at=_time(row.get("created_at")),
                updated_at=_time(row.get("updated_at")),
                cost=max(0.0, _number(row.get("cost"))),
                prompt_tokens=max(0, int(_number(row.get("prompt_tokens")))),
                completion_tokens=max(0, int(_number(row.get("completion_tokens")))),
                summary_message_id=summary if any(m.id == summary for m in messages) else "",
                todos=self._todos(row.get("todos")),
            ),
            messages=messages,
            files=tuple(self._files(session)),
        )

    def _message(self, row: Row) -> Message | None:
        role = _text(row.get("role"))
        if role not in get_args(Role):
            self._skip("messages of an unknown role")
            return None
        parts = list(self._parts(row))
        if not any(isinstance(part, FinishPart) for part in parts):
            # What had not ended there will not end here.
            cut = FinishPart(data=Finish(reason="error", time=0, message="it was not finished"))
            parts.append(cut if role == "assistant" else BORN_FINISHED)
        return Message(
            parts=tuple(parts),
            id=_text(row.get("id")),
            role=role,  # type: ignore[arg-type]  # One of the roles, as was just seen.
            session_id="",
            model=_text(row.get("model")),
            provider=_text(row.get("provider")),
            created_at=_time(row.get("created_at")),
            updated_at=_time(row.get("updated_at")),
            is_summary_message=bool(row.get("is_summary_message")),
        )

    def _parts(self, row: Row) -> Iterator[Part]:
        for part in _list(row.get("parts")):
            try:
                yield msgspec.convert(part, Part, strict=False)
            except msgspec.ValidationError:
                self._skip("parts of an unknown kind")

    def _todos(self, value: Any) -> tuple[Todo, ...]:
        try:
            return msgspec.convert(
                [{"active_form": "", **todo} for todo in _list(value) if isinstance(todo, dict)],
                tuple[Todo, ...],
            )
        except msgspec.ValidationError:
            self._skip("lists of todos")
            return ()

    def _files(self, session: str) -> Iterator[ExportedFile]:
        """In the order in which they came to be; there the first has a name and the others a number."""
        versions: Counter[str] = Counter()
        try:
            rows = self._rows("SELECT * FROM files WHERE session_id = ? ORDER BY created_at, rowid", session)
        except sqlite3.OperationalError:
            rows = []
        for row in rows:
            path = Path(_text(row.get("path")))
            place = path if not path.is_absolute() else _inside(path, self._root)
            if place is None or not place.parts or ".." in place.parts:
                self._skip("versions of files outside the folder")
                continue
            name = place.as_posix()
            yield ExportedFile(
                path=name,
                content=_text(row.get("content")),
                version=versions[name],
                created_at=_time(row.get("created_at")),
            )
            versions[name] += 1

    def _skip(self, what: str, count: int = 1) -> None:
        if count:
            self.skipped[what] += count

    def _rows(self, sql: str, *values: str) -> list[Row]:
        return [dict(row) for row in self._connection.execute(sql, values)]


def _inside(path: Path, root: Path) -> Path | None:
    return path.relative_to(root) if path.is_relative_to(root) else None


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not math.isnan(value) else 0.0


def _time(value: Any) -> int:
    seconds = int(_number(value))
    return seconds // 1000 if seconds > MILLISECONDS else seconds


def _list(value: Any) -> list[Any]:
    try:
        found = json.loads(value) if value else []
    except ValueError:
        return []
    return found if isinstance(found, list) else []
