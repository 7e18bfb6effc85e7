"""The stored conversation as the model is to see it.

A long conversation is not read anew for each turn: `Histories` keeps what was made of finished messages, which never change, and
reads only what came after them.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from bullpen.engine.sizes import kept_chars
from bullpen.providers.base import AssistantTurn, Native, Settled, ToolTurn, Turn, UserTurn
from bullpen.schema.message import (
    Binary,
    BinaryPart,
    Message,
    ReasoningPart,
    ShellCommandPart,
    ToolCall,
    ToolResult,
)
from bullpen.schema.session import Session
from bullpen.store import messages as rows
from bullpen.store import natives
from bullpen.store.store import Store
from bullpen.store.tx import Tx

KEPT_CHARS = 4 << 20
"""Of all conversations of a server together, some million tokens; those that were quiet longest are read anew."""

NOT_RUN = "This call was interrupted and has no result; it may be tried again if it is still needed."

_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-_]")


class _Kept:
    """A conversation up to, and not including, the message at `end`: all of it finished."""

    def __init__(self, form: tuple[str, bool]) -> None:
        self.form = form
        """Which summary it begins with, and whether pictures are in it."""
        self.end = 0
        self.count = 0
        self.settled = Settled()
        self.chars = 0

    def extend(self, turns: list[Turn], *, count: int, end: int) -> None:
        self.settled.turns += turns
        self.chars += sum(map(kept_chars, turns))
        self.count += count
        self.end = end


class History(NamedTuple):
    """A conversation, and its settled beginning."""

    turns: list[Turn]
    settled: Settled | None = None


class Histories:
    """The conversations of all workspaces of a server, within one bound."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()
        self._chars = 0

    async def before(
        self, store: Store, workspace: str, answer: str, session: Session, *, images: bool
    ) -> History:
        """What was said before the open message `answer`, and whatever came in since."""
        form = (session.summary_message_id, images)
        before = self._take((workspace, session.id))
        usable = before if before is not None and before.form == form else _Kept(form)
        kept, after = await store.read(lambda tx: _read(tx, usable, workspace, session.id, answer))
        self._keep((workspace, session.id), kept)
        return History(kept.settled.turns + after, kept.settled)

    def kept_chars(self) -> int:
        return self._chars

    def forget(self, workspace: str) -> None:
        """Nobody will ask for this workspace's conversations, or they are no longer what was read."""
        for key in [key for key in self._kept if key[0] == workspace]:
            self._take(key)

    def _keep(self, key: tuple[str, str], kept: _Kept) -> None:
        self._take(key)  # What another turn of the session left here meanwhile.
        self._kept[key] = kept
        self._chars += kept.chars
        while self._chars > KEPT_CHARS:
            _, oldest = self._kept.popitem(last=False)
            self._chars -= oldest.chars

    def _take(self, key: tuple[str, str]) -> _Kept | None:
        kept = self._kept.pop(key, None)
        self._chars -= kept.chars if kept is not None else 0
        return kept


async def _read(tx: Tx, kept: _Kept, workspace: str, session: str, answer: str) -> tuple[_Kept, list[Turn]]:
    """Bring what is kept up to date; gives it back with the turns that cannot be kept yet."""
    summary_id, images = kept.form
    start = await rows.position_of(tx, summary_id)
    if kept.count != await rows.count_between(tx, workspace, session, start, kept.end):
        kept = _Kept(kept.form)  # Something was deleted.
    since = max(start, kept.end)
    new = await rows.of_session(tx, workspace, session, start=since)
    own = await natives.of_session(tx, workspace, session, start=since)
    settled = next((n for n, message in enumerate(new) if message.id == answer), 0)
    if settled:
        turns = to_turns(new[:settled], summary_id=summary_id, images=images, own=own)
        kept.extend(turns, count=settled, end=await rows.position_of(tx, answer))
    return kept, to_turns(new[settled:], summary_id=summary_id, images=images, own=own)


def to_turns(
    messages: Sequence[Message],
    *,
    summary_id: str,
    images: bool,
    own: Mapping[str, tuple[str, str]] = MappingProxyType({}),
) -> list[Turn]:
    """From the summary on, if there is one; it is presented as something the user said. `own` has what is known of answers
    in their vendor's form."""
    turns: list[Turn] = []
    for n, message in enumerate(messages):
        match message.role:
            case "user":
                turns.append(user_turn(message, images=images))
            case "assistant" if message.id == summary_id:
                turns.append(UserTurn(message.text))
            case "assistant" if message.is_summary_message:
                pass
            case "assistant":
                native = Native(*own[message.id]) if message.id in own else None
                turns.extend(_assistant(message, _results(messages, n), native))
            case _:
                pass
    return turns


def user_turn(message: Message, *, images: bool) -> UserTurn:
    """Words, attached text files and shell commands as one text; other files beside it."""
    pieces = [message.text.strip()]
    files: list[Binary] = []
    for part in message.parts:
        if isinstance(part, BinaryPart):
            if part.data.mime_type.startswith("text/"):
                pieces.append(_inlined(part.data))
            elif images:
                files.append(part.data)
        elif isinstance(part, ShellCommandPart):
            shell = part.data
            output = _ANSI.sub("", shell.output).rstrip()
            pieces.append(
                f"The user ran this in a shell:\n$ {shell.command}\n{output}\n(exit code {shell.exit_code})"
            )
    return UserTurn("\n\n".join(p for p in pieces if p), tuple(files))


def _inlined(file: Binary) -> str:
    text = file.data.decode("utf-8", "replace")
    return f"The user attached a file:\n<file path='{file.path}'>\n{text}\n</file>"


def _assistant(message: Message, results: dict[str, ToolResult], native: Native | None) -> Iterable[Turn]:
    text, calls = message.text.strip(), tuple(message.tool_calls)
    if not text and not calls and not message.reasoning:
        return
    yield AssistantTurn(text, message.reasoning, _signature(message), calls, native)
    for call in calls:
        yield ToolTurn(results.get(call.id) or _missing(call))


def _signature(message: Message) -> str:
    return next((p.data.signature for p in message.parts if isinstance(p, ReasoningPart)), "")


def _results(messages: Sequence[Message], index: int) -> dict[str, ToolResult]:
    """The results that belong to the message at `index`: in the rows before the next answer."""
    found: dict[str, ToolResult] = {}
    for n in range(index + 1, len(messages)):
        if messages[n].role == "assistant":
            break
        found.update({r.tool_call_id: r for r in messages[n].tool_results})
    return found


def _missing(call: ToolCall) -> ToolResult:
    return ToolResult(tool_call_id=call.id, name=call.name, content=NOT_RUN, metadata="", is_error=True)
