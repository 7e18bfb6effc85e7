"""What commands print while they run: those of calls, and people's own, which have no message before they have ended."""

from __future__ import annotations

from bullpen.schema.jobs import CommandOutput

PRINTED = 20_000
"""So much of what a running command prints is kept; all of it comes with its end."""


class Running:
    """`printed` is the end of what each has printed, by the id of its call or, of people's own, by one of its own."""

    def __init__(self) -> None:
        self.printed: dict[str, str] = {}
        self._own: dict[str, str] = {}

    def take(self, output: CommandOutput) -> None:
        key = output.tool_call_id
        self.printed[key] = (self.printed.get(key, "") + output.text)[-PRINTED:]
        if output.command:
            self._own[key] = output.command

    def command(self, key: str) -> str | None:
        """What a person runs under that id, as long as it runs."""
        return self._own.get(key)

    def end(self, key: str) -> None:
        self.printed.pop(key, None)
        self._own.pop(key, None)

    def end_own(self, command: str) -> str:
        """A person's command stands in the conversation; the id under which it ran, if its end was not told. What is only true
        now may be lost on its way."""
        key = next((key for key, each in self._own.items() if each == command), "")
        self.end(key)
        return key

    def forget_own(self) -> None:
        """What still runs is heard of again when it prints."""
        for key in list(self._own):
            self.end(key)
