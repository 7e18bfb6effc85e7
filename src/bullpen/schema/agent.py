"""Models, the agent's state, workspaces and the other nouns that answers are made of."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

from msgspec import UNSET, UnsetType, field

from bullpen.schema.jobs import SandboxState
from bullpen.schema.wire import Wire


class CostTier(Wire, frozen=True, kw_only=True):
    """Prices of requests whose prompt has more than `above` tokens, in dollars per million."""

    above: int
    cost_per_1m_in: float = 0
    cost_per_1m_out: float = 0
    cost_per_1m_in_cached: float = 0
    cost_per_1m_out_cached: float = 0


class Model(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """`cost_per_1m_in_cached` is the price of writing to the cache, `cost_per_1m_out_cached` that of reading from it.

    `default_max_tokens` is what an answer may have unless somebody asks for more, `max_output_tokens` the most."""

    id: str = ""
    name: str = ""
    cost_per_1m_in: float = 0
    cost_per_1m_out: float = 0
    cost_per_1m_in_cached: float = 0
    cost_per_1m_out_cached: float = 0
    context_window: int = 0
    default_max_tokens: int = 0
    can_reason: bool = False
    reasoning_levels: tuple[str, ...] | UnsetType = UNSET
    default_reasoning_effort: str | UnsetType = UNSET
    supports_attachments: bool = False
    options: dict[str, Any] | UnsetType = UNSET
    max_output_tokens: int | UnsetType = UNSET
    supports_tools: bool | UnsetType = UNSET
    """Unset while nobody knows; a local server may say no."""
    cost_tiers: tuple[CostTier, ...] | UnsetType = UNSET

    def prices_at(self, prompt_tokens: int) -> Model | CostTier:
        """The prices of a request with so long a prompt."""
        reached = [tier for tier in self.cost_tiers or () if prompt_tokens > tier.above]
        return max(reached, key=lambda tier: tier.above, default=self)


class SelectedModel(Wire, frozen=True, kw_only=True, omit_defaults=False):
    model: str = ""
    provider: str = ""
    reasoning_effort: str | UnsetType = UNSET
    think: bool | UnsetType = UNSET
    max_tokens: int | UnsetType = UNSET
    temperature: float | UnsetType = UNSET
    top_p: float | UnsetType = UNSET
    top_k: int | UnsetType = UNSET
    frequency_penalty: float | UnsetType = UNSET
    presence_penalty: float | UnsetType = UNSET
    provider_options: dict[str, Any] | UnsetType = UNSET


class AgentInfo(Wire, frozen=True, kw_only=True):
    is_busy: bool
    is_ready: bool
    model: Model
    model_cfg: SelectedModel


class CatalogueProvider(Wire, frozen=True, kw_only=True):
    """A provider that could be configured; `GET W/providers` lists these."""

    name: str
    id: str
    api_key: str = ""
    api_endpoint: str = ""
    type: str = ""
    default_large_model_id: str = ""
    default_small_model_id: str = ""
    default_headers: dict[str, str] = field(default_factory=dict)
    models: tuple[Model, ...] = ()
    missing: str = ""
    """What has to be done before it can be used; empty when nothing has to."""


Group = Literal["day", "hour", "session", "turn", "model", "person", "client", "agent", "tool", "purpose"]


class SpentRow(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """What model calls cost, summed up for one `key`. `estimated` is how many of the calls were not counted by the vendor."""

    key: str
    calls: int
    input: int
    output: int
    cache_read: int
    cache_write: int
    cost: float
    estimated: int


class ToolCallsRow(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """How often a tool, the `key`, was called, how many of the calls failed or were refused, and how long all of them took;
    the time in which somebody was asked does not count."""

    key: str
    calls: int
    failed: int
    took_s: float


class VersionInfo(Wire, frozen=True, kw_only=True):
    version: str
    commit: str
    build_id: str
    go_version: str
    platform: str


class ServerStats(Wire, frozen=True, kw_only=True):
    """What the server counts of itself. Names may come and go; see `system/tally.py`."""

    counts: dict[str, int]
    """What happened since the start."""
    gauges: dict[str, int]
    """What there is now, and the highest values seen."""


class SkillInfo(Wire, frozen=True, kw_only=True):
    """`untrusted` is ours: the project's, and not to be used before somebody trusts it."""

    id: str
    name: str
    description: str
    label: str
    source: str
    user_invocable: bool
    untrusted: bool = False


class SkillState(Wire, frozen=True, kw_only=True):
    name: str
    path: str
    state: int
    error: str = ""


class CommandArgument(Wire, frozen=True, kw_only=True):
    name: str
    required: bool = False
    default: str = ""


class CommandInfo(Wire, frozen=True, kw_only=True):
    """A prompt that is kept in a file. One that is `untrusted` cannot be used yet, one with an `error` not at all."""

    id: str
    name: str
    source: Literal["user", "project"]
    description: str = ""
    usage: str
    arguments: tuple[CommandArgument, ...] = ()
    untrusted: bool = False
    error: str = ""


ZERO_TIME = "0001-01-01T00:00:00Z"
"""What the wire says for "never" where it uses RFC 3339."""


def rfc3339(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


class LspInfo(Wire, frozen=True, kw_only=True):
    name: str
    state: int
    error: str = ""
    diagnostic_count: int = 0
    connected_at: str


class McpInfo(Wire, frozen=True, kw_only=True):
    name: str
    state: str
    error: str = ""
    tool_count: int = 0
    prompt_count: int = 0
    resource_count: int = 0
    held_count: int = 0
    """Tools, and instructions, that wait until a person accepts what they say now."""
    connected_at: str


class McpChange(Wire, frozen=True, kw_only=True):
    """Something that a server says and nobody has accepted. `diff` compares it with what was accepted."""

    tool: str = ""
    kind: Literal["new", "changed", "instructions"]
    diff: str
    warnings: tuple[str, ...] = ()


class McpChanges(Wire, frozen=True, kw_only=True):
    """All that is held back of one server; accepting it takes the `fingerprint`."""

    name: str
    fingerprint: str = ""
    changes: tuple[McpChange, ...] = ()


class McpPromptArgument(Wire, frozen=True, kw_only=True):
    id: str
    title: str
    description: str = ""
    required: bool = False


class McpPrompt(Wire, frozen=True, kw_only=True):
    id: str
    title: str = ""
    description: str = ""
    prompt_id: str
    client_id: str
    arguments: tuple[McpPromptArgument, ...] = ()


class McpResource(Wire, frozen=True, kw_only=True):
    """Something that the server `name` keeps to be read."""

    name: str
    uri: str
    title: str = ""
    description: str = ""
    mime_type: str = ""
    size: int = 0


class ClientInfo(Wire, frozen=True, kw_only=True):
    """One client of a workspace, as the room sees it."""

    client_id: str
    name: str = ""
    streams: int
    current_session: str = ""
    attached_at: int = 0


class QueuedPrompt(Wire, frozen=True, kw_only=True):
    """A prompt that waits for its turn. `seq` is its number for edits; order is the list's order."""

    seq: int
    session_id: str
    run_id: str
    text: str
    author: str = ""
    attachments: int = 0
    created_at: int


class Workspace(Wire, frozen=True, kw_only=True):
    """A workspace as answers show it. The creator's environment never leaves the server."""

    id: str
    path: str
    yolo: bool = False
    debug: bool = False
    data_dir: str = ""
    version: str = ""
    config: dict[str, Any]
    channels: tuple[str, ...] = ()
    skills: tuple[SkillState, ...] = ()
    trusted: bool = False
    outlive: bool = False
    untrusted_settings: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    sandbox: SandboxState = SandboxState()
