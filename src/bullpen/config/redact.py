"""Settings as answers show them: without a key, token, header or environment value, written or expanded."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from bullpen.config.settings import Settings
from bullpen.config.spans import seconds

MASK = "********"

_SECRET_NAME = re.compile(r"key|token|secret|password|passwd|authorization|cookie|credential", re.IGNORECASE)
_SECRET_ARGUMENT = re.compile(
    r"(--?[\w-]*(?:key|token|secret|password|passwd|auth)[\w-]*=)[\w.+/=:@-]+$", re.IGNORECASE
)
"""Only one word to the end of the argument: a mask must not hide what a shell would run."""
_VARIABLE = re.compile(r"\$(?:\w+|\{\w+\})")
"""A whole value that only names a variable tells nothing but the name."""

_COUNTED = re.compile(r"(^|_)(max_|default_max_|min_)?tokens$", re.IGNORECASE)
"""Numbers of tokens are no secret."""


def redacted(settings: Settings) -> dict[str, Any]:
    """The merged config for an answer. It always has `options`, `options.tui`, `providers` and `models`."""
    shown = dict(settings.raw)
    shown["providers"] = {k: _provider(v) for k, v in shown["providers"].items()}
    shown["models"] = _names_masked(shown["models"])
    for section in ("mcp", "lsp"):
        if section in shown:
            shown[section] = {k: _server(v) for k, v in shown[section].items()}
    if "tools" in shown:
        shown["tools"] = {k: shown_part(v, k) for k, v in shown["tools"].items()}
    if "env" in shown:
        shown["env"] = dict.fromkeys(shown["env"], MASK)
    return _with_whole_spans(shown)


def _with_whole_spans(shown: dict[str, Any]) -> dict[str, Any]:
    """Spans as the wire knows them: nanoseconds for searches, whole seconds for all others."""
    for section, unit in (("tools", 1e9), ("mcp", 1), ("lsp", 1)):
        if section in shown:
            shown[section] = {k: _whole_span(v, unit) for k, v in shown[section].items()}
    if "hooks" in shown:
        shown["hooks"] = {k: [_whole_span(hook, 1) for hook in v] for k, v in shown["hooks"].items()}
    return shown


def _whole_span(entry: Any, unit: float) -> Any:
    if not isinstance(entry, Mapping) or "timeout" not in entry:
        return entry
    try:
        return {**entry, "timeout": math.ceil(seconds(entry["timeout"]) * unit)}
    except ValueError:
        return entry


_ASSIGNED = re.compile(r"""([\w.-]++)["']?\s*+[:=]\s*+""")
_VALUE = re.compile(
    r"""(["'])(?:(?!\1)[^\\]|\\.)*+\1?|(?:(?:bearer|basic|token)\s+)?[^\s"',;&}\])]++""", re.IGNORECASE
)
"""`name=value` or `"name": "value"`, wherever it stands in a text and however deep in JSON. Neither looks back, so that no line
takes long."""

_BEARER = re.compile(r"\b(bearer|basic)\s+[\w.+/=~-]{8,}+", re.IGNORECASE)
_ADDRESS = re.compile(r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]*+://[^\s\"'<>]++", re.IGNORECASE)

SHORTEST_SECRET = 6
"""What is shorter stands in texts by chance."""


def secrets_of(settings: Settings) -> frozenset[str]:
    """The values in clear that must stand in no text."""
    found: set[str] = set(settings.env.values())
    for provider in settings.providers.values():
        found |= {provider.api_key, *provider.extra_headers.values()}
        found |= {v for k, v in provider.environment.items() if _is_secret(k)}
        if provider.token is not None:
            found |= {provider.token.access_token, provider.token.refresh_token}
    found.add(settings.web_search.api_key)
    for server in settings.mcp.values():
        found |= {*server.env.values(), *server.headers.values(), server.oauth_client_secret}
    for language in settings.lsp.values():
        found |= set(language.env.values())
    return frozenset(value for value in found if len(value) >= SHORTEST_SECRET)


def text_without(text: str, secrets: Collection[str]) -> str:
    """A text that anybody wrote, without these values and without what is named like a secret."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, MASK)
    text = _ADDRESS.sub(lambda found: shown_url(found[0]), text)
    return _BEARER.sub(rf"\1 {MASK}", _values_masked(text))


def _values_masked(text: str) -> str:
    """A text without the values of what is named like a secret; what only names a variable stays."""
    out: list[str] = []
    at = 0
    while found := _ASSIGNED.search(text, at):
        out.append(text[at : found.end()])
        at = found.end()
        value = _VALUE.match(text, at) if _is_secret(found[1]) else None
        if value is not None and not _VARIABLE.fullmatch(value[0].strip("\"'")):
            quote = value[1] or ""
            out.append(f"{quote}{MASK}{quote}")
            at = value.end()
    return "".join(out) + text[at:]


def shown_part(value: Any, name: str = "") -> Any:
    """Any part of a config as it was written, called `name`, without what may be secret."""
    name = name.removesuffix("!")
    if name in _ALL_SECRET and isinstance(value, Mapping):
        return {k: _masked(v) for k, v in value.items()}
    if isinstance(value, Mapping):
        return {k: shown_part(v, str(k)) for k, v in value.items()}
    if isinstance(value, list):
        if name == "args":
            return _arguments([str(a) for a in value])
        return [shown_part(v) for v in value]
    if isinstance(value, str):
        return _masked(value) if _is_secret(name) else shown_url(value)
    return value


_ALL_SECRET = frozenset({"env", "headers", "extra_headers", "oauth", "oauth_token"})


def _masked(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _masked(v) for k, v in value.items()}
    return value if isinstance(value, str) and (not value or _VARIABLE.fullmatch(value)) else MASK


def _provider(entry: Mapping[str, Any]) -> dict[str, Any]:
    shown = {k: _names_masked(v) if k != "models" else v for k, v in entry.items()}
    for key in ("api_key", "oauth"):
        if entry.get(key):
            shown[key] = MASK if key == "api_key" else _all_masked(entry[key])
    if "extra_headers" in entry:
        shown["extra_headers"] = _all_masked(entry["extra_headers"])
    shown["base_url"] = shown_url(entry.get("base_url", ""))
    return shown


def _server(entry: Mapping[str, Any]) -> dict[str, Any]:
    shown = {k: _names_masked({k: v})[k] for k, v in entry.items()}
    for key in ("env", "headers", "oauth_token"):
        if key in entry:
            shown[key] = _all_masked(entry[key])
    if "url" in entry:
        shown["url"] = shown_url(entry["url"])
    if "args" in entry:
        shown["args"] = _arguments(entry["args"])
    return shown


def _all_masked(value: Any) -> Any:
    return {k: _all_masked(v) for k, v in value.items()} if isinstance(value, Mapping) else MASK


def _names_masked(value: Any) -> Any:
    """The value with every entry masked whose name tells of a secret."""
    if isinstance(value, Mapping):
        return {
            k: MASK if _is_secret(k) and isinstance(v, str) and v else _names_masked(v)
            for k, v in value.items()
        }
    if isinstance(value, list):
        return [_names_masked(v) for v in value]
    return value


def _is_secret(name: str) -> bool:
    return bool(_SECRET_NAME.search(name)) and not _COUNTED.search(name)


def _arguments(arguments: list[str]) -> list[str]:
    """Arguments with `--token=…` and what follows a lone `--token` masked."""
    shown: list[str] = []
    for before, argument in zip(["", *arguments], arguments, strict=False):
        follows = before.startswith("-") and "=" not in before and _is_secret(before)
        shown.append(MASK if follows else shown_url(_SECRET_ARGUMENT.sub(rf"\1{MASK}", argument)))
    return shown


def shown_url(url: str) -> str:
    """The address without user, password and telling parameters."""
    if "://" not in url:
        return url
    try:
        parts = urlsplit(url)
    except ValueError:
        return MASK
    host = parts.netloc.rpartition("@")[2] if "@" in parts.netloc else parts.netloc
    query = re.sub(
        r"(?<![^&])([^=&]*(?:key|token|secret|password|auth|sig)[^=&]*=)[^&]*",
        rf"\1{MASK}",
        parts.query,
        flags=re.IGNORECASE,
    )
    return urlunsplit(parts._replace(netloc=host, query=query))
