"""`bullpen logs`: what the server wrote into its log."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

LEVELS = ("debug", "info", "warning", "error", "critical")
COLOURS = {"DEBUG": "bright_black", "WARNING": "yellow", "ERROR": "red", "CRITICAL": "red"}


@click.command("logs", short_help="Show and follow the server's log.")
@click.option("--follow", "-f", is_flag=True, help="Go on with what is written from now on.")
@click.option(
    "--lines", "-n", type=click.IntRange(min=0), default=100, show_default=True, help="Only the last so many."
)
@click.option(
    "--level", "-l", type=click.Choice(LEVELS), default="debug", help="Only what is at least so grave."
)
@click.option(
    "--session",
    "-s",
    metavar="ID",
    default="",
    help="Only what names this session, by the beginning of its id.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the log's own lines of JSON.")
@click.option(
    "--data-dir",
    "-D",
    type=click.Path(file_okay=False, path_type=Path),
    help="The data directory of the server. [default: your own]",
)
def command(follow: bool, lines: int, level: str, session: str, as_json: bool, data_dir: Path | None) -> int:
    """Show the last entries of the server's log, oldest first. No server is needed, and none is started.

    \b
    Examples:
      bullpen logs
      bullpen logs -f --level warning
      bullpen logs -n 1000 --session 3f2a91c0
      bullpen logs --json -n 0 -f | jq -r .message
    """
    from itertools import islice

    from bullpen.config.places import Places
    from bullpen.system import logfile

    path = logfile.log_path(data_dir or Places.of(os.environ).data)
    is_meant = _filter(LEVELS.index(level), session)
    begins = logfile.end_of(path)
    if not begins[0] and not follow:
        click.echo(f"there is no log at {path} yet; a server writes it from its start on", err=True)
        return 0
    last = list(islice(filter(is_meant, map(entry_of, logfile.lines_from_the_end(path))), lines))
    for entry in reversed(last):
        click.echo(_line(entry, as_json))
    for entry in _following(path, begins) if follow else ():
        if is_meant(entry):
            click.echo(_line(entry, as_json))
    return 0


def entry_of(line: str) -> dict[str, Any]:
    """A line of the log; one that is none, because the disk was full within it, as a message of its own."""
    try:
        entry = json.loads(line)
    except ValueError:
        entry = None
    if isinstance(entry, dict) and all(isinstance(value, str) for value in entry.values()):
        return entry
    return {"at": "", "level": "INFO", "source": "", "message": line}


def _following(path: Path, begins: tuple[int, int]) -> Iterator[dict[str, Any]]:
    from bullpen.system import logfile

    return map(entry_of, logfile.follow(path, begins))


def _filter(lowest: int, session: str) -> Callable[[dict[str, Any]], bool]:
    def is_meant(entry: dict[str, Any]) -> bool:
        level = entry.get("level", "").lower()
        grave = LEVELS.index(level) if level in LEVELS else LEVELS.index("info")
        return grave >= lowest and session in entry.get("message", "")

    return is_meant


def _line(entry: dict[str, Any], as_json: bool) -> str:
    """For people: local time, level, who, what; a traceback below it."""
    from bullpen.present.inert import inert, inert_line

    if as_json:
        import sys

        return json.dumps(entry, ensure_ascii=sys.stdout.isatty())
    level = entry.get("level", "")
    shown = f"{level:<7}" if os.environ.get("NO_COLOR") else click.style(f"{level:<7}", fg=COLOURS.get(level))
    told = f"{_local(entry.get('at', ''))} {shown} {inert_line(entry.get('source', ''))}: {inert_line(entry.get('message', ''))}"
    trace = entry.get("trace", "")
    return told + "".join(f"\n    {inert_line(line)}" for line in inert(trace).splitlines())


def _local(at: str) -> str:
    from datetime import datetime

    try:
        return datetime.fromisoformat(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return "-" * 19
