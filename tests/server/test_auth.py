"""Who gets in over TCP: the token, the checks against web pages, and the file the token is kept in."""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from tests.server.fake_host import TOKEN, FakeHost, app_of, client_of

from bullpen.errors import ConfigError, Forbidden
from bullpen.server.app import endpoints
from bullpen.server.auth import Guard, load_or_create_token

GOOD = f"Bearer {TOKEN}"
BAD_TOKENS: dict[str, list[tuple[str, str]]] = {
    "none": [],
    "empty": [("Authorization", "")],
    "empty bearer": [("Authorization", "Bearer ")],
    "wrong": [("Authorization", "Bearer wrong")],
    "one letter off": [("Authorization", f"Bearer {TOKEN[:-1]}x")],
    "longer": [("Authorization", f"Bearer {TOKEN}t")],
    "without scheme": [("Authorization", TOKEN)],
    "other scheme": [("Authorization", f"Basic {TOKEN}")],
    "twice": [("Authorization", GOOD), ("Authorization", GOOD)],
    "not ascii": [("Authorization", "Bearer \xff\xfe")],
    "in a cookie": [("Cookie", f"token={TOKEN}")],
    "from elsewhere": [("Origin", "http://evil.example"), ("Host", "evil.example")],
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


@pytest.fixture
async def http(host: FakeHost) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(app_of(host)) as client:
        yield client


# The token


@pytest.mark.parametrize("shown", BAD_TOKENS.values(), ids=BAD_TOKENS.keys())
async def test_every_route_asks_for_the_token(
    http: httpx.AsyncClient, host: FakeHost, shown: list[tuple[str, str]]
) -> None:
    """Every endpoint, and paths and methods that do not exist; only the liveness probe is open."""
    walks = [(e.method, e.path.replace("{workspace_id}", "w1")) for e in endpoints()]
    for method, path in [*walks, ("GET", "/v1/no/such/route"), ("GET", "//"), ("BREW", "/v1/health")]:
        headers = [(k.encode(), v.encode("latin-1")) for k, v in shown]
        answer = await http.request(method, path + f"?token={TOKEN}", headers=headers)
        if (method, path) == ("GET", "/v1/health"):
            assert answer.status_code in {200, 403}
        else:
            assert (method, path, answer.status_code) == (method, path, 401)
            assert (answer.json()["code"], answer.headers["www-authenticate"]) == ("unauthorized", "Bearer")
    assert host.calls == []


def test_only_health_is_open() -> None:
    assert [e.path for e in endpoints() if e.access == "open"] == ["/v1/health"]


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_the_token_opens_every_route(http: httpx.AsyncClient, scheme: str) -> None:
    answer = await http.get("/v1/workspaces", headers={"Authorization": f"{scheme} {TOKEN}"})
    assert answer.status_code == 200


@pytest.mark.parametrize("token", [None, ""])
async def test_without_a_token_tcp_stays_shut(host: FakeHost, token: str | None) -> None:
    """What is not set never means open."""
    async with client_of(app_of(host, token)) as http:
        for shown in ("", "Bearer ", "Bearer None"):
            answer = await http.get("/v1/workspaces", headers={"Authorization": shown})
            assert answer.status_code == 401


async def test_an_encoded_slash_does_not_make_a_path_open(http: httpx.AsyncClient) -> None:
    assert (await http.get("/v1%2Fhealth")).status_code == 401


# Host


HOSTS = ["localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:8080", "127.8.9.1:80", "[::1]", "[::1]:8080"]
FOREIGN_HOSTS = [
    "evil.example",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "evil.example:8080",
    "localhost.",
    "127.0.0.1.",
    "0.0.0.0",
    "0",
    "127.1",
    "2130706433",
    "0x7f.0.0.1",
    "0177.0.0.1",
    "127.0.0.01",
    "127.0.0.1 ",
    "127.0.0.1,evil.example",
    "evil@127.0.0.1",
    "127.0.0.1:8080:80",
    "127.0.0.1:",
    "127.0.0.1:http",
    "127.0.0.1:808080",
    "128.0.0.1",
    "[::]",
    "[::2]",
    "::1",
    "[::1",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:0:0:1%lo]",
    "[127.0.0.1]",
    "http://127.0.0.1",
    "127.0.0.1/",
    "\xbcocalhost",
    "",
]


async def ask(http: httpx.AsyncClient, headers: list[tuple[str, str]], method: str = "GET") -> int:
    encoded = [(k.encode(), v.encode("latin-1")) for k, v in [("Authorization", GOOD), *headers]]
    return (await http.request(method, "/v1/workspaces", headers=encoded)).status_code


@pytest.mark.parametrize("name", HOSTS)
async def test_loopback_names_are_ours(http: httpx.AsyncClient, name: str) -> None:
    assert await ask(http, [("Host", name)]) == 200


@pytest.mark.parametrize("name", FOREIGN_HOSTS)
async def test_a_foreign_name_is_403(http: httpx.AsyncClient, host: FakeHost, name: str) -> None:
    """A page that had its own name point at this machine gets nowhere."""
    assert (await ask(http, [("Host", name)]), host.calls) == (403, [])


async def test_two_names_are_403(http: httpx.AsyncClient) -> None:
    assert await ask(http, [("Host", "localhost"), ("Host", "localhost")]) == 403


def tcp_scope(*headers: tuple[bytes, bytes], method: str = "GET") -> dict[str, object]:
    token = (b"authorization", GOOD.encode())
    return {"type": "http", "method": method, "path": "/v1/workspaces", "headers": [token, *headers]}


def test_no_name_at_all_is_403() -> None:
    with pytest.raises(Forbidden):
        Guard(TOKEN).check(tcp_scope(), is_open=False)


def test_a_configured_name_is_ours() -> None:
    Guard(TOKEN, ["Box.Example"]).check(tcp_scope((b"host", b"box.example:8443")), is_open=False)


async def test_the_open_route_checks_the_name_too(http: httpx.AsyncClient) -> None:
    statuses = [
        (await http.get("/v1/health", headers={"Host": name})).status_code
        for name in ("localhost", "evil.example")
    ]
    assert statuses == [200, 403]


# Where a page comes from


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "DELETE", "OPTIONS"])
@pytest.mark.parametrize(
    "headers",
    [
        [("Origin", "http://evil.example")],
        [("Origin", "null")],
        [("Origin", "")],
        [("Origin", "*")],
        [("Origin", "http://localhost")],
        [("Origin", "http://localhost:3000")],
        [("Origin", "https://localhost:8080")],
        [("Origin", "http://localhost:8080.evil.example")],
        [("Origin", "http://localhost:8080/")],
        [("Origin", "http://localhost:8080"), ("Origin", "http://evil.example")],
        [("Sec-Fetch-Site", "cross-site")],
        [("Sec-Fetch-Site", "same-site")],
        [("Sec-Fetch-Site", "")],
        [("Origin", "http://localhost:8080"), ("Sec-Fetch-Site", "cross-site")],
    ],
    ids=str,
)
async def test_a_foreign_page_is_403(
    http: httpx.AsyncClient, host: FakeHost, headers: list[tuple[str, str]], method: str
) -> None:
    """On every method, whatever it carries besides."""
    assert (await ask(http, headers, method), host.calls) == (403, [])


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("Origin", "http://localhost:8080"), ("Sec-Fetch-Site", "same-origin")],
        [("Sec-Fetch-Site", "none")],
    ],
    ids=str,
)
async def test_programs_and_our_own_page_get_in(
    http: httpx.AsyncClient, headers: list[tuple[str, str]]
) -> None:
    assert await ask(http, headers) == 200


# What a body is


FORMS = [
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/jsonp",
    "",
]


@pytest.mark.parametrize("kind", FORMS)
async def test_a_body_that_a_form_could_send_is_403(
    http: httpx.AsyncClient, host: FakeHost, kind: str
) -> None:
    headers = {"Authorization": GOOD, "Content-Type": kind}
    answer = await http.post("/v1/control", content=b'{"command":"shutdown"}', headers=headers)
    assert (answer.status_code, host.calls) == (403, [])


async def test_a_body_without_a_kind_is_403(http: httpx.AsyncClient) -> None:
    answer = await http.post("/v1/control", content=b"{}", headers={"Authorization": GOOD})
    assert answer.status_code == 403


async def test_a_chunked_body_without_a_kind_is_403(http: httpx.AsyncClient) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"{}"

    answer = await http.post("/v1/control", content=pieces(), headers={"Authorization": GOOD})
    assert answer.status_code == 403


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8"])
async def test_json_is_taken(http: httpx.AsyncClient, host: FakeHost, kind: str) -> None:
    headers = {"Authorization": GOOD, "Content-Type": kind}
    answer = await http.post("/v1/control", content=b'{"command":"x"}', headers=headers)
    assert (answer.status_code, len(host.calls)) == (200, 1)


async def test_no_body_needs_no_kind(http: httpx.AsyncClient, host: FakeHost) -> None:
    answer = await http.post("/v1/workspaces/w1/agent/update", headers={"Authorization": GOOD})
    assert (answer.status_code, len(host.calls)) == (200, 1)


# Unix sockets


def test_a_unix_socket_is_asked_nothing() -> None:
    scope = tcp_scope((b"host", b"evil.example"), (b"origin", b"null"), (b"content-type", b"text/plain"))
    del scope["headers"][0]  # type: ignore[attr-defined]
    Guard(None).check({**scope, "extensions": {"bullpen": {"unix": True}}}, is_open=False)


@pytest.mark.parametrize("link", [{}, {"unix": False}, {"unix": None}, {"unix": 1}])
async def test_what_does_not_say_unix_is_tcp(host: FakeHost, link: dict[str, object]) -> None:
    with pytest.raises(Forbidden):
        Guard(TOKEN).check({**tcp_scope(), "extensions": {"bullpen": link}}, is_open=False)


# The file


def test_a_token_is_made_once_and_kept_private(tmp_path: Path) -> None:
    """256 bits, for this user's eyes only, and the same the next time."""
    path = tmp_path / "new" / "token"
    token = load_or_create_token(path)
    assert load_or_create_token(path) == token
    assert len(token) == 43
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)
    assert os.listdir(path.parent) == ["token"]


def test_a_careless_umask_changes_nothing(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        load_or_create_token(tmp_path / "token")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600


def test_servers_that_start_at_once_agree(tmp_path: Path) -> None:
    paths = itertools.repeat(tmp_path / "token", 32)
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(load_or_create_token, paths))) == 1
    assert os.listdir(tmp_path) == ["token"]


def test_a_planted_link_is_refused(tmp_path: Path) -> None:
    """Neither read nor written through."""
    target = tmp_path / "target"
    (tmp_path / "token").symlink_to(target)
    with pytest.raises(ConfigError, match="symbolic link"):
        load_or_create_token(tmp_path / "token")
    assert not target.exists()


@pytest.mark.parametrize(("mode", "reason"), [(0o644, "read by others"), (0o660, "read by others")])
def test_a_token_that_others_can_read_is_refused(tmp_path: Path, mode: int, reason: str) -> None:
    path = tmp_path / "token"
    path.write_text("t" * 43)
    path.chmod(mode)
    with pytest.raises(ConfigError, match=reason):
        load_or_create_token(path)


@pytest.mark.parametrize("text", ["", "\n", "short", "t" * 42, "t" * 43 + " x", "\xff" * 50])
def test_a_file_without_a_token_is_refused(tmp_path: Path, text: str) -> None:
    """An empty file must never mean an empty token."""
    path = tmp_path / "token"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="holds no token"):
        load_or_create_token(path)


def test_a_pipe_in_the_place_of_the_token_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "token", 0o600)
    with pytest.raises(ConfigError, match="not a file of this user"):
        load_or_create_token(tmp_path / "token")
