"""The parameters of a server's tool, as a JSON Schema that every provider understands.

Only `properties` and `required` are passed on. References are written out, because models do not follow them; a
list of types becomes `anyOf`; an array says what its items are, if only that they may be anything. What a server
sends may be huge, circular or nonsense: past MAX_NODES or MAX_BYTES, and where it makes no sense, anything is allowed.
Characters that show nothing are made visible, so that a person who reads the words reads what the model does.
"""

from __future__ import annotations

from typing import Any

from bullpen.asks.display import visible

MAX_NODES = 5_000
"""References that refer to each other twice per level would else grow without end."""

MAX_DEPTH = 60

MAX_BYTES = 64_000
"""Of texts and values in one schema. It is sent with every request, so a large one costs each time."""

_ONE = frozenset({"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"})
_MANY = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas"})
_NESTING = _ONE | _MANY | _NAMED
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
        self.left_bytes = MAX_BYTES

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
        rewritten: dict[str, Any] = {}
        for key, value in node.items():
            if key in _DROPPED:
                continue
            kept = self._value(key, value, trail, depth + 1)
            if self.left_bytes >= 0 or (key in _NESTING and kept is not None):
                rewritten[visible(key)] = kept
        return _plain_types(rewritten)

    def _value(self, key: str, value: Any, trail: tuple[str, ...], depth: int) -> Any:
        if key in _ONE and isinstance(value, dict):
            return self.rewrite(value, trail, depth)
        if key in _MANY and isinstance(value, list):
            return [self.rewrite(each, trail, depth) for each in value]
        if key in _NAMED and isinstance(value, dict):
            return {visible(name): self.rewrite(each, trail, depth) for name, each in value.items()}
        return self._plain(value, depth)

    def _plain(self, value: Any, depth: int) -> Any:
        """A value as it stands, as far as it can be seen."""
        self.left_bytes -= len(value) if isinstance(value, str) else 1
        if self.left_bytes < 0 or depth > MAX_DEPTH:
            return None
        if isinstance(value, str):
            return visible(value)
        if isinstance(value, list):
            return [self._plain(each, depth + 1) for each in value]
        if isinstance(value, dict):
            return {visible(name): self._plain(each, depth + 1) for name, each in value.items()}
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
