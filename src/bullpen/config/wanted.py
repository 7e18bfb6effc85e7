"""What the files of a project ask for beyond the harmless."""

from __future__ import annotations

from typing import Any

import msgspec

from bullpen.config.jsonc import Source


class Wanted(msgspec.Struct, frozen=True):
    """What one file asks for."""

    file: str
    content: dict[str, Any]
    source: Source | None = None

    def line(self, steps: tuple[str | int, ...]) -> int:
        return self.source.line(steps) if self.source else 0
