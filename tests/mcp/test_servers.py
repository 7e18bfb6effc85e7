"""What a workspace sees of its tool servers."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import msgspec
import pytest
from anyio.abc import SocketAttribute, SocketStream
from tests.mcp.conftest import ENV, PROBE, SLEEPER, Call, Room, appears, is_running, open_room, raw
from tests.mcp.elsewhere import Liar
from tests.mcp.server import PIXEL

from bullpen.config.shape import McpServer
from bullpen.errors import BadRequest, BullpenError, ToolFailed
from bullpen.schema.agent import ZERO_TIME, McpInfo, McpPrompt, McpPromptArgument, McpResource
from bullpen.schema.events import McpEvent
from bullpen.tools.base import Outcome, PermissionDenied

RESOURCE_TOOLS = ("list_mcp_resources", "read_mcp_resource")


def changed(**fields: Any) -> McpEvent:
    return McpEvent(type="state_changed", **fields)


async def test_a_server_is_connected_with_all_it_offers(room: Room) -> None:
    """The resources are counted after the connection counts as made. What is new later waits for a person."""
    await room.started(probe=PROBE)
    await room.until(lambda: room.state("probe").resource_count)
    info = room.state("probe")
    assert info == McpInfo(
        name="probe",
        state="connected",
        tool_count=8,
        prompt_count=1,
        resource_count=1,
        connected_at=info.connected_at,
    )
    assert datetime.fromisoformat(info.connected_at).tzinfo == UTC
    assert room.events == [
        changed(name="probe", state="starting"),
        changed(name="probe", state="connected", tool_count=8, prompt_count=1),
        McpEvent(
            type="resources_list_changed",
            name="probe",
            state="connected",
            tool_count=8,
            prompt_count=1,
            resource_count=1,
        ),
    ]
    assert room.servers.instructions() == [("probe", "Say please.")]

    await room.call("mcp_probe_grow")
    await room.until(lambda: room.events[-1].type == "tools_list_changed")
    assert (room.events[-1].tool_count, room.events[-1].held_count) == (8, 1)
    (changes,) = await room.servers.changes()
    await room.servers.accept("probe", changes.fingerprint)
    assert room.events[-1].tool_count == 9
    assert (await room.call("mcp_probe_late")).content == "new"


async def test_a_tool_is_called_after_permission(probe: Room) -> None:
    call = Call(probe.root)
    assert await probe.call("mcp_probe_echo", call, text="hi", times=2) == Outcome(content="hi hi")
    assert call.asked == [("execute", {"text": "hi", "times": 2}, probe.root)]
    with pytest.raises(PermissionDenied):
        await probe.call("mcp_probe_echo", Call(probe.root, allowed=False), text="hi")


async def test_a_tool_is_described_for_a_model(probe: Room) -> None:
    echo = probe.servers.tools()["mcp_probe_echo"]
    assert (echo.description, echo.effects, echo.params) == ("Say it again.", True, dict[str, Any])
    assert echo.schema == {
        "type": "object",
        "properties": {
            "text": {"title": "Text", "type": "string"},
            "times": {
                "anyOf": [{"type": "integer"}, {"type": "null"}],
                "default": None,
                "title": "Times",
            },
        },
        "required": ["text"],
    }


async def test_results_are_failures_pictures_and_bounded_texts(probe: Room) -> None:
    with pytest.raises(ToolFailed, match="the well is dry"):
        await probe.call("mcp_probe_fail")
    assert await probe.call("mcp_probe_image") == Outcome(
        content="a picture\n[1 more image or recording left out]", data=PIXEL, mime_type="image/png"
    )
    flood = await probe.call("mcp_probe_flood", size=300_000)
    assert flood.content == "x" * 200_000 + "\n\n[… the other 100000 of 300000 bytes were left out]"


async def test_a_slow_tool_is_given_up_and_withdrawn(tmp_path: Path) -> None:
    """The server hears that nobody waits any more, and can be used again; one that reports progress may take longer."""
    mark = tmp_path / "mark"
    async with open_room(tmp_path, call_timeout_s=1.0) as room:
        await room.started(probe=PROBE)
        with pytest.raises(ToolFailed, match=r"the MCP server 'probe' failed: did not answer within 1 s"):
            await room.call("mcp_probe_slow", mark=str(mark))
        assert (await room.call("mcp_probe_patient", steps=7)).content == "at last"
        await appears(mark)


async def test_prompts_and_resources(probe: Room) -> None:
    assert probe.servers.prompts() == [
        McpPrompt(
            id="probe:review",
            title="Review",
            description="Look at a file.",
            prompt_id="review",
            client_id="probe",
            arguments=(McpPromptArgument(id="path", title="path", required=True),),
        )
    ]
    assert await probe.servers.get_prompt("probe", "review", {"path": "a.py"}) == "Please review a.py"
    assert await probe.servers.read_resource("probe", "note://today") == [
        {"uri": "note://today", "mime_type": "text/plain", "text": "buy milk", "blob": ""}
    ]
    with pytest.raises(BullpenError, match=r"the MCP server 'probe' failed: .*nothing://here"):
        await probe.servers.read_resource("probe", "nothing://here")


async def test_unknown_servers_are_the_callers_mistake(room: Room) -> None:
    """The wire answers 200 to a refresh of prompts or resources of an unknown server."""
    with pytest.raises(BadRequest, match="there is no MCP server 'x' in this workspace"):
        await room.servers.get_prompt("x", "y", {})
    with pytest.raises(BadRequest):
        await room.servers.read_resource("x", "y")
    with pytest.raises(BadRequest):
        await room.servers.refresh("tools", "x")
    await room.servers.refresh("prompts", "x")
    await room.servers.refresh("resources", "x")


async def test_the_environment_is_the_given_one_and_the_servers_own(probe: Room) -> None:
    """Nothing of the process that runs the tests gets through."""
    names = ("GREETING", "OWN", "HOME")
    seen = [(await probe.call("mcp_probe_variable", name=name)).content for name in names]
    assert seen == [ENV["GREETING"], "mine", "(unset)"]


async def test_allowed_then_denied_tools(room: Room) -> None:
    """A new filter takes effect without a restart."""
    well = raw("well")
    await room.started(raw=msgspec.structs.replace(well, enabled_tools=("t1", "t2"), disabled_tools=("t2",)))
    assert list(room.servers.tools()) == ["list_mcp_resources", "mcp_raw_t1", "read_mcp_resource"]
    assert room.state("raw").tool_count == 1
    await room.configure(raw=msgspec.structs.replace(well, disabled_tools=("t1",)))
    assert room.state("raw").tool_count == 2
    assert room.events[-1].type == "tools_list_changed"


async def test_every_page_of_a_list_is_read(room: Room) -> None:
    await room.started(raw=raw("well"))
    await room.until(lambda: room.state("raw").resource_count == 3)
    assert [*room.servers.tools()] == [
        RESOURCE_TOOLS[0],
        "mcp_raw_t1",
        "mcp_raw_t2",
        "mcp_raw_t3",
        RESOURCE_TOOLS[1],
    ]
    assert [prompt.prompt_id for prompt in room.servers.prompts()] == ["p1", "p2", "p3"]


async def test_a_list_without_end_is_cut(room: Room) -> None:
    await room.started(raw=raw("endless"))
    assert room.state("raw").tool_count == 100


@pytest.mark.parametrize("behaviour", ["chatty", "modern"])
async def test_odd_servers_are_understood(room: Room, behaviour: str) -> None:
    """One greets on standard output, one knows nothing but the newest protocol."""
    await room.started(raw=raw(behaviour))
    assert (room.state("raw").state, room.state("raw").tool_count) == ("connected", 3)


async def test_a_silent_tool_says_so_and_a_flooding_one_is_cut_off(room: Room) -> None:
    await room.started(well=raw("well"), huge=raw("huge"))
    assert (await room.call("mcp_well_t1")).content == "The tool gave no output."
    with pytest.raises(ToolFailed, match="whether the call had an effect is not known"):
        await room.call("mcp_huge_t1")


@pytest.mark.parametrize(
    ("server", "words"),
    [
        (McpServer(command="no-such-command"), "command not found or not executable: no-such-command"),
        (McpServer(), "no command is configured"),
        (McpServer(type="http"), "no url is configured"),
        (McpServer(command="sh", args=("-c", "echo oh no >&2; exit 3")), "ended with exit code 3: oh no"),
        (McpServer(command="sh", args=("-c", "kill -9 $$")), "was ended by signal 9"),
        (
            McpServer(command="sh", args=("-c", "echo hm >&2; sleep 9"), timeout=0.5),
            "did not answer within 0.5 s: hm",
        ),
    ],
)
async def test_a_server_that_cannot_be_reached_says_why(room: Room, server: McpServer, words: str) -> None:
    await room.started(bad=server)
    assert room.state("bad") == McpInfo(name="bad", state="error", error=words, connected_at=ZERO_TIME)
    assert room.events == [
        changed(name="bad", state="starting"),
        changed(name="bad", state="error", error=words),
    ]
    with pytest.raises(BadRequest, match=r"the MCP server 'bad' is not connected \(error: "):
        await room.servers.get_prompt("bad", "x", {})


async def test_disabled_and_broken_entries_are_listed(room: Room) -> None:
    off = msgspec.structs.replace(SLEEPER, disabled=True)
    await room.servers.reconcile({"off": off}, {"odd": "no value for $TOKEN"}, room.tasks)
    assert room.servers.states() == {
        "odd": McpInfo(name="odd", state="error", error="no value for $TOKEN", connected_at=ZERO_TIME),
        "off": McpInfo(name="off", state="disabled", connected_at=ZERO_TIME),
    }
    await room.servers.settled()


async def test_a_hanging_server_delays_nobody(room: Room) -> None:
    await room.configure(slow=SLEEPER, raw=raw("well"))
    await room.until(lambda: room.state("raw").state == "connected")
    assert room.state("slow").state == "starting"
    assert (await room.call("mcp_raw_t1")).content


async def test_a_server_that_dies_is_started_again(room: Room) -> None:
    """The call that it died in fails with its last words, the next one waits for the new process."""
    await room.started(raw=raw("mortal"))
    lost = "leaving in a hurry; whether the call had an effect is not known"
    with pytest.raises(ToolFailed, match=f"the MCP server 'raw' failed: .*{lost}"):
        await room.call("mcp_raw_t1", now=True)
    assert (await room.call("mcp_raw_t1")).content == "The tool gave no output."
    states = [event.state for event in room.events if event.type == "state_changed"]
    assert states == ["starting", "connected", "starting", "connected"]


async def test_a_server_that_dies_all_the_time_is_left_alone(room: Room, tmp_path: Path) -> None:
    """Once and five restarts, then it says so, without what is secret; somebody may ask for it again."""
    log = tmp_path / "log"
    await room.configure(raw=raw("count", str(log), env={"TOKEN": "hush-hush"}))
    await room.until(lambda: room.state("raw").state == "error")
    assert log.read_text().splitlines() == ["started"] * 6
    assert room.state("raw").error == (
        "stopped after 5 restarts in 3 minutes; the last time it ended with exit code 7: secret is [hidden]"
    )
    assert room.servers.tools() == {}
    await room.servers.refresh("tools", "raw")
    await room.until(lambda: room.state("raw").state == "error" and len(log.read_text().splitlines()) == 12)


async def test_restarts_are_forgiven_after_three_minutes(tmp_path: Path) -> None:
    class Hasty:
        """Every look at it takes a minute."""

        now = 0.0

        def time(self) -> float:
            return 0.0

        def monotonic(self) -> float:
            self.now += 60
            return self.now

    log = tmp_path / "log"
    async with open_room(tmp_path, clock=Hasty()) as room:
        await room.configure(raw=raw("count", str(log)))
        await room.until(lambda: len(log.read_text().splitlines() if log.exists() else ()) > 8)


async def test_a_held_pipe_does_not_hide_a_death(room: Room, tmp_path: Path) -> None:
    """The grandchild that holds it goes with the server."""
    note = tmp_path / "pid"
    await room.configure(raw=raw("leaver", str(note)))
    await room.until(lambda: room.state("raw").state == "error")
    assert not is_running(int(note.read_text()))


async def test_only_what_changed_is_started_anew(room: Room) -> None:
    first, second = raw("well"), raw("well", "changed")
    await room.started(a=first, b=first)
    was = room.state("a").connected_at
    room.events.clear()
    await room.configure(a=first, b=second)
    await room.servers.settled()
    await room.configure(a=first)
    assert room.state("a").connected_at == was
    assert list(room.servers.states()) == ["a"]
    seen = [(event.name, event.state) for event in room.events if event.type == "state_changed"]
    assert seen == [("b", "starting"), ("b", "connected"), ("b", "disabled")]


async def test_workspaces_share_nothing(room: Room, tmp_path: Path) -> None:
    await room.started(raw=raw("well"))
    async with open_room(tmp_path) as other:
        await other.started(other=raw("well"))
        assert list(other.servers.states()) == ["other"]
    assert list(room.servers.states()) == ["raw"]
    assert (await room.call("mcp_raw_t1")).content


async def test_a_server_elsewhere_that_wants_a_sign_in(room: Room) -> None:
    async def refuse(stream: SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, refuse)
        await room.started(far=McpServer(type="http", url=f"http://127.0.0.1:{port}/mcp", timeout=30))
        tasks.cancel_scope.cancel()
    assert room.state("far").state == "needs auth"
    assert room.state("far").error == "a login is needed: bullpen mcp login far"


async def test_a_model_lists_and_reads_what_servers_keep(room: Room) -> None:
    """Every page, and what can be filled in; the tools are there while somebody keeps something."""
    assert room.servers.tools() == {}
    liar = Liar()
    liar.resources[0] = types.Resource(
        name="first", title="The first\nof all", uri="note://0", description="hidden\u200b", size=7
    )
    async with liar.reached() as server:
        await room.started(liar=server)
        assert list(room.servers.tools()) == ["list_mcp_resources", "read_mcp_resource"]
        listed = (await room.run("list_mcp_resources", mcp_name="liar")).content.splitlines()
        assert listed == [
            "The first of all: note://0 (7 bytes) – hidden<U+200B>",
            *(f"r{n}: note://{n}" for n in range(1, 5)),
            "any: note://{n} (fill in the braces) – One of them.",
        ]
        await room.until(lambda: room.state("liar").resource_count)
        assert room.servers.resources()[0] == McpResource(
            name="liar", uri="note://0", title="The first\nof all", description="hidden\u200b", size=7
        )
        call = Call(room.root)
        read = await room.run("read_mcp_resource", call, mcp_name="liar", uri="note://3")
        assert (read.content, call.asked) == (
            "the words of note://3",
            [("read", {"mcp_name": "liar", "uri": "note://3"}, room.root)],
        )
        picture = await room.run("read_mcp_resource", mcp_name="liar", uri="note://picture")
        assert (picture.data, picture.mime_type) == (b"PNG", "image/png")
        with pytest.raises(PermissionDenied):
            await room.run(
                "read_mcp_resource", Call(room.root, allowed=False), mcp_name="liar", uri="note://3"
            )
        with pytest.raises(ToolFailed, match="there is no MCP server 'nobody'"):
            await room.run("list_mcp_resources", mcp_name="nobody")
