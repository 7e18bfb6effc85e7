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
from bullpen.asks.deciding import Call
from bullpen.asks.permission import Permissions, Touch
from bullpen.asks.question import Questions
from bullpen.broker.facts import Fact
from bullpen.broker.feed import Feed
from bullpen.config import write
from bullpen.config.redact import secrets_of
from bullpen.engine.choices import Choices, models_in
from bullpen.engine.hook_points import HookPoints
from bullpen.engine.retry import Waits
from bullpen.engine.runner import Runner
from bullpen.engine.services import Services
from bullpen.errors import AgentNotReady, BadRequest, WorkspaceClosing
from bullpen.files.tracking import Tracking
from bullpen.files.undoing import Undoing
from bullpen.files.walk import Limits
from bullpen.lsp.selection import Following
from bullpen.lsp.servers import LspServers
from bullpen.mcp.logins import LoginBook
from bullpen.mcp.pins import PinBook
from bullpen.mcp.servers import McpServers
from bullpen.net.web import Web
from bullpen.schema import agent as nouns
from bullpen.schema.agent import (
    AgentInfo,
    ClientInfo,
    CommandInfo,
    Model,
    SelectedModel,
    SkillInfo,
    SkillState,
)
from bullpen.schema.api import (
    CommandUse,
    ConfigCompact,
    ConfigModel,
    ConfigRemove,
    ConfigSet,
    Dropped,
    ExplainCall,
    NewPrompt,
    PermissionAnswer,
    PromptAccepted,
    PromptText,
    ProviderKey,
    QuestionAnswer,
    ShellDone,
    ShellRun,
    SkillContent,
    Woken,
)
from bullpen.schema.asks import Explanation, PermissionsSkip, Rule
from bullpen.schema.changes import TurnSummary, Undone, UndoPreview, UndoRequest
from bullpen.schema.choices import ChoicesChange, SessionChoices
from bullpen.schema.events import KINDS, Action, ConfigChanged, SkillsEvent
from bullpen.schema.wire import Wire, encode
from bullpen.store import (
    log,
    prompts,
    sessions,
)
from bullpen.store.prompts import NewRow
from bullpen.store.store import Store
from bullpen.system import paths
from bullpen.system.environment import tool_environment
from bullpen.system.jobs import Owner
from bullpen.system.shell_safety import is_known_read
from bullpen.workspace.about import About
from bullpen.workspace.browsing import Browsing
from bullpen.workspace.claims import Claims
from bullpen.workspace.commands import Commands
from bullpen.workspace.configuration import Configuration
from bullpen.workspace.library import Library
from bullpen.workspace.models import Models
from bullpen.workspace.opening import Opening, Surroundings
from bullpen.workspace.outside import OutsideServers
from bullpen.workspace.records import Records
from bullpen.workspace.shell import Shell
from bullpen.workspace.trail import Trail
from bullpen.workspace.upkeep import Upkeep

T = TypeVar("T")

NO_CALL = Call(turn=0, message_id="", mode="allow", hook_approved=False, effects=False)
"""A person does it, not the agent."""


class Workspace(Records):
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
        super().__init__(opening.id, opening.root, store, surroundings.clock, claims)
        self.outlive = False
        self.is_closing = False
        self.channels = opening.channels
        self._opening = opening
        self._with = surroundings
        self._feed = feed
        self._tasks = tasks
        self._skill_states: tuple[SkillState, ...] | None = None
        self._tool_env: dict[str, str] = {}
        """What commands and outside servers see; follows the configuration."""
        state = surroundings.trust_file.parent if surroundings.trust_file else store.directory
        pins = PinBook(state / "mcp-pins.json")
        logins = LoginBook(state / "mcp-logins.json")
        self._mcp = McpServers(
            root=opening.root, env=self._tool_env, announce=self._announce, pins=pins, logins=logins
        )
        self._lsp = LspServers(
            root=opening.root,
            env=self._tool_env,
            announce=self._announce,
            processes=surroundings.processes,
            clock=surroundings.clock,
        )
        self.outside = OutsideServers(self._mcp, self._lsp)
        self._configuration = Configuration(
            workspace=opening.id,
            root=opening.root,
            data_dir=store.directory,
            env=opening.env,
            command_env=self._tool_env,
            trusted=surroundings.trusted,
            trust_file=surroundings.trust_file,
            tools=surroundings.tools,
            make_provider=surroundings.make_provider,
            processes=surroundings.processes,
            mcp=self._mcp,
        )
        self.upkeep = Upkeep(
            self._configuration,
            surroundings.watcher,
            workspace=opening.id,
            take_up=self._follow_configuration,
            announce=self._announce_config,
        )
        self._permissions = Permissions(
            store,
            opening.id,
            skip=opening.yolo,
            allowed=lambda: self._configuration.settings.allowed_tools,
            configured=lambda: self._configuration.settings.permission_rules,
            guarded=(
                store.directory,
                pins.file,
                logins.file,
                *((surroundings.trust_file,) if surroundings.trust_file else ()),
            ),
        )
        self.models = Models(
            settings=lambda: self._configuration.settings,
            env=opening.env,
            hosts=surroundings.hosts,
            clock=surroundings.clock,
            tasks=tasks,
            changed=lambda: self.upkeep.reload(commands=False),
        )
        self._questions = Questions(store, opening.id)
        self.commands = Commands(
            opening.root,
            self._tool_env,
            surroundings.processes,
            own_places=surroundings.own_places,
            options=lambda: self._configuration.settings.options,
            announce=self._announce,
            tell=self._tell_agent,
            tasks=tasks,
        )
        self._jobs = self.commands.jobs
        self.browsing = Browsing(
            opening.root,
            self._jobs.search,
            guarded=(store.directory,),
            kept=self._kept_from_reading,
            options=lambda: self._configuration.settings.options.tui.completions,
            tasks=tasks,
        )
        self._tracking = Tracking(
            store,
            opening.id,
            opening.root,
            tasks,
            limits=self._undo_limits,
            running=self._jobs.running,
        )
        self._undoing = Undoing(self._tracking, store, opening.id, opening.root, tasks)
        self._shell = Shell(store, opening.id, opening.root, self._jobs, announce=self._announce, tasks=tasks)
        self._choices = Choices(store, opening.id)
        self.library = Library(
            store,
            opening.id,
            opening.root,
            chosen=self._choices,
            undoing=self._undoing,
            want=self._configuration.want,
            secrets=lambda: secrets_of(self._configuration.settings),
        )
        self._waits = Waits(store, opening.id)
        self._hook_points = HookPoints(store, opening.id, tasks)
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
                net=Web(
                    lambda: self._configuration.settings.tool_limits,
                    surroundings.processes,
                    search=lambda: self._configuration.settings.web_search,
                ),
                about=About(
                    self._configuration,
                    self._mcp,
                    surroundings.journal,
                    skips=lambda: self._permissions.skip,
                ),
                tracking=self._tracking,
                lsp=self._lsp,
                choices=self._choices,
                waits=self._waits,
                hook_points=self._hook_points,
                histories=surroundings.histories,
                tally=surroundings.tally,
            ),
            tasks,
        )

    async def start(self) -> None:
        """Read the configuration and take up what was left to do."""
        await self._undoing.find_left()
        await self._choices.load()
        await self._configuration.reload()
        await self._configuration.want(self._choices.providers())
        await self._undoing.finish_rewinds()
        await self._follow_configuration()
        self._tasks.start_soon(self.upkeep.follow_files)
        self._tasks.start_soon(self._undoing.resume)

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
            stack.push_async_callback(self._tracking.close)
            stack.push_async_callback(self._lsp.close)
            await self._jobs.close()

    async def has_work(self) -> bool:
        """Whether a turn, a queue or a job is unfinished."""
        if self.commands.has_work or not self._runner.is_idle:
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
            sandbox=self.commands.sandbox,
        )

    def config(self) -> dict[str, Any]:
        return self._configuration.shown()

    async def needs_init(self) -> bool:
        return await self._configuration.needs_init()

    async def mark_initialized(self) -> None:
        await self._configuration.mark_initialized()
        await self.upkeep.tell()

    def init_prompt(self) -> str:
        return self._configuration.init_prompt()

    def skills(self) -> list[SkillInfo]:
        return self._configuration.skills()

    async def read_skill(self, skill_id: str) -> SkillContent:
        return await self._configuration.read_skill(skill_id)

    def custom_commands(self) -> list[CommandInfo]:
        return self._configuration.commands()

    def expand_command(self, use: CommandUse) -> PromptText:
        return PromptText(prompt=self._configuration.expand_command(use))

    # Sessions and messages

    async def delete_session(self, session_id: str, by: str = "") -> None:
        await self._runner.delete_session(session_id, by)
        self._tasks.start_soon(self.commands.end_session, session_id)

    async def choices(self, session_id: str) -> SessionChoices:
        await self._read(lambda tx: sessions.get(tx, self.id, session_id))
        return self._choices.of(session_id)

    async def change_choices(self, session_id: str, change: ChoicesChange) -> SessionChoices:
        """Models, policy and budget of one session; nobody else's change. Raises `BadRequest` for a model that is not there."""
        named = models_in(change)
        await self._configuration.want({model.provider for model in named if model.provider})
        for model in named:
            self._configuration.check_model(model)
        chosen = await self._choices.change(session_id, change)
        await self.models.remember(large=change.large, small=change.small)
        return chosen

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
        await self.upkeep.reload()
        if not self._configuration.settings.is_ready:
            raise AgentNotReady

    async def update_agent(self) -> None:
        await self.init_agent(interactive=True)

    def default_small_model(self, provider_id: str) -> SelectedModel:
        return self._configuration.settings.default_small(provider_id)

    async def accept(
        self, body: NewPrompt, *, idempotency_key: str, author: str, client: str
    ) -> PromptAccepted:
        """Once this returns, the prompt survives whatever happens."""
        if not self._is_ready(body.session_id):
            raise AgentNotReady
        if not body.prompt and not any(a.mime_type.startswith("text/") for a in body.attachments):
            raise BadRequest("prompt is empty")
        if not body.session_id:
            raise BadRequest("session id is missing")
        hooks = self._configuration.agent.hooks
        passed, is_repeated = body, False
        if idempotency_key and hooks.has("PrePrompt", "PostPrompt"):
            known = await self._read(lambda tx: prompts.text_of(tx, self.id, idempotency_key))
            is_repeated = known is not None
            passed = msgspec.structs.replace(body, prompt=known if known is not None else body.prompt)
        if not is_repeated:
            passed = await self._hook_points.before_prompt(hooks, body, author)
        run_id = await self._runner.accept(
            NewRow(
                session=passed.session_id,
                text=passed.prompt,
                run_id=passed.run_id or str(uuid.uuid4()),
                own_run_id=bool(passed.run_id),
                author=author,
                idempotency_key=idempotency_key,
                permissions=passed.permissions or "ask",
                interactive=passed.interactive,
                attachments=passed.attachments,
                timing=passed.when,
                client=client,
            )
        )
        if not is_repeated:
            self._hook_points.after_prompt(hooks, passed, run_id, author)
        return PromptAccepted(run_id=run_id, prompt=passed.prompt if passed.prompt != body.prompt else "")

    async def cancel(self, session_id: str) -> Dropped:
        """Also of turns that background jobs would have begun: those run on, but wake nobody. And of what a person's shell runs."""
        self.commands.hush(session_id)
        await self._shell.cancel(session_id)
        return Dropped(dropped=(await self._runner.cancel(session_id)).dropped)

    async def wake(self, session_id: str) -> Woken:
        """Ask the model again now, instead of waiting longer."""
        return Woken(woken=self._waits.end(session_id))

    async def summarize(self, session_id: str) -> None:
        if not self._is_ready(session_id):
            raise AgentNotReady
        await self._runner.summarize(session_id)

    async def shell(self, session_id: str, body: ShellRun) -> ShellDone:
        """A command typed by a person; carried through and stored even when its caller leaves."""
        if self.is_closing:
            raise WorkspaceClosing
        return await self._shell.run(session_id, body.command)

    async def _kept_from_reading(self) -> Callable[[Path], bool] | None:
        """What rules deny to the model is not attached for it either."""
        touch = Touch(tool="view", action="read", root=self._root, directory=self._root)
        return await self._permissions.keeps_from(touch, NO_CALL, "")

    # What turns changed

    async def changes(self, session_id: str, *, limit: int, before: int) -> list[TurnSummary]:
        return await self._undoing.turns(session_id, before=before, limit=limit)

    async def preview_undo(self, session_id: str, turn: int) -> UndoPreview:
        return await self._undoing.preview(session_id, turn)

    async def preview_redo(self, session_id: str) -> UndoPreview:
        return await self._undoing.preview_redo(session_id)

    async def undo(self, session_id: str, turn: int, body: UndoRequest, author: str) -> Undone:
        if self.is_closing:
            raise WorkspaceClosing
        return await self._undoing.undo(session_id, turn, body, author)

    async def redo(self, session_id: str, body: UndoRequest, author: str) -> Undone:
        if self.is_closing:
            raise WorkspaceClosing
        return await self._undoing.redo(session_id, body, author)

    # Asks

    async def grant(self, answer: PermissionAnswer, by: str) -> bool:
        return await self._permissions.grant(answer, by)

    async def rules(self) -> list[Rule]:
        """Those of the config first, then what people made."""
        return [*self._permissions.configured(), *await self.stored_rules()]

    async def explain(self, body: ExplainCall, author: str) -> Explanation:
        """What would become of a call, and why."""
        root = self._root
        path = paths.resolve(root, body.path) if body.path else root
        is_read = bool(body.command) and await anyio.to_thread.run_sync(
            is_known_read, body.command, path, root
        )
        touch = Touch(
            tool=body.tool,
            action=body.action or ("execute" if body.command else "write" if body.path else "fetch"),
            root=root,
            directory=path,
            command=body.command,
            paths=(paths.real(path),) if body.path and not body.command else (),
            hosts=(body.host,) if body.host else (),
            is_read=is_read,
        )
        return await self._permissions.explain(touch, body.session_id, author)

    def skip(self) -> bool:
        return self._permissions.skip

    async def set_skip(self, skip: bool, by: str) -> None:
        """Ask nobody from now on, or ask again. Clients that know no event for it are told to look at the workspace."""
        if skip != self._permissions.skip:
            self._permissions.skip = skip
            self._announce(PermissionsSkip(skip=skip, changed_by=by))
        await self.upkeep.tell()

    async def answer_questions(self, answer: QuestionAnswer, by: str) -> bool:
        return await self._questions.answer(answer, by)

    async def cancel_questions(self, batch_id: str, by: str) -> bool:
        return await self._questions.cancel(batch_id, by)

    # Configuration

    async def config_set(self, body: ConfigSet) -> None:
        await self.upkeep.change(body.scope, lambda file: write.set_value(file, body.key, body.value))

    async def config_remove(self, body: ConfigRemove) -> None:
        await self.upkeep.remove(body.scope, body.key)

    async def config_model(self, body: ConfigModel) -> None:
        await self.upkeep.change(
            body.scope, lambda file: write.select_model(file, body.model_type, body.model)
        )

    async def config_compact(self, body: ConfigCompact) -> None:
        await self.upkeep.change(body.scope, lambda file: write.set_compact(file, body.enabled))

    async def provider_key(self, body: ProviderKey) -> None:
        """A login is kept for all workspaces, wherever it came from: it is renewed there."""
        scope = write.GLOBAL if body.kind == "oauth" else body.scope
        await self.upkeep.change(
            scope, lambda file: write.set_provider_key(file, body.provider_id, body.kind, body.api_key)
        )

    # Inside

    async def _follow_configuration(self) -> None:
        """Take the configuration up: outside servers follow it, and what waits for a model may run."""
        settings = self._configuration.settings
        self._tool_env.clear()
        self._tool_env |= tool_environment({**self._opening.env, **settings.env}, settings.secret_names)
        self._tell_of_skills()
        if await self.commands.follow(self._opening.env):
            self._announce(self.commands.sandbox)
        await self._mcp.reconcile(settings.mcp, settings.mcp_errors, self._tasks)
        self._lsp.follow(Following.of(settings), self._tasks)
        self.models.follow()
        if settings.is_ready or (not settings.problems and self._choices.providers()):
            await self._runner.resume(self._is_ready)

    def _undo_limits(self) -> Limits | None:
        said = self._configuration.settings.options.undo
        return Limits(said.max_files, said.max_file_size, said.max_store) if said.enabled else None

    def _tell_of_skills(self) -> None:
        """Announce the skills when they are others than before, or in another state."""
        states = self._configuration.skill_states()
        if self._skill_states not in (None, states):
            self._announce(SkillsEvent(states=states))
        self._skill_states = states

    def _is_ready(self, session_id: str) -> bool:
        """Whether a prompt of this session can be answered: by its own model, or by the workspace's."""
        settings = self._configuration.settings
        own = self._choices.of(session_id).large
        return settings.is_ready or (not settings.problems and bool(own and own.model))

    async def _announce_config(self, changed: ConfigChanged) -> None:
        await self._write(lambda tx: log.append(tx, self.id, changed, "updated", key="config", keep="latest"))

    async def _tell_agent(self, owner: Owner, text: str) -> None:
        """As a prompt of whoever the turn was for: seen by all, kept, and allowed what that turn was allowed."""
        if self.is_closing or not await self._read(lambda tx: sessions.exists(tx, self.id, owner.session)):
            return
        await self._runner.accept(
            NewRow(
                session=owner.session,
                text=text,
                run_id=str(uuid.uuid4()),
                own_run_id=False,
                author=owner.author,
                permissions=owner.permissions,
                interactive=owner.interactive,
                client=owner.client,
            )
        )

    def _announce(self, payload: Wire, action: Action = "updated") -> None:
        """Publish something that is only true now."""
        if not self.is_closing:
            self._store.publish([Fact(self.id, KINDS[type(payload)], action, "", encode(payload))])


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
