"""What the clients of a campaign were promised: every request, and whether it was answered before the server died."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Sent:
    """A prompt. Its mark stands in its text, in its tool call and in that call's effect."""

    mark: str
    kind: str
    session: str
    text: str
    key: str = ""
    own_run_id: bool = False
    run_id: str = ""
    sent_at: float = 0.0
    acked_at: float | None = None
    refused: bool = False
    withdrawn: bool = False
    wish: str = ""
    """A new text that was asked for and perhaps not got."""

    @property
    def acked(self) -> bool:
        return self.acked_at is not None


@dataclass
class Cancel:
    """An answered cancel, and a place in the log at or after its answer."""

    session: str
    sent_at: float
    life: int
    seq: int | None = None


@dataclass
class Value:
    """Something that is set again and again by one client: the last answered value, and those sent since."""

    acked: Any
    maybe: list[Any] = field(default_factory=list)

    def may_be(self, found: Any) -> bool:
        return found == self.acked or found in self.maybe


class Ledger:
    """Written by many threads; read when they are done."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.prompts: list[Sent] = []
        self.cancels: list[Cancel] = []
        self.titles: dict[str, Value] = {}
        self.deleted: dict[str, bool] = {}
        """Sessions that somebody wanted to delete; True when that was answered."""
        self.grants: set[tuple[str, str]] = set()
        """Standing grants that were answered: session and scope."""
        self.compact = Value(False)
        self.wrong: list[str] = []
        """What was seen to be wrong at once."""
        self.accept_s: list[float] = []
        self.cancel_s: list[float] = []
        self.writes = 0
        self.retries = 0

    def send(self, sent: Sent) -> None:
        sent.sent_at = time.monotonic()
        with self.lock:
            if sent not in self.prompts:
                self.prompts.append(sent)

    def answered(self, sent: Sent, status: int, run_id: str) -> None:
        now = time.monotonic()
        with self.lock:
            if status != 202:
                sent.refused = not sent.acked
                return
            self.accept_s.append(now - sent.sent_at)
            if sent.run_id and sent.run_id != run_id:
                self.wrong.append(f"{sent.mark} got the run ids {sent.run_id} and {run_id}")
            sent.run_id = run_id
            sent.refused = False
            sent.acked_at = now if sent.acked_at is None else sent.acked_at

    def cancelled(self, cancel: Cancel) -> None:
        with self.lock:
            self.cancel_s.append(time.monotonic() - cancel.sent_at)
            self.cancels.append(cancel)

    def wrote(self) -> None:
        """One more answered write that is neither a prompt nor a cancel."""
        with self.lock:
            self.writes += 1
