"""Failpoints: named moments at which a test ends this very process, so that no crash is left to chance.

`hit("turn-begun")` stands in the product code where a crash is worth trying, mostly between a commit and what
follows it. It does nothing unless the process was started with `BULLPEN_FAILPOINTS`, which names moments and
what happens there:

    BULLPEN_FAILPOINTS="turn-begun=kill@2"      SIGKILL when the second turn has begun
    BULLPEN_FAILPOINTS="file-swapping=stop"     SIGSTOP, once, until somebody sends SIGCONT

The list of names is closed: a test cannot wait for a moment that no longer exists.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import Literal, get_args

from bullpen.errors import ConfigError

VARIABLE = "BULLPEN_FAILPOINTS"

Name = Literal[
    # Accepting, and the queue
    "prompt-accepted",
    "queue-edited",
    "queue-withdrawn",
    "queue-taken-up",
    # A turn, from its beginning to its end
    "turn-beginning",
    "turn-begun",
    "model-asked",
    "text-grown",
    "step-ending",
    "step-begun",
    "turn-ending",
    "turn-ended",
    "turn-failing",
    # Asks and calls
    "ask-opened",
    "ask-answered",
    "call-intended",
    "call-done",
    "result-stored",
    # A cancel
    "cancel-stored",
    "cancel-done",
    # Summaries and sessions
    "summary-asked",
    "summary-placing",
    "session-created",
    "session-changed",
    "session-deleted",
    # Every commit
    "committing",
    "committed",
    # Files
    "file-writing",
    "file-written",
    "file-swapping",
    "file-swapped",
    # Undo
    "undo-begun",
    "undo-restoring",
    "undo-restored",
    # The server's own life
    "migrating",
    "migrated",
    "recovery-begun",
    "turn-recovering",
    "recovery-done",
    "stopping",
    "turns-stopped",
    "store-closing",
]

NAMES: tuple[str, ...] = get_args(Name)

_SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


class _Armed:
    def __init__(self, signum: signal.Signals, at: int) -> None:
        self.signum = signum
        self.left = at


_armed: dict[str, _Armed] = {}
"""Of the process, like the signals that it holds; empty in every server that serves people."""


def arm(env: Mapping[str, str]) -> None:
    """Take the variable at its word. Raises `ConfigError` for what it does not understand."""
    _armed.clear()
    for order in filter(None, env.get(VARIABLE, "").split(",")):
        name, _, what = order.partition("=")
        action, _, count = what.partition("@")
        if name not in NAMES or action not in _SIGNALS or not (count or "1").isdecimal():
            raise ConfigError(f"{VARIABLE} holds {order!r}; expected NAME=kill@COUNT with a known name")
        _armed[name] = _Armed(_SIGNALS[action], int(count or 1))


def hit(name: Name) -> None:
    """This moment has come."""
    if _armed:
        _act(name)


def _act(name: str) -> None:
    armed = _armed.get(name)
    if armed is None:
        return
    armed.left -= 1
    if armed.left == 0:
        os.kill(os.getpid(), armed.signum)
