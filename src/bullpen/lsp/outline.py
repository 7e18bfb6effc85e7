"""The symbols of one document: as a tree, as an outline to read, and by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from bullpen.lsp.diagnostics import one_line
from bullpen.lsp.positions import number_at

MAX_SYMBOLS = 500
MAX_DEPTH = 20

KINDS = [
    "Symbol",
    "File",
    "Module",
    "Namespace",
    "Package",
    "Class",
    "Method",
    "Property",
    "Field",
    "Constructor",
    "Enum",
    "Interface",
    "Function",
    "Variable",
    "Constant",
    "String",
    "Number",
    "Boolean",
    "Array",
    "Object",
    "Key",
    "Null",
    "EnumMember",
    "Struct",
    "Event",
    "Operator",
    "TypeParameter",
]


class Node(NamedTuple):
    """A symbol; `first` and `last` are its lines, from 0."""

    name: str
    kind: int
    first: int
    last: int
    children: tuple[Node, ...] = ()

    @property
    def kind_name(self) -> str:
        return kind_name(self.kind)


def kind_name(kind: Any) -> str:
    return KINDS[kind] if isinstance(kind, int) and 0 <= kind < len(KINDS) else KINDS[0]


def tree(answer: Any, depth: int = 0) -> tuple[Node, ...]:
    """What a server answers: a tree, or in the old way a flat list."""
    nodes = []
    for each in answer if isinstance(answer, list) and depth < MAX_DEPTH else ():
        if not isinstance(each, dict) or not isinstance(each.get("name"), str):
            continue
        place = each.get("location")
        area = each.get("range") or (place.get("range") if isinstance(place, dict) else None)
        start, end = (area.get("start"), area.get("end")) if isinstance(area, dict) else (None, None)
        last = number_at(end, "line")
        if last > number_at(start, "line") and number_at(end, "character") == 0:
            last -= 1
        children = tree(each.get("children"), depth + 1)
        nodes.append(
            Node(
                one_line(each["name"], 200), number_at(each, "kind"), number_at(start, "line"), last, children
            )
        )
    return tuple(nodes)


def lines(nodes: tuple[Node, ...], level: int = 0) -> Iterator[str]:
    for node in nodes:
        yield f"{'  ' * level}{node.kind_name} {node.name} (line {node.first + 1})"
        yield from lines(node.children, level + 1)


def find(nodes: tuple[Node, ...], name: str) -> list[Node]:
    """The symbols of exactly this name, depth first; a dotted name leads through its parents."""
    found: list[Node] = []
    head, dot, rest = name.partition(".")
    for node in nodes:
        if node.name == name:
            found.append(node)
        if dot and node.name == head:
            found += find(node.children, rest)
        else:
            found += find(node.children, name)
    return found
