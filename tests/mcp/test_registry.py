"""Servers as people install them: two from Python's registry, and from npm's the one that uses every part of MCP,
over its three ways of being reached."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import pytest
from tests import node
from tests.mcp.conftest import Call, Room, open_room

from bullpen.config.shape import McpServer
from bullpen.errors import ToolFailed

WAYS = ("stdio", "sse", "http")


@pytest.fixture(scope="module")
def everything() -> list[str]:
    return node.program("@modelcontextprotocol/server-everything", "mcp-server-everything")


@contextlib.contextmanager
def _elsewhere(command: list[str], way: str) -> Iterator[int]:
    """The server at a port of its own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen([*command, way], env={"PORT": str(port)}, stdout=quiet, stderr=quiet)
    try:
        yield port
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
async def room(everything: list[str], tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Room]:
    """All of them side by side."""
    root = tmp_path_factory.mktemp("registry")
    for command in (["init", "-q", "-b", "main"], ["commit", "-q", "--allow-empty", "-m", "The first one."]):
        subprocess.run(
            ["git", "-c", "user.name=ana", "-c", "user.email=a@b.c", *command], cwd=root, check=True
        )
    with _elsewhere(everything, "sse") as sse, _elsewhere(everything, "streamableHttp") as http:
        for port in (sse, http):
            await _listens(port)
        async with open_room(root) as room:
            await room.started(
                time=_python("mcp_server_time", "--local-timezone", "Europe/Vienna"),
                git=_python("mcp_server_git", "--repository", str(root)),
                stdio=McpServer(command=everything[0], args=(everything[1], "stdio"), timeout=50),
                sse=McpServer(type="sse", url=f"http://127.0.0.1:{sse}/sse", timeout=50),
                http=McpServer(type="http", url=f"http://127.0.0.1:{http}/mcp", timeout=50),
            )
            assert {name: info.error for name, info in room.servers.states().items() if info.error} == {}
            yield room


def _python(module: str, *args: str) -> McpServer:
    return McpServer(command=sys.executable, args=("-m", module, *args), timeout=50)


async def _listens(port: int) -> None:
    while True:
        try:
            async with await anyio.connect_tcp("127.0.0.1", port):
                return
        except OSError:
            await anyio.sleep(0.05)


async def test_a_clock(room: Room) -> None:
    call = {"source_timezone": "Europe/Vienna", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    answer = await room.call("mcp_time_convert_time", **call)
    assert "Asia/Tokyo" in answer.content
    with pytest.raises(ToolFailed, match=r"(?i)timezone"):
        await room.call("mcp_time_get_current_time", timezone="Mars/Olympus")


async def test_a_repository(room: Room) -> None:
    answer = await room.call("mcp_git_git_log", repo_path=str(room.root))
    assert "The first one." in answer.content
    with pytest.raises(ToolFailed):
        await room.call("mcp_git_git_status", repo_path="/")


@pytest.mark.parametrize("way", WAYS)
async def test_tools(room: Room, way: str) -> None:
    assert (await room.call(f"mcp_{way}_echo", message="hi")).content == "Echo: hi"
    assert "5" in (await room.call(f"mcp_{way}_get-sum", a=2, b=3)).content
    image = await room.call(f"mcp_{way}_get-tiny-image")
    assert (image.mime_type, image.data[:4]) == ("image/png", b"\x89PNG")
    blind = await room.call(f"mcp_{way}_get-tiny-image", Call(room.root, supports_images=False))
    assert "the model cannot take it in" in blind.content
    with pytest.raises(ToolFailed):
        await room.call(f"mcp_{way}_get-sum", a="two")


@pytest.mark.parametrize("way", WAYS)
async def test_prompts(room: Room, way: str) -> None:
    offered = {p.prompt_id: p for p in room.servers.prompts() if p.client_id == way}
    assert {a.id for a in offered["args-prompt"].arguments} == {"city", "state"}
    assert "Linz" in await room.servers.get_prompt(way, "args-prompt", {"city": "Linz"})
    assert await room.servers.get_prompt(way, "simple-prompt", {})


@pytest.mark.parametrize("way", WAYS)
async def test_resources(room: Room, way: str) -> None:
    await room.until(lambda: room.state(way).resource_count)
    listed = (await room.run("list_mcp_resources", mcp_name=way)).content.splitlines()
    assert any("demo://resource/dynamic/text/{" in line for line in listed)
    text = await room.run("read_mcp_resource", mcp_name=way, uri="demo://resource/dynamic/text/1")
    assert text.content
    blob = await room.run("read_mcp_resource", mcp_name=way, uri="demo://resource/dynamic/blob/1")
    assert blob.content
    first = listed[0].partition(": ")[2].split()[0]
    (part,) = await room.servers.read_resource(way, first)
    assert part["text"]


async def test_progress(room: Room) -> None:
    answer = await room.call("mcp_http_trigger-long-running-operation", duration=1, steps=4)
    assert "completed" in answer.content.lower()


async def test_what_they_ask_of_us_is_not_offered(room: Room) -> None:
    """Tools that need a model or a person of ours are only there for clients that lend them one."""
    names: Any = room.servers.tools().keys()
    assert not [name for name in names if "sampling" in name or "elicitation" in name]


async def test_nobody_lies_by_accident(room: Room) -> None:
    """Started again, they say what they said before: nothing is held back."""
    for name in room.servers.states():
        room.servers.restart(name)
    await room.servers.settled()
    assert {name: info.state for name, info in room.servers.states().items()} == dict.fromkeys(
        ("git", "http", "sse", "stdio", "time"), "connected"
    )
    assert await room.servers.changes() == []
