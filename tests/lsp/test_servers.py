"""Language servers of a workspace: when they start and end, what becomes of those that fail, and what they are told."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio
import pytest
from dirty_equals import IsPartialDict
from tests.lsp.conftest import ENV, PATIENT, Room, Script, opened

from bullpen.config.shape import LspServer
from bullpen.errors import LanguageServerFailed, LanguageServerNotFound, ToolFailed
from bullpen.lsp import plan
from bullpen.lsp.selection import Following
from bullpen.lsp.server import DISABLED, ERROR, READY, RESTARTS, STARTING, STOPPED, UNSTARTED


async def test_nothing_starts_before_a_file_is_touched(room: Room, script: Script) -> None:
    room.follow(s=script())
    assert room.servers.states()["s"].state == UNSTARTED
    await room.servers.after_view(room.write("a.md", "BAD"))
    assert room.servers.states()["s"].state == UNSTARTED
    await room.servers.after_view(room.write("a.txt", "BAD"))
    info = await room.is_in(READY)
    assert info.connected_at.startswith("20")
    assert room.states() == [STARTING, READY]


async def test_a_view_that_starts_a_server_does_not_wait_for_it(room: Room, script: Script) -> None:
    room.follow(s=script(mute=["initialize"]))
    assert await room.servers.after_view(room.write("a.txt", "BAD")) == ""
    assert room.servers.states()["s"].state == STARTING


async def test_a_disabled_server_is_listed_and_never_started(room: Room, script: Script) -> None:
    entry = LspServer(command=sys.executable, filetypes=("txt",), disabled=True)
    room.follow(s=entry)
    await room.servers.after_view(room.write("a.txt", "BAD"))
    assert room.servers.states()["s"].state == DISABLED


async def test_files_outside_the_workspace_start_nothing(room: Room, script: Script, tmp_path: Path) -> None:
    room.follow(s=script())
    (tmp_path / "other.txt").write_text("BAD")
    (room.root / "link.txt").symlink_to(tmp_path / "other.txt")
    await room.servers.after_view(tmp_path / "other.txt")
    await room.servers.after_view(room.root / "link.txt")
    assert room.servers.states()["s"].state == UNSTARTED


@pytest.mark.parametrize("pull", [False, True, "late"])
async def test_a_change_is_told_by_what_it_did(room: Room, script: Script, pull: bool | str) -> None:
    room.follow(s=script(pull=pull))
    room.write("a.txt", "fine\nBAD one\n")
    await room.servers.complaints(room.root / "a.txt")
    told = await room.change("a.txt", "new line\nfine\nBAD one\nMEH here\n")
    assert told == (
        "\n<file_diagnostics>\n"
        "Warning: a.txt:4:1 [s script] [MEH] MEH is not nice\n"
        "</file_diagnostics>\n"
        "<diagnostic_summary>\n"
        "By this change: 1 new, 0 fixed. Now in this file: 1 error, 1 warning.\n"
        "</diagnostic_summary>"
    )
    told = await room.change("a.txt", "fine\n")
    assert "By this change: 0 new, 2 fixed. Now in this file: 0 errors, 0 warnings." in told
    assert "<fixed_diagnostics>\nError: a.txt:3:1 [s script] [BAD] BAD is not nice\n" in told


async def test_a_server_that_runs_is_asked_about_a_file_before_it_is_changed(
    room: Room, script: Script
) -> None:
    """Otherwise nobody could tell what was there before."""
    room.follow(s=script())
    await room.servers.complaints(room.write("other.txt", ""))
    room.write("a.txt", "BAD\n")
    assert "By this change: 1 new, 0 fixed. Now in this file: 2 errors" in await room.change(
        "a.txt", "BAD BAD\n"
    )


async def test_a_new_file_has_only_new_problems(room: Room, script: Script) -> None:
    room.follow(s=script())
    await room.servers.complaints(room.write("other.txt", ""))
    told = await room.change("sub/new.txt", "BAD\n")
    assert "By this change: 1 new, 0 fixed." in told
    made = [
        each
        for message in script.heard("workspace/didChangeWatchedFiles")
        for each in message["params"]["changes"]
    ]
    assert {"uri": (room.root / "sub/new.txt").as_uri(), "type": 1} in made


async def test_the_first_change_while_a_server_starts_does_not_wait(room: Room, script: Script) -> None:
    room.follow(s=script(mute=["initialize"]))
    told = await room.change("a.txt", "BAD\n")
    assert "No answer yet from s; lsp_diagnostics shows what comes." in told


async def test_silence_about_a_clean_file_is_an_answer(room: Room, script: Script) -> None:
    room.follow(s=script(pull=False, clean=True))
    await room.servers.complaints(room.write("a.txt", "fine\n"))
    assert "By this change: 0 new, 0 fixed." in await room.change("a.txt", "still fine\n")


async def test_a_server_that_says_nothing_is_called_that(hasty: Room, script: Script) -> None:
    hasty.follow(s=script(pull=False, quiet=True))
    hasty.write("a.txt", "BAD\n")
    assert "No answer yet from s; ask again in a moment." in await hasty.servers.complaints(
        hasty.root / "a.txt"
    )
    assert "No answer yet from s" in await hasty.change("a.txt", "MEH\n")


async def test_other_files_are_read_anew_before_servers_are_asked(room: Room, script: Script) -> None:
    room.follow(s=script(pull=True))
    await room.servers.complaints(room.write("a.txt", "fine\n"))
    await room.servers.complaints(room.write("b.txt", "fine\n"))
    room.write("a.txt", "BAD now\n")
    assert "a.txt:1:1" in await room.change("b.txt", "also fine\n")
    (room.root / "a.txt").unlink()
    assert "By this change: 0 new, 1 fixed." in await room.change("b.txt", "fine\n")
    assert script.heard("textDocument/didClose")
    kinds = [
        (each["uri"].rsplit("/")[-1], each["type"])
        for message in script.heard("workspace/didChangeWatchedFiles")
        for each in message["params"]["changes"]
    ]
    assert [kind for kind in kinds if kind[0] == "a.txt"] == [("a.txt", 2), ("a.txt", 3)]


async def test_saves_are_told_to_who_wants_them(room: Room, script: Script) -> None:
    room.follow(s=script(save=True))
    await room.servers.complaints(room.write("a.txt", "fine\n"))
    await room.change("a.txt", "BAD\n")
    assert len(script.heard("textDocument/didSave")) == 1


async def test_settings_are_given_by_the_names_that_a_server_asks_for(room: Room, script: Script) -> None:
    options = {"tool": {"level": 3, "deep": {"er": True}}}
    room.follow(s=script(options=options, ask=["tool", "tool.deep.er", "other", ""]))
    await room.servers.complaints(room.write("a.txt", "fine\n"))
    await room.servers.complaints(room.root / "a.txt")
    assert script.heard()[0]["result"] == [options["tool"], True, None, options]
    assert script.heard("workspace/didChangeConfiguration")[0]["params"] == {"settings": options}


async def test_a_server_may_not_edit_files_or_open_windows(room: Room, script: Script) -> None:
    room.follow(s=script(wants=["workspace/applyEdit", "window/showDocument", "made/up"]))
    await room.servers.complaints(room.write("a.txt", "fine\n"))
    await room.servers.complaints(room.root / "a.txt")
    edit, window, unknown = script.heard()
    assert edit["result"] == IsPartialDict(applied=False)
    assert window["result"] == {"success": False}
    assert unknown["error"]["code"] == -32601


async def test_columns_count_characters_in_every_encoding(room: Room, script: Script) -> None:
    for encoding in ("utf-8", "utf-16", "utf-32"):
        room.follow(s=script(encoding=encoding))
        room.write("a.txt", "é 😀 BAD\n")
        assert "a.txt:1:5 " in await room.servers.complaints(room.root / "a.txt"), encoding


async def test_a_byte_order_mark_is_no_character(room: Room, script: Script) -> None:
    room.follow(s=script())
    assert "a.txt:1:1 " in await room.servers.complaints(room.write("a.txt", "\ufeffBAD\r\n"))


# States and ends


async def test_what_was_left_behind_ends_with_the_workspace(
    root: Path, script: Script, tmp_path: Path
) -> None:
    async with opened(root, dict(ENV), PATIENT) as room:
        room.follow(s=script(child=str(tmp_path / "pid")))
        await room.servers.complaints(room.write("a.txt", "fine\n"))
        child = int((tmp_path / "pid").read_text())
        os.kill(child, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


async def test_a_server_that_nobody_uses_leaves_and_comes_back(room: Room, script: Script) -> None:
    room.follow(s=script(), idle_s=1.0)
    file = room.write("a.txt", "BAD\n")
    await room.servers.complaints(file)
    await room.is_in(STOPPED)
    assert script.heard("shutdown")
    assert script.heard("exit")
    assert "1 error" in await room.servers.complaints(file)
    assert room.states() == [STARTING, READY, STOPPED, STARTING, READY]


async def test_one_that_dies_is_started_again_and_then_given_up(room: Room, script: Script) -> None:
    room.follow(s=script(die=["textDocument/didOpen"]))
    file = room.write("a.txt", "BAD\n")
    await room.servers.start(file)
    for _ in range(RESTARTS + 1):
        await room.is_in(READY)
        await room.servers.after_view(file)
        await room.until(lambda states: states["s"].state != READY)
    info = await room.is_in(ERROR)
    assert "stopped after 5 restarts in 3 minutes" in info.error
    assert "the scripted server falls over" in info.error
    assert room.states().count(READY) == RESTARTS + 1
    heard = len(room.events)
    await room.servers.after_view(file)
    assert len(room.events) == heard
    with pytest.raises(ToolFailed, match="stopped after 5 restarts"):
        await room.servers.complaints(file)
    assert await room.servers.restart("s") == {"s": ""}


async def test_one_that_dies_is_missed_although_its_child_holds_the_line(
    room: Room, script: Script, tmp_path: Path
) -> None:
    room.follow(s=script(die=["textDocument/didOpen"], child=str(tmp_path / "pid")))
    file = room.write("a.txt", "BAD\n")
    await room.servers.start(file)
    await room.is_in(READY)
    await room.servers.after_view(file)
    await room.until(lambda states: states["s"].state == STARTING)


async def test_one_that_cannot_start_says_why(room: Room, script: Script) -> None:
    room.follow(s=script(die=["start"]), gone=LspServer(command="no-such-server-here", filetypes=("txt",)))
    file = room.write("a.txt", "BAD\n")
    with pytest.raises(ToolFailed, match="no-such-server-here is not there"):
        await room.servers.complaints(file)
    states = room.servers.states()
    assert states["s"].state == states["gone"].state == ERROR
    assert "the scripted server falls over" in states["s"].error


@pytest.mark.parametrize(
    ("nonsense", "why"),
    [
        ("Content-Length: 99999999999\r\n\r\n", "announced a message of 99999999999 bytes"),
        ("Content-Length: many\r\n\r\n", "a header without a length"),
        ("Content-Length: 5\r\n\r\n[1,2]", "not a JSON object"),
        ("Content-Length: 5\r\n\r\n{{{{{", "not JSON"),
        ("x", "a header line without an end"),
        ("hello\n", "does not speak the language server protocol"),
    ],
)
async def test_nonsense_ends_the_conversation(room: Room, script: Script, nonsense: str, why: str) -> None:
    room.follow(s=script(nonsense=nonsense, times=600_000))
    with pytest.raises(ToolFailed, match=why):
        await room.servers.complaints(room.write("a.txt", "BAD\n"))


async def test_a_message_that_is_nested_without_end_ends_nothing_but_its_sender(
    room: Room, script: Script
) -> None:
    for depth in (100, 900, 990, 5_000):
        deep = "[" * depth + "]" * depth
        said = f'{{"method": "textDocument/publishDiagnostics", "params": {{"uri": "file:///a", "diagnostics": [{{"range": {deep}}}]}}}}'
        room.follow(s=script(nonsense=f"Content-Length: {len(said)}\r\n\r\n{said}", timeout=0.5))
        with pytest.raises(ToolFailed, match=r"did not answer initialize|nested too deep|not JSON"):
            await room.servers.complaints(room.write("a.txt", "BAD\n"))


async def test_a_flood_is_read_and_holds_up_nobody(room: Room, script: Script) -> None:
    room.follow(s=script(flood=3_000))
    assert "1 error" in await room.servers.complaints(room.write("a.txt", "BAD\n"))


async def test_a_request_that_is_not_answered_has_an_end(room: Room, script: Script) -> None:
    room.follow(s=script(mute=["textDocument/references"]))
    client, _ = await room.servers.open(room.write("a.txt", "BAD\n"), "textDocument/references")
    with pytest.raises(LanguageServerFailed, match=r"the language server s did not answer .* within 0\.1 s"):
        await client.request("textDocument/references", {}, timeout_s=0.1)
    await client.request("textDocument/documentSymbol", {}, timeout_s=30)
    assert script.heard("$/cancelRequest")


async def test_one_that_dies_while_it_is_asked_is_no_wait(room: Room, script: Script) -> None:
    room.follow(s=script(die=["textDocument/references"]))
    client, _ = await room.servers.open(room.write("a.txt", "BAD\n"), "textDocument/references")
    with pytest.raises(LanguageServerFailed, match="is gone"):
        await client.request("textDocument/references", {}, timeout_s=60)


async def test_one_that_does_not_read_is_stopped_all_the_same(root: Path, script: Script) -> None:
    async with opened(root, dict(ENV), PATIENT) as room:
        room.follow(s=script(deaf=True))
        await room.servers.after_view(room.write("a.txt", "x" * 1_000_000))
        await room.is_in(READY)
        client, _ = await room.servers.open(room.root / "a.txt", "textDocument/references")
        with pytest.raises(LanguageServerFailed, match="does not read what it is told"):  # noqa: PT012
            while True:
                client.notify("made/up", "x" * 1_000_000)
        with anyio.fail_after(30):
            await room.servers.stop()


async def test_diagnostics_are_shown_as_they_came(room: Room, script: Script) -> None:
    room.follow(s=script())
    with pytest.raises(LanguageServerNotFound):
        room.servers.diagnostics("s")
    file = room.write("a.txt", "BAD\n")
    await room.servers.complaints(file)
    assert room.servers.diagnostics("s") == {
        file.as_uri(): [IsPartialDict(message="BAD is not nice", severity=1)]
    }
    await room.until(lambda _: room.events[-1].type == "diagnostics_changed")
    assert room.events[-1].diagnostic_count == room.servers.states()["s"].diagnostic_count == 1
    with pytest.raises(LanguageServerNotFound):
        room.servers.diagnostics("other")


async def test_a_changed_configuration_ends_what_it_changes(room: Room, script: Script) -> None:
    other = script()
    room.follow(s=script(), t=other)
    file = room.write("a.txt", "BAD\n")
    await room.servers.complaints(file)
    await room.is_in(READY, "t")
    room.follow(s=script(quiet=True), t=other)
    assert room.servers.states()["s"].state == UNSTARTED
    assert room.servers.states()["t"].state == READY
    assert room.states()[-1] == STOPPED
    room.follow()
    assert room.servers.states() == {}


async def test_start_and_stop_on_request(room: Room, script: Script) -> None:
    room.follow(s=script())
    await room.servers.start(room.write("a.txt", "BAD\n"))
    await room.is_in(READY)
    await room.servers.stop()
    assert room.servers.states()["s"].state == STOPPED


async def test_secrets_of_the_configuration_are_not_told(room: Room, script: Script) -> None:
    code = "import os, sys; sys.exit('my key is ' + os.environ['KEY'])"
    room.follow(
        s=LspServer(command=sys.executable, args=("-c", code), env={"KEY": "s3cr3t-key"}, filetypes=("txt",))
    )
    with pytest.raises(ToolFailed) as failure:
        await room.servers.complaints(room.write("a.txt", ""))
    assert "my key is [hidden]" in failure.value.message


async def test_servers_of_two_workspaces_know_nothing_of_each_other(tmp_path: Path, script: Script) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    async with (
        opened(tmp_path / "one", dict(ENV), PATIENT) as one,
        opened(tmp_path / "two", dict(ENV), PATIENT) as two,
    ):
        one.follow(s=script())
        two.follow(s=script())
        await one.servers.complaints(one.write("a.txt", "BAD\n"))
        assert two.servers.states()["s"].state == UNSTARTED
        assert two.events == []


async def test_without_a_server_the_next_step_is_told(room: Room) -> None:
    room.follow(auto=True)
    with pytest.raises(ToolFailed, match=r"zls starts where build\.zig or zls\.json lies in the workspace"):
        await room.servers.complaints(room.write("a.zig", ""))
    room.write("build.zig", "")
    with pytest.raises(ToolFailed, match="to get one: see the releases of zls; zls would run or fetch what"):
        await room.servers.complaints(room.write("a.zig", ""))
    room.follow()
    with pytest.raises(ToolFailed, match="auto_lsp is off"):
        await room.servers.complaints(room.root / "a.zig")


async def test_an_entry_that_cannot_be_read_is_in_error_and_holds_its_place(room: Room) -> None:
    """A known server of that name does not start in its stead."""
    unusable = plan.unusable("zls", "args cannot be expanded: $NO is not set")
    room.servers.follow(Following(plans={"zls": unusable}, auto=True, trusted=True), room.tasks)
    info = room.servers.states()["zls"]
    assert (info.state, info.error) == (ERROR, "args cannot be expanded: $NO is not set")
    room.write("build.zig", "")
    with pytest.raises(ToolFailed, match="args cannot be expanded"):
        await room.servers.complaints(room.write("a.zig", ""))
