"""What a config file may hold: every key with its type, its limits, and what it means.

These structs are the one source for checking files (`check`), for the JSON schema (`json_schema`), for the table in
`docs/configuration.md` and for `Settings`, so that none of them can disagree with another. What is said about a
field stands in its annotation.
"""

from __future__ import annotations

import functools
import re
import types
import typing
from collections.abc import Iterable
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

from bullpen.schema.agent import CostTier, Model, SelectedModel

HookEvent = Literal[
    "PreToolUse", "PostToolUse", "PrePrompt", "PostPrompt", "PreTurn", "PostTurn", "PreAsk", "PostAsk"
]
HOOK_EVENTS: tuple[HookEvent, ...] = typing.get_args(HookEvent)
ROLES = ("large", "small")


def says(text: str, *, ge: float | None = None, le: float | None = None, **extra: Any) -> Meta:
    """A field's meaning, and its limits."""
    return Meta(description=text, ge=ge, le=le, extra=extra)


def restricts(text: str, **extra: Any) -> Meta:
    """A field that takes something away. What is wrong with it must not pass as if nothing had been forbidden."""
    return says(text, restricts=True, **extra)


def span(text: str) -> Meta:
    """A length of time: seconds, or text such as `"10s"`."""
    return says(text, span=True)


def expanded(text: str) -> Meta:
    """Text in which variables and commands are replaced."""
    return says(text, expanded=True)


def later(text: str) -> Meta:
    """A field that is accepted and shown, but that nothing follows yet."""
    return says(text, later=True)


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all that stands in a config file."""


class Completions(Section, frozen=True, kw_only=True):
    max_depth: Annotated[int, Meta(ge=0), says("How deep file completion looks; 0 is no limit.")] = 0
    max_items: Annotated[
        int, Meta(ge=0), says("How many files completion offers at once; 0 is what the client asks for.")
    ] = 0


class Tui(Section, frozen=True, kw_only=True):
    compact_mode: Annotated[bool, says("Leave out the sidebar.")] = False
    diff_mode: Annotated[
        Literal["", "unified", "split"], says("How changes are shown; by width if empty.")
    ] = ""
    transparent: Annotated[bool, later("Do not paint the background.")] = False
    scrollbar: Annotated[Literal["default", "always", "never"], later("When the scroll bar is shown.")] = (
        "default"
    )
    theme: Annotated[str, says("The colours: dark, light or contrast; as the terminal is if empty.")] = ""
    completions: Annotated[Completions, says("Completion of file names.")] = Completions()


class Attribution(Section, frozen=True, kw_only=True):
    """`generated_with` is on unless somebody turned it off."""

    trailer_style: Annotated[
        Literal["none", "co-authored-by", "assisted-by"],
        later("The trailer of commits that the agent makes."),
    ] = "assisted-by"
    generated_with: Annotated[bool, later("Say in commits and pull requests what made them.")] = True
    co_authored_by: Annotated[bool | None, later("Older form of `trailer_style`.")] = None


Duration = int | float | str
"""`"10s"`, `"2m"`, seconds, or the nanoseconds of older files."""


class Unattended(Section, frozen=True, kw_only=True):
    """What a turn does at a provider's limit when its session says nothing else; models are `provider/model`."""

    on_limit: Annotated[
        Literal["stop", "wait", "switch"], says("Report the limit, wait for its end, or go down `models`.")
    ] = "stop"
    longest_wait: Annotated[Duration, span("The longest wait for a provider.")] = "6h"
    models: Annotated[tuple[str, ...], says("Models to go down to, as `provider/model`.")] = ()


class BudgetLimits(Section, frozen=True, kw_only=True):
    """Dollars; 0 is no limit."""

    run: Annotated[float, Meta(ge=0), restricts("Dollars for one run; 0 is no limit.")] = 0.0
    session: Annotated[float, Meta(ge=0), restricts("Dollars for a session with its sub-agents.")] = 0.0
    day: Annotated[float, Meta(ge=0), restricts("Dollars for a day.")] = 0.0
    workspace: Annotated[float, Meta(ge=0), restricts("Dollars for the workspace.")] = 0.0


class TurnLimits(Section, frozen=True, kw_only=True):
    """How long one turn may go on by itself; 0 is no limit."""

    steps: Annotated[int, Meta(ge=0), restricts("Model answers in one turn; 0 is no limit.")] = 500
    time: Annotated[Duration, restricts("How long one turn may take; 0 is no limit.", span=True)] = 0


class Undo(Section, frozen=True, kw_only=True):
    """How much is kept, outside of the project, to undo what turns changed."""

    enabled: Annotated[bool, says("Keep what turns change, so that it can be undone.")] = True
    max_files: Annotated[
        int, Meta(ge=1), says("How many files of a workspace are watched while a command runs.")
    ] = 50_000
    max_file_size: Annotated[int, Meta(ge=1), says("Larger files are not kept, in bytes.")] = 1 << 20
    max_store: Annotated[
        int, Meta(ge=1), says("What is kept of a workspace in all, in bytes; the oldest is dropped.")
    ] = 500 << 20


class CommandLimits(Section, frozen=True, kw_only=True):
    """What one shell command and all that it starts may take; 0 is no limit."""

    processes: Annotated[int, Meta(ge=0), restricts("Processes of one command.")] = 256
    memory_mb: Annotated[int, Meta(ge=0), restricts("Memory of one command, in MiB.")] = 2048
    open_files: Annotated[int, Meta(ge=0), restricts("Open files of each of its processes.")] = 1024
    file_mb: Annotated[int, Meta(ge=0), restricts("The largest file it may write, in MiB.")] = 1024
    cpu: Annotated[Duration, restricts("Time of a processor for each of its processes.", span=True)] = 0
    time: Annotated[Duration, restricts("How long it may take, in the background too.", span=True)] = 0


class SandboxOptions(Section, frozen=True, kw_only=True):
    """Walls around the agent's shell commands."""

    mode: Annotated[
        Literal["off", "auto", "landlock", "bubblewrap"],
        restricts("How they are made; `auto` takes what is there. Commands are refused when nothing is."),
    ] = "off"
    network: Annotated[bool, restricts("Whether commands may use the network.")] = False
    writable: Annotated[tuple[str, ...], says("More places to write, as absolute paths or with `~/`.")] = ()
    hidden: Annotated[tuple[str, ...], restricts("More places that commands cannot read.")] = ()


class Options(Section, frozen=True, kw_only=True):
    context_paths: Annotated[
        tuple[str, ...],
        expanded(
            "More instruction files or folders for the system prompt, besides `AGENTS.md` and its like."
        ),
    ] = ()
    global_context_paths: Annotated[
        tuple[str, ...],
        expanded(
            "Your own instruction files; naming any replaces `BULLPEN.md` and `AGENTS.md` in your config folder."
        ),
    ] = ()
    skills_paths: Annotated[tuple[str, ...], expanded("More folders with skills.")] = ()
    disabled_skills: Annotated[tuple[str, ...], restricts("Skills that are hidden everywhere.")] = ()
    disabled_tools: Annotated[tuple[str, ...], restricts("Tools that the agent does not get.")] = ()
    debug: Annotated[bool, later("Log more; today `bullpen server --debug` does.")] = False
    debug_lsp: Annotated[bool, says("Log the traffic of language servers.")] = False
    disable_auto_summarize: Annotated[bool, says("Never summarise a long session unasked.")] = False
    data_directory: Annotated[
        str,
        later(
            "Shown, never followed: state lies where the server keeps it (`--data-dir`), not in the project."
        ),
    ] = ""
    disable_provider_auto_update: Annotated[
        bool,
        says("Use the catalogue that came with this version. It is never fetched, so this is always so."),
    ] = False
    disable_default_providers: Annotated[bool, restricts("Offer no provider but those in the config.")] = (
        False
    )
    disable_metrics: Annotated[bool, says("Send no usage figures. None are ever sent.")] = False
    initialize_as: Annotated[str, says("The file that project initialisation writes.")] = "AGENTS.md"
    auto_lsp: Annotated[bool, says("Start language servers that are installed by themselves.")] = True
    lsp_idle_timeout: Annotated[
        Duration, span("How long a language server may stay unused before it is ended; 0 is for ever.")
    ] = "15m"
    progress: Annotated[bool, later("Show progress in the terminal's title or tab.")] = True
    notifications: Annotated[
        Literal["auto", "native", "osc", "bell", "disabled"], later("How you are told that a turn ended.")
    ] = "auto"
    attribution: Annotated[Attribution, says("How the agent's commits name it.")] = Attribution()
    tui: Annotated[Tui, says("Looks of the terminal client.")] = Tui()
    unattended: Annotated[Unattended, says("What happens at a provider's limit.")] = Unattended()
    budget: Annotated[BudgetLimits, says("What may be spent.")] = BudgetLimits()
    turn_limits: Annotated[TurnLimits, says("How long one turn may go on by itself.")] = TurnLimits()
    undo: Annotated[Undo, says("What is kept for undo.")] = Undo()
    sandbox: Annotated[SandboxOptions, says("Walls around the agent's shell commands.")] = SandboxOptions()
    command_limits: Annotated[CommandLimits, says("What one shell command may take; 0 is no limit.")] = (
        CommandLimits()
    )


class LsLimits(Section, frozen=True, kw_only=True):
    max_depth: Annotated[int, Meta(ge=0), says("How deep `ls` looks; 0 is no limit.")] = 0
    max_items: Annotated[int, Meta(ge=0), says("How many entries `ls` shows; 0 is its default.")] = 0


class SearchLimits(Section, frozen=True, kw_only=True):
    timeout: Annotated[
        float,
        span(
            "How long one search may take; 0 is its default, 5 s for `grep`, 30 s for `glob`. Numbers from a million on are nanoseconds."
        ),
    ] = 0


class FetchRules(Section, frozen=True, kw_only=True):
    allow_private: Annotated[
        tuple[str, ...],
        says("Places outside the public internet that may be fetched from, each as `host:port`."),
    ] = ()


class DownloadLimits(Section, frozen=True, kw_only=True):
    max_bytes: Annotated[
        int, Meta(ge=0), says("The largest file that `download` takes; 0 is its default, 100 MiB.")
    ] = 0


class WebSearch(Section, frozen=True, kw_only=True):
    """The search engine of the web. Templates are expanded already, so the key is here in clear."""

    provider: Annotated[
        Literal["duckduckgo", "brave", "searxng", "tavily"], says("Which search engine is asked.")
    ] = "duckduckgo"
    base_url: Annotated[str, expanded("Where it is, if not at its usual place; `searxng` has none.")] = ""
    api_key: Annotated[
        str, expanded("Its key, best as `$VARIABLE` or `$(command)`; `brave` and `tavily` need one.")
    ] = ""

    def __repr__(self) -> str:
        """Without what is secret."""
        return f"WebSearch(provider={self.provider!r})"


class ToolLimits(Section, frozen=True, kw_only=True):
    ls: Annotated[LsLimits, says("Limits of `ls`.")] = LsLimits()
    grep: Annotated[SearchLimits, says("Limits of `grep`.")] = SearchLimits()
    glob: Annotated[SearchLimits, says("Limits of `glob`.")] = SearchLimits()
    fetch: Annotated[FetchRules, says("What the tools for the web may reach.")] = FetchRules()
    download: Annotated[DownloadLimits, says("Limits of `download`.")] = DownloadLimits()
    web_search: Annotated[WebSearch, says("The search engine of the web.")] = WebSearch()


class PermissionRule(Section, frozen=True, kw_only=True):
    """What is let through, asked about or refused; what is left out matches anything. See `docs/permissions.md`."""

    effect: Annotated[Literal["allow", "ask", "deny"], restricts("What becomes of the call; deny wins.")]
    tool: Annotated[str, restricts("The tool, as `tool` or `tool:action`.")] = ""
    command: Annotated[str, restricts("A pattern of words, such as `git push *`.")] = ""
    path: Annotated[str, restricts("A glob; relative ones begin at the workspace.")] = ""
    host: Annotated[str, restricts("A host, such as `example.com` or `*.example.com`.")] = ""


class Permissions(Section, frozen=True, kw_only=True):
    allowed_tools: Annotated[
        tuple[str, ...], says("Tools that need no permission, as `tool` or `tool:action`.")
    ] = ()
    rules: Annotated[
        tuple[PermissionRule, ...], restricts("Rules on commands, paths and hosts; deny wins.")
    ] = ()


HOOK_TIMEOUT_S = 30.0
"""A hook that takes longer is given up: somebody waits for the tool."""


class Hook(Section, frozen=True, kw_only=True):
    """A command that is asked around a prompt, a turn, a tool's call or an ask."""

    command: Annotated[str, says("What is run, by the shell.")]
    matcher: Annotated[
        str,
        says(
            "A regular expression on the tool's name, for calls and asks; empty matches all.",
            regex=True,
        ),
    ] = ""
    name: Annotated[str, says("How it is shown.")] = ""
    timeout: Annotated[float, span("How long it may take.")] = HOOK_TIMEOUT_S
    fail_closed: Annotated[
        bool, says("Refuse when it fails, takes too long or makes no sense, instead of going on without it.")
    ] = False

    @property
    def title(self) -> str:
        return self.name or self.command

    @property
    def timeout_s(self) -> float:
        return self.timeout if self.timeout > 0 else HOOK_TIMEOUT_S

    def matches(self, tool_name: str) -> bool:
        return re.search(self.matcher, tool_name) is not None


class McpServer(Section, frozen=True, kw_only=True):
    """An outside tool server. Templates in `command`, `args`, `env`, `url` and `headers` are expanded already."""

    type: Annotated[Literal["stdio", "sse", "http"], says("How it is spoken to.")] = "stdio"
    command: Annotated[str, expanded("The program of a `stdio` server.")] = ""
    args: Annotated[tuple[str, ...], expanded("Its arguments.")] = ()
    env: Annotated[dict[str, str], expanded("Variables for it.")] = {}
    url: Annotated[str, expanded("The address of an `http` or `sse` server.")] = ""
    headers: Annotated[dict[str, str], expanded("Headers for it; one that becomes empty is left out.")] = {}
    timeout: Annotated[float, span("How long connecting may take; 0 is the default.")] = 0
    disabled: Annotated[bool, restricts("List it, but do not start it.")] = False
    enabled_tools: Annotated[tuple[str, ...], restricts("Only these of its tools; empty is all.")] = ()
    disabled_tools: Annotated[tuple[str, ...], restricts("Not these of its tools.")] = ()
    oauth: Annotated[bool, says("A person logs in to it, so it may take longer to answer.")] = False
    oauth_client_id: Annotated[str, expanded("A client that was registered there beforehand.")] = ""
    oauth_client_secret: Annotated[str, expanded("Its secret.")] = ""
    oauth_callback_port: Annotated[
        int, Meta(ge=0, le=65535), says("A fixed port for the way back from a login.")
    ] = 0
    oauth_token: Annotated[dict[str, Any], says("Not used: `bullpen mcp login` keeps logins elsewhere.")] = {}

    def __repr__(self) -> str:
        """Without what may be secret."""
        return f"McpServer(type={self.type!r}, disabled={self.disabled!r})"


class LspServer(Section, frozen=True, kw_only=True):
    """A language server. Templates in `command`, `args` and `env` are expanded already."""

    command: Annotated[str, expanded("The program.")] = ""
    args: Annotated[tuple[str, ...], expanded("Its arguments.")] = ()
    env: Annotated[dict[str, str], expanded("Variables for it.")] = {}
    filetypes: Annotated[tuple[str, ...], says("Extensions or languages it is for; empty is all.")] = ()
    root_markers: Annotated[tuple[str, ...], says("Files that tell that it is wanted here.")] = ()
    init_options: Annotated[dict[str, Any], says("Options of the `initialize` request.")] = {}
    options: Annotated[dict[str, Any], says("Workspace settings.")] = {}
    timeout: Annotated[float, span("How long its start may take.")] = 30
    disabled: Annotated[bool, restricts("Do not start it.")] = False


class ProviderEntry(Section, frozen=True, kw_only=True):
    id: Annotated[str, says("Its id; the key if empty.")] = ""
    name: Annotated[str, says("How it is shown.")] = ""
    type: Annotated[str, says("The protocol it speaks; `openai-compat` if empty.")] = ""
    base_url: Annotated[str, expanded("Where it is; required for one that is not in the catalogue.")] = ""
    api_key: Annotated[str, expanded("Its key, best as `$VARIABLE` or `$(command)`.")] = ""
    oauth: Annotated[dict[str, Any], says("Written by Bullpen.", machine=True)] = {}
    disable: Annotated[bool, restricts("Hide it.")] = False
    system_prompt_prefix: Annotated[str, says("Put before its system prompts.")] = ""
    extra_headers: Annotated[
        dict[str, str], expanded("More headers; one that becomes empty is left out.")
    ] = {}
    extra_body: Annotated[dict[str, Any], says("More fields of the request.")] = {}
    provider_options: Annotated[dict[str, Any], says("Options of its type.")] = {}
    flat_rate: Annotated[bool, says("Count no cost.")] = False
    discover_models: Annotated[bool | None, says("Ask it for its models.")] = None
    aws_auth_refresh: Annotated[str, says("A command that renews the credentials of Bedrock.")] = ""
    models: Annotated[
        tuple[Model, ...], says("Its models; they come first and replace those of the catalogue.")
    ] = ()


class File(Section, frozen=True, kw_only=True, rename={"schema_url": "$schema"}):
    """The whole of a config file."""

    schema_url: Annotated[str, says("Where the schema lies, for editors.")] = ""
    models: Annotated[
        dict[str, SelectedModel],
        says("The selected model of each role, `large` and `small`.", keys=ROLES, word="ROLE"),
    ] = {}
    recent_models: Annotated[
        dict[str, tuple[SelectedModel, ...]],
        says("Written by Bullpen.", keys=ROLES, word="ROLE", machine=True),
    ] = {}
    favorite_models: Annotated[
        tuple[SelectedModel, ...], says("Written by Bullpen: the models that somebody likes.", machine=True)
    ] = ()
    providers: Annotated[dict[str, ProviderEntry], says("Model providers by id.")] = {}
    mcp: Annotated[dict[str, McpServer], says("Outside tool servers by name.")] = {}
    lsp: Annotated[dict[str, LspServer], says("Language servers by name.")] = {}
    options: Annotated[Options, says("Everything else.")] = Options()
    permissions: Annotated[Permissions, says("What needs no permission.")] = Permissions()
    tools: Annotated[ToolLimits, says("Limits of tools.")] = ToolLimits()
    hooks: Annotated[
        dict[str, tuple[Hook, ...]],
        restricts(
            "Commands that are asked before something happens or told after it, by event; see docs/hooks.md.",
            keys=HOOK_EVENTS,
            word="EVENT",
        ),
    ] = {}
    env: Annotated[
        dict[str, str], expanded("Variables for tools and servers, set in the order of their names.")
    ] = {}


_WIRE_NOTES: dict[type[msgspec.Struct], dict[str, Meta]] = {
    SelectedModel: {
        "model": says("The model's id; the provider's default if empty."),
        "provider": says("The provider's id; the only one that has the model if empty."),
        "reasoning_effort": says("One of the model's levels."),
        "think": says("Let a model without levels think."),
        "max_tokens": says("The longest answer.", ge=1),
        "temperature": says("Sampling.", ge=0, le=2),
        "top_p": says("Sampling.", ge=0, le=1),
        "top_k": says("Sampling.", ge=0),
        "frequency_penalty": says("Sampling.", ge=-2, le=2),
        "presence_penalty": says("Sampling.", ge=-2, le=2),
        "provider_options": says("Passed on to the provider."),
    },
    Model: {
        "id": says("What the provider calls it."),
        "name": says("How it is shown."),
        "cost_per_1m_in": says("Price of a million tokens of input.", ge=0),
        "cost_per_1m_out": says("Price of a million tokens of output.", ge=0),
        "cost_per_1m_in_cached": says("Price of a million tokens written to the cache.", ge=0),
        "cost_per_1m_out_cached": says("Price of a million tokens read from the cache.", ge=0),
        "context_window": says("How many tokens it can see.", ge=0),
        "default_max_tokens": says("Its longest answer unless the selection says otherwise.", ge=0),
        "can_reason": says("Whether it thinks."),
        "reasoning_levels": says("The levels of effort it knows."),
        "default_reasoning_effort": says("The level it has unless the selection says otherwise."),
        "supports_attachments": says("Whether it sees pictures."),
        "options": says("Options of the provider's type."),
        "max_output_tokens": says("The longest answer it can give.", ge=0),
        "supports_tools": says("Whether it can be given tools; unset where nobody knows."),
        "cost_tiers": says("Prices of longer prompts."),
    },
    CostTier: {
        "above": says("Holds for prompts with more tokens than this.", ge=0),
        "cost_per_1m_in": says("Price of a million tokens of input.", ge=0),
        "cost_per_1m_out": says("Price of a million tokens of output.", ge=0),
        "cost_per_1m_in_cached": says("Price of a million tokens written to the cache.", ge=0),
        "cost_per_1m_out_cached": says("Price of a million tokens read from the cache.", ge=0),
    },
}
"""What is said of the structs that are shared with the wire, where the limits of files do not hold."""


class Field(NamedTuple):
    """One key of a section. `kind` is its type without notes and without the ways to leave it out."""

    name: str
    kind: Any
    description: str
    ge: float | None
    le: float | None
    is_required: bool
    default: Any
    extra: dict[str, Any]

    @property
    def typed(self) -> Any:
        """The type with its limits, as msgspec checks it."""
        if self.ge is None and self.le is None:
            return self.kind
        return Annotated[self.kind, Meta(ge=self.ge, le=self.le)]


@functools.cache
def fields_of(section: type[msgspec.Struct]) -> dict[str, Field]:
    """The keys of a section by their names in the file."""
    found: dict[str, Field] = {}
    wire = _WIRE_NOTES.get(section, {})
    for info in msgspec.structs.fields(section):
        kind, notes = _without_notes(info.type)
        notes = [*notes, wire[info.name]] if info.name in wire else notes
        found[info.encode_name] = Field(
            name=info.encode_name,
            kind=_without_absence(kind),
            description=next((n.description for n in notes if n.description), ""),
            ge=next((n.ge for n in notes if n.ge is not None), None),
            le=next((n.le for n in notes if n.le is not None), None),
            is_required=info.required,
            default=None if info.default in (msgspec.NODEFAULT, msgspec.UNSET) else info.default,
            extra={k: v for n in notes for k, v in (n.extra or {}).items()},
        )
    return found


def default_of(steps: Iterable[str]) -> Any:
    """The default of a setting; None where it has none. Raises `KeyError` when there is no such setting."""
    kind: Any = File
    default: Any = None
    for step in steps:
        if is_section(kind):
            field = fields_of(kind)[step]
            kind, default = field.kind, field.default
        elif typing.get_origin(kind) is dict:
            kind, default = item_of(kind), None
        elif kind is not Any:
            raise KeyError(step)
    return default


def is_section(kind: Any) -> typing.TypeGuard[type[msgspec.Struct]]:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


@functools.cache
def origin_of(kind: Any) -> Any:
    """`dict` for a map, `tuple` for a list, None for most others."""
    return typing.get_origin(kind)


@functools.cache
def item_of(kind: Any) -> Any:
    """The type of what is in a mapping or a list; None for anything else."""
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) is dict:
        return arguments[1]
    return arguments[0] if typing.get_origin(kind) is tuple else None


def _without_notes(kind: Any) -> tuple[Any, list[Meta]]:
    if typing.get_origin(kind) is Annotated:
        bare, *notes = typing.get_args(kind)
        return bare, [n for n in notes if isinstance(n, Meta)]
    return kind, []


def _without_absence(kind: Any) -> Any:
    """The type without `None` and the wire's "not given"."""
    if not isinstance(kind, types.UnionType) and typing.get_origin(kind) is not typing.Union:
        return kind
    left = tuple(k for k in typing.get_args(kind) if k not in (types.NoneType, msgspec.UnsetType))
    return left[0] if len(left) == 1 else typing.Union[left]  # noqa: UP007  # made at run time
