"""What a run prints: text as it grows, or events as lines of JSON; notes beside it."""

from __future__ import annotations

import json
import sys
from typing import Any

from bullpen.present.inert import inert
from bullpen.schema.wire import encode


class Output:
    """Data on stdout, talk on stderr. A pipe gets the very text; a terminal must not obey it."""

    def __init__(self, *, as_json: bool, quiet: bool, streams: bool) -> None:
        self._as_json = as_json
        self._quiet = quiet
        self._streams = streams
        self._printed: dict[str, int] = {}
        self.is_mid_line = False

    def say(self, text: str) -> None:
        """A note for the person, beside the answer."""
        if not self._quiet:
            print(f"bullpen: {text}", file=sys.stderr, flush=True)

    def text(self, message_id: str, text: str) -> None:
        """A message as far as it has come; what was not printed of it yet is. Messages are apart by a blank line."""
        if self._as_json or not self._streams:
            return
        printed = self._printed.get(message_id, 0)
        new = text[printed:] if printed else text.lstrip()
        if not new:
            return
        gap = "\n\n" if not printed and self.is_mid_line else "\n" if not printed and self._printed else ""
        self._printed[message_id] = len(text)
        self._write(gap + (inert(new) if sys.stdout.isatty() else new))

    def end_line(self) -> None:
        if self.is_mid_line:
            self._write("\n")

    def whole(self, text: str) -> None:
        """What is printed at once, and only without JSON lines."""
        if not self._as_json:
            self._write((inert(text) if sys.stdout.isatty() else text) + "\n")

    def event(self, kind: str, payload: Any, event_id: str = "", action: str = "created") -> None:
        """An event in the wire's envelope, as a line of JSON."""
        if self._as_json:
            line = {"id": event_id, "type": kind, "payload": {"type": action, "payload": payload}}
            text = encode(line).decode()
            self._write((json.dumps(json.loads(text)) if sys.stdout.isatty() else text) + "\n")

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
        self.is_mid_line = not text.endswith("\n")
