"""The commands as a manual page in roff. It names neither a date nor a version: it changes with the commands, and only with them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator

import click

ENVIRONMENT = {
    "BULLPEN_HOST": "The server: unix:///path.sock or tcp://host:port.",
    "BULLPEN_TOKEN": "The token of a server on TCP.",
    "BULLPEN_DEBUG": "1: tracebacks instead of one line.",
    "NO_COLOR": "Anything: no colours.",
}
FILES = {
    "~/.config/bullpen/bullpen.json": "Your configuration.",
    "bullpen.json, .bullpen.json": "That of a project, inert until it is trusted.",
    "~/.local/share/bullpen": "Sessions, logins, the log.",
}


def manual(root: click.Group) -> str:
    """The whole page."""
    return "\n".join(_page(root)) + "\n"


def _page(root: click.Group) -> Iterator[str]:
    ctx = click.Context(root, info_name="bullpen")
    yield '.TH BULLPEN 1 "" "bullpen" "User Commands"'
    yield from (".SH NAME", "bullpen \\- one coding agent that any number of clients share")
    yield from (".SH SYNOPSIS", f".B bullpen\n{_text(' '.join(root.collect_usage_pieces(ctx)))}")
    yield ".SH DESCRIPTION"
    yield from _help(root)
    yield from _options(root, ctx)
    yield ".SH COMMANDS"
    yield from _commands(root, ctx)
    yield from (
        ".SH EXIT STATUS",
        "0 done, 1 failed, 2 wrong usage, 130 interrupted, 141 nobody reads the output;",
    )
    yield from (".B bullpen run", "has more, see above.")
    yield ".SH ENVIRONMENT"
    yield from _terms(ENVIRONMENT.items())
    yield ".SH FILES"
    yield from _terms(FILES.items())


def _commands(group: click.Group, parent: click.Context) -> Iterator[str]:
    for name in group.list_commands(parent):
        command = group.get_command(parent, name)
        if command is None or command.hidden:
            continue
        ctx = click.Context(command, info_name=name, parent=parent)
        yield f".SS {_text(ctx.command_path)} {_text(' '.join(command.collect_usage_pieces(ctx)))}"
        yield from _help(command)
        yield from _options(command, ctx)
        if isinstance(command, click.Group):
            yield from _commands(command, ctx)


def _help(command: click.Command) -> Iterator[str]:
    """Paragraphs are filled; those that begin with click's mark stay as they are."""
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        lines = paragraph.split("\n")
        yield ".PP"
        if lines[0].strip() == "\b":
            yield ".nf"
            yield from (_text(line) for line in lines[1:])
            yield ".fi"
        else:
            yield from (_text(line.strip()) for line in lines)


def _options(command: click.Command, ctx: click.Context) -> Iterator[str]:
    records = [param.get_help_record(ctx) for param in command.get_params(ctx)]
    yield from _terms(record for record in records if record is not None)


def _terms(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    for term, told in pairs:
        yield from (".TP", f".B {_text(term)}", _text(told))


def _text(text: str) -> str:
    """As it is to be read: roff gives a meaning to a backslash anywhere and to a dot or quote that begins a line."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    escaped = "".join(c if c.isascii() else f"\\[u{ord(c):04X}]" for c in escaped)
    return f"\\&{escaped}" if escaped.lstrip()[:1] in {".", "'"} else escaped
