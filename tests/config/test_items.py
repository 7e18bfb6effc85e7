"""Trust item by item: what is trusted counts, what is not is inert, and what changes is asked for again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.config.conftest import World, trusting

from bullpen.config.items import MAX_SCRIPTS, TrustedItems, picked
from bullpen.config.trust import effects
from bullpen.config.trusted import TrustBook
from bullpen.errors import BadRequest

CONTENT: dict[str, Any] = {
    "hooks": {"PreToolUse": [{"command": "a", "name": "first"}, {"command": "b", "name": "second"}]},
    "mcp": {"one": {"command": "one"}, "two": {"command": "two"}},
    "env": {"X": "1", "Y": "2"},
    "options": {"disabled_tools": ["fetch"], "debug": True},
    "permissions": {"allowed_tools": ["bash"]},
}


def names(world: World, trusted: TrustedItems | bool = False) -> dict[str, str]:
    return {item.name: item.state for item in world.load(trusted=trusted).items}


def test_everything_a_project_asks_for_is_an_item(world: World) -> None:
    """One hook, one server, one variable, one option each; what is harmless needs no trust."""
    world.project(CONTENT)
    world.write(world.root / ".env", "A=1\nB=2\n")
    assert names(world) == dict.fromkeys(
        [
            "hooks.PreToolUse[0]",
            "hooks.PreToolUse[1]",
            "mcp.one",
            "mcp.two",
            "env.X",
            "env.Y",
            "options.debug",
            "permissions.allowed_tools",
            ".env",
        ],
        "new",
    )


@pytest.mark.parametrize(
    "name",
    ["hooks.PreToolUse[0]", "hooks.PreToolUse[1]", "mcp.one", "env.X", "permissions.allowed_tools", ".env"],
)
def test_exactly_the_trusted_item_counts(world: World, name: str) -> None:
    world.project(CONTENT)
    world.write(world.root / ".env", "A=1\n")
    settings = world.load(trusted=trusting(world.load(trusted=False), name))
    in_force = {
        *(f"hooks.PreToolUse[{'ab'.index(h.command)}]" for h in settings.hooks.get("PreToolUse", ())),
        *(f"mcp.{server}" for server in settings.mcp),
        *(f"env.{variable}" for variable in settings.env if variable != "A"),
        *([".env"] if "A" in settings.env else []),
        *(["permissions.allowed_tools"] if settings.allowed_tools else []),
    }
    assert in_force == {name}
    assert settings.trusted is False
    assert settings.disabled_tools == ("fetch",)
    assert name not in {i.name for i in settings.items if i.state != "trusted"}


def test_with_every_item_trusted_the_project_is(world: World) -> None:
    world.project(CONTENT)
    settings = world.load(trusted=trusting(world.load(trusted=False)))
    assert (settings.trusted, settings.untrusted) == (True, ())
    assert set(settings.mcp) == {"one", "two"}


def test_a_change_costs_the_trust_of_what_has_changed_alone(world: World) -> None:
    """The other items stay in force, and people see what is different."""
    world.project(CONTENT)
    seen = trusting(world.load(trusted=False))
    changed = {**CONTENT, "mcp": {"one": {"command": "rm"}, "two": {"command": "two"}}}
    world.project(changed)
    settings = world.load(trusted=seen)
    assert set(settings.mcp) == {"two"}
    assert [h.command for h in settings.hooks["PreToolUse"]] == ["a", "b"]
    assert settings.untrusted == ("mcp.one",)
    assert [(i.name, i.state) for i in settings.items if not i.is_trusted] == [("mcp.one", "changed")]
    told = [(e.item, e.state) for e in effects(settings.wanted, settings.items) if e.kind == "runs"]
    assert ("mcp.one", "changed") in told
    assert ("mcp.two", "trusted") in told


def test_a_hook_that_moved_in_its_list_is_the_same(world: World) -> None:
    world.project(CONTENT)
    seen = trusting(world.load(trusted=False), "hooks.PreToolUse[1]")
    second = CONTENT["hooks"]["PreToolUse"][1]
    world.project({"hooks": {"PreToolUse": [second, {"command": "new"}]}})
    assert [h.command for h in world.load(trusted=seen).hooks["PreToolUse"]] == ["b"]


def test_the_same_content_in_another_section_is_not_trusted(world: World) -> None:
    """A hash is of a place and a content."""
    world.project({"mcp": {"one": {"command": "one"}}})
    seen = trusting(world.load(trusted=False))
    world.project({"lsp": {"one": {"command": "one"}}})
    assert names(world, seen) == {"lsp.one": "new"}


# Scripts


def script(world: World, text: str = "true", name: str = "tools/gate.sh") -> Path:
    path = world.write(world.root / name, f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    "content",
    [
        {"hooks": {"PreToolUse": [{"command": "./tools/gate.sh --strict"}]}},
        {"hooks": {"PreToolUse": [{"command": "cd . && timeout 5 bash tools/gate.sh"}]}},
        {"hooks!": {"PreToolUse": [{"command": "./tools/gate.sh"}]}},
        {"mcp": {"s": {"command": "./tools/gate.sh"}}},
        {"mcp": {"s": {"command": "sh", "args": ["tools/gate.sh"]}}},
        {"mcp": {"s": {"command": "sh", "args!": ["tools/gate.sh"]}}},
        {"lsp": {"s": {"command": "python3", "args": ["tools/gate.sh", "--stdio"]}}},
        {"env": {"X": "$(./tools/gate.sh)"}},
        {"providers": {"p": {"api_key": "$(sh tools/gate.sh key)"}}},
        {"providers": {"p": {"aws_auth_refresh": "tools/gate.sh"}}},
        {"mcp": {"s": {"command": "x", "headers": {"A": "$(tools/gate.sh)"}}}},
    ],
    ids=json.dumps,
)
def test_a_script_of_the_project_is_a_part_of_what_is_trusted(world: World, content: dict[str, Any]) -> None:
    """Approved once is not approved for ever: the config reads as before, and what it runs does not."""
    script(world)
    world.project(content)
    seen = trusting(world.load(trusted=False))
    assert set(names(world, seen).values()) == {"trusted"}
    script(world, "rm -rf /")
    assert set(names(world, seen).values()) == {"changed"}
    script(world)
    assert set(names(world, seen).values()) == {"trusted"}


def test_a_script_elsewhere_in_the_repository_is_the_projects_too(world: World) -> None:
    """A workspace may be a part of one."""
    (world.root.parent / ".git").mkdir()
    world.write(world.root.parent / "gate.sh", "true")
    world.project({"hooks": {"PreToolUse": [{"command": "sh ../gate.sh"}]}})
    seen = trusting(world.load(trusted=False))
    world.write(world.root.parent / "gate.sh", "false")
    assert set(names(world, seen).values()) == {"changed"}


def test_scripts_outside_of_the_project_are_not_looked_at(world: World, tmp_path: Path) -> None:
    """Neither by their name nor through a link."""
    outside = world.write(tmp_path / "elsewhere.sh", "true")
    (world.root / "link.sh").symlink_to(outside)
    world.project({"hooks": {"PreToolUse": [{"command": f"sh {outside}"}, {"command": "sh link.sh"}]}})
    assert [item.files for item in world.load(trusted=False).items] == [(), ()]


def test_a_project_that_names_too_many_scripts_is_not_trusted_with_them(world: World) -> None:
    """Reading them all is no service that a repository may ask for."""
    hooks = [{"command": f"sh s{number}"} for number in range(MAX_SCRIPTS + 1)]
    for number in range(MAX_SCRIPTS + 1):
        world.write(world.root / f"s{number}", "true")
    world.project({"hooks": {"PreToolUse": hooks}})
    seen = trusting(world.load(trusted=False))
    states = list(names(world, seen).values())
    assert states == ["trusted"] * MAX_SCRIPTS + ["new"]


def test_a_hook_that_must_not_be_missed_stays_as_one_that_refuses(world: World) -> None:
    """Otherwise changing the script of a gate would open it. One that nobody ever trusted is inert."""
    script(world)
    gate = {"command": "./tools/gate.sh", "fail_closed": True}
    world.project({"hooks": {"PreToolUse": [gate, {"command": "./tools/gate.sh -q"}]}})
    seen = trusting(world.load(trusted=False))
    assert set(world.load(trusted=seen).hook_pins.files) == {"./tools/gate.sh", "./tools/gate.sh -q"}
    script(world, "false")
    settings = world.load(trusted=seen)
    assert [h.command for h in settings.hooks["PreToolUse"]] == ["./tools/gate.sh"]
    assert settings.hook_pins.withdrawn == {"./tools/gate.sh"}
    assert world.load(trusted=TrustedItems()).hooks == {}


# Mistakes


def test_a_mistake_blocks_only_where_it_is_trusted(world: World) -> None:
    """Half a restriction that somebody relies on is a problem; one that does not count anyway is a warning."""
    bad = {"command": "c", "matcher": "("}
    world.project({"hooks": {"PreToolUse": [{"command": "a"}, bad]}})
    first = world.load(trusted=False)
    assert (first.problems, len(first.warnings)) == ((), 1)
    other = world.load(trusted=trusting(first, "hooks.PreToolUse[0]"))
    assert (other.problems, len(other.warnings)) == ((), 1)
    relied = world.load(trusted=trusting(first, "hooks.PreToolUse[1]"))
    assert "hooks.PreToolUse[1].matcher" in relied.problems[0]
    assert relied.problems == first.warnings


# The book


def test_the_book_keeps_items(world: World, tmp_path: Path) -> None:
    """Some are added, some are taken back; what is unreadable or of another form trusts nothing."""
    world.project(CONTENT)
    items = world.load(trusted=False).items
    book = TrustBook(tmp_path / "trust.json")
    book.trust(world.root, picked(items, ["mcp.one"]))
    book.trust(world.root, picked(items, ["mcp.two", "env.X"]))
    book.revoke(world.root, ["env.X"])
    assert sorted(n for n, s in names(world, book.items(world.root)).items() if s == "trusted") == [
        "mcp.one",
        "mcp.two",
    ]
    book.trust_only(world.root, picked(items, ["env.Y"]))
    assert [n for n, s in names(world, book.items(world.root)).items() if s == "trusted"] == ["env.Y"]
    book.revoke(world.root)
    assert json.loads(book.file.read_text()) == {"projects": {}}
    for content in ("{", "[]", '{"projects": []}', json.dumps({"projects": {str(world.root): "hash"}})):
        book.file.write_text(content)
        assert book.items(world.root) == TrustedItems()


def test_an_unknown_name_is_refused(world: World) -> None:
    world.project(CONTENT)
    with pytest.raises(BadRequest, match=r"nothing called mcp\.three"):
        picked(world.load(trusted=False).items, ["mcp.one", "mcp.three"])
