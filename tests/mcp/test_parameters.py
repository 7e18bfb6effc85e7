from __future__ import annotations

from typing import Any

import pytest

from bullpen.mcp.parameters import parameters_of


def property_of(schema: Any, **around: Any) -> Any:
    return parameters_of({"type": "object", "properties": {"x": schema}, **around})["properties"]["x"]


def test_only_properties_and_required_are_passed_on() -> None:
    schema = {
        "type": "object",
        "title": "T",
        "additionalProperties": False,
        "$defs": {},
        "required": ["type", "gone"],
    }
    assert parameters_of({**schema, "properties": {"type": {"type": "string"}}}) == {
        "type": "object",
        "properties": {"type": {"type": "string"}},
        "required": ["type"],
    }


@pytest.mark.parametrize("nonsense", [None, [], True, {}, {"properties": 3, "required": "x"}, {"$ref": "#"}])
def test_nonsense_means_no_parameters(nonsense: Any) -> None:
    assert parameters_of(nonsense) == {"type": "object", "properties": {}, "required": []}


@pytest.mark.parametrize(
    ("given", "passed_on"),
    [
        ({"type": "array"}, {"type": "array", "items": {}}),
        (
            {"type": "array", "items": {"type": "array"}},
            {"type": "array", "items": {"type": "array", "items": {}}},
        ),
        ({"type": ["string"]}, {"type": "string"}),
        (
            {"type": ["array", "null"], "items": {"type": "string"}, "description": "d"},
            {"description": "d", "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
        ),
        ({"anyOf": [{"type": "array"}]}, {"anyOf": [{"type": "array", "items": {}}]}),
        (True, {}),
    ],
)
def test_types_are_spelled_out(given: Any, passed_on: Any) -> None:
    assert property_of(given) == passed_on


def test_references_are_written_out() -> None:
    defs = {"A": {"type": "object", "properties": {"b": {"$ref": "#/$defs/B"}}}, "B": {"enum": [1, 2]}}
    assert property_of({"$ref": "#/$defs/A", "description": "d"}, **{"$defs": defs}) == {
        "type": "object",
        "properties": {"b": {"enum": [1, 2]}},
        "description": "d",
    }


def test_circles_and_bombs_end() -> None:
    circle = {"N": {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}}}}
    assert property_of({"$ref": "#/$defs/N"}, **{"$defs": circle}) == {
        "type": "object",
        "properties": {"next": {}},
    }
    bomb = {f"D{i}": {"anyOf": [{"$ref": f"#/$defs/D{i + 1}"}] * 10} for i in range(40)}
    assert len(str(property_of({"$ref": "#/$defs/D0"}, **{"$defs": bomb}))) < 200_000


def test_what_cannot_be_seen_is_made_visible() -> None:
    schema = {"properties": {"a\u200b": {"type": "string", "description": "x\u202ey", "default": ["\u2066"]}}}
    assert parameters_of(schema)["properties"] == {
        "a<U+200B>": {"type": "string", "description": "x<U+202E>y", "default": ["<U+2066>"]}
    }


def test_more_words_than_a_model_can_be_sent_are_left_out() -> None:
    many = {f"p{n}": {"type": "string", "description": "x" * 1000} for n in range(100)}
    found = parameters_of({"properties": many, "required": list(many)})
    assert len(str(found)) < 80_000
    assert found["properties"]["p0"] == many["p0"]
