from __future__ import annotations

from typing import Any

import pytest

from bullpen.config.check import Checked, check, dotted
from bullpen.config.shape import HOOK_EVENTS


def sentences(checked: Checked) -> list[str]:
    return [c.sentence for c in checked.complaints]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"provider": {}}, "unknown key 'provider', did you mean 'providers'?"),
        ({"options": {"debugg": True}}, "unknown key 'options.debugg', did you mean 'options.debug'?"),
        (
            {"options": {"context_path!": []}},
            "unknown key 'options.context_path!', did you mean 'options.context_paths'?",
        ),
        ({"mcp": {"x": {"zzz": "y"}}}, "unknown key 'mcp.x.zzz'"),
        (
            {"lsp": {"a.b": {"comand": "y"}}},
            r"unknown key 'lsp.a\\.b.comand', did you mean 'lsp.a\\.b.command'?",
        ),
        ({"models": {"larg": {"model": "m"}}}, "unknown key 'models.larg', did you mean 'models.large'?"),
        (
            {"providers": {"p": {"models": [{"id": "m", "context": 5}]}}},
            "unknown key 'providers.p.models[0].context', did you mean 'providers.p.models[0].context_window'?",
        ),
        (
            {"hooks": {"PreToolUse": [{"command": "x", "match": "y"}]}},
            "unknown key 'hooks.PreToolUse[0].match', did you mean 'hooks.PreToolUse[0].matcher'?",
        ),
    ],
)
def test_misspelt_keys_are_told_with_what_was_meant(content: dict[str, Any], sentence: str) -> None:
    found = check(content)
    assert sentences(found) == [sentence]
    assert found.content == content
    assert not found.complaints[0].blocks


@pytest.mark.parametrize(
    ("content", "clean", "sentence"),
    [
        (
            {"options": {"debug": "yes", "progress": False}},
            {"options": {"progress": False}},
            "options.debug: expected `bool`, got `str`",
        ),
        ({"providers": []}, {}, "providers: an object is wanted"),
        (
            {"providers": {"x": {"models": {}}}},
            {"providers": {"x": {}}},
            "providers.x.models: a list is wanted",
        ),
        ({"env": {"A": 1, "B": "b"}}, {"env": {"B": "b"}}, "env.A: expected `str`, got `int`"),
        (
            {"models": {"large": {"model": "m", "top_p": "x"}}},
            {"models": {"large": {"model": "m"}}},
            "models.large.top_p: expected `float`, got `str`",
        ),
        (
            {"models": {"large": {"model": "m", "temperature": 2.5}}},
            {"models": {"large": {"model": "m"}}},
            "models.large.temperature: expected `float` <= 2.0",
        ),
        (
            {"tools": {"ls": {"max_depth": -1, "max_items": 2}}},
            {"tools": {"ls": {"max_items": 2}}},
            "tools.ls.max_depth: expected `int` >= 0",
        ),
        (
            {"options": {"tui": {"diff_mode": "sideways"}}},
            {"options": {"tui": {}}},
            "options.tui.diff_mode: invalid enum value 'sideways'",
        ),
        (
            {"tools": {"grep": {"timeout": "soon"}}},
            {"tools": {"grep": {}}},
            """tools.grep.timeout: 'soon' is not a duration; write for example "10s" or "2m\"""",
        ),
        (
            {"mcp": {"x": {"command": "c", "timeout": -1}}},
            {"mcp": {"x": {"command": "c"}}},
            """mcp.x.timeout: -1 is not a duration; write for example "10s" or "2m\"""",
        ),
    ],
)
def test_a_value_that_cannot_be_used_is_left_out_alone(
    content: dict[str, Any], clean: dict[str, Any], sentence: str
) -> None:
    found = check(content)
    assert found.content == clean
    assert sentences(found) == [sentence]
    assert not found.complaints[0].blocks


@pytest.mark.parametrize(
    ("content", "clean", "sentence"),
    [
        (
            {"options": {"disabled_tools": "bash"}},
            {"options": {}},
            "options.disabled_tools: expected `array`, got `str`",
        ),
        ({"options": []}, {}, "options: an object is wanted"),
        ({"hooks": []}, {}, "hooks: an object is wanted"),
        (
            {"hooks": {"PreToolUse": [{"matcher": "x"}, {"command": "c"}]}},
            {"hooks": {"PreToolUse": [{"command": "c"}]}},
            "hooks.PreToolUse[0]: 'command' is missing",
        ),
        (
            {"hooks": {"PreToolUse": [{"command": "c", "matcher": "("}]}},
            {"hooks": {"PreToolUse": [{"command": "c"}]}},
            (
                "hooks.PreToolUse[0].matcher: '(' is no regular expression: "
                "missing ), unterminated subpattern at position 0"
            ),
        ),
        (
            {"hooks": {"BeforeAll": [{"command": "c"}]}},
            {"hooks": {}},
            "hooks.BeforeAll: there is no such event; known: " + ", ".join(HOOK_EVENTS),
        ),
    ],
)
def test_what_may_have_been_a_restriction_blocks(
    content: dict[str, Any], clean: dict[str, Any], sentence: str
) -> None:
    found = check(content)
    assert found.content == clean
    assert [(c.sentence, c.blocks) for c in found.complaints] == [(sentence, True)]


@pytest.mark.parametrize(
    ("content", "clean", "sentence"),
    [
        (
            {"mcp": {"x": {"command": "c", "disabled_tools": "rm"}, "y": {"command": "d"}}},
            {"mcp": {"x": None, "y": {"command": "d"}}},
            "mcp.x.disabled_tools: expected `array`, got `str`; mcp.x is left out",
        ),
        (
            {"providers": {"p": {"disable": "yes"}}},
            {"providers": {"p": None}},
            "providers.p.disable: expected `bool`, got `str`; providers.p is left out",
        ),
        ({"mcp": {"x": 5}}, {"mcp": {"x": None}}, "mcp.x: an object is wanted; mcp.x is left out"),
    ],
)
def test_a_server_or_provider_whose_restriction_is_wrong_is_left_out_whole(
    content: dict[str, Any], clean: dict[str, Any], sentence: str
) -> None:
    """Also the one of the same name in an outer file: null takes it away. Everything else goes on."""
    found = check(content)
    assert found.content == clean
    assert [(c.sentence, c.blocks) for c in found.complaints] == [(sentence, False)]


def test_marks_and_nulls_are_kept_for_the_merge() -> None:
    content = {"options": {"context_paths!": ["x"], "debug": None}, "mcp": {"a": None}}
    assert check(content) == Checked(content, ())


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


def test_ways_are_written_with_dots() -> None:
    assert dotted(("a", "b.c", 0, "d")) == r"a.b\.c[0].d"
