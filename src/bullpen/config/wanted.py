"""What the files of a project ask for beyond the harmless, by file and item by item."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from bullpen.config.check import Steps, dotted
from bullpen.config.jsonc import Source
from bullpen.system.scripts import Script

State = Literal["trusted", "changed", "new"]
"""`changed` is trusted under the same name with another content."""


class Wanted(msgspec.Struct, frozen=True):
    """What one file asks for."""

    file: str
    content: dict[str, Any]
    source: Source | None = None

    def line(self, steps: tuple[str | int, ...]) -> int:
        return self.source.line(steps) if self.source else 0


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that one file asks for; `steps` is where in the file, `files` what of the project it runs."""

    file: str
    steps: Steps
    content: Any
    hash: str
    files: tuple[Script, ...] = ()
    state: State = "new"

    @property
    def name(self) -> str:
        return dotted(self.steps) if len(self.steps) > 1 else str(self.steps[0])

    @property
    def setting(self) -> str:
        """The name two steps deep, raw: `mcp.github`, `hooks.PreToolUse`."""
        return ".".join(map(str, self.steps[:2]))

    @property
    def is_trusted(self) -> bool:
        return self.state == "trusted"


class HookPins(msgspec.Struct, frozen=True):
    """What must still be so when a hook is run: by its command, the files that it was trusted with. `withdrawn` are the commands
    of those that are not run any more, because they have changed already."""

    files: dict[str, tuple[Script, ...]] = {}
    withdrawn: frozenset[str] = frozenset()
