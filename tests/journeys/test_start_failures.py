"""A server that cannot start says why in one sentence, leaves everything as it was, and exits with an error."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.journeys.server import Bullpen, new_home


def sentence(result: subprocess.CompletedProcess[str]) -> str:
    """What the server said at its end: an error status, one line, no traceback."""
    assert result.returncode not in {0, -9}, result.stderr
    assert "Traceback (most recent call last)" not in result.stderr
    assert result.stdout == ""
    lines = [line for line in result.stderr.splitlines() if line]
    assert len(lines) == 1, result.stderr
    return lines[0]


def fingerprint(directory: Path) -> dict[str, bytes]:
    """Every file below, with its content."""
    return {str(f.relative_to(directory)): f.read_bytes() for f in directory.rglob("*") if f.is_file()}


@pytest.fixture(scope="module")
def memories() -> Iterator[Path]:
    """The data of a server that was used and has ended cleanly."""
    with new_home() as bullpen:
        client = bullpen.start().attach(bullpen.project({"say": "remember me"}))
        stream = client.stream()
        stream.completion(client.prompt(client.session(), "hi"))
        assert bullpen.terminate() == 0
        yield bullpen.data


@pytest.fixture
def used(home: Bullpen, memories: Path) -> Bullpen:
    """A home with such data, in which no server runs."""
    shutil.copytree(memories, home.data)
    return home


def test_a_second_server_on_the_same_data_names_the_first(bullpen: Bullpen) -> None:
    said = sentence(bullpen.run_to_end("--host", f"unix://{bullpen.home}/other.sock"))
    assert f"pid={bullpen.process.pid}" in said
    assert "already in use" in said
    assert not (bullpen.home / "other.sock").exists()
    assert bullpen.call("GET", "/health").status_code == 200


def test_a_second_server_on_a_live_socket(bullpen: Bullpen) -> None:
    """The socket is not taken away from the one who serves it."""
    said = sentence(bullpen.run_to_end(*bullpen.arguments, "--data-dir", str(bullpen.home / "other")))
    assert f"address already in use: unix://{bullpen.socket}" in said
    assert not (bullpen.home / "other").exists()
    assert bullpen.call("GET", "/health").status_code == 200


def test_the_socket_of_a_dead_server_is_replaced(bullpen: Bullpen) -> None:
    """`kill -9` leaves the socket file behind; the next server takes its place."""
    bullpen.kill()
    assert Path(bullpen.socket).is_socket()
    bullpen.restart()
    assert bullpen.call("GET", "/health").status_code == 200


def test_a_socket_that_is_not_ours_stays(home: Bullpen) -> None:
    """Something else serves the path: it is neither removed nor talked over."""
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(home.socket)
        other.listen()
        assert "address already in use" in sentence(home.run_to_end(*home.arguments))
        assert Path(home.socket).is_socket()


def test_a_file_where_the_socket_should_be_stays(home: Bullpen) -> None:
    Path(home.socket).write_text("mine")
    assert "not a socket" in sentence(home.run_to_end(*home.arguments))
    assert Path(home.socket).read_text() == "mine"


def test_a_missing_data_directory_is_made(home: Bullpen) -> None:
    """With all the directories above it, and only for this user."""
    data = home.home / "new" / "deep" / "data"
    home.start("--data-dir", str(data))
    assert data.stat().st_mode & 0o777 == 0o700
    assert (data / "bullpen.db").stat().st_mode & 0o777 == 0o600


def test_a_data_directory_that_cannot_be_made(home: Bullpen) -> None:
    """A file stands in the way; this fails for root too."""
    (home.home / "file").write_text("mine")
    said = sentence(home.run_to_end(*home.arguments, "--data-dir", f"{home.home}/file/data"))
    assert f"cannot use the data directory {home.home}/file/data" in said
    assert (home.home / "file").read_text() == "mine"
    assert not Path(home.socket).exists()


def test_a_data_directory_that_cannot_be_written(home: Bullpen) -> None:
    """Root may write anywhere, so it gives that right away first."""
    home.data.mkdir(parents=True)
    home.data.chmod(0o500)
    humble = (
        ["setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override"] if os.geteuid() == 0 else []
    )
    said = sentence(home.run_to_end(*home.arguments, prefix=humble))
    assert f"cannot use the data directory {home.data}: Permission denied" in said
    assert list(home.data.iterdir()) == []


def test_a_database_that_cannot_be_written(used: Bullpen) -> None:
    """The directory and the file may be read only; the server does not start to lose what it is told."""
    database = used.data / "bullpen.db"
    before = database.read_bytes()
    database.chmod(0o400)
    used.data.chmod(0o500)
    humble = (
        ["setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override"] if os.geteuid() == 0 else []
    )
    said = sentence(used.run_to_end(*used.arguments, prefix=humble))
    assert f"the database {database}" in said
    assert database.read_bytes() == before


def test_a_directory_where_the_database_should_be(home: Bullpen) -> None:
    """What a read-only data directory looks like to root: the file cannot be opened."""
    (home.data / "bullpen.db").mkdir(parents=True)
    said = sentence(home.run_to_end(*home.arguments))
    assert f"cannot write the database {home.data}/bullpen.db" in said


def test_a_damaged_database_is_not_touched(used: Bullpen) -> None:
    database = used.data / "bullpen.db"
    database.write_bytes(b"This is not a database. " * 200)
    before = fingerprint(used.data) | {"bullpen.lock": b""}
    said = sentence(used.run_to_end(*used.arguments))
    assert f"the database {database} is damaged" in said
    assert "restore a backup" in said
    assert fingerprint(used.data) | {"bullpen.lock": b""} == before
    assert not Path(used.socket).exists()


def test_damage_inside_the_database_is_found_after_a_crash(fresh: Bullpen) -> None:
    """The header is whole, the pages are not: after an unclean end the file is looked over before it is used."""
    client = fresh.attach(fresh.project({"say": "remember me"}))
    stream = client.stream()
    stream.completion(client.prompt(client.session(), "hi"))
    fresh.kill()
    database = fresh.data / "bullpen.db"
    with sqlite3.connect(database) as direct:
        direct.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    direct.close()
    content = database.read_bytes()
    database.write_bytes(content[:8192] + bytes(len(content) - 8192))
    damaged = database.read_bytes()
    assert f"the database {database} is damaged" in sentence(fresh.run_to_end(*fresh.arguments))
    assert database.read_bytes() == damaged


def test_the_database_of_a_newer_version_is_not_touched(used: Bullpen) -> None:
    database = used.data / "bullpen.db"
    with sqlite3.connect(database) as direct:
        direct.execute("PRAGMA user_version=9999")
    direct.close()
    before = database.read_bytes()
    said = sentence(used.run_to_end(*used.arguments))
    assert "written by a newer Bullpen (schema 9999" in said
    assert database.read_bytes() == before


def test_a_directory_that_others_can_write_to_gets_no_socket(home: Bullpen) -> None:
    """Somebody else could put their own socket there."""
    shared = home.home / "open"
    shared.mkdir()
    shared.chmod(0o777)
    said = sentence(home.run_to_end("--host", f"unix://{shared}/s.sock"))
    assert f"refusing to listen on {shared}/s.sock: others may write to {shared}" in said
    assert list(shared.iterdir()) == []


def test_a_directory_behind_a_link_gets_no_socket(home: Bullpen) -> None:
    (home.home / "link").symlink_to(home.home / "run")
    said = sentence(home.run_to_end("--host", f"unix://{home.home}/link/s.sock"))
    assert "is a symbolic link" in said


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("nonsense", "invalid host format"),
        ("ftp://here", "invalid host format"),
        ("tcp://127.0.0.1:notaport", "needs a port"),
        ("tcp://192.0.2.1:4000", ""),
        ("unix:///nowhere/at/all/s.sock", "No such file or directory"),
    ],
)
def test_a_bad_host(home: Bullpen, host: str, why: str) -> None:
    said = sentence(home.run_to_end("--host", host))
    assert why in said
    assert host.partition("://")[2] in said


def test_a_socket_path_that_is_too_long(home: Bullpen) -> None:
    assert "too long" in sentence(home.run_to_end("--host", f"unix://{home.home}/run/{'x' * 120}"))
    assert list((home.home / "run").iterdir()) == []


def test_a_port_that_is_taken(home: Bullpen) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        said = sentence(home.run_to_end("--host", f"tcp://127.0.0.1:{port}"))
        assert f"address already in use: tcp://127.0.0.1:{port}" in said
