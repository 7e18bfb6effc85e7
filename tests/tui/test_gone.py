"""A terminal that goes away without a word."""

from __future__ import annotations

import os
import pty
import signal
import subprocess

from tests.commands import BULLPEN
from tests.tui.conftest import Desks

LIMIT_S = 30


def test_a_client_leaves_with_its_terminal_though_nobody_tells_it(desks: Desks) -> None:
    """As when whatever held the terminal was killed, and the client is not among those whom the system tells."""
    project = desks.project({"say": "Noted."})
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*BULLPEN, "attach", str(project), "--new", "--host", f"unix://{desks.server.socket}"],
        env={**desks.server.env, "TERM": "xterm-256color"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    painted = b""
    while b"connected" not in painted:
        painted += os.read(ours, 65536)
    os.close(ours)
    try:
        assert process.wait(LIMIT_S) == -signal.SIGHUP
    finally:
        process.kill()
        process.wait()
