from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from bullpen.config.check import check
from bullpen.config.json_schema import schema, table

VALIDATOR = jsonschema.Draft202012Validator(schema())

GOOD: list[dict[str, Any]] = [
    {},
    {"$schema": "x", "options": {"tui": {"diff_mode": "split"}, "disabled_tools": ["bash"]}},
    {
        "options": {"disabled_tools": None, "context_paths!": ["a"], "tui": None},
        "mcp": {"a": None},
        "hooks!": {},
    },
    {"models": {"large": {"model": "m", "temperature": 0.5}, "small!": {"model": "m"}}},
    {
        "providers": {
            "p": {"base_url": "x", "models": [{"id": "m", "options": {"any": [1]}}], "extra_body": {"a": 1}}
        }
    },
    {"tools": {"grep": {"timeout": "1m30s"}, "glob": {"timeout": 5}}},
    {"mcp": {"m": {"type": "http", "url": "u", "timeout": "10s", "oauth_callback_port": 80}}},
    {"hooks": {"pre_tool_use": [{"command": "c", "timeout": 1.5}]}, "env": {"A": "b"}},
]

BAD: list[dict[str, Any]] = [
    {"option": {}},
    {"options": {"tui": {"compact_mod": True}}},
    {"options": {"notifications": "loud"}},
    {"options": {"disabled_tools": "bash"}},
    {"models": {"larg": {"model": "m"}}},
    {"models": {"large": {"top_p": 1.5}}},
    {"providers": {"p": {"models": [{"id": 5}]}}},
    {"tools": {"grep": {"timeout": "soon"}}},
    {"tools": {"ls": {"max_depth": -1}}},
    {"mcp": {"m": {"type": "carrier-pigeon"}}},
    {"mcp": {"m": {"oauth_callback_port": 70000}}},
    {"hooks": {"PreToolUse": [{"matcher": "x"}]}},
    {"env": {"A": 1}},
]


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("content", GOOD)
def test_what_is_right_is_right_for_both(content: dict[str, Any]) -> None:
    assert (check(content).complaints, list(VALIDATOR.iter_errors(content))) == ((), [])


@pytest.mark.parametrize("content", BAD)
def test_what_is_wrong_is_wrong_for_both(content: dict[str, Any]) -> None:
    assert check(content).complaints
    assert not VALIDATOR.is_valid(content)


def test_every_setting_says_what_it_means() -> None:
    sections = [schema(), *schema()["$defs"].values()]
    fields = [(name, field) for section in sections for name, field in section["properties"].items()]
    assert [name for name, field in fields if not field["description"]] == []


def test_the_page_lists_exactly_these_settings() -> None:
    """Made anew with: python -c 'from bullpen.config.json_schema import table; print(table())'."""
    page = (Path(__file__).parents[2] / "docs/configuration.md").read_text()
    found = re.search(r"<!-- settings -->\n(.*?)\n<!-- /settings -->", page, re.DOTALL)
    assert found is not None
    assert found[1].strip() == table()
