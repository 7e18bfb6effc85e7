"""`bullpen mcp` on a real server: people log in, see what a server changed, and decide; the model gets what they decided."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from tests.journeys.server import COMMAND, Bullpen
from tests.journeys.stream import parts_of
from tests.mcp.elsewhere import Liar, tool
from tests.mcp.gatehouse import Gatehouse

from bullpen.config.shape import McpServer


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Desk:
    """A person at the command line, in a workspace with one server behind a login and one that changes its mind."""

    def __init__(self, bullpen: Bullpen, path: Path, liar: Liar, gatehouse: Gatehouse) -> None:
        self.bullpen = bullpen
        self.path = path
        self.liar = liar
        self.gatehouse = gatehouse
        self.host = f"unix://{bullpen.socket}"

    async def say(self, *words: str, host: bool = True) -> tuple[int, str]:
        where = ["--in", str(self.path), *(["-H", self.host] if host else [])]
        run = partial(self.bullpen.run_command, "mcp", *words, *where, check=False)
        done = await anyio.to_thread.run_sync(run)
        return done.returncode, done.stdout + done.stderr

    async def log_in(self, name: str) -> tuple[int, str]:
        """With the address copied from the terminal to a browser."""
        command = [*COMMAND[:-1], "mcp", "login", name, "--in", str(self.path), "-H", self.host]
        async with await anyio.open_process(
            command, env=self.bullpen.env, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT
        ) as process:
            assert process.stdout is not None
            said = ""
            async for piece in process.stdout:
                said += piece.decode()
                if said.count("\n") == 2:
                    assert await self.gatehouse.allow(said.splitlines()[1]) == 200
            return await process.wait(), said


@pytest.fixture
async def desk(bullpen: Bullpen) -> AsyncIterator[Desk]:
    liar, gatehouse = Liar(tool("read", "Read a note."), instructions="Be brief."), Gatehouse()
    read = {"name": "mcp_liar_read", "input": {"path": "x"}}
    look = {"name": "list_mcp_resources", "input": {"mcp_name": "liar"}}
    async with liar.reached() as one, gatehouse.reached() as other:
        path = bullpen.project(
            {"when": "look", "calls": [look]},
            {"when": "read", "calls": [read]},
            {"say": "so be it"},
            mcp={"liar": _entry(one), "notes": _entry(other)},
        )
        yield Desk(bullpen, path, liar, gatehouse)


def _entry(server: McpServer) -> dict[str, Any]:
    return {"type": "http", "url": server.url, "timeout": "30s"}


@pytest.mark.anyio
async def test_servers_are_seen_to_from_the_command_line(desk: Desk) -> None:
    status, said = await desk.say("list")
    liar, notes = said.splitlines()
    assert (status, notes) == (1, "notes  needs auth  a login is needed: bullpen mcp login notes")
    # Resources are counted later: only their number is shown.
    assert liar.startswith("liar  connected  1 tool")
    status, said = await desk.log_in("notes")
    assert (status, said.splitlines()[0], said.splitlines()[2]) == (
        0,
        "open this address to log in to notes:",
        "logged in to notes",
    )
    assert (await desk.say("restart", "notes"))[1].startswith("notes  connected  1 tool")
    tokens = [*desk.gatehouse.access, *desk.gatehouse.refresh]
    told = desk.bullpen.log + said + (await desk.say("list", "--json"))[1]
    assert [token for token in tokens if token in told] == []
    assert await desk.say("accept", "liar") == (0, "liar says what was accepted; nothing waits\n")

    desk.liar.tools = [tool("read", "Read a note, and tell me.")]
    _, said = await desk.say("restart", "liar")
    assert "1 held back, 'bullpen mcp accept liar' shows why" in said
    status, said = await desk.say("accept", "liar", "--show")
    assert status == 1
    assert {"changed tool read", "  -Read a note.", "  +Read a note, and tell me."} <= set(said.splitlines())
    status, said = await desk.say("accept", "liar", "--yes")
    assert (status, said.splitlines()[-1]) == (0, "accepted, until it changes")

    status, said = await desk.say("disable", "liar", host=False)
    assert (status, said.startswith("liar is disabled in ")) == (0, True)
    assert (await desk.say("logout", "notes"))[1] == "logged out of notes\n"
    assert [line.split("  ")[1] for line in (await desk.say("list"))[1].splitlines()] == [
        "disabled",
        "needs auth",
    ]
    assert (await desk.say("enable", "nobody", host=False))[1].startswith(
        "bullpen: there is no MCP server nobody here; configured: liar, notes"
    )


@pytest.mark.anyio
async def test_the_model_gets_what_people_accepted(desk: Desk) -> None:
    client = await anyio.to_thread.run_sync(desk.bullpen.attach, desk.path)
    stream = await anyio.to_thread.run_sync(client.stream)

    def turn(words: str) -> list[str]:
        """What the tools answered."""
        session = client.session()
        run = client.prompt(session, words, f"run {words} {session}", permissions="allow", interactive=False)
        stream.completion(run)
        results = [part for message in client.messages(session) for part in parts_of(message, "tool_result")]
        return [result["content"] for result in results]

    in_thread = anyio.to_thread.run_sync
    assert await in_thread(turn, "read") == ["done"]
    assert "note://4" in (await in_thread(turn, "look"))[0]
    desk.liar.tools = [tool("read", "Read a note, and tell me.")]
    await in_thread(client.ok, "POST", "/mcp/refresh-tools", {"name": "liar"})
    held = await in_thread(partial(stream.next, "mcp_event", name="liar", held_count=1))
    assert held["type"] == "tools_list_changed"
    assert (await in_thread(turn, "read"))[0].startswith("There is no tool 'mcp_liar_read'.")
    (changes,) = await in_thread(client.ok, "GET", "/mcp/changes")
    seen = {"name": "liar", "fingerprint": changes["fingerprint"]}
    stale = await in_thread(client.call, "POST", "/mcp/accept", {**seen, "fingerprint": "0"})
    assert (stale.status_code, stale.json()["code"]) == (409, "content_changed")
    await in_thread(client.ok, "POST", "/mcp/accept", seen)
    assert await in_thread(turn, "read") == ["done"]
