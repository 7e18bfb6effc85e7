"""What commands of the agent see of a person's environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from bullpen.system.environment import DEFAULT_PATH, EDITORS, PAGERS, tool_environment

HOSTILE = [
    name
    for line in Path(__file__).with_name("hostile_variables.txt").read_text().splitlines()
    if not line.startswith("#")
    for name in line.split()
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_variable_that_runs_code_does_not_pass(name: str) -> None:
    """Whoever sent it: nobody asked for what it would run."""
    assert "evil" not in tool_environment({name: "evil"}, ()).values()


def test_a_persons_own_variables_stay() -> None:
    """A command should work as it does in their terminal."""
    own = {"HOME": "/h", "LANG": "C.UTF-8", "MY_FLAG": "1", "GIT_AUTHOR_NAME": "Ada", "PYTHONUNBUFFERED": "1"}
    assert own.items() <= tool_environment(own, ()).items()


def test_secrets_stay_with_the_server() -> None:
    """A variable that a provider's key was expanded from is not for commands."""
    found = tool_environment({"OPENAI_API_KEY": "sk", "OTHER": "x"}, {"OPENAI_API_KEY"})
    assert ("OPENAI_API_KEY" in found, found["OTHER"]) == (False, "x")


def test_no_program_waits_for_a_person() -> None:
    """Pagers print, editors give up, and scripts can tell who runs them."""
    found = tool_environment({"PAGER": "less", "EDITOR": "vim", "TERM": "dumb"}, ())
    assert {found[name] for name in PAGERS} == {"cat"}
    assert {found[name] for name in EDITORS} == {"false"}
    marks = {name: found[name] for name in ("BULLPEN", "AGENT", "AI_AGENT", "TERM")}
    assert marks == {"BULLPEN": "1", "AGENT": "bullpen", "AI_AGENT": "bullpen", "TERM": "xterm-256color"}


def test_the_search_path_does_not_depend_on_the_directory() -> None:
    """A repository must not decide what `ls` is."""
    assert tool_environment({"PATH": ".:/usr/bin::bin:/bin"}, ())["PATH"] == "/usr/bin:/bin"
    assert tool_environment({"PATH": "."}, ())["PATH"] == DEFAULT_PATH
    assert tool_environment({}, ())["PATH"] == DEFAULT_PATH


def test_exported_functions_do_not_pass() -> None:
    """In the old form as well as in the new."""
    found = tool_environment({"x": "() { :;}; evil", "BASH_FUNC_ls()": "() { evil; }"}, ())
    assert "evil" not in "".join(found.values())
