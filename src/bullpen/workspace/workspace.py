"""One workspace, wired together: what the endpoints call.

Methods that change something return after the commit. `open_workspace` is the only way to make one, and
leaving its block means: turns ended, tools dead, streams closed.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio
import msgspec
from anyio.abc import TaskGroup

from bullpen import __version__
from bullpen.asks.permission import Permissions
from bullpen.asks.question import Questions, open_asks_json
from bullpen.broker.facts import Fact
from bullpen.broker.feed import Feed
from bullpen.config import write
from bullpen.engine import queue
from bullpen.engine.runner import Runner
from bullpen.engine.services import Services
from bullpen.errors import AgentNotReady, BadRequest, GrantNotFound, WorkspaceClosing
from bullpen.mcp.servers import McpServers
from bullpen.schema import agent as nouns
from bullpen.schema.agent import (
    ZERO_TIME,
    AgentInfo,
    CatalogueProvider,
    ClientInfo,
    Model,
    QueuedPrompt,
    SelectedModel,
    SkillInfo,
    rfc3339,
)
from bullpen.schema.api import (
    ConfigCompact,
    ConfigModel,
    ConfigRemove,
    ConfigSet,
    Dropped,
    ImportedToken,
    NewPrompt,
    PermissionAnswer,
    PromptAccepted,
    ProviderKey,
    QuestionAnswer,
    QueueEdit,
    RefreshOauth,
    SessionChange,
    ShellDone,
    ShellRun,
    SkillContent,
)
from bullpen.schema.asks import Grant
from bullpen.schema.events import KINDS, ConfigChanged
from bullpen.schema.session import HistoryItem, SearchHit, Session
from bullpen.schema.wire import Wire, encode
from bullpen.store import asks, files, log, messages, prompts, search, sessions
from bullpen.store.prompts import NewRow
from bullpen.store.store import Store
from bullpen.store.tx import Tx, Work
from bullpen.system.environment import tool_environment
from bullpen.system.failpoints import hit
from bullpen.system.jobs import Jobs
from bullpen.workspace.claims import Claims
from bullpen.workspace.configuration import Configuration
from bullpen.workspace.opening import Opening, Surroundings
from bullpen.workspace.outside import OutsideServers
from bullpen.workspace.shell import Shell
from bullpen.workspace.trail import Trail

T = TypeVar("T")


class Workspace:
    """Everything a client can do below `/workspaces/{id}`."""

    def __init__(
        self,
        opening: Opening,
        surroundings: Surroundings,
        store: Store,
        feed: Feed,
        tasks: TaskGroup,
        claims: Claims,
    ) -> None:
        self.id = opening.id
        self.claims = claims
        self.outlive = False
        self.is_closing = False
        self.channels = opening.channels
        self._opening = opening
        self._with = surroundings
        self._store = store
        self._feed = feed
        self._tasks = tasks
        self._tool_env: dict[str, str] = {}
        """What commands and outside servers see; follows the configuration."""
        self._mcp = McpServers(root=opening.root, env=self._tool_env, announce=self._announce)
        self.outside = OutsideServers(self._mcp)
        self._configuration = Configuration(
            workspace=opening.id,
            root=opening.root,
            data_dir=store.directory,
            env=opening.env,
            trusted=surroundings.trusted,
            tools=surroundings.tools,
            make_provider=surroundings.make_provider,
            processes=surroundings.processes,
            mcp=self._mcp,
        )
        self._permissions = Permissions(
            store, opening.id, skip=opening.yolo, allowed=lambda: self._configuration.settings.allowed_tools
        )
        self._questions = Questions(store, opening.id)
        self._jobs = Jobs(self._tool_env, surroundings.processes)
        self._shell = Shell(store, opening.id, opening.root, self._jobs, tasks)
        self._runner = Runner(
            Services(
                store=store,
                workspace=opening.id,
                root=opening.root,
                clock=surroundings.clock,
                jitter=random.random,
                agent=lambda: self._configuration.agent,
                permissions=self._permissions,
                questions=self._questions,
                jobs=self._jobs,
                tally=surroundings.tally,
            ),
            tasks,
        )

    async def start(self) -> None:
        """Read the configuration and take up what was left to do."""
        await self._configuration.reload()
        await self._follow_configuration()

    async def end_turns(self, *, drop_queue: bool) -> None:
        """Take no more prompts and store every turn's end, while everybody can still see it."""
        self.is_closing = True
        await self._runner.close(drop_queue=drop_queue)

    async def close(self) -> None:
        """End commands, outside servers and streams, each whatever became of the one before."""
        self.is_closing = True
        async with AsyncExitStack() as stack:
            stack.callback(self._store.close_feed, self.id)
            stack.callback(self.claims.close)
            stack.push_async_callback(self._mcp.close)
            await self._jobs.close()

    async def has_work(self) -> bool:
        """Whether a turn, a queue or a job is unfinished."""
        if self._jobs.running() or not self._runner.is_idle:
            return True
        return await self._read(lambda tx: prompts.any_unfinished(tx, self.id))

    # Presence and stream

    @property
    def cursor(self) -> str:
        return self._feed.cursor

    def trail(self, *, deltas: bool, after: str | None) -> Trail:
        return Trail(self._store, self.id, self._feed, deltas=deltas, after=after)

    def clients(self) -> list[ClientInfo]:
        return self.claims.clients()

    def set_current_session(self, client_id: str, session_id: str) -> None:
        self.claims.look_at(client_id, session_id)

    async def announce_session(self, session_id: str) -> None:
        """Tell everybody who looks at the session now."""
        await self._write(lambda tx: sessions.announce(tx, self.id, session_id), durable=False)

    # The workspace itself

    def describe(self) -> nouns.Workspace:
        settings = self._configuration.settings
        return nouns.Workspace(
            id=self.id,
            path=self._opening.path,
            yolo=self._permissions.skip,
            debug=self._opening.debug,
            data_dir=str(self._store.directory),
            version=__version__,
            config=self._configuration.shown(),
            channels=self._opening.channels,
            skills=self._configuration.skill_states(),
            trusted=settings.trusted,
            outlive=self.outlive,
            untrusted_settings=settings.untrusted,
            warnings=(*settings.problems, *settings.warnings),
        )

    def config(self) -> dict[str, Any]:
        return self._configuration.shown()

    def providers(self) -> list[CatalogueProvider]:
        return list(self._configuration.settings.offers)

    async def needs_init(self) -> bool:
        return await self._configuration.needs_init()

    async def mark_initialized(self) -> None:
        await self._configuration.mark_initialized()
        await self._config_changed()

    def init_prompt(self) -> str:
        return self._configuration.init_prompt()

    def skills(self) -> list[SkillInfo]:
        return self._configuration.skills()

    async def read_skill(self, skill_id: str) -> SkillContent:
        return await self._configuration.read_skill(skill_id)

    # Sessions and messages

    async def sessions(self) -> list[Session]:
        return [self._seen_now(s) for s in await self._read(lambda tx: sessions.top_level(tx, self.id))]

    async def create_session(self, title: str) -> Session:
        session = await self._write(lambda tx: sessions.create(tx, self.id, str(uuid.uuid4()), title))
        hit("session-created")
        return session

    async def session(self, session_id: str) -> Session:
        return self._seen_now(await self._read(lambda tx: sessions.get(tx, self.id, session_id)))

    async def change_session(self, session_id: str, change: SessionChange) -> Session:
        """Title and todos; todos only while the agent, which keeps them too, is not at work."""

        async def work(tx: Tx) -> Session:
            busy = (await sessions.get(tx, self.id, session_id)).is_busy
            todos = None if busy else change.todos
            return await sessions.change(tx, self.id, session_id, title=change.title, todos=todos)

        session = await self._write(work)
        hit("session-changed")
        return session

    async def delete_session(self, session_id: str) -> None:
        await self._runner.delete_session(session_id)

    async def messages(self, session_id: str, *, limit: int = 0, before: str = "") -> bytes:
        if not limit:
            return await self._read(lambda tx: messages.list_json(tx, self.id, session_id))
        return await self._read(lambda tx: messages.page_json(tx, self.id, session_id, limit, before))

    async def user_messages(self, session_id: str | None) -> bytes:
        return await self._read(lambda tx: messages.user_json(tx, self.id, session_id))

    async def search(self, query: str, limit: int) -> list[SearchHit]:
        return await self._read(lambda tx: search.find(tx, self.id, query, limit))

    async def history(self, session_id: str) -> list[HistoryItem]:
        return await self._read(lambda tx: files.history(tx, self.id, session_id))

    async def read_files(self, session_id: str) -> list[str]:
        return await self._read(lambda tx: files.read_paths(tx, self.id, session_id))

    async def mark_read(self, session_id: str, path: str) -> None:
        absolute, at = str(self._opening.root / path), self._with.clock.time()

        async def work(tx: Tx) -> None:
            if await sessions.exists(tx, self.id, session_id):
                await files.mark_read(tx, self.id, session_id, absolute, at)

        await self._write(work)

    async def last_read(self, session_id: str, path: str) -> str:
        absolute = str(self._opening.root / path)
        at = await self._read(lambda tx: files.read_at(tx, self.id, session_id, absolute))
        return ZERO_TIME if at is None else rfc3339(int(at))

    # The agent

    async def agent_info(self) -> AgentInfo:
        settings = self._configuration.settings
        busy = await self._read(lambda tx: prompts.any_unfinished(tx, self.id))
        if settings.large is None or not settings.is_ready:
            return AgentInfo(is_busy=busy, is_ready=False, model=Model(), model_cfg=SelectedModel())
        model = settings.model_of(settings.large)
        return AgentInfo(is_busy=busy, is_ready=True, model=model, model_cfg=settings.large)

    async def init_agent(self, interactive: bool) -> None:
        """Read the configuration again. `interactive` is a matter of each prompt, not of the workspace."""
        del interactive
        await self._configuration.reload()
        await self._follow_configuration()
        if not self._configuration.settings.is_ready:
            raise AgentNotReady

    async def update_agent(self) -> None:
        await self.init_agent(interactive=True)

    def default_small_model(self, provider_id: str) -> SelectedModel:
        return self._configuration.settings.default_small(provider_id)

    async def accept(self, body: NewPrompt, *, idempotency_key: str, author: str) -> PromptAccepted:
        """Once this returns, the prompt survives whatever happens."""
        if not self._configuration.settings.is_ready:
            raise AgentNotReady
        if not body.prompt and not any(a.mime_type.startswith("text/") for a in body.attachments):
            raise BadRequest("prompt is empty")
        if not body.session_id:
            raise BadRequest("session id is missing")
        run_id = await self._runner.accept(
            NewRow(
                session=body.session_id,
                text=body.prompt,
                run_id=body.run_id or str(uuid.uuid4()),
                own_run_id=bool(body.run_id),
                author=author,
                idempotency_key=idempotency_key,
                permissions=body.permissions or "ask",
                interactive=body.interactive,
                attachments=body.attachments,
            )
        )
        return PromptAccepted(run_id=run_id)

    async def agent_session(self, session_id: str) -> Session:
        """Only id, title and busy are filled; an unknown session is an idle one without a title."""

        async def work(tx: Tx) -> tuple[str, bool]:
            if not await sessions.exists(tx, self.id, session_id):
                return "", False
            session = await sessions.get(tx, self.id, session_id)
            return session.title, session.is_busy

        title, busy = await self._read(work)
        return Session(
            id=session_id,
            parent_session_id="",
            title=title,
            message_count=0,
            prompt_tokens=0,
            completion_tokens=0,
            summary_message_id="",
            cost=0,
            created_at=0,
            updated_at=0,
            is_busy=busy,
            attached_clients=0,
        )

    async def cancel(self, session_id: str) -> Dropped:
        return Dropped(dropped=(await self._runner.cancel(session_id)).dropped)

    async def queue(self, session_id: str) -> list[QueuedPrompt]:
        return await self._read(lambda tx: queue.listed(tx, self.id, session_id))

    async def clear_queue(self, session_id: str) -> Dropped:
        return Dropped(dropped=await self._write(lambda tx: queue.clear(tx, self.id, session_id)))

    async def edit_queued(self, session_id: str, seq: int, change: QueueEdit) -> QueuedPrompt:
        if change.prompt is not None and not change.prompt:
            raise BadRequest("prompt is empty")
        edited = await self._write(lambda tx: queue.edit(tx, self.id, session_id, seq, change))
        hit("queue-edited")
        return edited

    async def withdraw(self, session_id: str, seq: int) -> None:
        await self._write(lambda tx: queue.withdraw(tx, self.id, session_id, seq))
        hit("queue-withdrawn")

    async def summarize(self, session_id: str) -> None:
        if not self._configuration.settings.is_ready:
            raise AgentNotReady
        await self._runner.summarize(session_id)

    async def shell(self, session_id: str, body: ShellRun) -> ShellDone:
        """A command typed by a person; carried through and stored even when its caller leaves."""
        if self.is_closing:
            raise WorkspaceClosing
        return await self._shell.run(session_id, body.command)

    # Asks

    async def grant(self, answer: PermissionAnswer, by: str) -> bool:
        return await self._permissions.grant(answer, by)

    def skip(self) -> bool:
        return self._permissions.skip

    async def set_skip(self, skip: bool) -> None:
        self._permissions.skip = skip
        await self._config_changed()

    async def grants(self) -> list[Grant]:
        return await self._read(lambda tx: asks.grants(tx, self.id))

    async def revoke(self, grant_id: str) -> None:
        if not await self._write(lambda tx: asks.revoke(tx, self.id, grant_id)):
            raise GrantNotFound(grant_id)

    async def asks(self) -> bytes:
        return open_asks_json(await self._read(lambda tx: asks.all_open(tx, self.id)))

    async def answer_questions(self, answer: QuestionAnswer, by: str) -> bool:
        return await self._questions.answer(answer, by)

    async def cancel_questions(self, batch_id: str, by: str) -> bool:
        return await self._questions.cancel(batch_id, by)

    # Configuration

    async def config_set(self, body: ConfigSet) -> None:
        await self._configure(body.scope, lambda file: write.set_value(file, body.key, body.value))

    async def config_remove(self, body: ConfigRemove) -> None:
        await self._configuration.remove(body.scope, body.key)
        await self._follow_configuration()
        await self._config_changed()

    async def config_model(self, body: ConfigModel) -> None:
        await self._configure(body.scope, lambda file: write.select_model(file, body.model_type, body.model))

    async def config_compact(self, body: ConfigCompact) -> None:
        await self._configure(body.scope, lambda file: write.set_compact(file, body.enabled))

    async def provider_key(self, body: ProviderKey) -> None:
        await self._configure(
            body.scope, lambda file: write.set_provider_key(file, body.provider_id, body.kind, body.api_key)
        )

    async def import_copilot(self) -> ImportedToken:
        """There is no login here that a token could be imported from."""
        return ImportedToken(token=None, success=False)

    async def refresh_oauth(self, body: RefreshOauth) -> None:
        raise BadRequest(f"provider {body.provider_id!r} has no OAuth login to refresh")

    # Inside

    async def _follow_configuration(self) -> None:
        """Take the configuration up: outside servers follow it, and what waits for a model may run."""
        settings = self._configuration.settings
        self._tool_env.clear()
        self._tool_env |= tool_environment({**self._opening.env, **settings.env}, settings.secret_names)
        await self._mcp.reconcile(settings.mcp, settings.mcp_errors, self._tasks)
        if settings.is_ready:
            await self._runner.resume()

    async def _configure(self, scope: int, write_to: Callable[[Path], write.Layer]) -> None:
        await self._configuration.change(scope, write_to)
        await self._follow_configuration()
        await self._config_changed()

    async def _config_changed(self) -> None:
        changed = ConfigChanged(workspace_id=self.id)
        await self._write(lambda tx: log.append(tx, self.id, changed, "updated", key="config", keep="latest"))

    def _seen_now(self, session: Session) -> Session:
        """Who looks at a session is not stored, and may have changed while it was read."""
        return msgspec.structs.replace(session, attached_clients=self.claims.attached_to(session.id))

    def _announce(self, payload: Wire) -> None:
        """Publish something that is only true now."""
        if not self.is_closing:
            self._store.publish([Fact(self.id, KINDS[type(payload)], "updated", "", encode(payload))])

    async def _read(self, work: Work[T]) -> T:
        return await self._store.read(work)

    async def _write(self, work: Work[T], *, durable: bool = True) -> T:
        return await self._store.write(work, durable=durable)


@asynccontextmanager
async def open_workspace(
    opening: Opening, surroundings: Surroundings, store: Store, claims: Callable[[], Claims]
) -> AsyncIterator[Workspace]:
    """A live workspace; whoever leaves the block has called `end_turns` before, unless something broke."""
    feed = await store.open_feed(opening.id, str(opening.root))
    async with anyio.create_task_group() as tasks:
        workspace = Workspace(opening, surroundings, store, feed, tasks, claims())
        try:
            await workspace.start()
            yield workspace
        finally:
            with anyio.CancelScope(shield=True):
                await workspace.close()
            tasks.cancel_scope.cancel()
