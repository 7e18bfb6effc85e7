"""Beside the conversation: the session, its model and cost, changed files, and what serves the agent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widgets import Static

from bullpen.present.inert import cut, inert_line
from bullpen.schema.agent import LspInfo, McpInfo, Model
from bullpen.schema.asks import PermissionsSkip
from bullpen.schema.changes import TurnSummary
from bullpen.schema.choices import SessionChoices
from bullpen.schema.events import ConfigChanged, Event, LspEvent, McpEvent, RunComplete, SkillsEvent
from bullpen.schema.jobs import Job, SandboxState
from bullpen.schema.session import Session
from bullpen.tui.changed import ChangedLines
from bullpen.tui.facts import LSP_STATES, Facts

if TYPE_CHECKING:
    from bullpen.client.workspace import Room

SHOWN = 6
"""So many of each are listed."""

NEARLY_FULL = 80
"""From this share of the model's window on a person should know."""

BAR = 16

LSP_SIGNS = (("○", ""), ("◌", "warning"), ("●", "success"), ("✗", "error"), ("○", ""), ("○", ""))
MCP_STATES = {
    "connected": ("●", "success"),
    "starting": ("◌", "warning"),
    "needs auth": ("!", "warning"),
    "error": ("✗", "error"),
}


class Sidebar(VerticalScroll, can_focus=False):
    """What is told here is fetched when it may have changed, and drawn from what was fetched last."""

    class Fetched(Message):
        """There are new facts."""

    def __init__(self) -> None:
        super().__init__()
        self.facts = Facts()
        self._room: Room | None = None
        self._wanted = asyncio.Event()
        self._changed: dict[str, ChangedLines] = {}

    def compose(self) -> ComposeResult:
        yield Static(id="told")

    def attach(self, room: Room) -> None:
        self._room = room
        self.run_worker(self._keep_fetching())

    def take(self, event: Event) -> None:
        """Fetch anew what an event has changed."""
        match event.payload:
            case (
                LspEvent()
                | McpEvent()
                | SkillsEvent()
                | ConfigChanged()
                | RunComplete()
                | Job()
                | Session()
                | SessionChoices()
                | SandboxState()
                | PermissionsSkip()
            ):
                self.fetch()
            case _:
                pass

    def fetch(self) -> None:
        """Ask the server for what no event tells, once however often it was wanted meanwhile."""
        self._wanted.set()

    async def _keep_fetching(self) -> None:
        assert self._room is not None
        while True:
            self._wanted.clear()
            self.facts = await self.facts.fetched(self._room)
            self.post_message(self.Fetched())
            await self._wanted.wait()

    def look(self) -> None:
        """Draw anew what is known."""
        if self._room is not None and self.display:
            width = max(self.content_size.width, 20)
            self.query_one("#told", Static).update(Text("\n").join(self._rows(self._room, width)))

    def on_resize(self) -> None:
        self.look()

    # Drawing

    def _rows(self, room: Room, width: int) -> Iterator[Text]:
        session = room.session(room.current_session)
        if session:
            yield Text(cut(inert_line(session.title) or "untitled", width * 2), "bold")
        yield Text(cut(short_path(room.workspace.path), width), self._colour("faint"))
        yield Text()
        yield from self._model(session, width)
        workspace = self.facts.workspace or room.workspace
        if workspace.yolo:
            yield Text("! everything is allowed", self._colour("error"))
        sandbox = workspace.sandbox
        if sandbox.mode != "off":
            kept = "✗ no sandbox: commands are refused" if sandbox.why else f"● sandbox: {sandbox.mode}"
            yield Text(cut(kept, width), self._colour("error" if sandbox.why else "success"))
        for title, lines in self._sections(session):
            yield Text()
            yield Text(f"{title} ".ljust(width, "─"), self._colour("faint"))
            for line in lines[:SHOWN]:
                line.truncate(width, overflow="ellipsis")
                yield line
            if len(lines) > SHOWN:
                yield Text(f"and {len(lines) - SHOWN} more", self._colour("faint"))

    def _model(self, session: Session | None, width: int) -> Iterator[Text]:
        found = self.facts.model
        if found is None:
            yield Text("no model yet: Ctrl+L", self._colour("warning"))
            return
        chosen, model = found
        yield Text(cut(f"◇ {inert_line(model.name or chosen.model)}", width))
        effort = f", {inert_line(chosen.reasoning_effort)} effort" if chosen.reasoning_effort else ""
        yield Text(cut(f"  {inert_line(chosen.provider)}{effort}", width), self._colour("faint"))
        if session is None:
            return
        share = context_share(session, model)
        if share is not None:
            full = share * BAR // 100
            colour = "warning" if share >= NEARLY_FULL else "secondary"
            bar = Text("  ").append("━" * full, self._colour(colour))
            bar.append("─" * (BAR - full), self._colour("faint"))
            yield bar.append(f" {share}%{' nearly full' if share >= NEARLY_FULL else ''}")
        tokens = session.prompt_tokens + session.completion_tokens
        yield Text(f"  {short(tokens)} tokens, ${session.cost:.2f}", self._colour("faint"))

    def _sections(self, session: Session | None) -> Iterator[tuple[str, list[Text]]]:
        facts = self.facts
        me = self._room.client_id if self._room else ""
        people = [
            (inert_line(person.name) or person.client_id[:8]) + (" (you)" if person.client_id == me else "")
            for person in facts.people
        ]
        for title, lines in (
            ("Changed files", self._files(session)),
            ("Jobs", [Text(f"● {inert_line(job.command)}") for job in facts.jobs if job.running]),
            ("Language servers", [self._lsp(lsp) for lsp in facts.lsps.values()]),
            ("Tool servers", [self._mcp(mcp) for mcp in facts.mcps.values()]),
            (
                "Skills",
                [Text(inert_line(s.name) + ("  not trusted" if s.untrusted else "")) for s in facts.skills],
            ),
            ("Here", [Text(name) for name in people]),
        ):
            if lines:
                yield title, lines

    def _files(self, session: Session | None) -> list[Text]:
        if session is None or self._room is None:
            return []
        counted = self._changed.setdefault(session.id, ChangedLines()).of(self._room.messages(session.id))
        return [self._file(path, counted) for path in changed_paths(self.facts.turns)]

    def _file(self, path: str, counted: Mapping[str, tuple[int, int]]) -> Text:
        """Tools name a file as the model did: relative or whole."""
        line = Text(inert_line(path))
        for named, (added, removed) in counted.items():
            if named == path or named.endswith(f"/{path}"):
                line.append(f" +{added}", self._colour("success")).append(
                    f" −{removed}", self._colour("error")
                )
        return line

    def _lsp(self, lsp: LspInfo) -> Text:
        sign, colour = LSP_SIGNS[lsp.state]
        told = f"{lsp.diagnostic_count} to mend" if lsp.diagnostic_count else LSP_STATES[lsp.state]
        line = Text(sign, self._colour(colour)).append(f" {inert_line(lsp.name)}")
        return line.append(f" {told}", self._colour("faint"))

    def _mcp(self, mcp: McpInfo) -> Text:
        sign, colour = MCP_STATES.get(mcp.state, ("○", ""))
        counts = f"{mcp.tool_count} {'tool' if mcp.tool_count == 1 else 'tools'}" if mcp.tool_count else ""
        told = f"{mcp.held_count} held back" if mcp.held_count else counts or inert_line(mcp.state)
        line = Text(sign, self._colour(colour)).append(f" {inert_line(mcp.name)}")
        return line.append(f" {told}", self._colour("faint"))

    def _colour(self, name: str) -> str:
        return self.app.theme_variables.get(name, "")


def changed_paths(turns: Iterable[TurnSummary]) -> list[str]:
    """The files of turns that are not undone, the latest first, each once."""
    kept = (turn for turn in turns if turn.state in ("changed", "partly"))
    return list(dict.fromkeys(path for turn in kept for path in turn.paths))


def context_share(session: Session | None, model: Model) -> int | None:
    """How much of the model's window a session fills, in percent; None where that is not known."""
    if session is None or not model.context_window:
        return None
    return min((session.prompt_tokens + session.completion_tokens) * 100 // model.context_window, 100)


def short(count: int) -> str:
    """A number of tokens in a few letters."""
    if count < 1000:
        return str(count)
    return f"{count / 1000:.1f}K" if count < 100_000 else f"{count // 1000}K"


def short_path(path: str) -> str:
    """A directory of the server's, by its last parts."""
    parts = inert_line(path).strip("/").split("/")
    return "/" + "/".join(parts) if len(parts) < 4 else "…/" + "/".join(parts[-3:])
