"""What model calls cost, in a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bullpen.schema.agent import SpentRow


def spent_line(row: SpentRow) -> str:
    """Dollars, calls and tokens; ~ marks what was estimated."""
    mark = "~" if row.estimated else ""
    cached = f" ({row.cache_read:,} cached)" if row.cache_read else ""
    return (
        f"{mark}${row.cost:.4f}  {row.calls:,} calls  "
        f"{row.input + row.cache_read + row.cache_write:,} in{cached}  {row.output:,} out"
    )
