"""What model calls cost, and how often tools were called, in a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bullpen.schema.agent import SpentRow, ToolCallsRow


def spent_line(row: SpentRow) -> str:
    """Dollars, calls and tokens; ~ marks what was estimated."""
    mark = "~" if row.estimated else ""
    cached = f" ({row.cache_read:,} cached)" if row.cache_read else ""
    return (
        f"{mark}${row.cost:.4f}  {row.calls:,} calls  "
        f"{row.input + row.cache_read + row.cache_write:,} in{cached}  {row.output:,} out"
    )


def called_line(row: ToolCallsRow) -> str:
    """Calls, how many of them failed, and how long all of them took."""
    calls = "1 call" if row.calls == 1 else f"{row.calls:,} calls"
    return f"{calls}  {row.failed:,} failed  {took(row.took_s)}"


def took(seconds: float) -> str:
    """A span for people, as short as it may be."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
