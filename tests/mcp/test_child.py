"""How servers that are processes end: with all they started, and soon."""

from __future__ import annotations

import asyncio
from pathlib import Path

import anyio
import msgspec
import pytest
from tests.mcp.conftest import SLEEPER, appears, is_running, open_room, raw

from bullpen.config.shape import McpServer


@pytest.fixture(params=["uvloop", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


CLOSE_S = 10
"""Far more than closing takes, far less than the servers here would stay."""


def shell(script: str) -> McpServer:
    return msgspec.structs.replace(SLEEPER, command="sh", args=("-c", script))


async def test_closing_ends_what_a_server_started(tmp_path: Path) -> None:
    """No process stays behind, and no task."""
    tasks = asyncio.all_tasks()
    async with open_room(tmp_path) as room:
        await room.started(raw=raw("spawner"))
        pid = int((await room.call("mcp_raw_t1")).content)
        assert is_running(pid)
    assert not is_running(pid)
    assert asyncio.all_tasks() == tasks


async def test_closing_while_starting_ends_the_whole_group(tmp_path: Path) -> None:
    async with open_room(tmp_path) as room:
        await room.configure(
            slow=shell("echo $$ > a.part; sleep 600 & echo $! > b.part; mv a.part a; mv b.part b; wait")
        )
        await appears(tmp_path / "b")
        with anyio.fail_after(CLOSE_S):
            await room.servers.close()
    assert not any(is_running(int((tmp_path / name).read_text())) for name in "ab")


async def test_closing_before_anything_was_started(tmp_path: Path) -> None:
    async with open_room(tmp_path) as room:
        await room.configure(slow=shell("touch started; sleep 600"))
        with anyio.fail_after(CLOSE_S):
            await room.servers.close()
        assert room.servers.states() == {}
        await room.configure(slow=SLEEPER)
        assert room.servers.states() == {}


async def test_a_stubborn_server_is_killed(tmp_path: Path) -> None:
    async with open_room(tmp_path) as room:
        await room.started(raw=raw("stubborn"))
        with anyio.fail_after(CLOSE_S):
            await room.servers.close()


async def test_servers_end_with_the_tasks_they_run_in(tmp_path: Path) -> None:
    """Also when nobody closes: a cancelled workspace leaves nothing behind."""
    async with open_room(tmp_path) as room:
        await room.started(raw=raw("spawner"))
        pid = int((await room.call("mcp_raw_t1")).content)
        room.tasks.cancel_scope.cancel()
    assert not is_running(pid)


async def test_a_call_in_flight_ends_with_the_servers(tmp_path: Path) -> None:
    async with open_room(tmp_path) as room:
        await room.started(raw=raw("mute"))
        problems: list[str] = []

        async def call() -> None:
            try:
                await room.call("mcp_raw_t1")
            except Exception as exc:
                problems.append(str(exc))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await anyio.wait_all_tasks_blocked()
            await room.servers.close()
    assert problems == [
        "the MCP server 'raw' failed: Connection closed; whether the call had an effect is not known"
    ]


async def test_a_command_beside_the_project(tmp_path: Path) -> None:
    """A path is meant from the workspace's directory; the server runs there."""
    (tmp_path / "serve").write_text("#!/bin/sh\npwd >&2\nexit 1\n")
    (tmp_path / "serve").chmod(0o755)
    async with open_room(tmp_path) as room:
        await room.started(own=McpServer(command="./serve", timeout=30))
        assert room.state("own").error == f"ended with exit code 1: {tmp_path}"
