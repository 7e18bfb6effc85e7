"""Logging in to a server elsewhere: a real authorization server, and a person's browser that is played."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import httpx
import msgspec
import pytest
from mcp.shared.auth import OAuthClientInformationFull
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from tests.mcp.conftest import Room, open_room
from tests.mcp.elsewhere import Liar, serving
from tests.mcp.gatehouse import Gatehouse, query

from bullpen.config.shape import McpServer
from bullpen.errors import BadRequest, ToolFailed, ToolServerFailed
from bullpen.mcp.callback import Callback, listening
from bullpen.mcp.login import log_in
from bullpen.mcp.logins import Login, LoginBook, login_key


@pytest.fixture
async def gate() -> AsyncIterator[tuple[Gatehouse, McpServer]]:
    gatehouse = Gatehouse()
    async with gatehouse.reached() as server:
        yield gatehouse, server


async def logged_in(room: Room, gatehouse: Gatehouse, name: str = "notes") -> None:
    """Log in as a person does: ask for it, open the address that is shown, allow."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(room.servers.log_in, name)
        await room.until(lambda: room.servers.login_url(name))
        assert await gatehouse.allow(room.servers.login_url(name)) == 200
    await room.servers.settled()


def kept(room: Room, server: McpServer) -> Login:
    login = LoginBook(room.state_dir / "mcp-logins.json").read(login_key(server))
    assert login is not None
    return login


async def test_a_server_says_that_it_needs_a_login_and_how(
    room: Room, gate: tuple[Gatehouse, McpServer]
) -> None:
    """Nothing is registered and no browser opened before somebody asks for it."""
    await room.started(notes=gate[1])
    assert (room.state("notes").state, room.state("notes").error) == (
        "needs auth",
        "a login is needed: bullpen mcp login notes",
    )
    assert room.servers.pending_logins() == [("notes", "")]
    assert gate[0].clients == {}


async def test_a_person_logs_in(room: Room, gate: tuple[Gatehouse, McpServer]) -> None:
    gatehouse, server = gate
    await room.started(notes=server)
    await logged_in(room, gatehouse)
    assert (await room.call("mcp_notes_read")).content == "done"
    assert (room.servers.pending_logins(), room.servers.login_url("notes")) == ([], "")
    file = room.state_dir / "mcp-logins.json"
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    login = kept(room, server)
    assert login.resource == server.url
    assert login.access_token not in repr(login)


async def test_the_request_for_a_code_is_one_that_nobody_else_can_use(
    room: Room, gate: tuple[Gatehouse, McpServer]
) -> None:
    gatehouse, server = gate
    await room.started(notes=server)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(room.servers.log_in, "notes")
        await room.until(lambda: room.servers.login_url("notes"))
        url = room.servers.login_url("notes")
        assert room.servers.pending_logins() == [("notes", url)]
        asked = query(url)
        assert (asked["code_challenge_method"], asked["resource"]) == ("S256", server.url)
        (client,) = gatehouse.clients.values()
        assert (client.client_name, client.token_endpoint_auth_method) == ("Bullpen", "none")
        await gatehouse.allow(url)


async def test_an_answer_to_another_question_changes_nothing(
    room: Room, gate: tuple[Gatehouse, McpServer]
) -> None:
    """Somebody who sends a browser to our door, with a code of theirs, is turned away; the person is not disturbed."""
    gatehouse, server = gate
    await room.started(notes=server)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(room.servers.log_in, "notes")
        await room.until(lambda: room.servers.login_url("notes"))
        url = room.servers.login_url("notes")
        door = query(url)["redirect_uri"]
        port = httpx.URL(door).port
        state = query(url)["state"]
        async with httpx.AsyncClient(trust_env=False, verify=False) as browser:
            forged = [
                await browser.get(f"{door}?code=theirs&state=guessed"),
                await browser.get(f"{door}?code=theirs"),
                await browser.get(f"http://localhost:{port}/elsewhere?code=theirs&state={state}"),
                await browser.post(f"{door}?code=theirs&state={state}"),
                await browser.get(f"{door}?code=theirs&state={state}", headers={"Host": "attacker.example"}),
            ]
        assert [page.status_code for page in forged] == [400, 400, 404, 404, 421]
        assert await gatehouse.allow(url) == 200
    await room.servers.settled()
    assert room.state("notes").state == "connected"


async def test_a_person_who_refuses_is_believed(room: Room, gate: tuple[Gatehouse, McpServer]) -> None:
    await room.started(notes=gate[1])
    failures: list[Exception] = []

    async def wait() -> None:
        try:
            await room.servers.log_in("notes")
        except ToolServerFailed as exc:
            failures.append(exc)

    async with anyio.create_task_group() as tasks:
        # Two who ask wait for the same.
        tasks.start_soon(wait)
        tasks.start_soon(wait)
        await room.until(lambda: room.servers.login_url("notes"))
        asked = query(room.servers.login_url("notes"))
        async with httpx.AsyncClient(trust_env=False, verify=False) as browser:
            page = await browser.get(f"{asked['redirect_uri']}?error=access_denied&state={asked['state']}")
    assert page.status_code == 200
    assert [str(each) for each in failures] == ["the login was refused: access_denied"] * 2
    assert room.state("notes").state == "needs auth"


async def test_a_login_that_is_broken_off_is_none(tmp_path: Path, gate: tuple[Gatehouse, McpServer]) -> None:
    """The workspace is closed while the person is in the browser."""
    failures: list[str] = []
    async with anyio.create_task_group() as waiters, open_room(tmp_path) as room:
        await room.started(notes=gate[1])

        async def wait() -> None:
            try:
                await room.servers.log_in("notes")
            except ToolServerFailed as exc:
                failures.append(str(exc))

        waiters.start_soon(wait)
        await room.until(lambda: room.servers.login_url("notes"))
        room.tasks.cancel_scope.cancel()
    assert failures == ["the login was broken off"]


async def test_a_login_outlives_the_workspace_and_is_renewed_in_time(
    tmp_path: Path, gate: tuple[Gatehouse, McpServer]
) -> None:
    gatehouse, server = gate
    gatehouse.lasts_s = 1
    async with open_room(tmp_path) as room:
        await room.started(notes=server)
        await logged_in(room, gatehouse)
        first = kept(room, server)
    gatehouse.lasts_s = 3600
    async with open_room(tmp_path) as room:
        await room.started(notes=server)
        assert (await room.call("mcp_notes_read")).content == "done"
        assert kept(room, server).refresh_token != first.refresh_token
    # Renewed while it was used, and not again afterwards.
    renewals = gatehouse.renewals
    async with open_room(tmp_path) as room:
        await room.started(notes=server)
        assert (room.state("notes").state, gatehouse.renewals) == ("connected", renewals)


async def test_a_token_that_is_refused_before_its_time_is_renewed_once_for_all(
    room: Room, gate: tuple[Gatehouse, McpServer]
) -> None:
    gatehouse, server = gate
    await room.started(notes=server)
    await logged_in(room, gatehouse)
    gatehouse.forget_access()
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(room.call, "mcp_notes_read")
    assert gatehouse.renewals == 1


async def test_a_login_that_is_over_is_said_to_be(room: Room, gate: tuple[Gatehouse, McpServer]) -> None:
    gatehouse, server = gate
    await room.started(notes=server)
    await logged_in(room, gatehouse)
    await gatehouse.revoke_token(next(iter(gatehouse.access.values())))
    with pytest.raises(ToolFailed, match="the MCP server 'notes' failed"):
        await room.call("mcp_notes_read")
    await room.until(lambda: room.state("notes").state == "needs auth")


async def test_logging_out_forgets_and_revokes(room: Room, gate: tuple[Gatehouse, McpServer]) -> None:
    gatehouse, server = gate
    await room.started(notes=server)
    await logged_in(room, gatehouse)
    assert await room.servers.log_out("notes")
    await room.servers.settled()
    assert room.state("notes").state == "needs auth"
    assert gatehouse.refresh == {}
    assert "access_token" not in (room.state_dir / "mcp-logins.json").read_text()
    assert not await room.servers.log_out("notes")


async def test_a_login_is_sent_to_its_own_address_only(room: Room, gate: tuple[Gatehouse, McpServer]) -> None:
    """Also when another server comes under the same name."""
    gatehouse, server = gate
    await room.started(notes=server)
    await logged_in(room, gatehouse)
    other = msgspec.structs.replace(server, url=f"{gatehouse.url}/mcp?elsewhere")
    await room.configure(notes=other)
    await room.servers.settled()
    assert room.state("notes").state == "needs auth"


async def test_a_client_that_was_registered_beforehand(tmp_path: Path) -> None:
    gatehouse = Gatehouse()
    async with listening() as free:
        port = free.port
    ours = {"oauth_client_id": "ours", "oauth_client_secret": "hush", "oauth_callback_port": port}
    async with gatehouse.reached(**ours) as server, open_room(tmp_path) as room:
        gatehouse.clients["ours"] = OAuthClientInformationFull.model_validate(
            {
                "client_id": "ours",
                "client_secret": "hush",
                "scope": "notes",
                "redirect_uris": [f"http://localhost:{port}/callback"],
                "token_endpoint_auth_method": "client_secret_post",
            }
        )
        gatehouse.lasts_s = 1
        await room.started(notes=server)
        await logged_in(room, gatehouse)
        assert list(gatehouse.clients) == ["ours"]
        gatehouse.forget_access()
        assert (await room.call("mcp_notes_read")).content == "done"
        assert gatehouse.renewals


async def test_a_server_of_the_older_form_is_logged_in_to_as_well(gate: tuple[Gatehouse, McpServer]) -> None:
    """It is asked by GET, and refuses that in the same way."""
    gatehouse, server = gate
    shown: list[str] = []
    async with anyio.create_task_group() as tasks:

        def show(url: str) -> None:
            shown.append(url)
            tasks.start_soon(gatehouse.allow, url)

        login = await log_in("old", msgspec.structs.replace(server, type="sse"), show)
    assert (len(shown), login.access_token in gatehouse.access) == (1, True)


async def test_two_processes_do_not_renew_the_same_login_twice(
    tmp_path: Path, gate: tuple[Gatehouse, McpServer]
) -> None:
    """A refresh token is good once: whoever comes second finds what the first one wrote."""
    gatehouse, server = gate
    async with open_room(tmp_path) as one, open_room(tmp_path) as other:
        await one.started(notes=server)
        await logged_in(one, gatehouse)
        await other.started(notes=server)
        gatehouse.forget_access()
        async with anyio.create_task_group() as tasks:
            for room in (one, other) * 3:
                tasks.start_soon(room.call, "mcp_notes_read")
    assert gatehouse.renewals == 1


async def test_a_login_counts_in_every_workspace(tmp_path: Path, gate: tuple[Gatehouse, McpServer]) -> None:
    gatehouse, server = gate
    async with open_room(tmp_path) as here, open_room(tmp_path) as there:
        for room in (here, there):
            await room.started(notes=server)
            assert room.state("notes").state == "needs auth"
        await logged_in(here, gatehouse)
        await there.configure(notes=server)
        await there.until(lambda: there.state("notes").state == "connected")


async def test_a_host_that_is_down_does_not_end_a_login_that_is_good(tmp_path: Path) -> None:
    gatehouse = Gatehouse()
    gatehouse.lasts_s = 20
    async with gatehouse.reached() as server, open_room(tmp_path) as room:
        await room.started(notes=server)
        await logged_in(room, gatehouse)
        key = login_key(server)
        book = LoginBook(room.state_dir / "mcp-logins.json")
        login = kept(room, server)
        assert login.is_stale(login.expires_at - 20)
        book.store(key, msgspec.structs.replace(login, token_url="http://127.0.0.1:9/token"))
        assert (await room.call("mcp_notes_read")).content == "done"
        assert kept(room, server).access_token == login.access_token


@pytest.mark.parametrize(
    ("server", "words"),
    [
        (McpServer(command="x"), "needs no login: it runs on this machine"),
        (
            McpServer(type="http", url="http://127.0.0.1:1/mcp", headers={"authorization": "Bearer x"}),
            "has an Authorization header configured",
        ),
        (McpServer(type="http", url="http://198.51.100.7/mcp"), "is not reached over HTTPS"),
    ],
)
async def test_what_needs_or_bears_no_login(server: McpServer, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        await log_in("x", server, lambda _: None)


async def test_a_server_without_a_login_says_so(room: Room) -> None:
    async with Liar().reached() as server:
        with pytest.raises(BadRequest, match="does not ask for a login"):
            await log_in("x", server, lambda _: None)


@pytest.mark.parametrize("where", ["http://169.254.169.254/latest", "http://10.0.0.1/x", "ftp://x/y"])
async def test_a_server_cannot_send_us_to_ask_others(where: str) -> None:
    """The address of its metadata is a stranger's word."""

    async def refuse(request: Request) -> Response:
        return Response(status_code=401, headers={"WWW-Authenticate": f'Bearer resource_metadata="{where}"'})

    app = Starlette(routes=[Route("/mcp", refuse, methods=["POST"])])
    async with serving(app) as port:
        server = McpServer(type="http", url=f"http://127.0.0.1:{port}/mcp")
        with pytest.raises(ToolServerFailed):
            await log_in("x", server, lambda _: None)


async def test_doors_that_are_taken_are_passed_by() -> None:
    async with listening() as first, listening() as second:
        assert first.port != second.port
        with pytest.raises(BadRequest, match=f"port {first.port} on this machine cannot be opened"):
            async with listening(first.port):
                pass


async def test_a_door_says_nothing_of_what_was_sent() -> None:
    door = Callback(1)
    page = door._page("GET /callback?code=<script>&state=<b> HTTP/1.1\r\nHost: localhost:1\r\n\r\n")
    assert b"<b>" not in page
    assert b"400" in page.splitlines()[0]


async def test_a_book_of_logins_that_is_damaged_is_an_empty_one(tmp_path: Path) -> None:
    file = tmp_path / "logins.json"
    for content in ("{ nonsense", "[]", '{"logins": 5}', '{"logins": {"k": {"access_token": 5}}}'):
        file.write_text(content)
        assert LoginBook(file).read("k") is None
    file.write_text(json.dumps({"logins": []}))
    LoginBook(file).store("k", Login(access_token="t"))
    assert LoginBook(file).read("k") == Login(access_token="t")
