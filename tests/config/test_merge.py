from __future__ import annotations

from typing import Any

import pytest

from bullpen.config.merge import merge, merge_all


@pytest.mark.parametrize(
    ("base", "over", "merged"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 3}}, {"a": {"b": 1, "c": 3}}),
        ({"a": [1]}, {"a": [1, 2]}, {"a": [1, 1, 2]}),
        ({"a": ["x", "y"]}, {"a": ["y", "z"]}, {"a": ["x", "y", "z"]}),
        ({}, {"a": ["-v", "x", "-v"]}, {"a": ["-v", "x", "-v"]}),
        ({"a": {"b": 1}}, {"a": 2}, {"a": 2}),
        ({"a": 1, "b": 2}, {"a": None, "c": None}, {"b": 2}),
        (
            {"a": ["x"], "b": {"c": 1}},
            {"a!": ["y"], "b!": {"d": {"e!": 2}}},
            {"a": ["y"], "b": {"d": {"e": 2}}},
        ),
        ({}, {"a": {"b": None, "c!": 1}}, {"a": {"c": 1}}),
    ],
)
def test_rules(base: dict[str, Any], over: dict[str, Any], merged: dict[str, Any]) -> None:
    before = repr((base, over))
    assert merge(base, over) == merged
    assert repr((base, over)) == before


def test_layers_lie_in_order() -> None:
    assert merge_all([{"a": 1}, {"a": 2, "b": 1}, {"b": 2}]) == {"a": 2, "b": 2}
