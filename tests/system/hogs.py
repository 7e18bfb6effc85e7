"""Commands that take too much, as data. Each is bounded by itself, too: at most 300 processes that end after 20 s, 300 MiB, 32 MiB
of disk."""

from __future__ import annotations

PROCESSES = {
    "one after the other": "for i in $(seq 300); do sleep 20 & done; wait",
    "in sessions of their own": "for i in $(seq 300); do setsid sleep 20 & done; wait",
    "each starts two": "go() { [ $1 = 0 ] || { go $(($1-1)) & go $(($1-1)) & }; exec sleep 20; }; go 7",
    "each starts two and leaves": (
        "go() { [ $1 = 0 ] && exec sleep 20; (go $(($1-1)) &) ; (go $(($1-1)) &) ; }; go 7; sleep 20"
    ),
    "threads": (
        "python3 -c 'import threading, time\nfor i in range(299): threading.Thread(target=time.sleep, args=(20,)).start()'"
    ),
}
"""For a limit of 16: threads count for a sixteenth of a process."""

MEMORY = {
    "at once": "python3 -c 'import time; x = bytearray(300 << 20); time.sleep(20)'",
    "bit by bit": (
        "python3 -c 'import time\nx = []\nfor i in range(300): x.append(bytearray(1 << 20)); time.sleep(0.005)\ntime.sleep(20)'"
    ),
    "in six processes": (
        "for i in 1 2 3 4 5 6; do python3 -c 'import time; x = bytearray(50 << 20); time.sleep(20)' & done; wait"
    ),
    "shared": (
        "python3 -c 'import mmap, time\nx = mmap.mmap(-1, 300 << 20)\nfor i in range(0, 300 << 20, 4096): x[i] = 1\ntime.sleep(20)'"
    ),
}
"""For a limit of 128 MiB."""
