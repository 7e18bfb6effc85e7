"""The file: how a connection is set up, and which library may touch it."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest
from tests.store.conftest import SESSION, WORKSPACE

from bullpen.errors import StoreError
from bullpen.schema.message import Text, TextPart, new_message
from bullpen.store import messages, sqlite
from bullpen.store.sqlite import File, close, connect
from bullpen.store.store import Store


@pytest.mark.parametrize("readonly", [False, True])
def test_every_setting_of_a_connection_takes_effect(tmp_path: Path, readonly: bool) -> None:
    """R-09: no mapped memory, in which a stray write or a failing disk goes unnoticed."""
    close(connect(tmp_path / "a.db"))
    connection = connect(tmp_path / "a.db", readonly=readonly)
    wanted = {
        "journal_mode": "wal",
        "mmap_size": 0,
        "cache_size": -2000,
        "temp_store": 2,
        "wal_autocheckpoint": 0,
        "query_only": int(readonly),
    }
    found = {name: connection.execute(f"PRAGMA {name}").fetchall()[0][0] for name in wanted}
    close(connection)
    assert found == wanted


def test_a_library_that_can_corrupt_the_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-09: the present one is good enough, the one before the first safe release is not."""
    assert tuple(map(int, apsw.sqlite_lib_version().split("."))) >= sqlite.OLDEST_SAFE_SQLITE
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.51.2")
    with pytest.raises(StoreError, match=r"at least 3\.51\.3 is needed"):
        File(tmp_path / "a.db").open()
    assert not (tmp_path / "a.db").exists()


def test_all_files_of_a_database_are_private(tmp_path: Path) -> None:
    opened = File(tmp_path / "a.db").open()
    modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    for connection in (*opened.readers, opened.writer):
        close(connection)
    assert modes == {"a.db": 0o600, "a.db-wal": 0o600, "a.db-shm": 0o600}


@pytest.mark.anyio
async def test_statements_keep_no_copy_of_long_texts(store: Store) -> None:
    """What is left of a long message is what the page caches may hold."""
    message = new_message("assistant", SESSION, (TextPart(data=Text(text="word " * 2_000_000)),), 1)
    before = apsw.memory_used()
    await store.write(lambda tx: messages.insert(tx, WORKSPACE, message))
    assert apsw.memory_used() < before + 5 * 2**20
