"""What a project's config may do before a person trusts it: next to nothing.

Only what cannot run, reach, read or spend anything is let through; the rest is inert, named, and hashed, so
that trust can be given to exactly that content.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from bullpen.config.check import Steps, dotted
from bullpen.config.expand import commands_in
from bullpen.config.merge import REPLACE
from bullpen.config.redact import shown_part, shown_url
from bullpen.config.wanted import Item, Wanted
from bullpen.schema.api import TrustEffect

HARMLESS_OPTIONS = frozenset(
    {
        "attribution",
        "disable_auto_summarize",
        "disable_metrics",
        "disabled_skills",
        "disabled_tools",
        "notifications",
        "progress",
        "tui",
    }
)
"""Looks, and restrictions. A project may take a tool away; lists only grow, so it cannot give one back."""

HARMLESS_TOOLS = frozenset({"ls", "grep", "glob"})
"""Their limits. What is said of the tools for the web decides where they reach."""

HARMLESS = frozenset({"$schema", "recent_models", "favorite_models"})

DOTENV, SKILLS, AGENTS, COMMANDS = ".env", "skills", "agents", "commands"
"""What a project wants beside the settings in its config files."""

_INSTRUCTIONS = {
    SKILLS: "to follow this skill",
    AGENTS: "to send this sub-agent",
    COMMANDS: "what this command says, when somebody uses it",
}

_HARMLESS_WITHIN = {"options": HARMLESS_OPTIONS, "tools": HARMLESS_TOOLS}


def split(content: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What may take effect without trust, and the rest."""
    harmless: dict[str, Any] = {}
    inert: dict[str, Any] = {}
    for key, value in content.items():
        within = _HARMLESS_WITHIN.get(key)
        if within is not None and isinstance(value, Mapping):
            kept = {k: _without_marks(v) for k, v in value.items() if k in within and v is not None}
            rest = {k: v for k, v in value.items() if k not in kept}
            harmless |= {key: kept} if kept else {}
            inert |= {key: rest} if rest else {}
        elif key in HARMLESS and value is not None:
            harmless[key] = _without_marks(value)
        else:
            inert[key] = value
    return harmless, inert


def effects(wanted: Iterable[Wanted], items: Sequence[Item] = ()) -> list[TrustEffect]:
    """What would happen if it were trusted, for a person to decide on; without secrets. Each names the item that it is a
    part of, and whether that is trusted."""
    found: list[TrustEffect] = []
    for each in wanted:
        own = [item for item in items if item.file == each.file]
        for steps, kind, detail in _effects(each.content):
            item = next((i for i in own if i.steps == steps[: len(i.steps)]), None)
            found.append(
                TrustEffect(
                    kind=kind,
                    setting=dotted(steps),
                    detail=detail,
                    file=each.file,
                    line=each.line(steps),
                    item=item.name if item else "",
                    state=item.state if item else "",
                )
            )
    return found


_Found = Iterator[tuple[Steps, str, str]]


def _effects(content: Mapping[str, Any]) -> _Found:
    for key, value in content.items():
        match key.removesuffix(REPLACE):
            case "":
                yield (), "broken", str(value)
            case "hooks" if isinstance(value, Mapping):
                for event, hooks in value.items():
                    for number, hook in enumerate(hooks if isinstance(hooks, list) else ()):
                        if isinstance(hook, Mapping):
                            yield (key, event, number), "runs", str(hook.get("command", ""))
            case "mcp" | "lsp" if isinstance(value, Mapping):
                for name, server in value.items():
                    yield from _server((key, name), server)
            case "providers" if isinstance(value, Mapping):
                for name, provider in value.items():
                    yield from _provider((key, name), provider)
            case "env" if isinstance(value, Mapping):
                for name, variable in value.items():
                    yield (key, name), "sets", str(name)
                    yield from _commands((key, name), variable)
            case ".env" if isinstance(value, Mapping):
                yield (key,), "sets", ", ".join(map(str, value))
                yield from _commands((key,), value)
            case "skills" | "agents" | "commands" if isinstance(value, Mapping):
                yield from (((key, name), "instructs", _INSTRUCTIONS[key]) for name in value)
            case "permissions" if isinstance(value, Mapping):
                for inner, tools in value.items():
                    yield (key, inner), "allows", _listed(tools)
            case "tools" if isinstance(value, Mapping):
                for name, rules in value.items():
                    yield (key, name), "sets", _listed(shown_part(rules))
                    yield from _commands((key, name), rules)
            case "options" if isinstance(value, Mapping):
                for name, option in value.items():
                    is_path = str(name).removesuffix(REPLACE).endswith("_paths")
                    yield (key, name), "reads" if is_path else "sets", _listed(option)
            case _:
                yield (key,), "sets", _listed(shown_part(value))


def _server(steps: Steps, server: Any) -> _Found:
    if not isinstance(server, Mapping):
        yield steps, "sets", _listed(server)
        return
    # As it would be in force: a mark that replaces says nothing else than the name without it.
    server = {str(name).removesuffix(REPLACE): value for name, value in server.items()}
    if server.get("command"):
        words = shown_part(server.get("args") or [], "args")
        words = words if isinstance(words, list) else [_listed(words)]
        yield steps, "runs", " ".join(map(str, [server["command"], *words]))
    if server.get("url"):
        yield steps, "connects", shown_url(str(server["url"]))
    if isinstance(server.get("env"), Mapping):
        yield (*steps, "env"), "sets", ", ".join(map(str, server["env"]))
    if isinstance(server.get("headers"), Mapping):
        sent = (f"{name}: {shown_part(value, str(name))}" for name, value in server["headers"].items())
        yield (*steps, "headers"), "sets", ", ".join(sent)
    if not server.get("command") and not server.get("url"):
        yield steps, "sets", _listed(shown_part(server))
    yield from _commands(steps, server)


def _provider(steps: Steps, provider: Any) -> _Found:
    if not isinstance(provider, Mapping):
        yield steps, "sets", _listed(provider)
        return
    if provider.get("base_url"):
        yield steps, "connects", shown_url(str(provider["base_url"]))
    if provider.get("aws_auth_refresh"):
        yield (*steps, "aws_auth_refresh"), "runs", str(provider["aws_auth_refresh"])
    rest = {k: v for k, v in provider.items() if k not in {"base_url", "models", "aws_auth_refresh"}}
    yield steps, "sets", _listed(shown_part(rest) | ({"models": "…"} if provider.get("models") else {}))
    yield from _commands(steps, provider)


def _commands(steps: Steps, value: Any) -> _Found:
    """Every command that expanding the value would run."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _commands((*steps, str(key)), inner)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _commands((*steps, number), inner)
    elif isinstance(value, str):
        yield from ((steps, "runs", command) for command in commands_in(value))


def _listed(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(v, str) for v in value):
        return ", ".join(value)
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _without_marks(value: Any) -> Any:
    """The value without the marks that would undo what the user said."""
    if isinstance(value, Mapping):
        return {
            k: _without_marks(v) for k, v in value.items() if v is not None and not str(k).endswith(REPLACE)
        }
    return value
