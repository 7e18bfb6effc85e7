"""What one tool call may touch: the engine's side of `tools.base.ToolContext`."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bullpen.asks.permission import Call, Touch, guard
from bullpen.broker.facts import Fact
from bullpen.engine.hook_points import AskHooks
from bullpen.engine.services import Services
from bullpen.files.tracking import Watched
from bullpen.schema.asks import PermissionRequest, Question, QuestionBatch, QuestionResponse
from bullpen.schema.events import KINDS
from bullpen.schema.jobs import CommandOutput
from bullpen.schema.session import Todo
from bullpen.schema.wire import encode
from bullpen.store import files, sessions
from bullpen.store.changes import NewSet
from bullpen.store.tx import Tx
from bullpen.system import paths
from bullpen.system.failpoints import hit
from bullpen.system.jobs import Owner
from bullpen.tools.base import NOTHING, PermissionDenied, QuestionCancelled, Reach, ToolRefused
from bullpen.tools.errands import Errand


class SessionFiles:
    """What a session read and wrote."""

    def __init__(self, services: Services, session_id: str) -> None:
        self._services = services
        self._session = session_id

    async def mark_read(self, path: Path) -> None:
        workspace, at = self._services.workspace, self._services.clock.time()
        await self._services.store.write(
            lambda tx: files.mark_read(tx, workspace, self._session, str(path), at), durable=False
        )

    async def read_at(self, path: Path) -> float | None:
        workspace = self._services.workspace
        return await self._services.store.read(
            lambda tx: files.read_at(tx, workspace, self._session, str(path))
        )

    async def record_change(self, path: Path, before: str, after: str, *, seen: bool = True) -> None:
        workspace, at = self._services.workspace, self._services.clock.time()

        async def work(tx: Tx) -> None:
            await files.record_change(tx, workspace, self._session, str(path), before, after)
            if seen:
                await files.mark_read(tx, workspace, self._session, str(path), at)

        await self._services.store.write(work)


class CallContext:
    """One call of one tool, in one turn."""

    def __init__(
        self,
        services: Services,
        *,
        session_id: str,
        call_id: str,
        tool_name: str,
        call: Call,
        owner: Owner,
        change_set: NewSet,
        supports_images: bool,
        delegate: Callable[[str, str, str, Errand | None], Awaitable[str]],
        hooks: AskHooks,
        errand: Errand | None = None,
    ) -> None:
        agent = services.agent()
        self._services = services
        self.root = services.root if errand is None else errand.directory
        self.errand = errand
        self.session_id = session_id
        self.call_id = call_id
        self.supports_images = supports_images
        self.limits: Mapping[str, Any] = agent.settings.tool_limits
        self.skill_dirs: Sequence[Path] = agent.skill_dirs if errand is None else ()
        self.files = SessionFiles(services, session_id)
        self.jobs = services.jobs.of(owner)
        self.net = services.net
        self.about = services.about
        self.lsp = services.lsp
        self._tool_name = tool_name
        self._call = call
        self._change_set = change_set
        self._watched: dict[tuple[Path, ...] | None, Watched] = {}
        """By the paths that it is about; None stands for all."""
        self._delegate = delegate
        self._hooks = hooks
        self._began = services.clock.monotonic()
        self._asked_s = 0.0
        self.took_s: float | None = None
        """How long the call took once it is over, without the time in which somebody was asked."""

    def resolve(self, path: str) -> Path:
        return paths.resolve(self.root, path)

    def is_inside(self, path: Path) -> bool:
        return paths.is_below(paths.real(self.root), path)

    async def permit(
        self, action: str, *, description: str, params: Any, path: Path, reach: Reach = NOTHING
    ) -> None:
        request = PermissionRequest(
            id=str(uuid.uuid4()),
            session_id=self.session_id,
            tool_call_id=self.call_id,
            tool_name=self._tool_name,
            description=description,
            action=action,
            params=params,
            path=str(path),
        )
        touch = Touch(
            tool=self._tool_name,
            action=action,
            # Rules begin at the workspace, wherever the agent has been sent.
            root=self._services.root,
            directory=path,
            command=reach.command,
            paths=reach.paths,
            hosts=reach.hosts,
            is_read=reach.is_read,
        )
        with self._asking():
            verdict = await self._services.permissions.request(request, self._call, touch, self._hooks)
        if verdict.granted:
            await self._watch(reach)
            hit("call-intended")
            return
        if verdict.by_rule:
            raise ToolRefused(verdict.reason)
        if verdict.reason:
            raise ToolRefused(f"The user did not allow this: {verdict.reason}")
        raise PermissionDenied

    def show_output(self, offset: int, text: str) -> None:
        shown = CommandOutput(session_id=self.session_id, tool_call_id=self.call_id, offset=offset, text=text)
        fact = Fact(self._services.workspace, KINDS[CommandOutput], "updated", "", encode(shown))
        self._services.store.publish([fact])

    async def _watch(self, reach: Reach) -> None:
        """What is about to happen shall be undone one day: know the files before it. Only what reads, names its files, or names
        nothing but hosts, is taken at its word."""
        if reach.is_read or not self._call.effects or (reach.hosts and not reach.command and not reach.paths):
            return
        paths = reach.paths if reach.paths and not reach.command else None
        if paths not in self._watched and (
            watched := await self._services.tracking.before(self._change_set, paths)
        ):
            self._watched[paths] = watched

    async def settle(self) -> None:
        """The call is over: find out what it changed."""
        for watched in self._watched.values():
            await self._services.tracking.after(watched)
        self.took_s = max(self._services.clock.monotonic() - self._began - self._asked_s, 0.0)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        began = self._services.clock.monotonic()
        try:
            yield
        finally:
            self._asked_s += self._services.clock.monotonic() - began

    async def keeps_from(self, action: str) -> Callable[[Path], bool] | None:
        touch = Touch(tool=self._tool_name, action=action, root=self._services.root, directory=self.root)
        return await self._services.permissions.keeps_from(touch, self._call, self.session_id)

    async def ask(
        self, questions: Sequence[Question], *, confirm_title: str = "", confirm_description: str = ""
    ) -> Sequence[QuestionResponse | None]:
        batch = QuestionBatch(
            id=str(uuid.uuid4()),
            session_id=self.session_id,
            tool_call_id=self.call_id,
            questions=tuple(questions),
            confirm_title=confirm_title,
            confirm_description=confirm_description,
        )
        await self._hooks.before_questions(batch)
        with self._asking():
            responses = await self._services.questions.ask(batch, turn=self._call.turn)
        self._hooks.after_questions(batch, responses)
        if responses is None:
            raise QuestionCancelled
        return responses

    async def replace_todos(self, todos: Sequence[Todo]) -> Sequence[Todo]:
        workspace = self._services.workspace

        async def work(tx: Tx) -> Sequence[Todo]:
            await guard(tx, workspace, self._call.turn)
            before = (await sessions.get(tx, workspace, self.session_id)).todos
            await sessions.change(tx, workspace, self.session_id, title=None, todos=tuple(todos))
            return before

        return await self._services.store.write(work, durable=False)

    async def delegate(self, prompt: str, agent: str = "", *, errand: Errand | None = None) -> str:
        return await self._delegate(self.call_id, prompt, agent, errand)
