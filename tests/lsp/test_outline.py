"""Symbols of a file, in both forms that servers send."""

from __future__ import annotations

from typing import Any

from bullpen.lsp import outline


def symbol(name: str, first: int, last: int, *children: Any, **more: Any) -> dict[str, Any]:
    area = {"start": {"line": first, "character": 0}, "end": {"line": last, "character": 9}}
    return {"name": name, "kind": 5, "range": area, "children": list(children), **more}


def test_a_tree_is_read_as_an_outline() -> None:
    nodes = outline.tree(
        [symbol("A", 0, 9, symbol("f", 2, 3, kind=6)), {"name": 3}, None, symbol("B", 11, 12, kind=99)]
    )
    assert list(outline.lines(nodes)) == ["Class A (line 1)", "  Method f (line 3)", "Symbol B (line 12)"]


def test_a_flat_list_is_read_too() -> None:
    place = {"uri": "file:///a", "range": {"start": {"line": 4}, "end": {"line": 6, "character": 0}}}
    (node,) = outline.tree([{"name": "A", "kind": 12, "location": place}])
    assert (node.kind_name, node.first, node.last) == ("Function", 4, 5)


def test_names_lead_through_their_parents() -> None:
    nodes = outline.tree(
        [symbol("A", 0, 3, symbol("f", 1, 2)), symbol("B", 4, 8, symbol("f", 5, 6)), symbol("f", 9, 9)]
    )
    assert [node.first for node in outline.find(nodes, "f")] == [1, 5, 9]
    assert [node.first for node in outline.find(nodes, "B.f")] == [5]
    assert outline.find(nodes, "C.f") == []


def test_an_endless_tree_has_an_end() -> None:
    deep: Any = []
    for number in range(500):
        deep = [symbol(str(number), 0, 0, *deep)]
    assert len(list(outline.lines(outline.tree(deep)))) == outline.MAX_DEPTH
