"""The JSON Schema of a config file, and the table of all settings, both made from `shape`."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec

from bullpen.config.merge import REPLACE
from bullpen.config.shape import Field, File, ProviderEntry, fields_of, is_section, item_of

DRAFT = "https://json-schema.org/draft/2020-12/schema"
SPAN_PATTERN = r"^\s*(\d+(\.\d+)?\s*(ns|us|µs|ms|s|m|h)?\s*)+$"

_PLAIN = {bool: "boolean", int: "integer", float: "number", str: "string"}


def schema(provider_types: Iterable[str] = ()) -> dict[str, Any]:
    """JSON Schema, draft 2020-12. Like `check` it allows `null` and the mark for replacing, and no unknown keys.

    `provider_types` are those that this installation can speak to, offered to who writes a provider.
    """
    sections: dict[str, Any] = {}
    top = _section(File, sections)
    if known := sorted(provider_types):
        sections[ProviderEntry.__name__]["properties"]["type"]["examples"] = known
    return {
        "$schema": DRAFT,
        "$id": "bullpen.schema.json",
        "title": "Bullpen configuration",
        "description": "Comments and trailing commas are allowed in the file.",
        **top,
        "$defs": dict(sorted(sections.items())),
    }


def _section(kind: type[msgspec.Struct], sections: dict[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for field in fields_of(kind).values():
        described = _field(field, sections)
        properties[field.name] = described
        if item_of(field.kind) is not None:
            properties[field.name + REPLACE] = {
                **described,
                "description": f"{field.description} Replaces what outer files say instead of adding to it.",
            }
    required = [field.name for field in fields_of(kind).values() if field.is_required]
    return {
        "type": "object",
        "properties": properties,
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def _field(field: Field, sections: dict[str, Any]) -> dict[str, Any]:
    described = _span() if field.extra.get("span") else _typed(field.kind, sections)
    if field.extra.get("keys") and not field.extra.get("restricts"):
        described["propertyNames"] = {"pattern": f"^({'|'.join(field.extra['keys'])})!?$"}
    if field.ge is not None:
        described["minimum"] = field.ge
    if field.le is not None:
        described["maximum"] = field.le
    if field.extra.get("regex"):
        described["format"] = "regex"
    if field.default not in (None, "", 0, False, ()) and not isinstance(field.default, msgspec.Struct | dict):
        described["default"] = msgspec.to_builtins(field.default)
    note = " Nothing follows it yet." if field.extra.get("later") else ""
    return {"description": field.description + note, **_or_null(described)}


def _typed(kind: Any, sections: dict[str, Any]) -> dict[str, Any]:
    origin, item = typing.get_origin(kind), item_of(kind)
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if is_section(kind):
        name = kind.__name__
        if name not in sections:
            sections[name] = {}
            sections[name] = _section(kind, sections)
        return {"$ref": f"#/$defs/{name}"}
    if origin is Literal:
        return {"enum": list(typing.get_args(kind))}
    if origin is dict:
        return {
            "type": "object",
            "additionalProperties": _or_null(_typed(item, sections)) if item is not Any else True,
        }
    if origin is tuple:
        return {"type": "array", "items": _typed(item, sections)}
    return {"anyOf": [_typed(k, sections) for k in typing.get_args(kind)]} if origin is typing.Union else {}


def _span() -> dict[str, Any]:
    return {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": SPAN_PATTERN}]}


def _or_null(described: dict[str, Any]) -> dict[str, Any]:
    """`null` takes a key of an outer file away."""
    match described:
        case {"type": str() as kind, **rest}:
            return {"type": [kind, "null"], **rest}
        case {"enum": list() as values, **rest}:
            return {"enum": [*values, None], **rest}
        case {"anyOf": list() as ways, **rest}:
            return {"anyOf": [*ways, {"type": "null"}], **rest}
        case {"$ref": str() as name, **rest}:
            return {"anyOf": [{"$ref": name}, {"type": "null"}], **rest}
    return described


def table() -> str:
    """Every setting as a Markdown table, for `docs/configuration.md`."""
    rows = [f"| `{key}` | {kind} | {default} | {text} |" for key, kind, default, text in _rows(File, "")]
    return "\n".join(["| key | type | default | meaning |", "|---|---|---|---|", *rows])


def _rows(kind: type[msgspec.Struct], prefix: str) -> Iterator[tuple[str, str, str, str]]:
    for field in fields_of(kind).values():
        name = prefix + field.name
        inner, suffix = _inside(field.kind, field.extra)
        notes = [field.description]
        notes += ["*Expanded.*"] if field.extra.get("expanded") else []
        notes += ["*Accepted; nothing follows it yet.*"] if field.extra.get("later") else []
        if inner is None or inner is kind:
            yield name, _type_name(field), _default(field), " ".join(notes)
        elif field.extra.get("machine"):
            yield name + suffix, "object", "", " ".join(notes)
        else:
            yield name + suffix, "object", "", " ".join(notes)
            yield from _rows(inner, f"{name}{suffix}.")


def _inside(kind: Any, extra: dict[str, Any]) -> tuple[type[msgspec.Struct] | None, str]:
    """The section below a field, through maps and lists, and how the way to it is written."""
    suffix = ""
    while (item := item_of(kind)) is not None:
        suffix += f".{extra.get('word', 'NAME')}" if typing.get_origin(kind) is dict else "[]"
        kind = item
    return (kind, suffix) if is_section(kind) else (None, "")


def _type_name(field: Field) -> str:
    if field.extra.get("span"):
        return 'duration, as `"10s"` or seconds'
    if typing.get_origin(field.kind) is Literal:
        return ", ".join(f'`"{value}"`' for value in typing.get_args(field.kind))
    limits = [
        f"≥ {field.ge:g}" if field.ge is not None else "",
        f"≤ {field.le:g}" if field.le is not None else "",
    ]
    told = ", ".join(limit for limit in limits if limit)
    origin = typing.get_origin(field.kind)
    name = "object" if origin is dict else "list" if origin is tuple else _PLAIN.get(field.kind, "any")
    return name + (f" ({told})" if told else "")


def _default(field: Field) -> str:
    if field.default in (None, "", (), {}) or field.is_required:
        return "required" if field.is_required else ""
    return f"`{msgspec.json.encode(field.default).decode()}`"
