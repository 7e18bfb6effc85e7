"""How a server is found and started: from PATH, never from a workspace that nobody trusts."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from bullpen.config.shape import LspServer
from bullpen.errors import LanguageServerFailed
from bullpen.lsp import known, plan


def program(directory: Path, name: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / name
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return file


def gopls(*, trusted: bool, command: str = "") -> plan.Plan:
    return plan.configured("gopls", LspServer(command=command), trusted=trusted)


def test_what_an_entry_leaves_open_comes_from_the_catalogue() -> None:
    entry = LspServer(args=("-v",), options={"gopls": {"env": {"A": "b"}}})
    found = plan.configured("gopls", entry, trusted=False)
    assert (found.command, found.args, found.family) == ("gopls", ("-v",), "go")
    assert found.filetypes == ("go", "gomod", "gowork")
    assert found.options == {
        "gopls": {"buildFlags": ["-buildvcs=false"], "env": {"GOTOOLCHAIN": "local", "A": "b"}}
    }
    assert (
        plan.configured("mine", LspServer(command="/opt/bin/gopls"), trusted=False).filetypes
        == found.filetypes
    )
    assert plan.configured("mine", LspServer(command="other"), trusted=False).filetypes == ()


@pytest.mark.parametrize(
    "entries", ["{root}/bin:{outside}", "bin:.:{outside}", "{link}:{outside}", ":{outside}"]
)
def test_a_program_of_the_workspace_is_passed_over(tmp_path: Path, entries: str) -> None:
    root = tmp_path / "w"
    program(root / "bin", "gopls")
    outside = program(tmp_path / "outside", "gopls")
    (tmp_path / "link").symlink_to(root / "bin")
    path = entries.format(root=root, outside=outside.parent, link=tmp_path / "link")
    found = plan.launch(gopls(trusted=False), root, {"PATH": path})
    assert found.argv == (str(outside),)
    # What it starts in turn is not found there either.
    assert str(root) not in found.env["PATH"]
    assert str(tmp_path / "link") not in found.env["PATH"]


@pytest.mark.parametrize("command", ["bin/gopls", "./bin/gopls", "{root}/bin/gopls", "{outside}/link"])
def test_a_program_that_lies_in_the_workspace_needs_trust(tmp_path: Path, command: str) -> None:
    root = tmp_path / "w"
    there = program(root / "bin", "gopls")
    (tmp_path / "link").symlink_to(there)
    named = command.format(root=root, outside=tmp_path)
    with pytest.raises(LanguageServerFailed, match="lies in the workspace, which is not trusted"):
        plan.launch(gopls(trusted=False, command=named), root, {"PATH": "/usr/bin"})
    found = plan.launch(gopls(trusted=True, command=named), root, {"PATH": "/usr/bin"})
    assert os.path.realpath(found.argv[0]) == str(there)


def test_a_missing_program_is_told_with_the_way_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(
        LanguageServerFailed, match="gopls is not there or not executable; to get it: go install"
    ):
        plan.launch(gopls(trusted=True), tmp_path, {"PATH": str(tmp_path)})
    with pytest.raises(LanguageServerFailed, match="the language server mine has no command"):
        plan.launch(plan.configured("mine", LspServer(), trusted=True), tmp_path, {})


def test_python_of_the_workspace_is_not_what_a_server_is_told_to_run(tmp_path: Path) -> None:
    program(tmp_path / "w/.venv/bin", "python3")
    program(tmp_path / "bin", "basedpyright-langserver")
    python = program(tmp_path / "bin", "python3")
    path = f"{tmp_path / 'w/.venv/bin'}:{tmp_path / 'bin'}"
    entry = plan.configured("basedpyright", LspServer(), trusted=False)
    found = plan.launch(entry, tmp_path / "w", {"PATH": path})
    assert found.settings["python"] == {"pythonPath": str(python)}


@pytest.mark.parametrize(
    ("filetypes", "name", "is_known"),
    [
        (("python",), "a.py", True),
        (("py",), "a.py", True),
        ((".py",), "a.py", True),
        (("python",), "a.pyx", False),
        ((), "anything", True),
        (("dockerfile",), "Dockerfile", True),
        (("gomod",), "go.mod", True),
        (("py",), ".py", False),
    ],
)
def test_filetypes_are_endings_languages_or_names(
    filetypes: tuple[str, ...], name: str, is_known: bool
) -> None:
    found = plan.configured("mine", LspServer(command="x", filetypes=filetypes), trusted=False)
    assert found.knows(Path("/w") / name) is is_known


def test_root_markers_are_patterns_for_names_in_the_root(tmp_path: Path) -> None:
    found = plan.configured("mine", LspServer(command="x", root_markers=("*.sln", "go.mod")), trusted=False)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/go.mod").touch()
    assert not found.belongs(tmp_path)
    (tmp_path / "a.sln").touch()
    assert found.belongs(tmp_path)


def test_the_catalogue_is_in_order() -> None:
    """Each is there once, knows some language, and says how it is had."""
    assert len({each.name for each in known.KNOWN}) == len(known.KNOWN)
    languages = set(known.LANGUAGE_OF.values())
    for each in known.KNOWN:
        assert set(each.filetypes) <= languages, each.name
        assert each.root_markers, each.name
        assert each.install, each.name
    generic = {"node", "npx", "npm", "python", "python3", "deno", "java", "dotnet", "ruff", "buf", "R"}
    assert {each.name for each in known.KNOWN if each.command in generic and not each.is_generic} == set()


def test_the_page_lists_exactly_these_servers() -> None:
    """Made anew with: python -c 'from bullpen.lsp.known import table; print(table())'."""
    page = (Path(__file__).parents[2] / "docs/lsp.md").read_text()
    found = re.search(r"<!-- servers -->\n(.*?)\n<!-- /servers -->", page, re.DOTALL)
    assert found is not None
    assert found[1].strip() == known.table()
