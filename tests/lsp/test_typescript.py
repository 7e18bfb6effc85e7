"""The tools with typescript-language-server, which publishes what it finds and is silent about what stays clean."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests import node
from tests.lsp.conftest import Desk, desk_in


@pytest.fixture(scope="module")
async def desk(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    root = tmp_path_factory.mktemp("typescript")
    (root / "tsconfig.json").write_text('{"compilerOptions": {"strict": true}}')
    async with desk_in(root, node.path()) as desk:
        yield desk


async def test_it_runs_code_of_the_project_so_it_waits_for_trust(desk: Desk) -> None:
    desk.write("wait.ts", "const x: string = 1;\n")
    desk.room.follow(auto=True)
    outcome = await desk.call("lsp_diagnostics", file_path="wait.ts")
    assert "typescript-language-server, vtsls" in outcome.content
    assert "the user has to configure it under lsp or to trust the project first" in outcome.content
    assert desk.room.servers.states() == {}


async def test_an_edit_tells_what_it_did_here_and_elsewhere(desk: Desk) -> None:
    desk.room.follow(auto=True, trusted=True)
    desk.write("price.ts", "export function price(count: number): number {\n  return count * 2;\n}\n")
    desk.write("till.ts", 'import { price } from "./price";\n\nconsole.log("😀", price(3));\n')
    await desk.call("lsp_diagnostics", file_path="till.ts")
    await desk.call("lsp_diagnostics", file_path="price.ts")
    await desk.call("view", file_path="price.ts")
    outcome = await desk.call(
        "edit", file_path="price.ts", old_string="count: number", new_string="count: string"
    )
    server = "[typescript-language-server typescript]"
    assert f"<file_diagnostics>\nError: price.ts:2:10 {server} [2362]" in outcome.content
    assert f"<project_diagnostics>\nError: till.ts:3:24 {server} [2345]" in outcome.content
    outcome = await desk.call(
        "edit", file_path="price.ts", old_string="count: string", new_string="count: number"
    )
    assert "By this change: 0 new, 2 fixed. Now in this file: 0 errors, 0 warnings." in outcome.content


async def test_silence_about_what_stays_clean_is_an_answer(desk: Desk) -> None:
    desk.room.follow(auto=True, trusted=True)
    desk.write("tax.ts", "export function tax(count: number): number {\n  return count * 2;\n}\n")
    desk.write("bill.ts", 'import { tax } from "./tax";\n\nconsole.log("😀", tax(3));\n')
    await desk.call("lsp_diagnostics", file_path="tax.ts")
    await desk.call("view", file_path="tax.ts")
    outcome = await desk.call("edit", file_path="tax.ts", old_string="* 2", new_string="* 3")
    assert "By this change: 0 new, 0 fixed." in outcome.content
    uses = await desk.call("lsp_references", symbol="tax", path="tax.ts")
    assert (
        'bill.ts (2 references):\n  Line 1, Column 10: import { tax } from "./tax";\n  Line 3, Column 18'
        in uses.content
    )
    outcome = await desk.call("lsp_rename", symbol="tax", new_name="levy", path="tax.ts")
    assert "- tax.ts (+1 −1 lines)\n- bill.ts (+2 −2 lines)" in outcome.content
    assert (
        desk.root / "bill.ts"
    ).read_text() == 'import { levy } from "./tax";\n\nconsole.log("😀", levy(3));\n'
    outline = await desk.call("lsp_symbols", file_path="tax.ts")
    assert outline.content == "Function levy (line 1)"
