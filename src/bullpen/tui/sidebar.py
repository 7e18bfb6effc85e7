"""Beside the conversation: the session, its model and cost, changed files, and what serves the agent."""

from __future__ import annotations

import asyncio

from rich.text import Text
from textual.app import RenderResult
from textual.widget import Widget

from bullpen.client.workspace import Room
from bullpen.present.inert import cut, inert_line
from bullpen.schema.events import ConfigChanged, Event, LspEvent, McpEvent, RunComplete, SkillsEvent
from bullpen.schema.jobs import Job
from bullpen.schema.session import Session
from bullpen.tui.facts import Facts


class Sidebar(Widget):
    """What is told here is fetched when it may have changed, and drawn from what was fetched last."""

    def __init__(self) -> None:
        super().__init__()
        self._room: Room | None = None
        self.facts = Facts()
        self._wanted = asyncio.Event()

    def attach(self, room: Room) -> None:
        self._room = room
        self.run_worker(self._keep_fetching())

    def take(self, event: Event) -> None:
        """Fetch anew what an event has changed."""
        match event.payload:
            case (
                LspEvent() | McpEvent() | SkillsEvent() | ConfigChanged() | RunComplete() | Job() | Session()
            ):
                self._wanted.set()
            case _:
                pass

    async def _keep_fetching(self) -> None:
        """Ask the server for what no event tells, once however often it was wanted meanwhile."""
        assert self._room is not None
        while True:
            self._wanted.clear()
            self.facts = await self.facts.fetched(self._room)
            self.look()
            await self._wanted.wait()

    def look(self) -> None:
        self.refresh()

    def render(self) -> RenderResult:
        if self._room is None:
            return Text()
        width = max(self.size.width, 10)
        session = self._room.session(self._room.current_session)
        rows: list[Text] = []
        if session:
            rows.append(Text(inert_line(session.title) or "untitled", "bold"))
        rows.append(Text(inert_line(self._room.workspace.path), self._faint))
        rows += self._model(session)
        for title, told in self.facts.sections():
            rows += [Text(), Text(f"{title} ".ljust(width, "─"), self._faint)]
            rows += [Text(cut(line, width)) for line in told]
        return Text("\n").join(rows)

    @property
    def _faint(self) -> str:
        return self.app.theme_variables.get("faint", "")

    def _model(self, session: Session | None) -> list[Text]:
        agent = self.facts.agent
        if agent is None or not agent.is_ready:
            return [Text(), Text("no model yet: Ctrl+L", self.app.theme_variables["warning"])]
        name = inert_line(agent.model.name or agent.model_cfg.model)
        rows = [Text(), Text(f"◇ {name}"), Text(f"  {inert_line(agent.model_cfg.provider)}", self._faint)]
        if session:
            tokens = session.prompt_tokens + session.completion_tokens
            window = agent.model.context_window
            share = f"{tokens * 100 // window}% " if window else ""
            rows.append(Text(f"  {share}({short(tokens)}) ${session.cost:.2f}", self._faint))
        return rows


def short(count: int) -> str:
    """A number of tokens in a few letters."""
    if count < 1000:
        return str(count)
    return f"{count / 1000:.1f}K" if count < 100_000 else f"{count // 1000}K"
