"""Whatever stands in a file, nothing breaks: it is read, told, shown and held against the schema."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.config.conftest import World

from bullpen.config import redact, trust
from bullpen.config.check import check
from bullpen.config.merge import REPLACE, merge
from bullpen.config.shape import File, fields_of, is_section, item_of

SCALARS: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=5,
)


def values(kind: Any, depth: int = 0) -> st.SearchStrategy[Any]:
    """Mostly of the right shape, with anything anywhere."""
    item = item_of(kind)
    if is_section(kind) and depth < 5:
        keys = {name: values(field.kind, depth + 1) for name, field in fields_of(kind).items()}
        some = st.fixed_dictionaries({}, optional=keys)
        marked = some.map(lambda found: {k + REPLACE: v for k, v in found.items()})
        return st.one_of(some, some, some, marked, ANYTHING)
    if item is not None and str(kind).startswith("dict"):
        return st.dictionaries(
            st.sampled_from(["large", "x", "PreToolUse", "a.b"]), values(item, depth + 1), max_size=2
        )
    if item is not None:
        return st.lists(values(item, depth + 1), max_size=2) | ANYTHING
    return st.sampled_from(["", "10s", "$A", "${A:-b}", "$", "http://u:p@h/x?key=1", True, 1, 0.5]) | ANYTHING


FILES = values(File).filter(lambda content: isinstance(content, dict))


@settings(
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(FILES, FILES)
def test_every_file_can_be_loaded_and_shown(
    world: World, user: dict[str, Any], project: dict[str, Any]
) -> None:
    world.user(json.dumps(user))
    world.project(json.dumps(project))
    for trusted in (False, True):
        found = world.load(trusted=trusted)
        msgspec.json.encode(redact.redacted(found))
        msgspec.json.encode(trust.effects(found.wanted))
        layers = world.layers()
        json.dumps([redact.shown_part(layers.merged()), layers.origins()])


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(FILES)
def test_what_was_checked_is_right(content: dict[str, Any]) -> None:
    """Checking again finds no wrong value, only unknown keys; merged with nothing it fits the types."""
    clean = check(content).content
    again = check(clean)
    assert (again.content, again.wrong) == (clean, frozenset())
    msgspec.convert(merge({}, clean).get("options", {}), type=dict)
