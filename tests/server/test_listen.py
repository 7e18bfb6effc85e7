"""Sockets: private, taken over only from the dead, and gone when their server is."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bullpen.errors import AddressInUse, BadHost, UnsafeSocket
from bullpen.server.listen import UNACKNOWLEDGED_S, bind_tcp, bind_unix

HOLD = """
import sys
from pathlib import Path
from bullpen.errors import AddressInUse
from bullpen.server.listen import bind_unix
print("go", flush=True)
sys.stdin.readline()
try:
    listener = bind_unix(Path(sys.argv[1]))
except AddressInUse:
    print("in use", flush=True)
else:
    listener.listen()
    print("bound", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """A private directory with a path short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="bp-") as directory:
        yield Path(directory)


def start(path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin
    process.stdin.write("\n")
    process.stdin.flush()


def hear(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def test_a_socket_is_private_and_leaves_with_its_listener(home: Path) -> None:
    path = home / "s.sock"
    before = os.umask(0)
    try:
        listener = bind_unix(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert os.umask(0) == 0
    finally:
        os.umask(before)
    listener.close()
    assert list(home.iterdir()) == []


def test_a_dead_socket_is_replaced(home: Path) -> None:
    """What a killed server left behind, socket and lock, does not stop the next one."""
    path = home / "s.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    path.with_name("s.sock.lock").touch()
    with bind_unix(path) as listener:
        listener.listen()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))


def test_a_live_socket_is_left_alone(home: Path) -> None:
    """Also when its server knows nothing of our lock."""
    path = home / "s.sock"
    with socket.socket(socket.AF_UNIX) as live:
        live.bind(str(path))
        live.listen()
        with pytest.raises(AddressInUse, match="address already in use"):
            bind_unix(path)
        assert [entry.name for entry in home.iterdir()] == ["s.sock"]


def test_a_server_too_busy_to_accept_is_not_dead(home: Path) -> None:
    """Its queue is full, so the dial neither connects nor is refused."""
    path = home / "s.sock"
    waiting = [socket.socket(socket.AF_UNIX) for _ in range(3)]
    with socket.socket(socket.AF_UNIX) as live:
        live.bind(str(path))
        live.listen(0)
        for client in waiting:
            client.setblocking(False)
            client.connect_ex(str(path))
        with pytest.raises(AddressInUse):
            bind_unix(path)
    for client in waiting:
        client.close()


def test_a_second_server_is_refused_before_the_first_listens(home: Path) -> None:
    """Between bind and listen a dial is refused, as if the server were dead: the lock tells."""
    with bind_unix(home / "s.sock"), pytest.raises(AddressInUse):
        bind_unix(home / "s.sock")


def test_of_servers_that_start_together_one_wins(home: Path) -> None:
    path = home / "s.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    servers = [start(path) for _ in range(4)]
    assert [hear(server) for server in servers] == ["go"] * 4
    for server in servers:
        tell(server)
    assert sorted(hear(server) for server in servers) == ["bound", "in use", "in use", "in use"]
    for server in servers:
        server.communicate("\n")


def test_a_killed_server_holds_nothing(home: Path) -> None:
    server = start(home / "s.sock")
    hear(server)
    tell(server)
    assert hear(server) == "bound"
    server.kill()
    server.communicate()
    bind_unix(home / "s.sock").close()


def test_a_socket_that_was_replaced_is_not_removed(home: Path) -> None:
    path = home / "s.sock"
    listener = bind_unix(path)
    path.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        listener.close()
        assert path.is_socket()


def test_a_file_is_never_taken_for_a_dead_socket(home: Path) -> None:
    path = home / "notes.txt"
    path.write_text("mine")
    with pytest.raises(UnsafeSocket, match="not a socket"):
        bind_unix(path)
    assert path.read_text() == "mine"


def test_a_link_in_place_of_the_socket_is_refused(home: Path) -> None:
    (home / "s.sock").symlink_to(home / "elsewhere")
    with pytest.raises(UnsafeSocket):
        bind_unix(home / "s.sock")


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777])
def test_a_directory_others_may_write_to_is_refused(home: Path, mode: int) -> None:
    home.chmod(mode)
    with pytest.raises(UnsafeSocket, match="others may write"):
        bind_unix(home / "s.sock")
    home.chmod(0o755)
    bind_unix(home / "s.sock").close()


def test_a_linked_directory_is_refused(home: Path) -> None:
    (home / "real").mkdir(0o700)
    (home / "link").symlink_to(home / "real")
    with pytest.raises(UnsafeSocket, match="symbolic link"):
        bind_unix(home / "link" / "s.sock")


def test_a_directory_of_somebody_else_is_refused(home: Path) -> None:
    """As root we give one away; else the root directory is not ours."""
    if os.geteuid() == 0:
        other = home / "theirs"
        other.mkdir(0o700)
        os.chown(other, 65534, -1)
    else:
        other = Path("/")
    for make_directory in (False, True):
        with pytest.raises(UnsafeSocket, match="another user"):
            bind_unix(other / "s.sock", make_directory=make_directory)


def test_a_missing_directory_is_made_only_when_asked(home: Path) -> None:
    path = home / "bullpen" / "s.sock"
    with pytest.raises(UnsafeSocket, match="No such file"):
        bind_unix(path)
    bind_unix(path, make_directory=True).close()
    path.parent.chmod(0o755)
    bind_unix(path, make_directory=True).close()
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_path_too_long_for_the_kernel_is_refused(home: Path) -> None:
    with pytest.raises(UnsafeSocket, match="too long"):
        bind_unix(home / ("s" * 120))
    assert list(home.iterdir()) == []


def test_a_port_is_bound_once() -> None:
    with bind_tcp("127.0.0.1", 0) as first:
        first.listen()
        with pytest.raises(AddressInUse, match="address already in use"):
            bind_tcp("127.0.0.1", first.getsockname()[1])


@pytest.mark.parametrize("host", ["192.0.2.1", "no such host"])
def test_a_host_that_is_not_here_is_refused(host: str) -> None:
    with pytest.raises(BadHost):
        bind_tcp(host, 0)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this kernel has no such limit")
def test_a_machine_that_went_away_is_given_up(home: Path) -> None:
    """Accepted connections take the limit for unacknowledged bytes over from their listener."""
    with bind_tcp("127.0.0.1", 0) as listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()):
            accepted, _ = listener.accept()
            with accepted:
                limit_ms = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
    assert limit_ms == UNACKNOWLEDGED_S * 1000
