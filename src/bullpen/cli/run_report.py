"""What a run came to: the reasons for which it ends, their exit statuses, and the one record that tells of it.

The standard library alone, so that a wrong option is told as quickly as ever.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any, Literal

Reason = Literal[
    "ok",
    "accepted",
    "failed",
    "cancelled",
    "usage",
    "config",
    "provider",
    "permission",
    "limit",
    "schema",
    "unreachable",
    "timeout",
    "interrupted",
    "terminated",
]

STATUSES: dict[Reason, int] = {
    "ok": 0,
    "accepted": 0,
    "failed": 1,
    "cancelled": 1,
    "usage": 2,
    "config": 3,
    "provider": 4,
    "permission": 5,
    "limit": 6,
    "schema": 7,
    "unreachable": 8,
    "timeout": 124,
    "interrupted": 130,
    "terminated": 143,
}
"""The exit status of each. A closed pipe is 141 and has no record: nobody would read it."""

_BY_CODE: dict[str, Reason] = {
    "provider_error": "provider",
    "agent_not_ready": "config",
    "config_error": "config",
    "no_model": "config",
    "unauthorized": "config",
    "bad_host": "usage",
    "budget_spent": "limit",
    "turn_too_long": "limit",
    "turn_stuck": "limit",
    "context_full": "limit",
    "hook_refused": "permission",
    "forbidden": "permission",
    "server_unreachable": "unreachable",
}


def reason_of(code: str) -> Reason:
    """Why a run ended that ended with an error of this code."""
    return _BY_CODE.get(code, "failed")


class Report:
    """Filled while the run goes on; told once, whatever ends it."""

    def __init__(self, *, as_json: bool) -> None:
        self.session_id = ""
        self.run_id = ""
        self.text = ""
        self.model = ""
        self.error = ""
        self.error_code = ""
        self.output: Any = None
        self.has_output = False
        self.calls: set[str] = set()
        self.denied: dict[str, dict[str, str]] = {}
        self.usage: dict[str, float] = dict.fromkeys(
            ("calls", "input", "output", "cache_read", "cache_write", "cost", "estimated"), 0
        )
        self._as_json = as_json
        self._began_at = time.monotonic()
        self._is_told = False

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._began_at

    def add_usage(self, spent: dict[str, float]) -> None:
        """A run that was asked again for a better answer has cost more than its last turn."""
        for key, value in spent.items():
            self.usage[key] += value

    def end(self, reason: Reason, error: str = "", code: str = "", *, status: int | None = None) -> int:
        """Tell how it ended, unless that was told before; gives back the exit status."""
        status = STATUSES[reason] if status is None else status
        if error:
            self.error, self.error_code = error, code
        if self._as_json and not self._is_told:
            self._is_told = True
            write_json(self._record(reason, status))
        return status

    def _record(self, reason: Reason, status: int) -> dict[str, Any]:
        record = {
            "type": "result",
            "reason": reason,
            "exit_code": status,
            "session_id": self.session_id,
            "run_id": self.run_id,
            "text": self.text,
            "error": self.error,
            "error_code": self.error_code,
            "model": self.model,
            "duration_s": round(self.elapsed_s, 3),
            "usage": self.usage,
            "tool_calls": len(self.calls),
            "denied_tools": list(self.denied.values()),
        }
        return {**record, "output": self.output} if self.has_output else record


def write_json(line: dict[str, Any]) -> None:
    """One line of JSON. A terminal must not obey what stands in it; escaped it is the same JSON."""
    sys.stdout.write(json.dumps(line, ensure_ascii=sys.stdout.isatty()) + "\n")
    sys.stdout.flush()
