"""A workspace as a client sees it: attach, watch, prompt, answer, leave.

    async with attach("~/project", name="ana") as room:
        run = await room.prompt("what is this?")
        print((await room.wait_for(run)).text)

Attaching is a snapshot and a stream from exactly there. From then on the `Room` keeps itself true through
lost connections, closed workspaces and dead servers (see `link`), and a prompt is accepted once however
often it had to be sent.
"""

from __future__ import annotations

import getpass
import os
import socket
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import anyio

import bullpen
from bullpen.client.autostart import Starter
from bullpen.client.http import Answer, Connection
from bullpen.client.keys import Keys
from bullpen.client.library import Library
from bullpen.client.link import Link, always, was_not_sent
from bullpen.client.locate import find_address, find_token
from bullpen.client.stream import SILENCE_S
from bullpen.client.updates import Updates
from bullpen.errors import BadRequest
from bullpen.schema.agent import (
    AgentInfo,
    CatalogueProvider,
    ClientInfo,
    CommandInfo,
    Group,
    LspInfo,
    QueuedPrompt,
    SelectedModel,
    SkillInfo,
    SpentRow,
    ToolCallsRow,
    Workspace,
)
from bullpen.schema.api import (
    AgentInit,
    Attachment,
    CommandUse,
    ConfigModel,
    ConfigRemove,
    Dropped,
    ExplainCall,
    GrantedPermission,
    LspStart,
    NewPin,
    NewPrompt,
    NewRule,
    NewSession,
    NewWorkspace,
    PermissionAnswer,
    PromptAccepted,
    PromptText,
    QuestionAnswer,
    QuestionCancel,
    QueueEdit,
    RememberedModels,
    Resolved,
    SessionChange,
    SkillContent,
    SkillToRead,
    Trust,
    TrustGiven,
    Woken,
)
from bullpen.schema.asks import (
    Ask,
    Explanation,
    Grant,
    PermissionAction,
    PermissionRequest,
    QuestionBatch,
    QuestionResponse,
    Rule,
)
from bullpen.schema.changes import TurnSummary, Undone, UndoPreview, UndoRequest
from bullpen.schema.choices import ChoicesChange, SessionChoices
from bullpen.schema.events import Event, RunComplete
from bullpen.schema.jobs import Job, JobOutput
from bullpen.schema.message import Message
from bullpen.schema.runs import Run
from bullpen.schema.session import Session
from bullpen.system.address import Address, UnixAddress

ANSWER_S = 30.0
"""How long an answer may take that the server itself lets wait, beyond that wait."""


@asynccontextmanager
async def attach(
    path: str | Path,
    *,
    host: str | None = None,
    name: str = "",
    outlive: bool = True,
    start_server: bool = True,
    data_dir: str = "",
    yolo: bool = False,
    env: Mapping[str, str] = os.environ,
    silence_s: float = SILENCE_S,
) -> AsyncIterator[Room]:
    """Join the workspace at `path`, with its sessions known and its stream open when the block begins.

    `host` is `unix://…` or `tcp://…`; without it `BULLPEN_HOST`, else this user's own server, which is
    started when it does not run (`start_server`). `name` is how others see this client. With `outlive`
    the workspace finishes its turns, its queue and its jobs also with nobody attached.

    Leaving the block closes the stream and takes back this client's claim. Raises `ServerUnreachable`
    when no server is to be had, `BadHost`, `Unauthorized`, or what the server says against it.
    """
    address = find_address(host, env)
    request = NewWorkspace(
        path=_full_path(path, address),
        client_id=str(uuid.uuid4()),
        data_dir=data_dir,
        yolo=yolo,
        # An environment is full of secrets: it goes to a server of this user on this machine, and no further.
        env=tuple(_text(f"{k}={v}") for k, v in env.items()) if isinstance(address, UnixAddress) else (),
        version=bullpen.__version__,
        outlive=outlive,
        client_name=name or default_name(),
    )
    starter = Starter(address, env) if start_server and isinstance(address, UnixAddress) else None
    if starter:
        await starter.ensure()
    failure: Exception | None = None
    token = find_token(address, env)
    async with Connection(
        address, token=token, client_id=request.client_id, name=request.client_name
    ) as server:
        link = Link(server, request, starter, silence_s=silence_s)
        try:
            await link.enter()
            async with anyio.create_task_group() as tasks:
                await tasks.start(link.follow)
                # Errors are raised below, outside the task group, which would wrap them.
                failure = link.failure
                try:
                    if failure is None:
                        yield Room(link)
                except Exception as exc:
                    failure = exc
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await link.leave()
    if failure is not None:
        raise failure


def default_name() -> str:
    """How others see a client that was given no name: the person and the machine."""
    try:
        person = getpass.getuser()
    except (KeyError, OSError):
        person = f"uid{os.getuid()}"
    return f"{person}@{socket.gethostname()}"


def _full_path(path: str | Path, address: Address) -> str:
    """The path as the server has to read it. One on another machine means what it means there."""
    if not isinstance(address, UnixAddress):
        return str(path)
    full = os.path.abspath(os.path.expanduser(path))
    if _text(full) != full:
        raise BadRequest(f"a workspace needs a path in UTF-8, and this one is not: {_text(full)}")
    return full


def _text(value: str) -> str:
    """What the operating system told us, without the bytes that are not text."""
    return value.encode("utf-8", "replace").decode()


class Events:
    """The events of a workspace from now on. Iterate it once."""

    def __init__(self, updates: Updates) -> None:
        self._updates = updates

    def __aiter__(self) -> Events:
        return self

    async def __anext__(self) -> Event:
        while True:
            update = await anext(self._updates)
            if isinstance(update, Event):
                return update


class Room:
    """One client's place in a workspace, made by `attach`.

    `sessions`, `messages()`, `asks` are plain values that are always up to date; `events()` tells what
    moves. Calls raise the error the server named, or `ServerUnreachable` when the link stays down.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._mirror = link.mirror
        self.library = Library(link)
        self.keys = Keys(link)

    # What is known

    @property
    def workspace(self) -> Workspace:
        """The workspace as it was when it was opened last."""
        assert self._link.workspace is not None
        return self._link.workspace

    @property
    def client_id(self) -> str:
        return self._link.request.client_id

    @property
    def name(self) -> str:
        """How others see this client."""
        return self._link.request.client_name

    @property
    def address(self) -> Address:
        return self._link.server.address

    @property
    def is_connected(self) -> bool:
        return self._link.is_up

    @property
    def quiet_s(self) -> float:
        """How long nothing came from the server. It says something every 15 s, if only that it lives."""
        return self._link.quiet_s

    @property
    def current_session(self) -> str:
        """The session this client is in, or nothing."""
        return self._link.current_session

    @property
    def sessions(self) -> list[Session]:
        """The sessions of the workspace, the last used one first."""
        return self._mirror.sessions

    def session(self, session_id: str) -> Session | None:
        """A session by its id, those of sub-agents included."""
        return self._mirror.session(session_id)

    def messages(self, session_id: str) -> list[Message]:
        """The messages of a session, oldest first, growing ones as far as they have come.

        Known for sessions that were loaded (`load`, `open`) or began while we were here; else empty.
        """
        return self._mirror.messages(session_id)

    def message(self, session_id: str, message_id: str) -> Message | None:
        return self._mirror.message(session_id, message_id)

    @property
    def asks(self) -> list[Ask]:
        """What waits for an answer in any session, the oldest first."""
        return list(self._mirror.asks.values())

    def waiting(self, session_id: str) -> tuple[QueuedPrompt, ...]:
        """The prompts that wait in a session, as the last event told. `queue` asks the server."""
        return self._mirror.queues.get(session_id, ())

    def updates(self) -> Updates:
        """Events and news of the link from now on, in order. Any number of readers may be open."""
        return self._link.updates()

    def events(self) -> Events:
        """The events alone, from now on. `resync` means: look at the room again, something was missed."""
        return Events(self._link.updates())

    # Sessions

    async def load(self, session_id: str) -> list[Message]:
        """Read a session's messages and keep them up to date from now on."""
        with self._mirror.loading(session_id) as hold:
            answer = await self._link.call("GET", f"/sessions/{session_id}/messages")
            hold(answer.read(list[Message]), answer.cursor)
        return self.messages(session_id)

    async def open(self, session_id: str) -> list[Message]:
        """Enter a session: its messages are loaded, and the others see us in it."""
        if session_id and session_id not in self._mirror.loaded:
            await self.load(session_id)
        self._link.current_session = session_id
        await self._link.show_current_session()
        return self.messages(session_id)

    async def new_session(self, title: str = "New Session") -> Session:
        """Make an empty session and enter it. A title of your own is never replaced by a made-up one."""
        answer = await self._link.call("POST", "/sessions", NewSession(title=title), may_repeat=was_not_sent)
        session = answer.read(Session)
        if self._mirror.session(session.id) is None:
            self._mirror.hold_session(session)
        await self.open(session.id)
        return session

    async def rename(self, session_id: str, title: str) -> Session:
        answer = await self._link.call("PUT", f"/sessions/{session_id}", SessionChange(title=title))
        return answer.read(Session)

    async def delete_session(self, session_id: str) -> None:
        await self._link.call("DELETE", f"/sessions/{session_id}")

    # Prompts

    async def prompt(
        self,
        text: str,
        *,
        session: str = "",
        run_id: str = "",
        attachments: Iterable[Attachment] = (),
        permissions: Literal["ask", "allow", "deny"] = "ask",
        interactive: bool = True,
        idempotency_key: str = "",
        when: Literal["", "now", "step", "after"] = "",
    ) -> str:
        """Send a prompt to `session`, else to the current one, else to a new one; the answer is its run id.

        Returns when the server has accepted it for good, sending it again under the same key for as long
        as no answer comes. A prompt with a `run_id` of the caller's gets a turn of its own; one without
        may be folded into the turn that is running, and ends with it. `interactive=False` takes the
        model's means to ask questions. `when` is for a session that is busy: break its step off and be heard now,
        join at the next step, or wait for the end of the turn.
        """
        if not session:
            session = self.current_session or (await self.new_session()).id
        body = NewPrompt(
            session_id=session,
            prompt=text,
            run_id=run_id,
            attachments=tuple(attachments),
            permissions=permissions,
            interactive=interactive,
            when=when,
        )
        key = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}
        answer = await self._link.call("POST", "/agent", body, headers=key, patience_s=None)
        accepted = answer.read(PromptAccepted) if answer.body else PromptAccepted(run_id=run_id)
        if self._mirror.end_of(accepted.run_id) is None:
            self._link.runs[accepted.run_id] = (session, accepted.prompt or text)
        return accepted.run_id

    def text_of(self, run_id: str) -> str:
        """What a prompt of ours reads that has not ended yet, "" for any other: a hook may have changed it on its way."""
        return self._link.runs.get(run_id, ("", ""))[1]

    async def wait_for(self, run_id: str) -> RunComplete:
        """How the run ended, as soon as it has. Waits for as long as the caller does."""
        while True:
            if end := self._mirror.end_of(run_id):
                return end
            await self._link.moved()

    def end_of(self, run_id: str) -> RunComplete | None:
        """How the run ended, if it has."""
        return self._mirror.end_of(run_id)

    async def runs(self) -> list[Run]:
        """The prompts of all sessions that wait or run, in the order in which they were accepted."""
        return (await self._link.call("GET", "/agent/runs")).read(list[Run])

    async def run(self, run_id: str) -> Run:
        """What has become of a prompt, also of somebody else's. Raises `RunNotFound`."""
        return (await self._link.call("GET", f"/agent/runs/{quote(run_id, safe='')}")).read(Run)

    async def cancel(self, session: str = "") -> tuple[str, ...]:
        """Cancel the turn and the queue of a session; the answer holds the texts that were waiting."""
        answer = await self._link.call("POST", f"{self._agent(session)}/cancel")
        return answer.read(Dropped).dropped if answer.body else ()

    async def queue(self, session: str = "") -> list[QueuedPrompt]:
        """The prompts that wait, in the order they will run."""
        return (await self._link.call("GET", f"{self._agent(session)}/prompts")).read(list[QueuedPrompt])

    async def edit(
        self, seq: int, *, text: str | None = None, index: int | None = None, session: str = ""
    ) -> None:
        """Give a waiting prompt another text, another place (0 = next), or both."""
        change = QueueEdit(prompt=text, index=index)
        await self._link.call("PATCH", f"{self._agent(session)}/prompts/{seq}", change)

    async def withdraw(self, seq: int, *, session: str = "") -> None:
        """Take a waiting prompt out of the queue."""
        await self._link.call("DELETE", f"{self._agent(session)}/prompts/{seq}")

    async def clear_queue(self, session: str = "") -> None:
        """Take every waiting prompt out of the queue; the running turn goes on."""
        await self._link.call("POST", f"{self._agent(session)}/prompts/clear")

    async def wake(self, session: str = "") -> bool:
        """Have a turn that waits for its model's host ask again now; False when it did not wait."""
        return (await self._link.call("POST", f"{self._agent(session)}/wake")).read(Woken).woken

    async def choices(self, session: str) -> SessionChoices:
        """What the session does otherwise than its workspace."""
        return (await self._link.call("GET", f"/sessions/{session}/choices")).read(SessionChoices)

    async def choose(self, session: str, change: ChoicesChange) -> SessionChoices:
        """Choose model, effort, policy or budget for one session alone."""
        return (await self._link.call("PUT", f"/sessions/{session}/choices", change)).read(SessionChoices)

    async def pin(self, text: str, session: str) -> None:
        """Have every summary of the session carry a note word for word."""
        await self._link.call("POST", f"/sessions/{session}/pins", NewPin(text=text))

    async def undo_summary(self, session: str) -> None:
        """Have the model see again what the session's last summary stands for."""
        await self._link.call("POST", f"{self._agent(session)}/summarize/undo")

    async def jobs(self, session: str = "") -> list[Job]:
        """The background jobs, running and lately ended; of one session when it is named."""
        return (await self._link.call("GET", f"/jobs?session_id={quote(session, safe='')}")).read(list[Job])

    async def job_output(self, job_id: str, offset: int = 0, *, wait_s: int = 0) -> JobOutput:
        """What a job printed from the offset on, waiting for more up to so long. Raises `JobNotFound`."""
        path = f"/jobs/{quote(job_id, safe='')}/output?offset={offset}&wait={wait_s}"
        return (await self._link.call("GET", path, timeout_s=wait_s + ANSWER_S)).read(JobOutput)

    async def kill_job(self, job_id: str) -> Job:
        """End a job with all that it started. Raises `JobNotFound`."""
        return (await self._link.call("DELETE", f"/jobs/{quote(job_id, safe='')}")).read(Job)

    async def changes(self, session: str = "", *, limit: int = 50, before: int = 0) -> list[TurnSummary]:
        """The turns of a session that changed files, the latest first."""
        answer = await self._link.call("GET", f"{self._changes(session)}?limit={limit}&before={before}")
        return answer.read(list[TurnSummary])

    async def preview_undo(self, turn: int, *, session: str = "") -> UndoPreview:
        """What undoing a turn's changes would do now. Raises `ChangesNotFound`."""
        return (await self._link.call("GET", f"{self._changes(session)}/{turn}/undo")).read(UndoPreview)

    async def undo(
        self,
        turn: int,
        *,
        session: str = "",
        files: Iterable[str] = (),
        hunks: Iterable[str] = (),
        fingerprint: str = "",
    ) -> Undone:
        """Undo a turn's changes, or only those of some files or hunks; with a preview's fingerprint only if it would be exactly
        that. Raises `UndoConflict`, `PreviewOutdated`, `NothingToUndo`, `ChangesNotFound` or `SessionBusy`; then nothing is
        changed."""
        body = UndoRequest(files=tuple(files), hunks=tuple(hunks), fingerprint=fingerprint)
        path = f"{self._changes(session)}/{turn}/undo"
        return (await self.call("POST", path, body, once=True)).read(Undone)

    async def preview_redo(self, *, session: str = "") -> UndoPreview:
        """What taking back the last undo would do now. Raises `ChangesNotFound`."""
        return (await self._link.call("GET", f"{self._changes(session)}/redo")).read(UndoPreview)

    async def redo(
        self,
        *,
        session: str = "",
        files: Iterable[str] = (),
        hunks: Iterable[str] = (),
        fingerprint: str = "",
    ) -> Undone:
        """Take the session's last undo back, or a part of it. Raises what `undo` raises."""
        body = UndoRequest(files=tuple(files), hunks=tuple(hunks), fingerprint=fingerprint)
        return (await self.call("POST", f"{self._changes(session)}/redo", body, once=True)).read(Undone)

    def _changes(self, session: str) -> str:
        return f"/sessions/{session or self.current_session}/changes"

    async def spending(self, by: Group, since: int = 0) -> list[SpentRow]:
        """What model calls cost in this workspace, summed up by one thing."""
        answer = await self._link.call("GET", f"/agent/spending?by={by}&since={since}")
        return answer.read(list[SpentRow])

    async def tool_calls(self, since: int = 0) -> list[ToolCallsRow]:
        """How often each tool was called in this workspace, how many calls failed, and how long they took."""
        answer = await self._link.call("GET", f"/agent/tool_calls?since={since}")
        return answer.read(list[ToolCallsRow])

    def _agent(self, session: str) -> str:
        return f"/agent/sessions/{session or self.current_session}"

    # Asks

    async def grant(
        self, ask: PermissionRequest, action: PermissionAction, *, reason: str = "", rule: str = ""
    ) -> bool:
        """Answer a permission; whether it was this answer that counted.

        `deny` ends the turn; with a `reason` the model is told it and the turn goes on. `allow_rule` allows what the ask's `rule`
        says from then on, or what `rule` here says, if that covers the call.
        """
        permission = GrantedPermission(id=ask.id, tool_call_id=ask.tool_call_id)
        body = PermissionAnswer(permission=permission, action=action, reason=reason, rule=rule)
        return await self._resolve("/permissions/grant", body, ask)

    async def grants(self) -> list[Grant]:
        """What was allowed for longer than once."""
        return (await self._link.call("GET", "/permissions/grants")).read(list[Grant])

    async def revoke(self, grant_id: str) -> None:
        """Take back what was allowed. Raises `GrantNotFound`."""
        await self._link.call("DELETE", f"/permissions/grants/{quote(grant_id, safe='')}")

    async def rules(self) -> list[Rule]:
        """The permission rules in force."""
        return (await self._link.call("GET", "/permissions/rules")).read(list[Rule])

    async def add_rule(self, rule: NewRule) -> Rule:
        """Make a permission rule. Raises `BadRequest` for one that cannot mean what it says."""
        return (await self._link.call("POST", "/permissions/rules", rule)).read(Rule)

    async def remove_rule(self, rule_id: str) -> None:
        """Take a permission rule back. Raises `RuleNotFound`."""
        await self._link.call("DELETE", f"/permissions/rules/{quote(rule_id, safe='')}")

    async def explain(self, call: ExplainCall) -> Explanation:
        """What would become of a call, and why."""
        return (await self._link.call("POST", "/permissions/explain", call)).read(Explanation)

    async def language_servers(self) -> dict[str, LspInfo]:
        """The language servers by name: what is configured, and what was started."""
        return (await self._link.call("GET", "/lsps")).read(dict[str, LspInfo])

    async def start_language_servers(self, path: str) -> None:
        """Start those that know a file."""
        await self._link.call("POST", "/lsps/start", LspStart(path=path))

    async def stop_language_servers(self) -> None:
        """Stop all of them; they start again when they are needed."""
        await self._link.call("POST", "/lsps/stop")

    async def answer(self, ask: QuestionBatch, responses: Iterable[QuestionResponse]) -> bool:
        """Answer a batch of questions; whether it was this answer that counted."""
        body = QuestionAnswer(batch_request_id=ask.id, responses=tuple(responses))
        return await self._resolve("/questions/answer", body, ask)

    async def decline(self, ask: QuestionBatch) -> bool:
        """Refuse to answer a batch of questions, which ends its turn; whether this refusal counted."""
        return await self._resolve("/questions/cancel", QuestionCancel(batch_request_id=ask.id), ask)

    async def _resolve(self, path: str, body: object, ask: Ask) -> bool:
        resolved = (await self._link.call("POST", path, body)).read(Resolved).resolved
        # Either way nobody needs to answer it any more.
        self._mirror.asks.pop(ask.id, None)
        return resolved

    # Agent, models, people

    async def agent(self) -> AgentInfo:
        """Whether a model is ready, and which."""
        return (await self._link.call("GET", "/agent")).read(AgentInfo)

    async def providers(self) -> list[CatalogueProvider]:
        """The providers and models that could be chosen."""
        answer = await self._link.call("GET", "/providers")
        return [] if answer.body.strip() == b"null" else answer.read(list[CatalogueProvider])

    async def remembered_models(self) -> RememberedModels:
        """The models that were picked lately, and the favourites."""
        return (await self._link.call("GET", "/models")).read(RememberedModels)

    async def clients(self) -> list[ClientInfo]:
        """Who is attached to this workspace."""
        return (await self._link.call("GET", "/clients")).read(list[ClientInfo])

    async def config(self) -> dict[str, Any]:
        """The configuration in force, without its secrets."""
        return (await self._link.call("GET", "/config")).read(dict[str, Any])

    async def commands(self) -> list[CommandInfo]:
        """The prompts that people keep in files and use by name."""
        return (await self._link.call("GET", "/commands")).read(list[CommandInfo])

    async def expand_command(self, command_id: str, text: str = "", **arguments: str) -> str:
        """The prompt that a command stands for; `text` is what was typed behind its name. Raises `BadRequest`."""
        use = CommandUse(command_id=command_id, text=text, arguments=arguments)
        return (await self._link.call("POST", "/commands/expand", use)).read(PromptText).prompt

    async def skills(self) -> list[SkillInfo]:
        """The skills that are known here."""
        return (await self._link.call("GET", "/skills")).read(list[SkillInfo])

    async def read_skill(self, skill_id: str) -> SkillContent:
        """One skill as it is written. Raises `BadRequest` for one that is not trusted."""
        return (await self._link.call("POST", "/skills/read", SkillToRead(skill_id=skill_id))).read(
            SkillContent
        )

    async def trust(self) -> Trust:
        """What the project's files would do, and whether somebody lets them."""
        return (await self._link.call("GET", "/trust")).read(Trust)

    async def give_trust(self, fingerprint: str, *, items: Iterable[str] = ()) -> Trust:
        """Let them do what was shown with this fingerprint, all of it or only these items.

        Raises `ContentChanged` when it is something else by now.
        """
        given = TrustGiven(fingerprint=fingerprint, items=tuple(items))
        return (await self._link.call("POST", "/trust", given)).read(Trust)

    async def revoke_trust(self, item: str = "") -> Trust:
        """Trust nothing there any more, or only this item no longer."""
        where = f"/trust?item={quote(item, safe='')}" if item else "/trust"
        return (await self._link.call("DELETE", where)).read(Trust)

    async def set_model(self, provider: str, model: str, *, scope: int = 1) -> AgentInfo:
        """Choose the model of this workspace (`scope` 0: of every workspace) and make the agent ready with it."""
        chosen = SelectedModel(provider=provider, model=model)
        for role in ("large", "small"):
            await self._link.call(
                "POST", "/config/model", ConfigModel(scope=scope, model_type=role, model=chosen)
            )
        await self._link.call("POST", "/agent/init", AgentInit(interactive=True))
        return await self.agent()

    async def unset_model(self, *, scope: int = 1) -> None:
        """Take a chosen model back."""
        for role in ("large", "small"):
            await self._link.call("POST", "/config/remove", ConfigRemove(scope=scope, key=f"models.{role}"))

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        timeout_s: float | None = None,
        once: bool = False,
    ) -> Answer:
        """Any other call below the workspace, `path` beginning with a slash.

        It is sent again while no answer comes, unless `once` says that doing it twice would be wrong.
        """
        may_repeat = was_not_sent if once else always
        return await self._link.call(method, path, body, timeout_s=timeout_s, may_repeat=may_repeat)
