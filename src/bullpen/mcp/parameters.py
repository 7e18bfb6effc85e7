"""The parameters of a server's tool, as a JSON Schema that every provider understands.

Only `properties` and `required` are passed on. References are written out, because models do not follow them; a
list of types becomes `anyOf`; an array says what its items are, if only that they may be anything. What a server
sends may be huge, circular or nonsense: past MAX_NODES, and where it makes no sense, anything is allowed.
"""

from __future__ import annotations

from typing import Any

MAX_NODES = 5_000
"""References that refer to each other twice per level would else grow without end."""

MAX_DEPTH = 60

_ONE = frozenset({"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"})
_MANY = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas"})
_DROPPED = frozenset({"$defs", "definitions", "$schema", "$id", "$comment"})


def parameters_of(schema: Any) -> dict[str, Any]:
    """The schema of a tool's arguments, for a model."""
    rewriter = _Rewriter(schema)
    whole = rewriter.rewrite(schema, (), 0)
    properties = whole.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    required = whole.get("required")
    names = [n for n in required if n in properties] if isinstance(required, list) else []
    return {"type": "object", "properties": properties, "required": names}


class _Rewriter:
    def __init__(self, root: Any) -> None:
        self.root = root
        self.left = MAX_NODES

    def rewrite(self, node: Any, trail: tuple[str, ...], depth: int) -> dict[str, Any]:
        """`trail` holds the references that led here."""
        self.left -= 1
        if not isinstance(node, dict) or self.left < 0 or depth > MAX_DEPTH:
            return {}
        reference = node.get("$ref")
        if isinstance(reference, str):
            beside = {k: v for k, v in node.items() if k != "$ref"}
            target = None if reference in trail else self._look_up(reference)
            node = {**target, **beside} if isinstance(target, dict) else beside
            return self.rewrite(node, (*trail, reference), depth + 1)
        return _plain_types(
            {k: self._value(k, v, trail, depth + 1) for k, v in node.items() if k not in _DROPPED}
        )

    def _value(self, key: str, value: Any, trail: tuple[str, ...], depth: int) -> Any:
        if key in _ONE and isinstance(value, dict):
            return self.rewrite(value, trail, depth)
        if key in _MANY and isinstance(value, list):
            return [self.rewrite(each, trail, depth) for each in value]
        if key in _NAMED and isinstance(value, dict):
            return {name: self.rewrite(each, trail, depth) for name, each in value.items()}
        return value

    def _look_up(self, reference: str) -> Any:
        """What a reference within the document stands for; others are not followed."""
        if not reference.startswith("#/"):
            return None
        found = self.root
        for step in reference[2:].split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, dict) else None
        return found


def _plain_types(node: dict[str, Any]) -> dict[str, Any]:
    kinds = node.get("type")
    if isinstance(kinds, list):
        return _as_choice(node, [kind for kind in kinds if isinstance(kind, str)])
    if kinds == "array" and not isinstance(node.get("items"), dict):
        return {**node, "items": {}}
    return node


def _as_choice(node: dict[str, Any], kinds: list[str]) -> dict[str, Any]:
    rest = {k: v for k, v in node.items() if k != "type"}
    if len(kinds) == 1:
        return _plain_types({**rest, "type": kinds[0]})
    if not kinds or "anyOf" in rest:
        return rest
    items = rest.pop("items", {})
    choices = [{"type": kind, "items": items} if kind == "array" else {"type": kind} for kind in kinds]
    return {**rest, "anyOf": choices}
