"""What a config file may hold: the keys, their types, and what a file gets wrong.

The structs are the one source for checking files; `Settings` reads the same ones. A key that is not known is
kept, because another client may understand it, but somebody is told, with the key that was probably meant. A
value of the wrong type is left out and told.
"""

from __future__ import annotations

import difflib
import functools
import re
import types
import typing
from typing import Any, Literal

import msgspec

from bullpen.config.merge import REPLACE
from bullpen.schema.agent import Model, SelectedModel

MAX_DEPTH = 50
"""Nesting past this is an attack or an accident."""


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all that stands in a config file."""


class Completions(Section, frozen=True, kw_only=True):
    max_depth: int = 0
    max_items: int = 0


class Tui(Section, frozen=True, kw_only=True):
    compact_mode: bool = False
    diff_mode: Literal["", "unified", "split"] = ""
    transparent: bool = False
    scrollbar: Literal["default", "always", "never"] = "default"
    theme: str = ""
    completions: Completions = Completions()


class Attribution(Section, frozen=True, kw_only=True):
    """`generated_with` is on unless somebody turned it off."""

    trailer_style: Literal["none", "co-authored-by", "assisted-by"] = "assisted-by"
    generated_with: bool = True
    co_authored_by: bool | None = None


class Options(Section, frozen=True, kw_only=True):
    context_paths: tuple[str, ...] = ()
    global_context_paths: tuple[str, ...] = ()
    skills_paths: tuple[str, ...] = ()
    disabled_skills: tuple[str, ...] = ()
    disabled_tools: tuple[str, ...] = ()
    debug: bool = False
    debug_lsp: bool = False
    disable_auto_summarize: bool = False
    data_directory: str = ""
    disable_provider_auto_update: bool = False
    disable_default_providers: bool = False
    disable_metrics: bool = False
    initialize_as: str = "AGENTS.md"
    auto_lsp: bool = True
    progress: bool = True
    notifications: Literal["auto", "native", "osc", "bell", "disabled"] = "auto"
    attribution: Attribution = Attribution()
    tui: Tui = Tui()


Duration = int | float | str
"""`"10s"`, `"2m"`, seconds, or the nanoseconds of older files."""


class LsLimits(Section, frozen=True, kw_only=True):
    max_depth: int = 0
    max_items: int = 0


class SearchLimits(Section, frozen=True, kw_only=True):
    timeout: Duration = 0


class ToolLimits(Section, frozen=True, kw_only=True):
    ls: LsLimits = LsLimits()
    grep: SearchLimits = SearchLimits()
    glob: SearchLimits = SearchLimits()


class Permissions(Section, frozen=True, kw_only=True):
    allowed_tools: tuple[str, ...] = ()


HOOK_TIMEOUT_S = 30.0
"""A hook that takes longer is given up: somebody waits for the tool."""


class Hook(Section, frozen=True, kw_only=True):
    """A command that is asked before a tool runs; `matcher` is a regular expression on the tool's name."""

    command: str
    matcher: str = ""
    name: str = ""
    timeout: float = HOOK_TIMEOUT_S

    @property
    def timeout_s(self) -> float:
        return self.timeout if self.timeout > 0 else HOOK_TIMEOUT_S

    def matches(self, tool_name: str) -> bool:
        return re.search(self.matcher, tool_name) is not None


class McpServer(Section, frozen=True, kw_only=True):
    """An outside tool server. Templates in `command`, `args`, `env`, `url` and `headers` are expanded already."""

    type: Literal["stdio", "sse", "http"] = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str = ""
    headers: dict[str, str] = {}
    timeout: float = 0
    disabled: bool = False
    enabled_tools: tuple[str, ...] = ()
    disabled_tools: tuple[str, ...] = ()
    oauth: bool = False
    oauth_client_id: str = ""
    oauth_client_secret: str = ""
    oauth_callback_port: int = 0
    oauth_token: dict[str, Any] = {}

    def __repr__(self) -> str:
        """Without what may be secret."""
        return f"McpServer(type={self.type!r}, disabled={self.disabled!r})"


class LspServer(Section, frozen=True, kw_only=True):
    """A language server. Templates in `command`, `args` and `env` are expanded already."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    filetypes: tuple[str, ...] = ()
    root_markers: tuple[str, ...] = ()
    init_options: dict[str, Any] = {}
    options: dict[str, Any] = {}
    timeout: float = 30
    disabled: bool = False


class ProviderEntry(Section, frozen=True, kw_only=True):
    id: str = ""
    name: str = ""
    type: str = ""
    base_url: str = ""
    api_key: str = ""
    oauth: dict[str, Any] = {}
    disable: bool = False
    system_prompt_prefix: str = ""
    extra_headers: dict[str, str] = {}
    extra_body: dict[str, Any] = {}
    provider_options: dict[str, Any] = {}
    flat_rate: bool = False
    discover_models: bool | None = None
    aws_auth_refresh: str = ""
    models: tuple[Model, ...] = ()


class File(Section, frozen=True, kw_only=True, rename={"schema_url": "$schema"}):
    """The whole of a config file."""

    schema_url: str = ""
    models: dict[str, SelectedModel] = {}
    recent_models: dict[str, tuple[SelectedModel, ...]] = {}
    providers: dict[str, ProviderEntry] = {}
    mcp: dict[str, McpServer] = {}
    lsp: dict[str, LspServer] = {}
    options: Options = Options()
    permissions: Permissions = Permissions()
    tools: ToolLimits = ToolLimits()
    hooks: dict[str, tuple[Hook, ...]] = {}
    env: dict[str, str] = {}


class Checked(msgspec.Struct, frozen=True):
    """A file's content without what cannot be used; `unknown` and `wrong` are sentences about the rest."""

    content: dict[str, Any]
    unknown: tuple[str, ...]
    wrong: tuple[str, ...]


def check(content: dict[str, Any]) -> Checked:
    unknown: list[str] = []
    wrong: list[str] = []
    clean = _Check(unknown, wrong).value(content, File, "", 0)
    return Checked(clean if isinstance(clean, dict) else {}, tuple(unknown), tuple(wrong))


_DROP = object()


class _Check:
    def __init__(self, unknown: list[str], wrong: list[str]) -> None:
        self.unknown = unknown
        self.wrong = wrong

    def value(self, value: Any, kind: Any, path: str, depth: int) -> Any:
        """The value without its bad parts, or `_DROP`."""
        if value is None:
            return None
        if depth > MAX_DEPTH:
            return self.refuse(path, "nested too deeply")
        item = _item_of(kind)
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return self.struct(value, kind, path, depth)
        if typing.get_origin(kind) is dict and item is not Any:
            if not isinstance(value, dict):
                return self.refuse(path, "an object is wanted")
            cleaned = {k: self.value(v, item, _dotted(path, k), depth + 1) for k, v in value.items()}
            return {k: v for k, v in cleaned.items() if v is not _DROP}
        if typing.get_origin(kind) is tuple and item is not str:
            if not isinstance(value, list):
                return self.refuse(path, "a list is wanted")
            items = [self.value(v, item, f"{path}[{i}]", depth + 1) for i, v in enumerate(value)]
            return [v for v in items if v is not _DROP and v is not None]
        return self.plain(value, kind, path)

    def struct(self, value: Any, kind: type[msgspec.Struct], path: str, depth: int) -> Any:
        if not isinstance(value, dict):
            return self.refuse(path, "an object is wanted")
        fields = _fields(kind)
        clean: dict[str, Any] = {}
        for key, inner in value.items():
            if inner is None and path.endswith("]"):
                continue
            name = _dotted(path, key)
            field = fields.get(key.removesuffix(REPLACE))
            if field is None:
                near = difflib.get_close_matches(key, fields, 1)
                hint = f", did you mean {_dotted(path, near[0])!r}?" if near else ""
                self.unknown.append(f"unknown key {name!r}{hint}")
                clean[key] = inner
                continue
            checked = self.value(inner, field.type, name, depth + 1)
            if checked is not _DROP:
                clean[key] = checked
        missing = [f.encode_name for f in fields.values() if f.required and not clean.get(f.encode_name)]
        if missing:
            return self.refuse(path, f"{missing[0]!r} is missing")
        return clean

    def plain(self, value: Any, kind: Any, path: str) -> Any:
        try:
            msgspec.convert(value, type=kind)
        except (msgspec.ValidationError, OverflowError) as exc:
            return self.refuse(path, str(exc).partition(" - at ")[0])
        return value

    def refuse(self, path: str, why: str) -> Any:
        self.wrong.append(f"{path}: {why[:1].lower()}{why[1:]}")
        return _DROP


@functools.cache
def _fields(kind: type[msgspec.Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    """By their names in the file. Asking a struct means evaluating all its annotations, every time."""
    return {f.encode_name: f for f in msgspec.structs.fields(kind)}


def _item_of(kind: Any) -> Any:
    """The type of what is in a mapping or a tuple."""
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) is dict:
        return arguments[1]
    if typing.get_origin(kind) is tuple:
        return arguments[0]
    return kind if not isinstance(kind, types.UnionType) else None


def _dotted(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
