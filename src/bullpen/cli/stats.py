"""`bullpen stats`: what model calls cost, and how often tools were called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from bullpen.cli.options import directory_of, host_option
from bullpen.present.spending import called_line, spent_line

if TYPE_CHECKING:
    from bullpen.client.workspace import Room
    from bullpen.schema.agent import SpentRow, ToolCallsRow

GROUPS = ("day", "hour", "session", "turn", "model", "person", "client", "agent", "sender", "purpose", "tool")
WIRE_NAMES = {"sender": "tool"}
DAY_S = 86_400


@click.command("stats", short_help="Show what models cost, and how often tools were called.")
@click.argument("directory", default=".")
@click.option(
    "--by", type=click.Choice(GROUPS), default="model", show_default=True, help="What to sum up by."
)
@click.option("--days", type=click.IntRange(min=1), help="Only the last so many days. [default: all]")
@click.option("--json", "as_json", is_flag=True, help="Print a list of JSON objects.")
@click.option("--html", metavar="FILE", help="Write a page with plots instead; - is stdout.")
@host_option
def command(
    directory: str, by: str, days: int | None, as_json: bool, html: str | None, host: str | None
) -> int:
    """Show what model calls cost in the workspace of a directory: tokens, dollars, and how many calls.

    Counts that a vendor did not give are estimated, and marked with ~. By agent is each sub-agent for itself, by sender each
    kind of them. By tool shows how often each tool was called, how many of the calls failed, and how long they took.

    \b
    Examples:
      bullpen stats                     by model, for the current directory
      bullpen stats --by day --days 7   the last week, day by day
      bullpen stats --by person --json  for a script
      bullpen stats --by tool           how often each tool was called
      bullpen stats --html costs.html   by day, hour, model, tool and person, to look at in a browser
    """
    import time

    from bullpen.cli.running import run_async
    from bullpen.client.workspace import attach

    if html is not None and as_json:
        raise click.UsageError("--html and --json exclude each other")
    since = int(time.time()) - days * DAY_S if days else 0

    async def main() -> int:
        async with attach(str(directory_of(directory)), host=host) as room:
            if html is not None:
                return _write(html, await _page(room, since))
            if by == "tool":
                called = await room.tool_calls(since)
                return _tell(called, called_table(called), as_json=as_json)
            group: Any = WIRE_NAMES.get(by, by)
            rows = await room.spending(group, since)
            return _tell(rows, table(rows, by), as_json=as_json)

    return run_async(main)


def _tell(rows: Sequence[SpentRow | ToolCallsRow], lines: Sequence[str], *, as_json: bool) -> int:
    from bullpen.schema.wire import encode

    click.echo(encode(rows).decode() if as_json else "\n".join(lines))
    return 0


async def _page(room: Room, since: int) -> str:
    import time

    from bullpen.cli.stats_page import Spending, page

    spent = Spending(
        workspace=room.workspace.path,
        days=await room.spending("day", since),
        hours=await room.spending("hour", since),
        models=await room.spending("model", since),
        senders=await room.spending("tool", since),
        tools=await room.tool_calls(since),
        people=await room.spending("person", since),
        sessions=len(await room.spending("session", since)),
    )
    return page(spent, time.time())


def _write(path: str, text: str) -> int:
    if path == "-":
        click.echo(text, nl=False)
        return 0
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as exc:
        raise click.ClickException(f"{path} cannot be written: {exc.strerror or exc}") from exc
    click.echo(f"written to {path}", err=True)
    return 0


def table(rows: list[SpentRow], by: str) -> list[str]:
    """For people: one line each, and the sum."""
    if not rows:
        return ["nothing was spent here yet"]
    names = [_name(row.key, by) for row in rows]
    width = max(map(len, (*names, "all")))
    told = [f"{name:<{width}}  {spent_line(row)}" for name, row in zip(names, rows, strict=True)]
    return [*told, f"{'all':<{width}}  ${sum(row.cost for row in rows):.4f}"]


def called_table(rows: list[ToolCallsRow]) -> list[str]:
    """The same for tools."""
    from bullpen.present.inert import inert_line
    from bullpen.schema.agent import ToolCallsRow

    if not rows:
        return ["no tool was called here yet"]
    names = [inert_line(row.key) for row in rows]
    width = max(map(len, (*names, "all")))
    told = [f"{name:<{width}}  {called_line(row)}" for name, row in zip(names, rows, strict=True)]
    total = ToolCallsRow(
        key="all",
        calls=sum(row.calls for row in rows),
        failed=sum(row.failed for row in rows),
        took_s=sum(row.took_s for row in rows),
    )
    return [*told, f"{'all':<{width}}  {called_line(total)}"]


def _name(key: str, by: str) -> str:
    import time

    from bullpen.present.inert import inert_line

    if by == "day":
        return time.strftime("%Y-%m-%d", time.gmtime(int(key) * DAY_S))
    if by == "hour":
        return time.strftime("%Y-%m-%d %H:00", time.localtime(int(key) * 3600))
    if by == "session":
        key = key[:8]
    return inert_line(key) or {"sender": "(no sub-agent)", "person": "(nobody)"}.get(by, "(none)")
