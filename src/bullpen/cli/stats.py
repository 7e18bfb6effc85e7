"""`bullpen stats`: what model calls cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from bullpen.cli.options import directory_of, host_option
from bullpen.present.spending import spent_line

if TYPE_CHECKING:
    from bullpen.schema.agent import SpentRow

GROUPS = ("day", "session", "turn", "model", "person", "client", "agent", "tool", "purpose")
DAY_S = 86_400


@click.command("stats", short_help="Show what models cost, by day, model, person and more.")
@click.argument("directory", default=".")
@click.option(
    "--by", type=click.Choice(GROUPS), default="model", show_default=True, help="What to sum up by."
)
@click.option("--days", type=click.IntRange(min=1), help="Only the last so many days. [default: all]")
@click.option("--json", "as_json", is_flag=True, help="Print a list of JSON objects.")
@host_option
def command(directory: str, by: str, days: int | None, as_json: bool, host: str | None) -> int:
    """Show what model calls cost in the workspace of a directory: tokens, dollars, and how many calls.

    Counts that a vendor did not give are estimated, and marked with ~.

    \b
    Examples:
      bullpen stats                     by model, for the current directory
      bullpen stats --by day --days 7   the last week, day by day
      bullpen stats --by person --json  for a script
    """
    import time

    from bullpen.cli.running import run_async
    from bullpen.client.workspace import attach
    from bullpen.schema.wire import encode

    since = int(time.time()) - days * DAY_S if days else 0

    async def main() -> int:
        async with attach(str(directory_of(directory)), host=host) as room:
            group: Any = by
            rows = await room.spending(group, since)
        click.echo(encode(rows).decode() if as_json else "\n".join(table(rows, by)))
        return 0

    return run_async(main)


def table(rows: list[SpentRow], by: str) -> list[str]:
    """For people: one line each, and the sum."""
    if not rows:
        return ["nothing was spent here yet"]
    names = [_name(row.key, by) for row in rows]
    width = max(map(len, (*names, "all")))
    told = [f"{name:<{width}}  {spent_line(row)}" for name, row in zip(names, rows, strict=True)]
    return [*told, f"{'all':<{width}}  ${sum(row.cost for row in rows):.4f}"]


def _name(key: str, by: str) -> str:
    import time

    from bullpen.present.inert import inert_line

    if by == "day":
        return time.strftime("%Y-%m-%d", time.gmtime(int(key) * DAY_S))
    if by == "session":
        key = key[:8]
    return inert_line(key) or {"tool": "(no sub-agent)", "person": "(nobody)"}.get(by, "(none)")
