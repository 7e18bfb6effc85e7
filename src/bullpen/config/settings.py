"""What a workspace is configured with, checked and typed. Immutable: a change makes a new one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from bullpen.config import catalogue
from bullpen.config.shape import Hook, LspServer, McpServer, Options
from bullpen.schema.agent import CatalogueProvider, Model, SelectedModel


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
    models: tuple[Model, ...] = ()

    def __repr__(self) -> str:
        """Without what may be secret: settings end up in logs and test reports."""
        return f"ProviderSettings(id={self.id!r}, type={self.type!r}, models={[m.id for m in self.models]!r})"

    def model(self, model_id: str) -> Model | None:
        return next((m for m in self.models if m.id == model_id), None)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The config of one workspace.

    `raw` is the merged object with templates as they were written; answers show it through `redact`. `warnings`
    are things to tell a person. `problems` are errors that made part of the config unusable: nothing runs
    until they are mended, because what is missing may be a restriction. `untrusted` names what the project's
    files ask for and do not get before somebody trusts them; `fingerprint` is the hash of exactly that part, ""
    when there is nothing to trust.
    """

    raw: dict[str, Any]
    providers: dict[str, ProviderSettings]
    large: SelectedModel | None
    small: SelectedModel | None
    options: Options
    allowed_tools: tuple[str, ...]
    hooks: dict[str, tuple[Hook, ...]]
    mcp: dict[str, McpServer]
    mcp_errors: dict[str, str]
    lsp: dict[str, LspServer]
    tool_limits: dict[str, dict[str, Any]]
    env: dict[str, str]
    secret_names: frozenset[str]
    warnings: tuple[str, ...]
    problems: tuple[str, ...]
    untrusted: tuple[str, ...]
    fingerprint: str
    trusted: bool
    offers: tuple[CatalogueProvider, ...]
    keys_found: tuple[str, ...]
    origins: dict[str, str]

    def __repr__(self) -> str:
        return f"Settings(large={self.large!r}, small={self.small!r}, providers={sorted(self.providers)!r})"

    @property
    def disabled_tools(self) -> tuple[str, ...]:
        return self.options.disabled_tools

    @property
    def is_ready(self) -> bool:
        """Whether a prompt can be answered."""
        return self.large is not None and not self.problems

    def model_of(self, selected: SelectedModel) -> Model:
        """What is known about the selected model; an empty one with its id when it is not listed."""
        provider = self.providers.get(selected.provider)
        found = provider.model(selected.model) if provider else None
        return found or Model(id=selected.model, name=selected.model)

    def default_small(self, provider_id: str) -> SelectedModel:
        """The small model that goes with a provider; the large one where nothing better is known."""
        provider = self.providers.get(provider_id)
        known = catalogue.known(provider_id)
        if provider and known and provider.model(known.default_small_model_id):
            return SelectedModel(provider=provider_id, model=known.default_small_model_id)
        if provider and provider.models and not (self.large and self.large.provider == provider_id):
            return SelectedModel(provider=provider_id, model=provider.models[0].id)
        return self.large or SelectedModel()


_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s|m|h)")
_UNIT_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}

NANOSECONDS_FROM = 1_000_000
"""Older files give nanoseconds. Nobody means a limit below a millisecond, so smaller numbers are seconds."""


def seconds(value: float | str) -> float:
    """A span in seconds: `"1m30s"`, `10`, or the nanoseconds of older files. Raises `ValueError`."""
    if isinstance(value, str):
        text = value.strip()
        if re.fullmatch(r"\d+(\.\d+)?", text):
            return seconds(float(text))
        if not text or _DURATION.sub("", text).strip():
            raise ValueError(f'{value!r} is not a duration; write for example "10s" or "2m"')
        return sum(float(number) * _UNIT_S[unit] for number, unit in _DURATION.findall(text))
    return value / 1e9 if value >= NANOSECONDS_FROM else float(value)


def limits_of(tools: Mapping[str, Any]) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """The `tools` section with spans in seconds as `timeout_s`, and what was wrong with it."""
    limits: dict[str, dict[str, Any]] = {}
    wrong: list[str] = []
    for name, section in tools.items():
        if not isinstance(section, Mapping):
            continue
        limits[name] = {k: v for k, v in section.items() if k != "timeout"}
        try:
            if section.get("timeout"):
                limits[name]["timeout_s"] = seconds(section["timeout"])
        except ValueError as exc:
            wrong.append(f"tools.{name}.timeout: {exc}")
    return limits, wrong
