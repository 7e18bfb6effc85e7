"""Skills are found in their places, and the nearest counts."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from bullpen.config.skills import (
    BUILT_IN,
    Skill,
    content,
    discover,
    front_matter,
    info,
    read,
    state,
    user_directories,
)
from bullpen.errors import ConfigError
from bullpen.schema.agent import SkillInfo, SkillState


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
def user(tmp_path: Path) -> Path:
    return tmp_path / "home/skills"


def put(place: Path, name: str, description: str = "Does it.", more: str = "") -> Path:
    folder = place / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {description}\n{more}---\nBody.\n")
    return folder / "SKILL.md"


def find(root: Path, user: Path, disabled: tuple[str, ...] = ()) -> list[Skill]:
    return discover(root, user_dirs=[user], disabled=disabled, trusted=lambda file: True)


def test_skills_of_project_and_user_are_found(root: Path, user: Path) -> None:
    """At any depth, sorted by name."""
    put(user / "deep/er", "alpha")
    path = put(
        root / ".agents/skills", "gamma", more="user-invocable: false\ndisable-model-invocation: yes\n"
    )
    alpha, gamma = find(root, user)
    assert (alpha.name, alpha.source, alpha.id) == ("alpha", "user", "user:alpha")
    assert gamma == Skill(
        name="gamma",
        path=path,
        source="project",
        description="Does it.",
        user_invocable=False,
        model_invocable=False,
        digest=hashlib.sha256(path.read_bytes()).hexdigest(),
    )


@pytest.mark.parametrize("name", ["zzz", "aaa"])
def test_the_projects_skill_counts_before_the_users(root: Path, tmp_path: Path, name: str) -> None:
    """Wherever the paths stand in the alphabet."""
    put(tmp_path / name, "same", "The user's.")
    put(root / ".cursor/skills", "same", "The project's.")
    assert [skill.description for skill in find(root, tmp_path / name)] == ["The project's."]


def test_the_workspace_counts_before_the_repository(root: Path, user: Path) -> None:
    """A part of a repository may have its own way."""
    (root.parent / ".git").mkdir()
    put(root.parent / ".claude/skills", "same", "The repository's.")
    put(root.parent / ".claude/skills", "other", "The repository's.")
    put(root / ".claude/skills", "same", "The workspace's.")
    assert [(s.name, s.description) for s in find(root, user)] == [
        ("other", "The repository's."),
        ("same", "The workspace's."),
    ]


def test_extra_paths_belong_to_whoever_owns_the_place(root: Path, user: Path, tmp_path: Path) -> None:
    """One inside the project is the project's, and as little trusted."""
    put(tmp_path / "extra", "one")
    put(root / "docs", "two")
    found = discover(
        root, user_dirs=[], extra_paths=[tmp_path / "extra", root / "docs"], trusted=lambda file: False
    )
    assert [(s.name, s.source, s.trusted) for s in found] == [
        ("one", "user", True),
        ("two", "project", False),
    ]


def test_untrusted_skills_are_listed_and_marked(root: Path, user: Path) -> None:
    """A person can see what they are asked to trust."""
    put(root / ".agents/skills", "gamma")
    put(user, "mine")
    found = discover(root, user_dirs=[user], trusted=lambda file: False)
    assert [(s.name, s.trusted) for s in found] == [("gamma", False), ("mine", True)]


def test_an_untrusted_skill_takes_no_name_from_the_users_own(root: Path, user: Path) -> None:
    """A cloned repository must not make a person's skill vanish."""
    put(root / ".agents/skills", "deploy", "The project's.")
    put(user, "deploy", "Mine.")
    found = discover(root, user_dirs=[user], trusted=lambda file: False)
    assert [skill.description for skill in found] == ["Mine."]


def test_those_that_come_with_us_are_good_and_stand_behind_all_others(root: Path, user: Path) -> None:
    put(user, "bullpen-hooks", "Mine.")
    found = discover(root, user_dirs=[user], system_dirs=[BUILT_IN], trusted=lambda file: True)
    assert [(s.name, s.source, s.error) for s in found] == [
        ("bullpen-config", "system", ""),
        ("bullpen-hooks", "user", ""),
    ]


def test_disabled_skills_are_left_out(root: Path, user: Path) -> None:
    """Whatever their source; the name's case does not matter."""
    put(root / ".agents/skills", "gamma")
    assert find(root, user, disabled=("GAMMA",)) == []


def test_a_link_out_of_the_project_is_not_followed(root: Path, user: Path, tmp_path: Path) -> None:
    """A repository must not show us our own files; a user's links are their own."""
    put(tmp_path / "elsewhere", "leak", "Secret.")
    (root / ".agents").mkdir()
    (root / ".agents/skills").symlink_to(tmp_path / "elsewhere")
    user.parent.mkdir()
    (found,) = discover(root, user_dirs=[], trusted=lambda file: True)
    assert (found.error, found.description) == ("leads out of the project", "")
    user.symlink_to(tmp_path / "elsewhere")
    assert [(s.source, s.error) for s in find(root, user)] == [("user", "")]


def test_links_in_circles_end(root: Path, user: Path) -> None:
    """Each place is visited once."""
    put(user, "one")
    (user / "loop").symlink_to(user)
    assert [s.name for s in find(root, user)] == ["one"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("no front matter", "must begin with ---"),
        ("---\nname: bad\n", "has no end"),
        ("---\ndescription: x\n---\n", "name is missing"),
        ("---\nname: other\ndescription: x\n---\n", "differs from the folder's name"),
        ("---\nname: bad--name\ndescription: x\n---\n", "single hyphens"),
        ("---\nname: bad\n---\n", "description is missing"),
        (f"---\nname: bad\ndescription: {'x' * 1025}\n---\n", "longer than 1024"),
        (f"---\nname: bad\ndescription: x\ncompatibility: {'x' * 501}\n---\n", "longer than 500"),
    ],
    ids=[
        "no block",
        "no end",
        "no name",
        "other name",
        "odd name",
        "no description",
        "long",
        "long compatibility",
    ],
)
def test_a_mistake_is_told_and_takes_no_name(root: Path, user: Path, text: str, error: str) -> None:
    """The user's good skill of that name still works."""
    put(user, "bad")
    put(root / ".agents/skills", "bad").write_text(text)
    good, broken = find(root, user)
    assert (good.source, good.error, broken.source) == ("user", "", "project")
    assert error in broken.error


def test_front_matter_is_read_as_people_write_it() -> None:
    """Quotes, folded and literal blocks, comments, Windows line ends, a byte order mark; nested maps are skipped."""
    text = (
        "\ufeff---\r\nname: plain  # why\r\ndouble: \"a: \\\"b\\\" # c\"\r\nsingle: 'it''s'\r\nfolded: >-\r\n  one\r\n"
        "  two\r\nliteral: |\r\n  one\r\n  two\r\nlong: one\r\n  two\r\nmetadata:\r\n  author: x\r\n  name: nested\r\n"
        "tags: [a, b]\r\n# comment\r\nlist:\r\n- x\r\nurl: http://x/y\r\n---\r\nBody: not me\r\n"
    )
    assert front_matter(text) == {
        "name": "plain",
        "double": 'a: "b" # c',
        "single": "it's",
        "folded": "one two",
        "literal": "one\ntwo",
        "long": "one two",
        "url": "http://x/y",
    }


def test_a_skill_on_the_wire(root: Path, user: Path) -> None:
    """As lists, states and contents show it."""
    path = put(root / ".agents/skills", "gamma", "Third letter.")
    (skill,) = find(root, user)
    assert info(skill) == SkillInfo(
        id="project:gamma",
        name="gamma",
        description="Third letter.",
        label="project:gamma",
        source="project",
        user_invocable=True,
    )
    assert state(skill) == SkillState(name="gamma", path=str(path), state=0)
    assert (content(skill).result.builtin, content(skill).content) == (False, path.read_bytes())


def test_a_skill_that_is_gone_is_an_error(root: Path, user: Path) -> None:
    """With its name in the message."""
    path = put(user, "gone")
    (skill,) = find(root, user)
    path.unlink()
    with pytest.raises(ConfigError, match="gone"):
        read(skill)


def test_the_users_directories_follow_the_environment() -> None:
    """One variable replaces them all."""
    found = user_directories({"HOME": "/h"})
    assert found[:2] == [Path("/h/.config/bullpen/skills"), Path("/h/.config/crush/skills")]
    assert Path("/h/.claude/skills") in found
    assert user_directories({"HOME": "/h", "CRUSH_SKILLS_DIR": "/s"}) == [Path("/s")]
