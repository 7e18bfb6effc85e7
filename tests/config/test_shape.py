from __future__ import annotations

from typing import Any

import pytest

from bullpen.config.shape import check


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"provider": {}}, "unknown key 'provider', did you mean 'providers'?"),
        ({"options": {"debugg": True}}, "unknown key 'options.debugg', did you mean 'options.debug'?"),
        ({"mcp": {"x": {"zzz": "y"}}}, "unknown key 'mcp.x.zzz'"),
        (
            {"hooks": {"PreToolUse": [{"command": "x", "match": "y"}]}},
            "unknown key 'hooks.PreToolUse[0].match', did you mean 'hooks.PreToolUse[0].matcher'?",
        ),
    ],
)
def test_misspelt_keys_are_told_with_what_was_meant(content: dict[str, Any], sentence: str) -> None:
    found = check(content)
    assert found.unknown == (sentence,)
    assert found.content == content


@pytest.mark.parametrize(
    ("content", "clean", "sentence"),
    [
        (
            {"options": {"debug": "yes", "progress": False}},
            {"options": {"progress": False}},
            "options.debug: expected `bool`, got `str`",
        ),
        (
            {"options": {"disabled_tools": "bash"}},
            {"options": {}},
            "options.disabled_tools: expected `array`, got `str`",
        ),
        ({"options": []}, {}, "options: an object is wanted"),
        ({"providers": []}, {}, "providers: an object is wanted"),
        (
            {"providers": {"x": {"models": {}}}},
            {"providers": {"x": {}}},
            "providers.x.models: a list is wanted",
        ),
        ({"env": {"A": 1, "B": "b"}}, {"env": {"B": "b"}}, "env.A: expected `str`, got `int`"),
        ({"hooks": {"E": [{"matcher": "x"}]}}, {"hooks": {"E": []}}, "hooks.E[0]: 'command' is missing"),
        (
            {"models": {"large": {"model": "m", "top_p": "x"}}},
            {"models": {"large": {"model": "m"}}},
            "models.large.top_p: expected `float | UnsetType`, got `str`",
        ),
    ],
)
def test_wrong_types_are_left_out_and_told(
    content: dict[str, Any], clean: dict[str, Any], sentence: str
) -> None:
    found = check(content)
    assert found.content == clean
    assert [w.replace("`float`", "`float | UnsetType`") for w in found.wrong] == [sentence]


def test_marks_and_nulls_are_kept_for_the_merge() -> None:
    content = {"options": {"context_paths!": ["x"], "debug": None}, "mcp": {"a": None}}
    assert check(content) == type(check({}))(content, (), ())


def test_nulls_in_lists_mean_not_given() -> None:
    models = [{"id": "m", "name": None}, None]
    assert check({"providers": {"x": {"models": models}}}).content == {
        "providers": {"x": {"models": [{"id": "m"}]}}
    }


def test_depth_is_bounded() -> None:
    deep: Any = "x"
    for _ in range(500):
        deep = {"mcp": deep}
    check(deep)
    check({"options": {"tui": deep}})
