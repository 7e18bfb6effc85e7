"""Sessions in lists and as texts to read."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence

from bullpen.errors import BadRequest
from bullpen.present.describe import describe_call, describe_finish
from bullpen.present.inert import char_width, cut, inert, inert_line
from bullpen.schema.library import KnownHit, KnownSession, TrashedSession
from bullpen.schema.message import (
    BinaryPart,
    Message,
    ShellCommandPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from bullpen.schema.transfer import SessionDocument

MODEL_COLUMNS = 24
TITLE_COLUMNS = 60


def age(seconds: float) -> str:
    """How long ago, in the largest unit that fits."""
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{int(seconds // length)}{unit}"
    return "now"


def session_table(found: Sequence[KnownSession], now: float, *, with_folder: bool) -> list[str]:
    """One line each, in columns."""
    rows = [
        ["ID", "STATE", "AGE", "COST", "MODEL", "MESSAGES", "TITLE", *(["FOLDER"] if with_folder else [])]
    ]
    for known in found:
        session = known.session
        row = [
            session.id[:8],
            known.state,
            age(now - session.updated_at),
            f"${session.cost:.2f}" if session.cost else "-",
            cut(inert_line(known.model), MODEL_COLUMNS) or "-",
            str(session.message_count),
            cut(inert_line(session.title), TITLE_COLUMNS) or "(no title)",
        ]
        rows.append([*row, inert_line(known.workspace_path)] if with_folder else row)
    return _columns(rows)


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(_width(row[n]) for row in rows) for n in range(len(rows[0]))]
    return [
        "  ".join(
            text + " " * (width - _width(text)) for text, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def _width(text: str) -> int:
    return sum(map(char_width, text))


def hit_lines(found: Sequence[KnownHit]) -> list[str]:
    """Where words were found, and what stands around them."""
    lines = []
    for known in found:
        hit = known.hit
        day = time.strftime("%Y-%m-%d", time.localtime(hit.created_at))
        where = (
            f"{hit.session_id[:8]}  {day}  {inert_line(known.title)}  ({inert_line(known.workspace_path)})"
        )
        lines += [where, f"    {hit.role}: {inert_line(hit.snippet)}"]
    return lines


def trash_lines(found: Sequence[TrashedSession], now: float) -> list[str]:
    """What can be had back, and for how long."""
    rows = [["ID", "DELETED", "LEFT", "MESSAGES", "TITLE"]]
    rows += [
        [
            each.session.id[:8],
            age(now - each.deleted_at),
            age(each.until - now),
            str(each.session.message_count),
            cut(inert_line(each.session.title), TITLE_COLUMNS) or "(no title)",
        ]
        for each in found
    ]
    return _columns(rows)


def pick(found: Sequence[KnownSession], wanted: str) -> KnownSession:
    """The session whose id begins with `wanted`. Raises `BadRequest` when none or several do."""
    fitting = [k for k in found if k.session.id == wanted] or [
        k for k in found if k.session.id.startswith(wanted)
    ]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        several = ", ".join(f"{k.session.id[:12]} “{inert_line(k.session.title)}”" for k in fitting[:5])
        raise BadRequest(f"several sessions begin with {inert_line(wanted)}: {several}")
    raise BadRequest(f"no session {inert_line(wanted)}; `bullpen session list --all` shows what there is")


# Texts


def as_text(document: SessionDocument) -> str:
    """The conversation to read: a heading, then who said what; Markdown as it was written."""
    blocks = [f"{_title(document)}\n{_facts(document)}"]
    blocks += [text for message in document.messages if (text := "\n".join(_plain(message)))]
    return "\n\n".join(blocks) + "\n"


def _plain(message: Message) -> Iterator[str]:
    for part in message.parts:
        match part:
            case TextPart(data=data) if data.text.strip():
                yield f"{_speaker(message)} ›"
                yield inert(data.text.strip("\n"))
            case ToolCallPart(data=call):
                yield f"→ {describe_call(call)}"
            case ToolResultPart(data=result):
                yield f"{'✗' if result.is_error else '✓'} {inert_line(result.name)}"
                yield from (f"  {line}" for line in inert(result.content).rstrip("\n").split("\n"))
            case ShellCommandPart(data=shell):
                yield f"$ {inert(shell.command)}"
                yield inert(shell.output).rstrip("\n")
            case BinaryPart(data=file):
                yield f"  with {inert_line(file.path) or 'a file'}"
            case _:
                pass
    if message.role == "assistant" and message.finish and (end := describe_finish(message.finish)):
        yield end


def as_markdown(document: SessionDocument) -> str:
    """The conversation as a Markdown page: what tools did is in blocks of code, so that it is shown and not meant."""
    blocks = [f"# {_title(document)}", _facts(document)]
    for message in document.messages:
        parts = list(_marked(message))
        if parts and message.role in ("user", "assistant"):
            blocks.append(f"## {_speaker(message)}")
        blocks += parts
    return "\n\n".join(blocks) + "\n"


def _marked(message: Message) -> Iterator[str]:
    for part in message.parts:
        match part:
            case TextPart(data=data) if data.text.strip():
                yield inert(data.text.strip("\n"))
            case ToolCallPart(data=call):
                yield f"**{inert_line(call.name)}**\n\n{_fenced(call.input, 'json')}"
            case ToolResultPart(data=result) if result.content:
                yield _fenced(result.content, "")
            case ShellCommandPart(data=shell):
                yield _fenced(f"$ {shell.command}\n{shell.output}", "console")
            case BinaryPart(data=file):
                yield f"*with {inert_line(file.path) or 'a file'}*"
            case _:
                pass


def _fenced(text: str, language: str) -> str:
    """A block that nothing in it can end."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    end = inert(text).rstrip("\n")
    return f"{fence}{language}\n{end}\n{fence}"


def _title(document: SessionDocument) -> str:
    return inert_line(document.session.title) or "(no title)"


def _facts(document: SessionDocument) -> str:
    session = document.session
    began = time.strftime("%Y-%m-%d %H:%M", time.localtime(session.created_at))
    cost = f", ${session.cost:.4f}" if session.cost else ""
    return f"{began}, {len(document.messages)} messages{cost}"


def _speaker(message: Message) -> str:
    if message.role == "user":
        return inert_line(message.author) or "user"
    return inert_line(message.model) or message.role
