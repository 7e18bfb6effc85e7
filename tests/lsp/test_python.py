"""The tools with a real language server: basedpyright, one for all tests of this file."""

from __future__ import annotations

import sysconfig
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.lsp.conftest import Desk, desk_in
from tests.tools.conftest import Asked

from bullpen.tools.base import PermissionDenied


@pytest.fixture(scope="module")
async def desk(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    root = tmp_path_factory.mktemp("python")
    (root / "pyproject.toml").write_text('[tool.basedpyright]\nvenvPath = "."\nvenv = ".venv"\n')
    trap = root / ".venv/bin/python"
    trap.parent.mkdir(parents=True)
    (root / ".venv/pyvenv.cfg").write_text("home = /usr/bin\n")
    trap.write_text(f'#!/bin/sh\ntouch {root / "sprung"}\nexec /usr/bin/env python3 "$@"\n')
    trap.chmod(0o755)
    path = f"{trap.parent}:{sysconfig.get_path('scripts')}:/usr/local/bin:/usr/bin:/bin"
    async with desk_in(root, path) as desk:
        yield desk


async def test_nothing_of_the_repository_is_run(desk: Desk) -> None:
    """Its .venv is what Python servers like to ask for their paths, and it even stands on the PATH."""
    desk.write("plain.py", "import sys\n\nx: int = sys.maxsize\n")
    outcome = await desk.call("lsp_diagnostics", file_path="plain.py")
    assert "Current file: 0 errors, 0 warnings." in outcome.content
    assert not (desk.root / "sprung").exists()


async def test_an_edit_tells_what_it_did_here_and_elsewhere(desk: Desk) -> None:
    desk.write("shop/__init__.py", "")
    desk.write("shop/price.py", "def price(count: int) -> int:\n    return count * 2\n")
    desk.write("shop/till.py", "from shop.price import price\n\nprint('😀', price(3))\nx: int = ''\n")
    await desk.call("lsp_diagnostics", file_path="shop/till.py")
    await desk.call("view", file_path="shop/price.py")
    outcome = await desk.call(
        "edit", file_path="shop/price.py", old_string="count: int", new_string="count: str"
    )
    assert (
        "<file_diagnostics>\nError: shop/price.py:2:12 [basedpyright] [reportReturnType]" in outcome.content
    )
    assert "<project_diagnostics>\nError: shop/till.py:3:18 [basedpyright]" in outcome.content
    assert "shop/till.py:4" not in outcome.content
    assert "By this change: 2 new, 0 fixed. Now in this file: 1 error, 0 warnings." in outcome.content
    outcome = await desk.call(
        "multiedit",
        file_path="shop/price.py",
        edits=[{"old_string": "count: str", "new_string": "count: int"}],
    )
    assert "By this change: 0 new, 2 fixed. Now in this file: 0 errors, 0 warnings." in outcome.content


async def test_files_that_come_and_go_are_known(desk: Desk) -> None:
    desk.write("user.py", "from soon_there import made\n\nprint(made())\n")
    assert "soon_there" in (await desk.call("lsp_diagnostics", file_path="user.py")).content
    outcome = await desk.call(
        "write", file_path="soon_there.py", content="def made() -> int:\n    return 1\n"
    )
    assert "<fixed_diagnostics>\nError: user.py:1:6" in outcome.content
    (desk.root / "soon_there.py").unlink()
    assert "user.py:1:6" in (await desk.call("lsp_diagnostics", file_path="user.py")).content


async def test_symbols_definition_references_and_callers(desk: Desk) -> None:
    desk.write("zoo/__init__.py", "")
    desk.write("zoo/cage.py", "class Cage:\n    def feed(self) -> str:\n        return 'fed'\n")
    desk.write(
        "zoo/keeper.py",
        "from zoo.cage import Cage\n\n\ndef work() -> None:\n    print('🦁🦁', Cage().feed())  # feed\n",
    )
    outline = await desk.call("lsp_symbols", file_path="zoo/cage.py")
    assert outline.content == "Class Cage (line 1)\n  Method feed (line 2)"
    found = await desk.call("lsp_definition", symbol="Cage.feed", path="zoo")
    assert found.content == (
        "zoo/cage.py:2:9\n      1|class Cage:\n>     2|    def feed(self) -> str:\n      3|        return 'fed'\n      4|"
    )
    assert found.metadata == {
        "file_path": str(desk.root / "zoo/cage.py"),
        "line": 2,
        "content": "class Cage:\n    def feed(self) -> str:\n        return 'fed'\n",
    }
    uses = await desk.call("lsp_references", symbol="feed", path="zoo/cage.py")
    assert uses.content == (
        "Found 2 references in 2 files:\n\n"
        "zoo/cage.py (1 reference):\n  Line 2, Column 9: def feed(self) -> str:\n\n"
        "zoo/keeper.py (1 reference):\n  Line 5, Column 24: print('🦁🦁', Cage().feed())  # feed"
    )
    callers = await desk.call("lsp_call_hierarchy", symbol="feed", path="zoo/cage.py")
    assert callers.content == "feed is called by 1:\n- Function work (zoo/keeper.py:4, at line 5)"
    callees = await desk.call("lsp_call_hierarchy", symbol="work", direction="outgoing")
    assert "Method feed (zoo/cage.py:2, at line 5)" in callees.content


async def test_what_is_defined_outside_is_named_and_not_shown(desk: Desk) -> None:
    desk.write("far.py", "import textwrap\n\nprint(textwrap.dedent(''))\n")
    outcome = await desk.call("lsp_definition", symbol="textwrap.dedent", path="far.py")
    assert outcome.content.endswith("(outside the workspace)")
    assert "textwrap.py" in outcome.content
    assert desk.bench.asked == []


async def test_names_that_nobody_knows_get_the_next_step(desk: Desk) -> None:
    desk.write("words.py", "# onlyincomments stands here\n")
    outcome = await desk.call("lsp_references", symbol="onlyincomments", path="words.py")
    assert outcome.is_error
    assert "knows it at none of them; give the file" in outcome.content
    outcome = await desk.call("lsp_definition", symbol="nowhere" + "atall")
    assert "does not stand as a whole word" in outcome.content
    assert (await desk.call("lsp_definition", symbol=" ")).is_error
    outcome = await desk.call("lsp_definition", symbol="x", path="..")
    assert "outside the workspace" in outcome.content


# Renaming


def _library(desk: Desk, name: str) -> tuple[Path, Path]:
    desk.write(f"{name}/__init__.py", "")
    here = desk.write(f"{name}/base.py", "\ufeffdef oldname() -> str:\r\n    return '😀'\r\n")
    there = desk.write(
        f"{name}/user.py",
        f"from {name}.base import oldname\n\nprint('😀😀', oldname(), 'oldname')  # oldname\n",
    )
    return here, there


async def test_a_rename_changes_every_use_and_keeps_the_rest(desk: Desk) -> None:
    here, there = _library(desk, "renamed")
    await desk.call("view", file_path="renamed/base.py")
    outcome = await desk.call("lsp_rename", symbol="oldname", new_name="fresh", path="renamed/base.py")
    assert outcome.content.startswith(
        "Renamed oldname to fresh:\n- renamed/base.py (+1 −1 lines)\n- renamed/user.py (+2 −2 lines)\n"
    )
    assert "By this change: 0 new, 0 fixed." in outcome.content
    assert here.read_bytes().decode() == "\ufeffdef fresh() -> str:\r\n    return '😀'\r\n"
    assert (
        there.read_text()
        == "from renamed.base import fresh\n\nprint('😀😀', fresh(), 'oldname')  # oldname\n"
    )
    (asked,) = desk.bench.asked
    assert asked.action == "write"
    assert asked.description == "Rename oldname to fresh in 2 files"
    assert asked.params["files"] == ["renamed/base.py", "renamed/user.py"]
    assert "-print('😀😀', oldname(), 'oldname')" in asked.params["diff"]
    assert asked.reach.paths == (here, there)
    assert [change.path for change in desk.bench.files.changes] == [here, there]
    # What the model has not seen does not count as read by it.
    assert here in desk.bench.files.reads
    assert there not in desk.bench.files.reads


async def test_a_refused_rename_changes_nothing(desk: Desk) -> None:
    here, there = _library(desk, "refused")
    before = here.read_bytes(), there.read_bytes()

    def refuse(asked: Asked) -> None:
        raise PermissionDenied

    desk.bench.on_permit = refuse
    outcome = await desk.call("lsp_rename", symbol="oldname", new_name="fresh", path="refused/base.py")
    assert outcome.is_error
    assert outcome.stop_turn
    assert outcome.metadata is not None
    assert "+\ufeffdef fresh()" in outcome.metadata["diff"]
    assert (here.read_bytes(), there.read_bytes()) == before


async def test_a_rename_that_cannot_be_finished_is_undone(desk: Desk) -> None:
    here, there = _library(desk, "undone")
    before = here.read_bytes()

    def meddle(asked: Asked) -> None:
        there.write_text("somebody else was here\n")

    desk.bench.on_permit = meddle
    outcome = await desk.call("lsp_rename", symbol="oldname", new_name="fresh", path="undone/base.py")
    assert outcome.is_error
    assert "changed by somebody else" in outcome.content
    assert "no file was changed" in outcome.content
    assert here.read_bytes() == before
    assert there.read_text() == "somebody else was here\n"


async def test_a_rename_leaves_what_was_changed_since_it_was_read(desk: Desk) -> None:
    here, there = _library(desk, "stale")
    await desk.call("view", file_path="stale/user.py")
    desk.bench.files.reads[there] = 1.0
    outcome = await desk.call("lsp_rename", symbol="oldname", new_name="fresh", path="stale/base.py")
    assert "was changed by somebody else since it was read" in outcome.content
    assert b"oldname" in here.read_bytes()


async def test_a_rename_wants_a_name(desk: Desk) -> None:
    _library(desk, "named")
    assert (await desk.call("lsp_rename", symbol="oldname", new_name="two words", path="named")).is_error
    assert desk.bench.asked == []


# Replacing


async def test_a_symbol_is_replaced_by_whole_lines(desk: Desk) -> None:
    text = "class Box:\r\n    def size(self) -> int:\r\n        return 1\r\n\r\n    def name(self) -> str:\r\n        return ''\r\n"
    file = desk.write("box.py", text)
    outcome = await desk.call(
        "lsp_replace_symbol", symbol="Box.size", file_path="box.py", replacement="    size = 1\n"
    )
    assert "has not been read in this session; view it first" in outcome.content
    await desk.call("view", file_path="box.py")
    outcome = await desk.call(
        "lsp_replace_symbol",
        symbol="Box.size",
        file_path="box.py",
        replacement="    def size(self) -> int:\n        return ''",
    )
    after = text.replace("return 1", "return ''")
    assert file.read_bytes().decode() == after
    assert f"Replaced Method Box.size (lines 2–3) in {file} (+1 −1 lines)." in outcome.content
    assert "By this change: 1 new, 0 fixed." in outcome.content
    assert outcome.metadata == {
        "file_path": str(file),
        "old_content": text,
        "new_content": after,
        "action": "replace",
    }
    (asked,) = desk.bench.asked
    assert asked.params == {"file_path": str(file), "old_content": text, "new_content": after}


@pytest.mark.parametrize(
    ("action", "after"),
    [
        ("delete", "one = 1\n\n\n"),
        ("add_before", "one = 1\n\n\nnew = 0\ndef two() -> int:\n    return 2"),
        ("add_after", "one = 1\n\n\ndef two() -> int:\n    return 2\nnew = 0"),
        ("replace", "one = 1\n\n\nnew = 0"),
    ],
)
async def test_the_last_symbol_of_a_file_without_a_last_newline(desk: Desk, action: str, after: str) -> None:
    name = f"last_{action}.py"
    file = desk.write(name, "one = 1\n\n\ndef two() -> int:\n    return 2")
    await desk.call("view", file_path=name)
    outcome = await desk.call(
        "lsp_replace_symbol", symbol="two", file_path=name, replacement="new = 0", action=action
    )
    assert not outcome.is_error, outcome.content
    assert file.read_text() == after


async def test_a_symbol_that_is_not_there_is_answered_with_those_that_are(desk: Desk) -> None:
    desk.write("few.py", "class A:\n    one = 1\n\n\nclass B:\n    one = 2\n")
    await desk.call("view", file_path="few.py")
    outcome = await desk.call("lsp_replace_symbol", symbol="two", file_path="few.py", action="delete")
    assert "there is no symbol 'two'" in outcome.content
    assert "symbols of the file: A, B" in outcome.content
    outcome = await desk.call("lsp_replace_symbol", symbol="one", file_path="few.py", action="delete")
    assert "There are 2 symbols of that name; the first was taken." in outcome.content
    outcome = await desk.call("lsp_replace_symbol", symbol="one", file_path="few.py", replacement=" ")
    assert "use the action delete" in outcome.content
