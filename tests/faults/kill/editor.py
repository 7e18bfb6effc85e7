"""A process that edits one file again and again, to be killed or held in the middle of it.

Usage: python -m tests.faults.kill.editor FILE [TIMES]. It reads the file, writes the next version, and says its number
once the edit is done. `BULLPEN_FAILPOINTS` says where it ends or stops.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bullpen.system import failpoints
from bullpen.system.files import FileChanged, read_file, replace_file

LINES = 4_000
BOM = b"\xef\xbb\xbf"


def version(number: int) -> bytes:
    """The content of a version: every line names it, so that a torn file cannot pass for whole."""
    return BOM + f"version {number}\r\n".encode() * LINES


def main(file: Path, times: int) -> int:
    failpoints.arm(os.environ)
    for _ in range(times):
        before, stamp = read_file(file, limit_bytes=1 << 20)
        number = int(before.split()[1])
        try:
            replace_file(file, version(number + 1), expected=stamp, before=before)
        except FileChanged:
            print("conflict", flush=True)
            return 1
        print(number + 1, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
