"""A server when none answers, with the real one."""

import os
import signal

import anyio
import anyio.to_thread
import pytest
from tests.client.conftest import Home
from tests.client.standin import StandIn

from bullpen.client.autostart import ensure_server, is_older
from bullpen.client.process import notes_directory, server_pid, was_started_by_a_client
from bullpen.client.updates import LinkChanged, Updates
from bullpen.client.workspace import Room, attach
from bullpen.errors import ServerUnreachable
from bullpen.system.address import UnixAddress

pytestmark = pytest.mark.timeout(90)


async def states(updates: Updates) -> list[str]:
    """How the link has changed so far."""
    found: list[str] = []
    with anyio.move_on_after(0.1):
        async for update in updates:
            found += [update.state] if isinstance(update, LinkChanged) else []
    return found


async def until_link(room: Room, state: str) -> LinkChanged:
    with anyio.fail_after(40):
        async for update in room.updates():
            if isinstance(update, LinkChanged) and update.state == state:
                return update
    raise AssertionError


async def test_clients_that_come_together_start_one_server(home: Home) -> None:
    """The lock lets one of them start it; the others find it."""
    pids: set[int | None] = set()

    async def come() -> None:
        async with attach(home.project, env=home.env) as room:
            assert room.is_connected
            pids.add(home.pid())

    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(come)
    assert len(pids - {None}) == 1
    assert await anyio.to_thread.run_sync(was_started_by_a_client, home.address, home.env)


async def test_a_server_that_a_client_started_leaves_when_idle(home: Home) -> None:
    home.env["BULLPEN_SERVER_IDLE_TIMEOUT"] = "1"
    async with attach(home.project, env=home.env):
        assert home.pid()
    await home.until_gone()


async def test_a_killed_server_is_started_again(home: Home) -> None:
    """The workspace is opened anew and what is stored is there."""
    async with attach(home.project, env=home.env) as room:
        session = await room.new_session("kept")
        before = home.pid()
        assert before
        os.kill(before, signal.SIGKILL)
        change = await until_link(room, "connected")
        assert change.recreated
        assert home.pid() not in {None, before}
        assert [s.id for s in room.sessions] == [session.id]


async def test_a_stopped_server_stays_stopped_until_it_is_needed(home: Home) -> None:
    """It took its socket away, so somebody meant it; a prompt means it is wanted again."""
    async with attach(home.project, env=home.env) as room:
        updates = room.updates()
        session = await room.new_session("kept")
        await room.set_model("demo", "tour")
        before = home.pid()
        assert before
        os.kill(before, signal.SIGTERM)
        await home.until_gone()
        await anyio.sleep(1.5)
        assert (home.pid(), room.is_connected) == (None, False)
        with anyio.fail_after(40):
            run = await room.prompt("hello", session=session.id, permissions="deny")
            assert (await room.wait_for(run)).session_id == session.id
        assert await states(updates) == ["reconnecting", "connected"]


async def test_a_server_that_cannot_start_says_why(home: Home) -> None:
    """Its last words are in the error, its log is named."""
    data = home.directory / ".local" / "share" / "bullpen"
    data.parent.mkdir(parents=True)
    data.write_text("in the way")
    with pytest.raises(ServerUnreachable, match=r"the server could not start: .*bullpen.*stderr\.log"):
        async with attach(home.project, env=home.env):
            pass


async def test_something_else_at_the_socket_is_not_taken_for_a_server(home: Home) -> None:
    """And is left alone."""
    home.env["BULLPEN_SERVER_READY_TIMEOUT"] = "300ms"
    home.address.path.parent.mkdir(mode=0o700)
    listener = await anyio.create_unix_listener(home.address.path)
    async with listener:
        with pytest.raises(ServerUnreachable, match="does not answer as a server does"):
            await ensure_server(home.address, home.env)
    assert not notes_directory(home.address, home.env).exists()


async def test_an_older_idle_server_is_replaced(home: Home, server: StandIn) -> None:
    """Ours takes its place; a busy one, or a newer one, is used as it is."""
    old = {"version": "0.0.9", "commit": "", "build_id": "", "go_version": "", "platform": ""}
    address = UnixAddress(server.path)
    server.answers["GET /version"] = [(200, old), (200, {**old, "version": "99.0"})]
    server.answers["POST /control"] = [(409, {"message": "server is hosting live workspaces"})]
    await ensure_server(address, home.env)
    await ensure_server(address, home.env)
    assert [r.json for r in server.calls("POST /control")] == [{"command": "shutdown_if_idle"}]
    assert not notes_directory(address, home.env).exists()


async def test_a_create_refused_by_a_leaving_server_goes_to_its_successor(
    home: Home, server: StandIn
) -> None:
    """Exactly one replacement, then the create succeeds."""
    server.path.parent.chmod(0o700)
    server.answers["POST /workspaces"] = [(503, {"message": "server is shutting down"})]
    async with anyio.create_task_group() as tasks:

        async def leave() -> None:
            await server.until(lambda: server.calls("POST /workspaces"))
            await server.stop()

        tasks.start_soon(leave)
        async with attach(home.project, host=server.host, env=home.env) as room:
            assert room.workspace.version
    assert len(server.calls("POST /workspaces")) == 1
    successor = server_pid(UnixAddress(server.path))
    assert successor
    os.kill(successor, signal.SIGTERM)


@pytest.mark.parametrize(
    ("theirs", "older"),
    [
        ("0.0.9", True),
        ("0.1", False),
        ("0.1.0", False),
        ("0.10.0", False),
        ("v0.0.1", True),
        ("devel", False),
    ],
)
def test_versions_are_compared_by_number(theirs: str, *, older: bool) -> None:
    assert is_older(theirs, "0.1") is older
