"""A whole tool context on a real directory, with real commands; only people are played."""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import msgspec
import pytest
from tests.internet import World, authority, trust, world

from bullpen.config.shape import WebSearch
from bullpen.errors import ToolFailed
from bullpen.lsp.servers import LspServers
from bullpen.net.fetching import Fetcher
from bullpen.net.web import Places, Web
from bullpen.schema.asks import Question, QuestionResponse
from bullpen.schema.session import Todo
from bullpen.system import paths
from bullpen.system.environment import tool_environment
from bullpen.system.jobs import Jobs, Owner
from bullpen.system.processes import Processes
from bullpen.system.sandbox import Sandbox
from bullpen.tools.base import NOTHING, Outcome, Reach, Section, Tool
from bullpen.tools.errands import Errand
from bullpen.tools.registry import builtin_tools

__all__ = ["authority", "trust", "world"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Asked(NamedTuple):
    """A permission that a tool asked for."""

    action: str
    params: Any
    path: Path
    description: str
    reach: Reach = NOTHING


class Change(NamedTuple):
    path: Path
    before: str
    after: str


class MemoryFiles:
    """What the session read and wrote, in memory."""

    def __init__(self) -> None:
        self.reads: dict[Path, float] = {}
        self.changes: list[Change] = []

    async def mark_read(self, path: Path) -> None:
        self.reads[path] = time.time()

    async def read_at(self, path: Path) -> float | None:
        return self.reads.get(path)

    async def record_change(self, path: Path, before: str, after: str, *, seen: bool = True) -> None:
        self.changes.append(Change(path, before, after))
        if seen:
            await self.mark_read(path)


class Known:
    """What is known of the server itself."""

    def __init__(self) -> None:
        self.sections: list[Section] = []
        self.lines: list[str] = []

    async def configuration(self) -> Sequence[Section]:
        return self.sections

    def log(self, most: int) -> Sequence[str]:
        return self.lines[-most:]


class Bench:
    """A tool context, and the person it asks: `on_permit` and `on_ask` say what they do."""

    def __init__(
        self, root: Path, all_jobs: Jobs, processes: Processes, sandbox: Sandbox | None = None
    ) -> None:
        self.root = root
        self.session_id = "s1"
        self.call_id = "c1"
        self.supports_images = True
        self.limits: Mapping[str, Any] = {}
        self.skill_dirs: Sequence[Path] = ()
        self.files = MemoryFiles()
        self.search = WebSearch()
        self.net = Web(lambda: self.limits, processes, search=lambda: self.search)
        self.about = Known()
        self.sandbox = sandbox or Sandbox(root)
        self.all_jobs = all_jobs
        self.jobs = all_jobs.of(Owner("s1"))
        self.shown: list[tuple[int, str]] = []
        self._was_shown = anyio.Event()
        self.lsp = LspServers(root=root, env={}, announce=lambda event: None, processes=processes)
        self._processes = processes
        self.kept_from: Callable[[Path], bool] | None = None
        self.todos: Sequence[Todo] = ()
        self.errand: Errand | None = None
        self.sent: Errand | None = None
        self.asked: list[Asked] = []
        self.batches: list[tuple[Sequence[Question], str, str]] = []
        self.on_permit: Callable[[Asked], None] = lambda asked: None
        self.on_ask: Callable[[Sequence[Question]], Sequence[QuestionResponse | None]] = lambda questions: [
            None
        ]
        self.on_delegate: Callable[[str], str] = lambda prompt: f"answer to {prompt}"
        self.tools: dict[str, Tool] = builtin_tools()

    def connect(self, fetcher: Callable[[Places], Fetcher]) -> None:
        self.net = Web(lambda: self.limits, self._processes, search=lambda: self.search, fetcher=fetcher)

    async def call(self, name: str, **arguments: Any) -> Outcome:
        """Run a tool as the engine does: a failure is a result."""
        tool = self.tools[name]
        try:
            return await tool.run(msgspec.convert(arguments, tool.params, strict=False), self)
        except ToolFailed as exc:
            return Outcome(content=exc.message, is_error=True)

    def resolve(self, path: str) -> Path:
        return paths.resolve(self.root, path)

    def is_inside(self, path: Path) -> bool:
        return paths.is_below(paths.real(self.root), path)

    async def permit(
        self, action: str, *, description: str, params: Any, path: Path, reach: Reach = NOTHING
    ) -> None:
        asked = Asked(action, params, path, description, reach)
        if reach.is_read:
            return
        self.asked.append(asked)
        self.on_permit(asked)

    def show_output(self, offset: int, text: str) -> None:
        self.shown.append((offset, text))
        self._was_shown.set()
        self._was_shown = anyio.Event()

    async def has_shown(self, count: int) -> None:
        """Until so many pieces of output were shown."""
        while len(self.shown) < count:
            await self._was_shown.wait()

    async def keeps_from(self, action: str) -> Callable[[Path], bool] | None:
        return self.kept_from

    async def ask(
        self, questions: Sequence[Question], *, confirm_title: str = "", confirm_description: str = ""
    ) -> Sequence[QuestionResponse | None]:
        self.batches.append((questions, confirm_title, confirm_description))
        return self.on_ask(questions)

    async def replace_todos(self, todos: Sequence[Todo]) -> Sequence[Todo]:
        before, self.todos = self.todos, tuple(todos)
        return before

    async def delegate(self, prompt: str, agent: str = "", *, errand: Errand | None = None) -> str:
        self.sent = errand
        return self.on_delegate(prompt)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The workspace; beside it is what lies outside."""
    (tmp_path / "work").mkdir()
    (tmp_path / "outside").mkdir()
    return tmp_path / "work"


@pytest.fixture
async def bench(root: Path) -> AsyncIterator[Bench]:
    env = tool_environment({"PATH": os.environ["PATH"]}, ())
    async with Processes() as processes:
        sandbox = Sandbox(root)
        jobs = Jobs(env, processes, sandbox=sandbox)
        yield Bench(root, jobs, processes, sandbox)
        await jobs.close()


@pytest.fixture
def online(bench: Bench, world: World, trust: ssl.SSLContext) -> Bench:
    """The same, in a small internet."""
    bench.connect(lambda allowed: Fetcher(world.guard(*allowed), trust=trust))
    return bench
