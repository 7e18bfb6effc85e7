"""What a workspace is configured with, checked and typed. Immutable: a change makes a new one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from bullpen.config.catalogue import Catalogue
from bullpen.config.keys import KeySource, Token
from bullpen.config.shape import Hook, LspServer, McpServer, Options, WebSearch
from bullpen.config.spans import seconds
from bullpen.config.wanted import HookPins, Item, Wanted
from bullpen.schema.agent import Model, SelectedModel
from bullpen.schema.asks import Rule
from bullpen.schema.choices import Policy


class ProviderSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A provider that can be used: templates are expanded, so the key is here in clear. Never answer with it."""

    id: str
    name: str = ""
    type: str = "openai-compat"
    base_url: str = ""
    api_key: str = ""
    extra_headers: dict[str, str] = {}
    extra_body: dict[str, Any] = {}
    provider_options: dict[str, Any] = {}
    system_prompt_prefix: str = ""
    flat_rate: bool = False
    prompt_caching: bool = True
    """Whether hosts that want marks for what they are to cache get them."""
    aws_auth_refresh: str = ""
    environment: dict[str, str] = {}
    """Of the workspace's environment, what this type's vendor looks at."""
    directory: str = ""
    command_environment: dict[str, str] = {}
    """Where, and with which variables, the commands that a vendor's login needs are run."""
    models: tuple[Model, ...] = ()
    discovers: bool = False
    """Whether its host is asked which models it has."""
    token: Token | None = None
    token_file: str = ""
    """The login that the key comes from, and where it is kept."""
    key_source: KeySource | None = None
    """Set when a command prints the key."""

    def __repr__(self) -> str:
        """Without what may be secret: settings end up in logs and test reports."""
        return f"ProviderSettings(id={self.id!r}, type={self.type!r}, models={[m.id for m in self.models]!r})"

    def model(self, model_id: str) -> Model | None:
        return next((m for m in self.models if m.id == model_id), None)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The config of one workspace.

    `raw` is the merged object with templates as they were written; answers show it through `redact`. `warnings`
    are things to tell a person. `problems` are mistakes that may have cost a restriction: nothing runs until they
    are mended. `untrusted` names what the project's files ask for and do not get before somebody trusts them;
    `wanted` is what they ask for, trusted or not, `items` the same item by item with what a person makes of each, and `fingerprint` the
    hash of exactly that, "" for nothing.
    `held_back` are mistakes in files that go on saying what they said before. `catalogue` is what is offered, `unlisted`
    the providers whose host has not said yet which models it has.
    """

    raw: dict[str, Any]
    providers: dict[str, ProviderSettings]
    large: SelectedModel | None
    small: SelectedModel | None
    options: Options
    allowed_tools: tuple[str, ...]
    permission_rules: tuple[Rule, ...] = ()
    hooks: dict[str, tuple[Hook, ...]]
    mcp: dict[str, McpServer]
    mcp_errors: dict[str, str]
    lsp: dict[str, LspServer]
    lsp_errors: dict[str, str] = {}
    tool_limits: dict[str, dict[str, Any]]
    web_search: WebSearch = WebSearch()
    env: dict[str, str]
    secret_names: frozenset[str]
    warnings: tuple[str, ...]
    problems: tuple[str, ...]
    untrusted: tuple[str, ...]
    fingerprint: str
    trusted: bool
    catalogue: Catalogue
    keys_found: tuple[str, ...]
    unlisted: dict[str, ProviderSettings]
    wanted: tuple[Wanted, ...] = ()
    items: tuple[Item, ...] = ()
    hook_pins: HookPins = HookPins()
    held_back: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Settings(large={self.large!r}, small={self.small!r}, providers={sorted(self.providers)!r})"

    def trusts(self, file: Path) -> bool:
        """Whether a file of the project that is an item as a whole may be used: a skill, a sub-agent, a command."""
        return any(item.is_trusted for item in self.items if item.file == str(file))

    @property
    def disabled_tools(self) -> tuple[str, ...]:
        return self.options.disabled_tools

    @property
    def is_ready(self) -> bool:
        """Whether a prompt can be answered."""
        return self.large is not None and not self.problems

    @property
    def policy(self) -> Policy:
        """What to do at a provider's limit where a session does not say."""
        said = self.options.unattended
        models = (name.partition("/") for name in said.models)
        return Policy(
            on_limit=said.on_limit,
            longest_wait_s=seconds(said.longest_wait),
            models=tuple(SelectedModel(provider=provider, model=model) for provider, _, model in models),
        )

    def model_of(self, selected: SelectedModel) -> Model:
        """What is known about the selected model; an empty one with its id when it is not listed."""
        provider = self.providers.get(selected.provider)
        found = provider.model(selected.model) if provider else None
        return found or Model(id=selected.model, name=selected.model)

    def default_small(self, provider_id: str) -> SelectedModel:
        """The small model that goes with a provider; the large one where nothing better is known."""
        provider = self.providers.get(provider_id)
        known = self.catalogue.known(provider_id)
        if provider and known and provider.model(known.default_small_model_id):
            return SelectedModel(provider=provider_id, model=known.default_small_model_id)
        if provider and provider.models and not (self.large and self.large.provider == provider_id):
            return SelectedModel(provider=provider_id, model=provider.models[0].id)
        return self.large or SelectedModel()


def limits_of(tools: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The `tools` section, which was checked, with spans in seconds as `timeout_s`; without what holds a key."""
    limits: dict[str, dict[str, Any]] = {}
    for name, section in tools.items():
        if not isinstance(section, Mapping) or name == "web_search":
            continue
        limits[name] = {k: v for k, v in section.items() if k != "timeout"}
        if section.get("timeout"):
            with suppress(ValueError):  # Of a tool that nobody knows; the others were checked.
                limits[name]["timeout_s"] = seconds(section["timeout"])
    return limits
