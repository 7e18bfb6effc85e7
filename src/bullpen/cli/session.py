"""`bullpen session`: find sessions, read them, fork, rename, delete, have back, move."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bullpen.cli import undo as undo_module
from bullpen.cli.options import directory_of, host_option
from bullpen.cli.session_moving import restore, take_in
from bullpen.cli.shelving import (
    MOST,
    find,
    in_its_room,
    on_shelf,
    path_of,
    place_options,
)
from bullpen.cli.undoing import part_options

if TYPE_CHECKING:
    from bullpen.client.shelf import Shelf
    from bullpen.client.workspace import Room
    from bullpen.schema.library import KnownSession

_id = click.argument("session_id", metavar="ID")
_optional_id = click.argument("session_id", metavar="[ID]", default="")


@click.group("session", short_help="List, read, search, fork, move and delete sessions.")
def command() -> None:
    """Find sessions and do something with them. ID is an id or the beginning of one; without it, the session used last here.

    \b
    Examples:
      bullpen session list --all
      bullpen session show 3f2a
      bullpen session export 3f2a -o talk.json
    """


command.add_command(take_in)
command.add_command(restore)


@command.command("list")
@click.option("--all", "everywhere", is_flag=True, help="Of all folders.")
@click.option("--search", metavar="TEXT", default="", help="Only those with this in their title.")
@click.option("--state", type=click.Choice(["running", "waiting", "done"]), help="Only those in this state.")
@click.option("--limit", type=click.IntRange(1, MOST), default=20, show_default=True, help="At most so many.")
@place_options
def list_(
    everywhere: bool,
    search: str,
    state: str | None,
    limit: int,
    as_json: bool,
    directory: str,
    host: str | None,
) -> int:
    """List sessions, the one used last first. AGE is the time since then. `waiting` is one that somebody has to answer.

    \b
    Examples:
      bullpen session list
      bullpen session list --all --state waiting
      bullpen session list --search parser --json
    """
    from bullpen.cli.running import run_async
    from bullpen.client.shelf import open_shelf
    from bullpen.present.library import session_table
    from bullpen.schema.wire import encode

    path = "" if everywhere else path_of(directory)

    async def main() -> int:
        found: list[KnownSession] = []
        async with open_shelf(host=host) as shelf:
            if shelf is not None:
                found = await shelf.sessions(state=state or "", path=path, title=search, limit=limit)
        if as_json:
            click.echo(encode(found).decode())
        elif found:
            click.echo("\n".join(session_table(found, time.time(), with_folder=everywhere)))
        else:
            click.echo("no sessions" + ("" if everywhere else "; --all looks in every folder"), err=True)
        return 0

    return run_async(main)


@command.command("show")
@_optional_id
@place_options
def show(session_id: str, as_json: bool, directory: str, host: str | None) -> int:
    """Print a conversation as plain text; on a terminal through $PAGER.

    \b
    Examples:
      bullpen session show
      bullpen session show 3f2a | less
      bullpen session show 3f2a --json | jq '.messages[-1]'
    """

    async def main(shelf: Shelf) -> int:
        from bullpen.present.library import as_text
        from bullpen.schema.wire import encode

        document = await shelf.export((await find(shelf, directory, session_id)).session.id)
        if as_json:
            click.echo(encode(document).decode())
        elif sys.stdout.isatty():
            click.echo_via_pager(as_text(document), color=False)
        else:
            click.echo(as_text(document), nl=False)
        return 0

    return on_shelf(host, main)


@command.command("search")
@click.argument("words", nargs=-1, required=True)
@click.option("--all", "everywhere", is_flag=True, help="In all folders.")
@click.option("--limit", type=click.IntRange(1, 200), default=20, show_default=True, help="At most so many.")
@place_options
def search(
    words: tuple[str, ...], everywhere: bool, limit: int, as_json: bool, directory: str, host: str | None
) -> int:
    """Find messages that hold all the words, best first. Exit status 1 when there are none.

    \b
    Examples:
      bullpen session search parser error
      bullpen session search --all "rate limit" --json
    """
    path = "" if everywhere else path_of(directory)

    async def main(shelf: Shelf) -> int:
        from bullpen.present.library import hit_lines
        from bullpen.schema.wire import encode

        found = await shelf.search(" ".join(words), limit=limit, path=path)
        if as_json:
            click.echo(encode(found).decode())
        elif found:
            click.echo("\n".join(hit_lines(found)))
        else:
            click.echo("nothing found" + ("" if everywhere else "; --all looks in every folder"), err=True)
        return 0 if found else 1

    return on_shelf(host, main)


@command.command("export")
@_optional_id
@click.option("--output", "-o", metavar="FILE", default="", help="Into a file, which must not be there yet.")
@click.option("--markdown", is_flag=True, help="A page to read, which cannot be imported.")
@click.option("--redact", is_flag=True, help="Without what looks like a secret.")
@place_options
def export(
    session_id: str,
    output: str,
    markdown: bool,
    redact: bool,
    as_json: bool,
    directory: str,
    host: str | None,
) -> int:
    """Write a session as one document, JSON unless --markdown is given.

    \b
    Examples:
      bullpen session export 3f2a -o talk.json
      bullpen session export --markdown --redact > talk.md
    """
    if markdown and as_json:
        raise click.UsageError("--markdown and --json exclude each other")

    async def main(shelf: Shelf) -> int:
        from bullpen.client.workspace import attach
        from bullpen.present.library import as_markdown
        from bullpen.schema.wire import encode

        known = await find(shelf, directory, session_id)
        if redact:
            # What is secret is known where the configuration is: in the workspace.
            async with attach(str(directory_of(known.workspace_path)), host=host) as room:
                document = await room.library.export(known.session.id, redact=True)
        else:
            document = await shelf.export(known.session.id)
        text = as_markdown(document) if markdown else encode(document).decode() + "\n"
        if output:
            _write(Path(output), text)
            click.echo(f"wrote {output}", err=True)
        else:
            click.echo(text, nl=False)
        return 0

    return on_shelf(host, main)


def _write(file: Path, text: str) -> None:
    """A conversation may hold what is nobody else's business: only its owner can read the file."""
    import os

    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as opened:
            opened.write(text)
    except OSError as exc:
        raise click.ClickException(f"{file} cannot be written: {exc.strerror}") from exc


@command.command("fork")
@_optional_id
@click.option("--at", "message_id", metavar="MESSAGE", default="", help="Up to and including this message.")
@click.option("--title", default="", help="The new session's title.")
@place_options
def fork(
    session_id: str, message_id: str, title: str, as_json: bool, directory: str, host: str | None
) -> int:
    """Open a session that begins like another. Its id is printed.

    \b
    Examples:
      bullpen session fork 3f2a
      bullpen session fork 3f2a --at 77c0f0e2-… --title "the other way"
    """

    async def main(room: Room, known: KnownSession) -> int:
        from bullpen.schema.wire import encode

        made = await room.library.fork(known.session.id, message_id, title=title)
        click.echo(encode(made).decode() if as_json else made.id)
        return 0

    return in_its_room(directory, session_id, host, main)


@command.command("rename")
@_id
@click.argument("title", nargs=-1, required=True)
@place_options
def rename(session_id: str, title: tuple[str, ...], as_json: bool, directory: str, host: str | None) -> int:
    """Give a session another title.

    \b
    Examples:
      bullpen session rename 3f2a The parser, second try
    """

    async def main(room: Room, known: KnownSession) -> int:
        from bullpen.present.inert import inert_line
        from bullpen.schema.wire import encode

        named = await room.rename(known.session.id, " ".join(title))
        told = f"{named.id[:8]} is now “{inert_line(named.title)}”"
        click.echo(encode(named).decode() if as_json else told, err=not as_json)
        return 0

    return in_its_room(directory, session_id, host, main)


@command.command("delete")
@_id
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@place_options
def delete(session_id: str, yes: bool, as_json: bool, directory: str, host: str | None) -> int:
    """Delete a session. It can be had back for 30 days.

    \b
    Examples:
      bullpen session delete 3f2a
      bullpen session delete 3f2a --yes
    """

    async def main(room: Room, known: KnownSession) -> int:
        from bullpen.present.inert import inert_line
        from bullpen.schema.wire import encode

        session = known.session
        named = f"{session.id[:8]} “{inert_line(session.title)}”, {session.message_count} messages"
        if not yes and not (sys.stdin.isatty() and click.confirm(f"throw away {named}?", err=True)):
            raise click.ClickException("nothing was deleted; --yes deletes without a question")
        await room.delete_session(session.id)
        if as_json:
            click.echo(encode({"id": session.id, "title": session.title, "deleted": True}).decode())
        click.echo(f"deleted {named}; `bullpen session restore {session.id[:8]}` brings it back", err=True)
        return 0

    return in_its_room(directory, session_id, host, main)


@command.command("undo")
@_id
@click.argument("turn", type=click.IntRange(min=1), required=False)
@part_options
@click.option("--in", "directory", metavar="DIR", default=".", help="The workspace. [default: here]")
@host_option
@click.pass_context
def undo(
    ctx: click.Context,
    session_id: str,
    turn: int | None,
    files: tuple[str, ...],
    hunks: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
    directory: str,
    host: str | None,
) -> int:
    """Take back what a turn of a session changed in the files, as `bullpen undo --session ID` does.

    \b
    Examples:
      bullpen session undo 3f2a --dry-run
      bullpen session undo 3f2a 12
    """
    status: int = ctx.invoke(
        undo_module.command,
        turn=turn,
        files=files,
        hunks=hunks,
        dry_run=dry_run,
        as_json=as_json,
        directory=directory,
        session=session_id,
        host=host,
    )
    return status
