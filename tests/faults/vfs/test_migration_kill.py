"""SIGKILL inside a migration: the file is the old one or the new one, never between, and the next start finishes (R-36)."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.campaign import sized
from tests.conftest import Figure
from tests.faults.gold.dumps import TABLES, dump
from tests.faults.gold.test_gold import GOLD, unpack
from tests.faults.vfs import migrating

from bullpen.errors import StoreTooNew
from bullpen.store.migrations import MIGRATIONS
from bullpen.store.sqlite import File, close, connect

KILLS = sized(10, 100)
ROOT = Path(__file__).parents[3]


def migrate(file: Path, last: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.faults.vfs.migrating", str(file), str(last)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def version(file: Path) -> int:
    connection = connect(file)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return int(str(connection.execute("PRAGMA user_version").fetchall()[0][0]))
    finally:
        close(connection)


def rows(file: Path) -> dict[str, list[object]]:
    """What was there before, without the new columns."""
    return {
        table: [{name: value for name, value in row.items() if name != "mark"} for row in found]
        for table, found in dump(file).items()
        if table in TABLES
    }


def test_a_killed_migration_is_whole_or_not_there(tmp_path: Path, figure: Figure) -> None:
    undisturbed = migrate(unpack(GOLD[-1], tmp_path / "undisturbed"), 0)
    calls = int(undisturbed.stdout)
    wanted = rows(unpack(GOLD[-1], tmp_path / "wanted"))
    final = len(MIGRATIONS) + len(migrating.NEW)
    found: Counter[int] = Counter()
    for kill in range(KILLS):
        file = unpack(GOLD[-1], tmp_path / str(kill))
        assert migrate(file, 1 + kill * calls // KILLS).returncode == -signal.SIGKILL
        found[version(file)] += 1
        assert rows(file) == wanted
        assert migrate(file, 0).returncode == 0
        assert (version(file), rows(file)) == (final, wanted)
        backup = file.with_name(f"{file.name}.before-{len(MIGRATIONS) + 1}")
        assert not backup.exists() or rows(backup) == wanted
        with pytest.raises(StoreTooNew, match="newer Bullpen"):
            File(file).open()
    assert len(found) > 1, "kills hit the first step and later ones"
    figure(
        "R-36", "KILL", f"{KILLS} SIGKILLs inside migrations, 0 unreadable, downgrade refused {KILLS} times"
    )
