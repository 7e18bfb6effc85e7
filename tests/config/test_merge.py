from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


KEYS = st.sampled_from(["a", "b", "c"])
VALUES = st.recursive(
    st.booleans() | st.integers(0, 3) | st.lists(st.sampled_from(["x", "y", "z"]), max_size=3, unique=True),
    lambda inner: st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=3)


@given(OBJECTS, OBJECTS)
def test_the_later_one_always_has_its_way(base: dict[str, Any], over: dict[str, Any]) -> None:
    """Each scalar it names is its own, each list ends up with all of its items; nothing else is lost."""
    merged = merge(base, over)
    assert merged.keys() == base.keys() | over.keys()
    for key, value in over.items():
        if isinstance(value, list):
            assert set(value) <= set(merged[key])
        elif not isinstance(value, dict):
            assert merged[key] == value


@given(OBJECTS, OBJECTS, OBJECTS)
def test_a_replaced_value_has_nothing_of_the_outer_ones(
    base: dict[str, Any], middle: dict[str, Any], over: dict[str, Any]
) -> None:
    marked = {f"{key}!": value for key, value in over.items()}
    merged = merge_all([base, middle, marked])
    assert {key: merged[key] for key in over} == over
    gone = merge_all([base, middle, dict.fromkeys(["a", "b", "c"])])
    assert gone == {}
