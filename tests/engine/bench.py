"""An engine on a real database, with a model that the test plays and tools that the test holds.

Nothing of ours is replaced: `open_store`, `Runner`, `Permissions`, `Trail` are the product's. The test plays what
lies outside: the model (`Puppet`), the world (`Gate`, a tool that waits) and the people.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import anyio
import msgspec

from bullpen.asks.permission import Permissions
from bullpen.asks.question import Questions
from bullpen.config.agents import SubAgent
from bullpen.config.catalogue import TOUR_ONLY
from bullpen.config.settings import ProviderSettings, Settings
from bullpen.config.shape import Options
from bullpen.engine import queue
from bullpen.engine.choices import Choices
from bullpen.engine.hook_points import HookPoints
from bullpen.engine.hooks import Hooks
from bullpen.engine.recovery import recover
from bullpen.engine.retry import Waits
from bullpen.engine.runner import Runner
from bullpen.engine.services import Services
from bullpen.errors import ProviderError, ToolFailed
from bullpen.files.tracking import Tracking
from bullpen.files.walk import Limits
from bullpen.lsp.servers import LspServers
from bullpen.net.web import Web
from bullpen.providers.base import (
    LoginBegun,
    LoginEnded,
    ModelEvent,
    ModelRequest,
    Native,
    Provider,
    ReasoningDelta,
    ReasoningDone,
    StepDone,
    TextDelta,
    ToolCallDone,
    ToolCallStarted,
    Usage,
)
from bullpen.schema.agent import Model, SelectedModel
from bullpen.schema.api import GrantedPermission, PermissionAnswer
from bullpen.schema.asks import PermissionRequest, Question, Rule
from bullpen.schema.events import CLASSES, RunComplete
from bullpen.schema.message import FinishReason, Message, decode_message
from bullpen.schema.session import Session
from bullpen.store import log, messages, rules, sessions
from bullpen.store.prompts import NewRow
from bullpen.store.store import DATABASE_NAME, Store, open_store
from bullpen.store.tx import Tx, Work
from bullpen.system.clock import Clock, SystemClock
from bullpen.system.git import Snapshot
from bullpen.system.jobs import Jobs
from bullpen.system.processes import Processes
from bullpen.tools.base import Outcome, Section, Tool, ToolContext, tool
from bullpen.workspace.trail import Trail

T = TypeVar("T")

WORKSPACE = "w1"
SESSION = "s1"
TITLE = "Chosen by a person"

PATIENCE_S = float(os.environ.get("BULLPEN_PATIENCE", "20"))
"""How long a test waits for something that is certain to come: long enough for a loaded machine."""


# The model


class Answering:
    """One step that the engine has asked the model for; the test says it word by word."""

    def __init__(self, request: ModelRequest) -> None:
        self.request = request
        self.closed = asyncio.Event()
        self._said: asyncio.Queue[ModelEvent | BaseException] = asyncio.Queue()

    def say(self, text: str) -> None:
        self._said.put_nowait(TextDelta(text))

    def think(self, text: str) -> None:
        self._said.put_nowait(ReasoningDelta(text))

    def stop_thinking(self, signature: str = "") -> None:
        self._said.put_nowait(ReasoningDone(signature))

    def begin_call(self, call_id: str, name: str) -> None:
        self._said.put_nowait(ToolCallStarted(call_id, name))

    def call(self, call_id: str, name: str, arguments: str = "{}") -> None:
        self.begin_call(call_id, name)
        self._said.put_nowait(ToolCallDone(call_id, name, arguments))

    def finish(
        self,
        text: str = "",
        *,
        reason: FinishReason = "end_turn",
        usage: Usage | None = None,
        native: Native | None = None,
    ) -> None:
        if text:
            self.say(text)
        self._said.put_nowait(StepDone(reason, usage or Usage(input=3, output=5), native))

    def log_in(self, step: LoginBegun | LoginEnded) -> None:
        self._said.put_nowait(step)

    def fail(self, error: BaseException | None = None) -> None:
        self._said.put_nowait(error or ProviderError("no answer", title="Down"))

    async def events(self) -> AsyncIterator[ModelEvent]:
        try:
            while True:
                event = await self._said.get()
                if isinstance(event, BaseException):
                    raise event
                yield event
                if isinstance(event, StepDone):
                    return
        finally:
            self.closed.set()


class Puppet:
    """A provider whose answers the test gives. Titles answer by themselves unless `title` is None."""

    def __init__(self) -> None:
        self.title: str | BaseException | None = "A title"
        self.asked: asyncio.Queue[Answering] = asyncio.Queue()
        self.titles: asyncio.Queue[Answering] = asyncio.Queue()

    async def next(self) -> Answering:
        """The next step that the engine asks for."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.asked.get()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        answering = Answering(request)
        if request.purpose == "title":
            self.titles.put_nowait(answering)
            if isinstance(self.title, BaseException):
                answering.fail(self.title)
            elif self.title is not None:
                answering.finish(self.title)
        else:
            self.asked.put_nowait(answering)
        async for event in answering.events():
            yield event


# The world


class Gate:
    """A place where a tool waits for the test."""

    def __init__(self) -> None:
        self._entered: asyncio.Queue[str] = asyncio.Queue()
        self.left: list[str] = []
        self._open: dict[str, asyncio.Event] = {}
        self.effects: list[str] = []

    async def wait(self, name: str) -> None:
        opened = self._open.setdefault(name, asyncio.Event())
        self._entered.put_nowait(name)
        try:
            await opened.wait()
        finally:
            self.left.append(name)

    async def entered(self) -> str:
        """The next tool that has come to wait."""
        async with asyncio.timeout(PATIENCE_S):
            return await self._entered.get()

    def open_all(self) -> None:
        for opened in self._open.values():
            opened.set()

    def open(self, name: str) -> None:
        self._open.setdefault(name, asyncio.Event()).set()


class Named(msgspec.Struct, frozen=True):
    name: str = ""


class Task(msgspec.Struct, frozen=True):
    prompt: str = ""


def bench_tools(gate: Gate) -> dict[str, Tool]:
    """`act` asks and then has an effect; `hold` waits at the gate; `look` too, beside others; and so on."""

    @tool("act", "Change the world.")
    async def act(params: Named, ctx: ToolContext) -> Outcome:
        await ctx.permit(
            "write", description=f"act {params.name}", params={"name": params.name}, path=ctx.root
        )
        gate.effects.append(params.name)
        return Outcome(content=f"did {params.name}")

    @tool("act_slowly", "Change the world and take long.")
    async def act_slowly(params: Named, ctx: ToolContext) -> Outcome:
        await ctx.permit("write", description="slowly", params={"name": params.name}, path=ctx.root)
        gate.effects.append(params.name)
        await gate.wait(params.name)
        return Outcome(content=f"did {params.name}")

    @tool("hold", "Wait.", effects=False)
    async def hold(params: Named, ctx: ToolContext) -> Outcome:
        await gate.wait(params.name)
        return Outcome(content=f"held {params.name}")

    @tool("look", "Wait beside others.", effects=False, parallel=True, task=True)
    async def look(params: Named, ctx: ToolContext) -> Outcome:
        await gate.wait(params.name)
        return Outcome(content=f"saw {params.name}")

    @tool("echo", "Say it back.", effects=False, task=True)
    async def echo(params: Named, ctx: ToolContext) -> Outcome:
        return Outcome(content=params.name)

    @tool("fail", "Fail for a reason.", effects=False)
    async def fail(params: Named, ctx: ToolContext) -> Outcome:
        raise ToolFailed(f"no {params.name}")

    @tool("burst", "Fail without a reason.", effects=False)
    async def burst(params: Named, ctx: ToolContext) -> Outcome:
        raise ValueError(params.name)

    @tool("lose_itself", "End as if it had been cancelled.", effects=False)
    async def lose_itself(params: Named, ctx: ToolContext) -> Outcome:
        raise asyncio.CancelledError

    @tool("linger", "Wait, and take no notice of a cancel.", effects=False)
    async def linger(params: Named, ctx: ToolContext) -> Outcome:
        with anyio.CancelScope(shield=True):
            await gate.wait(params.name)
        return Outcome(content=f"lingered {params.name}")

    @tool("wonder", "Ask a person.", effects=False, interactive=True)
    async def wonder(params: Named, ctx: ToolContext) -> Outcome:
        question = Question(id="q1", type="free_text", question=params.name, description="?")
        responses = await ctx.ask([question])
        return Outcome(content=" ".join(r.fill_in_text if r else "(none)" for r in responses))

    @tool("send", "Send a sub-agent.", effects=False, parallel=True)
    async def send(params: Task, ctx: ToolContext) -> Outcome:
        return Outcome(content=await ctx.delegate(params.prompt))

    found = (act, act_slowly, hold, look, echo, fail, burst, lose_itself, linger, wonder, send)
    return {t.name: t for t in found}


# What a workspace would put together


class Nothing:
    """A server of which nothing is known."""

    async def configuration(self) -> Sequence[Section]:
        return ()

    def log(self, most: int) -> Sequence[str]:
        return ()


def settings_of(**changes: Any) -> Settings:
    model = Model(id="puppet-1", name="Puppet", context_window=1000, cost_per_1m_in=1.0, cost_per_1m_out=2.0)
    chosen = SelectedModel(model="puppet-1", provider="puppet")
    fields: dict[str, Any] = {
        "raw": {},
        "providers": {"puppet": ProviderSettings(id="puppet", type="puppet", models=(model,))},
        "large": chosen,
        "small": chosen,
        "options": Options(),
        "allowed_tools": (),
        "hooks": {},
        "mcp": {},
        "mcp_errors": {},
        "lsp": {},
        "tool_limits": {},
        "env": {},
        "secret_names": frozenset(),
        "warnings": (),
        "problems": (),
        "untrusted": (),
        "fingerprint": "",
        "trusted": True,
        "catalogue": TOUR_ONLY,
        "keys_found": (),
        "unlisted": {},
    }
    return Settings(**(fields | changes))


class BenchAgent:
    """The configuration as a turn sees it."""

    def __init__(self, puppet: Puppet, tools: Mapping[str, Tool], root: Path, processes: Processes) -> None:
        self.settings = settings_of()
        self.hooks = Hooks({}, root=root, env={}, processes=processes)
        self.skill_dirs: Sequence[Path] = ()
        self.sub_agents: dict[str, SubAgent] = {"": SubAgent()}
        self.on_prepare: Callable[[], Awaitable[None]] | None = None
        self.on_provider: Callable[[], None] = lambda: None
        self.snapshot: Snapshot | None = None
        self.more_tools: dict[str, Tool] = {}
        self._puppet = puppet
        self._tools = tools

    async def provider(self, provider_id: str) -> Provider:
        self.on_provider()
        return self._puppet

    def tools(self) -> Mapping[str, Tool]:
        return {**self._tools, **self.more_tools}

    async def prepare(self, *, interactive: bool) -> None:
        if self.on_prepare is not None:
            await self.on_prepare()

    async def system_prompt(self) -> str:
        return "You are a puppet."

    async def work_tree(self) -> Snapshot | None:
        return self.snapshot

    def sub_agent(self, name: str) -> SubAgent:
        return self.sub_agents[name]

    async def task_prompt(self, agent: SubAgent) -> str:
        return "You are a small puppet."


class Seen(NamedTuple):
    """An event as a client reads it off its stream."""

    id: str
    kind: str
    action: str
    payload: Any

    @property
    def seq(self) -> int:
        """The durable number, 0 for what is not in the log."""
        number = self.id.rpartition("-")[2]
        return int(number) if "." not in number else 0


class _Inner(msgspec.Struct):
    type: str
    payload: msgspec.Raw


class _Outer(msgspec.Struct):
    type: str
    payload: _Inner


def read_frames(data: bytes) -> list[Seen]:
    seen = []
    for block in data.split(b"\n\n"):
        if not block or block.startswith(b":"):
            continue
        head, _, body = block.partition(b"\n")
        outer = msgspec.json.decode(body.removeprefix(b"data: "), type=_Outer)
        payload = msgspec.json.decode(outer.payload.payload, type=CLASSES[outer.type])
        seen.append(Seen(head.removeprefix(b"id: ").decode(), outer.type, outer.payload.type, payload))
    return seen


class Watcher:
    """A client that reads its stream whenever it is asked for something."""

    def __init__(self, trail: Trail) -> None:
        self.trail = trail
        self.seen: list[Seen] = []
        self._begun = False
        self._looked_at = 0

    async def read(self) -> None:
        """Take in what is there now."""
        if not self._begun:
            self._begun = True
            async for piece in self.trail.begin():
                self.seen += read_frames(piece)
        self.trail.subscription.wake.clear()
        async for piece in self.trail.follow():
            self.seen += read_frames(piece)

    async def until(
        self, kind: str, wanted: Callable[[Any], bool] = lambda payload: True, action: str = ""
    ) -> Any:
        """The payload of the next event of that kind; a later call goes on behind it."""
        while True:
            await self.read()
            for n in range(self._looked_at, len(self.seen)):
                event = self.seen[n]
                if event.kind == kind and action in ("", event.action) and wanted(event.payload):
                    self._looked_at = n + 1
                    return event.payload
            if self.trail.subscription.closed:
                raise AssertionError(f"the stream ended before a {kind}")
            async with asyncio.timeout(PATIENCE_S):
                await self.trail.subscription.wake.wait()

    async def run_complete(self, run_id: str = "") -> RunComplete:
        done: RunComplete = await self.until("run_complete", lambda p: run_id in ("", p.run_id))
        return done

    def close(self) -> None:
        self.trail.close()

    @property
    def durable(self) -> list[Seen]:
        return [event for event in self.seen if event.seq]


class Bench:
    """One workspace's engine."""

    def __init__(self, store: Store, root: Path, services: Services, agent: BenchAgent) -> None:
        self.store = store
        self.root = root
        self.services = services
        self.agent = agent
        self.puppet: Puppet
        self.gate: Gate
        self.runner: Runner
        self.watcher: Watcher

    # People

    def watch(self, *, deltas: bool = False, after: str | None = None) -> Watcher:
        return Watcher(Trail(self.store, WORKSPACE, self.store.feeds[WORKSPACE], deltas=deltas, after=after))

    async def session(self, session_id: str = SESSION, title: str = TITLE) -> Session:
        return await self.store.write(lambda tx: sessions.create(tx, WORKSPACE, session_id, title))

    async def prompt(self, text: str, *, run_id: str = "", session: str = SESSION, **more: Any) -> str:
        """A prompt with the caller's run id, or with one of ours (then it may be folded)."""
        own = bool(run_id)
        row = NewRow(session=session, text=text, run_id=run_id or f"auto-{text}", own_run_id=own, **more)
        return await self.runner.accept(row)

    async def ask_and_hear(self, text: str, answer: str, *, run_id: str = "") -> RunComplete:
        """A whole small turn."""
        run_id = await self.prompt(text, run_id=run_id)
        (await self.puppet.next()).finish(answer)
        return await self.watcher.run_complete(run_id)

    async def grant(self, request: PermissionRequest, action: str = "allow", by: str = "ana") -> bool:
        return await self.services.permissions.grant(answer_to(request, action), by)

    # What is stored

    async def read(self, work: Work[T]) -> T:
        return await self.store.read(work)

    async def write(self, work: Work[T], *, durable: bool = True) -> T:
        return await self.store.write(work, durable=durable)

    async def messages(self, session: str = SESSION) -> list[Message]:
        return await self.read(lambda tx: messages.of_session(tx, WORKSPACE, session))

    async def rows(self, session: str = SESSION) -> list[tuple[Any, ...]]:
        """The conversation in short: see `short`."""
        return [short(m) for m in await self.messages(session)]

    async def read_rules(self) -> list[Rule]:
        return await self.read(lambda tx: rules.in_force(tx, WORKSPACE))

    async def open_messages(self) -> list[Message]:
        found = await self.sql("SELECT body FROM messages WHERE finished = 0")
        return [decode_message(row[0]) for row in found]

    async def states(self) -> dict[str, str]:
        return dict(await self.sql("SELECT run_id, state FROM prompts ORDER BY seq"))

    async def queue(self, session: str = SESSION) -> list[str]:
        listed = await self.read(lambda tx: queue.listed(tx, WORKSPACE, session))
        return [p.text for p in listed]

    async def seq_of(self, run_id: str) -> int:
        return int((await self.sql("SELECT seq FROM prompts WHERE run_id = $1", run_id))[0][0])

    async def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return await self.read(lambda tx: _rows(tx, statement, *values))

    async def logged(self, after: int = 0) -> list[tuple[str, ...]]:
        """The log in short, from a number on."""
        page = await self.read(lambda tx: log.read_page(tx, WORKSPACE, after))
        return [told(Seen(f"e-{e.seq}", e.kind, e.action, _payload(e.kind, e.body))) for e in page.events]

    async def refuse_writes(self, refuse: bool) -> None:
        """Let the database behave as on a disk that takes nothing more, or mend it."""

        async def work(tx: Tx) -> None:
            for table in ("events", "chunks", "prompts"):
                if refuse:
                    await tx.run(
                        f"""CREATE TEMP TRIGGER refuse_{table} BEFORE INSERT ON main.{table}
                            BEGIN SELECT RAISE(ABORT, 'the disk takes nothing'); END"""
                    )
                else:
                    await tx.run(f"DROP TRIGGER IF EXISTS refuse_{table}")

        await self.store.write(work, durable=False)

    async def settled(self) -> None:
        """Until no session has a runner any more."""
        async with asyncio.timeout(PATIENCE_S):
            await self.runner.until_idle()

    async def crash_into(self, directory: Path) -> None:
        """Copy what a killed process would leave behind: the writer's thread copies between two commits."""

        async def copy(tx: Tx) -> None:
            directory.mkdir(parents=True)
            for name in (DATABASE_NAME, f"{DATABASE_NAME}-wal"):
                if (self.store.directory / name).exists():
                    shutil.copy(self.store.directory / name, directory / name)

        await self.store.write(copy, durable=False)


def answer_to(request: PermissionRequest, action: str, reason: str = "") -> PermissionAnswer:
    return PermissionAnswer(permission=GrantedPermission(id=request.id), action=action, reason=reason)


async def until(wanted: Callable[[], Awaitable[bool] | bool]) -> None:
    """Until something is true of which no event tells."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = wanted()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(0)


def _payload(kind: str, body: bytes) -> Any:
    return msgspec.json.decode(body, type=CLASSES[kind])


async def _rows(tx: Tx, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    return await tx.rows(statement, *values)


def short(message: Message) -> tuple[Any, ...]:
    """(role, text, [calls as id, input, finished], [results as id, content], finish reason)"""
    calls = [(c.id, c.input, c.finished) for c in message.tool_calls]
    results = [(r.tool_call_id, r.content) for r in message.tool_results]
    finish = message.finish
    return (message.role, message.text, calls, results, finish.reason if finish else None)


def told(event: Seen) -> tuple[str, ...]:
    """An event in a few words, enough to compare a whole sequence."""
    payload = event.payload
    match event.kind:
        case "message":
            finish = payload.finish
            return (event.kind, event.action, payload.role, finish.reason if finish else "")
        case "run_complete":
            how = "cancelled" if payload.cancelled else "error" if payload.error else "done"
            return (event.kind, payload.run_id, how)
        case "permission_notification":
            how = "granted" if payload.granted else "denied" if payload.denied else "asked"
            return (event.kind, how)
        case "queue_changed":
            return (event.kind, *(p.text for p in payload.prompts))
        case "agent_event":
            return (event.kind, payload.type)
        case _:
            return (event.kind, event.action)


@asynccontextmanager
async def open_bench(
    directory: Path,
    *,
    puppet: Puppet | None = None,
    gate: Gate | None = None,
    skip: bool = False,
    resume: bool = True,
    vfs: str = "",
    net: Callable[[Processes], Web] = lambda processes: Web(dict, processes),
    env: Mapping[str, str] | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[Bench]:
    """An engine on `directory`; what was left to do there is taken up as after a restart."""
    root = directory / "root"
    root.mkdir(parents=True, exist_ok=True)
    puppet, gate = puppet or Puppet(), gate or Gate()
    clock = clock or SystemClock()
    async with (
        Processes() as processes,
        open_store(directory, clock=clock, attached=lambda workspace, session: 0, vfs=vfs) as store,
        anyio.create_task_group() as tasks,
    ):
        await recover(store)
        await store.open_feed(WORKSPACE, str(root))
        agent = BenchAgent(puppet, bench_tools(gate), root, processes)
        tracking = Tracking(store, WORKSPACE, root, tasks, limits=Limits, running=lambda: 0)
        services = Services(
            store=store,
            workspace=WORKSPACE,
            root=root,
            clock=clock,
            jitter=lambda: 0.0,
            agent=lambda: agent,
            permissions=Permissions(
                store, WORKSPACE, skip=skip, allowed=lambda: agent.settings.allowed_tools
            ),
            questions=Questions(store, WORKSPACE),
            jobs=Jobs(dict(env or {}), processes),
            net=net(processes),
            about=Nothing(),
            tracking=tracking,
            lsp=LspServers(root=root, env={}, announce=lambda event: None, processes=processes),
            choices=Choices(store, WORKSPACE),
            waits=Waits(store, WORKSPACE),
            hook_points=HookPoints(store, WORKSPACE, tasks),
        )
        bench = Bench(store, root, services, agent)
        bench.puppet, bench.gate = puppet, gate
        bench.runner = Runner(services, tasks)
        bench.watcher = bench.watch()
        if resume:
            await bench.runner.resume()
        try:
            yield bench
        finally:
            gate.open_all()
            await tracking.close()
            store.close_feed(WORKSPACE)
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def summary_under_way(bench: Bench) -> AsyncIterator[Answering]:
    """Somebody waits for a summary, and the model is asked for it; leaves when they were answered."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(summarize, bench)
        yield await bench.puppet.next()


async def summarize(bench: Bench) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await bench.runner.summarize(SESSION)
