"""A terminal that is gone takes its client with it.

The system says so by SIGHUP, but only to whoever the terminal controls. Others would find its end at every look for keys, and
look again at once, for ever.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading


def leave_with_terminal() -> None:
    """End this process when the terminal at its standard input hangs up. Drafts are on disk by then, and so is all else."""
    stdin = sys.__stdin__
    if stdin is not None and stdin.isatty() and hasattr(select, "poll"):
        threading.Thread(target=_watch, args=(stdin.fileno(),), name="hang-up", daemon=True).start()


def _watch(terminal: int) -> None:
    poll = select.poll()
    poll.register(terminal, 0)  # Asked for nothing, it tells a hang-up alone.
    (_, told), *_ = poll.poll()
    if told & select.POLLHUP:  # Some systems cannot poll a terminal, and say that instead.
        os.kill(os.getpid(), signal.SIGHUP)
