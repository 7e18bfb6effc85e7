"""What a tool is, and what it may reach.

A tool is an async function with a frozen parameter type, wrapped by `@tool`. It gets a `ToolContext`,
built by the engine for one call, and gives back an `Outcome`. Whatever goes wrong inside is a result for
the model: raise `ToolFailed` with words the model can act on. Only a refused permission or a cancelled
question also ends the turn.
"""

from __future__ import annotations

import typing
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from bullpen.errors import ToolFailed
from bullpen.lsp.servers import LspServers
from bullpen.net.exchange import Limits, Moved, Reply, Request, Take
from bullpen.net.pages import Form
from bullpen.net.search_engines import Hit
from bullpen.schema.asks import Question, QuestionResponse
from bullpen.schema.session import Todo
from bullpen.system.ripgrep import Findings
from bullpen.system.spool import Tape
from bullpen.tools.errands import Errand

P = TypeVar("P", bound=msgspec.Struct)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool gives back. `metadata` is for display and never reaches the model. `is_cut` says that there
    was more than the model is shown."""

    content: str
    is_error: bool = False
    metadata: dict[str, Any] | None = None
    data: bytes = b""
    mime_type: str = ""
    stop_turn: bool = False
    is_cut: bool = False


class TurnStopped(ToolFailed):
    """The result ends the turn: a person refused, or a hook said halt."""


class ToolRefused(ToolFailed):
    """Not allowed, by a rule or with a reason that the model is told; the turn goes on."""


class PermissionDenied(TurnStopped):
    def __init__(self) -> None:
        super().__init__("User denied permission")


class QuestionCancelled(TurnStopped):
    def __init__(self) -> None:
        super().__init__("User cancelled this question")


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """What a call wants to touch, for the rules that decide whether a person has to be asked. Paths are real, links followed.
    `is_read` is known to read within the workspace and to do nothing else: it is only asked about if a rule says so."""

    command: str = ""
    paths: tuple[Path, ...] = ()
    hosts: tuple[str, ...] = ()
    is_read: bool = False


NOTHING = Reach()


class FileRecords(Protocol):
    """What the session read and wrote; paths are absolute."""

    async def mark_read(self, path: Path) -> None: ...

    async def read_at(self, path: Path) -> float | None:
        """When the session last read the file (epoch seconds with fractions), or None."""
        ...

    async def record_change(self, path: Path, before: str, after: str, *, seen: bool = True) -> None:
        """Keep both versions and announce them; also counts as a read of the new state, unless the model has not seen it."""
        ...


class Job(Protocol):
    """One shell command, in the foreground or behind the turn's back."""

    id: str
    command: str
    description: str
    working_dir: str
    started_at: float
    tape: Tape
    """Both streams together, by offset."""
    is_walled: bool
    """Whether it runs in a sandbox."""
    wakes: bool
    """Whether the agent is still to be told of its end."""

    @property
    def done(self) -> bool: ...
    @property
    def exit_code(self) -> int | None: ...
    @property
    def broke_limit(self) -> str:
        """The limit it was ended for, in words; else nothing."""
        ...

    @property
    def last_directory(self) -> str:
        """Where the shell was at its end."""
        ...

    def output(self) -> tuple[str, str]:
        """What it wrote so far to standard output and standard error."""
        ...

    async def wait(self) -> None: ...
    async def kill(self) -> None:
        """End the whole process tree: TERM, then KILL after 2 s."""
        ...


class Jobs(Protocol):
    """The shell commands of the session whose turn this is."""

    async def start(self, command: str, *, cwd: Path, description: str, time_s: float = 0) -> Job:
        """`time_s` is how long it may take, 0 as long as the configuration allows."""
        ...

    async def search(
        self, arguments: Sequence[str], *, directory: Path, limit_bytes: int, timeout_s: float
    ) -> Findings:
        """Run ripgrep in a directory given by its real path, until it has ended, written enough, or taken too long."""
        ...

    def get(self, job_id: str) -> Job | None: ...
    def all(self) -> Sequence[Job]:
        """The background jobs, oldest first."""
        ...

    def forget(self, job_id: str) -> None: ...
    def keep(self, job: Any) -> None:
        """List a command that `start` gave back as a background job, so that it outlives its call."""
        ...


class Net(Protocol):
    """The web, as far as the config lets it be reached. Whatever goes wrong is a `ToolFailed`."""

    async def fetch(
        self, request: Request, take: Take, *, limits: Limits | None = None, moved: Moved | None = None
    ) -> Reply:
        """Ask a server and hand its answer on piece by piece. Permission is the caller's to ask for, before; `moved`
        is told of a redirect to another place, and without it none is followed."""
        ...

    async def get(
        self, request: Request, *, limits: Limits | None = None, moved: Moved | None = None
    ) -> tuple[Reply, bytes]:
        """The same, with the answer as a whole."""
        ...

    async def read(self, content: bytes, content_type: str, *, form: Form, content_only: bool = False) -> str:
        """An answer as text; `content_only` leaves out what stands around a page's content."""
        ...

    def search_host(self) -> str:
        """The search engine that the config names, as a host."""
        ...

    async def search(self, query: str, most: int) -> Sequence[Hit]:
        """What that engine finds; permission comes before."""
        ...


class Section(NamedTuple):
    """A part of a report: its heading and its lines."""

    name: str
    lines: Sequence[str]


class About(Protocol):
    """Bullpen itself, as far as a model may know it: without keys, tokens, headers and values of the environment."""

    async def configuration(self) -> Sequence[Section]: ...

    def log(self, most: int) -> Sequence[str]:
        """The last entries, the newest last."""
        ...


class ToolContext(Protocol):
    """All that a tool may touch, for one call."""

    @property
    def root(self) -> Path:
        """The workspace's directory."""
        ...

    @property
    def session_id(self) -> str: ...

    @property
    def call_id(self) -> str: ...

    @property
    def supports_images(self) -> bool: ...

    @property
    def limits(self) -> Mapping[str, Any]:
        """The `tools` section of the config."""
        ...

    @property
    def skill_dirs(self) -> Sequence[Path]:
        """Directories whose files may be read without asking although they lie outside the workspace."""
        ...

    @property
    def files(self) -> FileRecords: ...

    @property
    def jobs(self) -> Jobs: ...

    @property
    def net(self) -> Net: ...

    @property
    def about(self) -> About: ...

    @property
    def errand(self) -> Errand | None:
        """What the agent was sent on, if it is a sub-agent that was sent to the web."""
        ...

    @property
    def lsp(self) -> LspServers: ...

    def resolve(self, path: str) -> Path:
        """The absolute path meant by the model: `~` expanded, relative ones joined to the root."""
        ...

    def is_inside(self, path: Path) -> bool:
        """Whether a path, as `paths.real` gave it, lies in the workspace."""
        ...

    async def permit(
        self, action: str, *, description: str, params: Any, path: Path, reach: Reach = NOTHING
    ) -> None:
        """Ask for permission unless it is given already. Raises `PermissionDenied`, or `ToolFailed`
        with the person's reason when they want the model to go on differently."""
        ...

    def show_output(self, offset: int, text: str) -> None:
        """Let everybody see what a command that still runs has printed, from an offset in bytes on."""
        ...

    async def keeps_from(self, action: str) -> Callable[[Path], bool] | None:
        """Which real paths rules keep this tool from, if there are such rules. A search or a listing leaves them out."""
        ...

    async def ask(
        self, questions: Sequence[Question], *, confirm_title: str = "", confirm_description: str = ""
    ) -> Sequence[QuestionResponse | None]:
        """Put questions to whoever is there; one response per question, None where it was skipped.
        Raises `QuestionCancelled`."""
        ...

    async def replace_todos(self, todos: Sequence[Todo]) -> Sequence[Todo]:
        """Put the list in the place of the session's, for everybody to see; gives back the one that stood there."""
        ...

    async def delegate(self, prompt: str, agent: str = "", *, errand: Errand | None = None) -> str:
        """Run a sub-agent on the prompt, the one of that name or one that only reads, and give back its last words. On an
        errand its workspace is the errand's own directory."""
        ...


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """`effects` tells that a call may change the world, so its intent is on disk before it starts.
    `parallel` calls of one step may run side by side. `task` tools are also given to sub-agents.
    `interactive` tools are only offered when somebody can answer, and `lsp` tools where language servers are used. `inner`
    tools are offered to nobody but sub-agents that name them."""

    name: str
    description: str
    params: Any
    schema: dict[str, Any]
    run: Callable[[Any, ToolContext], Awaitable[Outcome]]
    effects: bool = True
    parallel: bool = False
    task: bool = False
    interactive: bool = False
    inner: bool = False
    lsp: bool = False


def tool(
    name: str,
    description: str,
    *,
    effects: bool = True,
    parallel: bool = False,
    task: bool = False,
    interactive: bool = False,
    inner: bool = False,
    lsp: bool = False,
) -> Callable[[Callable[[P, ToolContext], Awaitable[Outcome]]], Tool]:
    """Make a `Tool` of a function whose first parameter is annotated with its parameter type."""

    def wrap(function: Callable[[P, ToolContext], Awaitable[Outcome]]) -> Tool:
        kind = next(iter(_annotations(function).values()))
        return Tool(
            name=name,
            description=description,
            params=kind,
            schema=_schema_of(kind),
            run=function,
            effects=effects,
            parallel=parallel,
            task=task,
            interactive=interactive,
            inner=inner,
            lsp=lsp,
        )

    return wrap


def _annotations(function: Callable[..., Any]) -> dict[str, Any]:
    return typing.get_type_hints(function)


def _schema_of(kind: Any) -> dict[str, Any]:
    """The parameters as a self-contained JSON Schema object: models do not follow references."""
    (schema,), components = msgspec.json.schema_components([kind], ref_template="{name}")
    inlined: dict[str, Any] = _inline(schema, components)
    return inlined


def _inline(node: Any, components: dict[str, Any]) -> Any:
    if isinstance(node, dict):
        if "$ref" in node:
            return _inline(components[node["$ref"]], components)
        return {k: _inline(v, components) for k, v in node.items() if k != "title"}
    if isinstance(node, list):
        return [_inline(v, components) for v in node]
    return node
