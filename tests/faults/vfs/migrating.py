"""A process that migrates a database and kills itself at the nth call to the disk.

python migrating.py FILE N       N = 0 counts the calls and prints their number
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tests.faults.vfs.disk import Disk, Operation, Trouble

from bullpen.store.migrations import MIGRATIONS, Migration
from bullpen.store.sqlite import File, close

NEW = (
    Migration("copies", ("CREATE TABLE copies AS SELECT * FROM events, (SELECT 1 UNION ALL SELECT 2)",)),
    Migration("marks", ("ALTER TABLE prompts ADD COLUMN mark TEXT", "UPDATE prompts SET mark = run_id")),
    Migration("index", ("CREATE INDEX copies_by_key ON copies (key)", "DELETE FROM copies WHERE seq % 2")),
)
"""Steps that move many pages."""


def main(path: Path, last: int) -> None:
    disk = Disk("migrating")
    calls = 0

    def on_call(operation: Operation, path: str) -> Trouble | None:
        nonlocal calls
        if operation in ("write", "sync", "truncate"):
            calls += 1
            if calls == last:
                os.kill(os.getpid(), signal.SIGKILL)
        return None

    disk.on_call = on_call
    opened = File(path, (*MIGRATIONS, *NEW), disk.name).open()
    for connection in (*opened.readers, opened.writer):
        close(connection)
    print(calls)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
