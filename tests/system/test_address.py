"""Host texts and the default socket, as server and client both read them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bullpen.errors import BadHost
from bullpen.system.address import TcpAddress, UnixAddress, default_socket_path, parse_host


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("unix:///run/x.sock", UnixAddress(Path("/run/x.sock"))),
        ("unix://x.sock", UnixAddress(Path("x.sock"))),
        ("tcp://127.0.0.1:8080", TcpAddress("127.0.0.1", 8080)),
        ("tcp://localhost:0/v1/ignored", TcpAddress("localhost", 0)),
        ("tcp://[::1]:8080", TcpAddress("::1", 8080)),
        ("tcp://:8080", TcpAddress("127.0.0.1", 8080)),
    ],
)
def test_a_host_is_read(text: str, address: UnixAddress | TcpAddress) -> None:
    assert parse_host(text) == address


@pytest.mark.parametrize("text", ["unix:///run/x.sock", "tcp://127.0.0.1:8080", "tcp://[::1]:8080"])
def test_an_address_is_written_as_it_was_read(text: str) -> None:
    assert str(parse_host(text)) == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "invalid host format"),
        ("/run/x.sock", "invalid host format"),
        ("localhost:8080", "invalid host format"),
        ("http://localhost:8080", "invalid host format"),
        ("tcp://::1:8080", "invalid host format"),
        ("unix://", "needs a path"),
        ("unix:///a\0b", "needs a path"),
        ("tcp://localhost", "needs a port"),
        ("tcp://localhost:", "needs a port"),
        ("tcp://localhost:99999", "needs a port"),
        ("tcp://localhost:-1", "needs a port"),
        ("npipe:////./pipe/x", "unsupported here"),
    ],
)
def test_what_is_no_host_is_refused(text: str, why: str) -> None:
    with pytest.raises(BadHost, match=why):
        parse_host(text)


@pytest.mark.parametrize(
    ("env", "path"),
    [
        ({"XDG_RUNTIME_DIR": "/run/user/1"}, "/run/user/1/bullpen/server.sock"),
        ({"XDG_RUNTIME_DIR": "relative", "TMPDIR": "/var/tmp"}, "/var/tmp/bullpen-UID/server.sock"),
        ({"TMPDIR": "/var/tmp"}, "/var/tmp/bullpen-UID/server.sock"),
        ({"TMPDIR": ""}, "/tmp/bullpen-UID/server.sock"),
        ({}, "/tmp/bullpen-UID/server.sock"),
        ({"XDG_RUNTIME_DIR": "/" + "long/" * 30}, "/tmp/bullpen-UID/server.sock"),
    ],
)
def test_the_default_socket_is_in_a_directory_of_its_own(env: dict[str, str], path: str) -> None:
    assert default_socket_path(env) == Path(path.replace("UID", str(os.geteuid())))
