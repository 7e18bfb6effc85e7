"""The unix socket is this user's alone: by its place, by its mode, and by the kernel's word about who connects (X-03)."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import Figure
from tests.faults.soak.process import counts
from tests.journeys.server import Bullpen

NOBODY, STRANGER = 65534, 65533

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

DIAL = """
import os, socket, sys
uid, path, tries = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
os.setgroups([]); os.setresgid(uid, uid, uid); os.setresuid(uid, uid, uid)
served = 0
for _ in range(tries):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(10)
        try:
            sock.connect(path)
            sock.sendall(b"GET /v1/health HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
            served += bool(sock.recv(100))
        except OSError:
            pass
print(served)
"""


def served_to(uid: int, path: str, tries: int) -> int:
    """How many of so many connections of another user get an answer."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", DIAL, str(uid), path, str(tries)],
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


@needs_root
def test_a_second_user_gets_no_connection(bullpen: Bullpen, figure: Figure) -> None:
    """Not past the directory; and with directory and socket thrown open, not past the kernel's word."""
    tries = 100
    private = served_to(NOBODY, bullpen.socket, tries)
    for path in (bullpen.home.parent, bullpen.home):
        path.chmod(path.stat().st_mode | 0o011)
    Path(bullpen.socket).chmod(0o666)
    before = counts(bullpen)
    thrown_open = served_to(NOBODY, bullpen.socket, tries)
    assert counts(bullpen)["refused_peer"] - before.get("refused_peer", 0) == tries, (
        "they did reach the socket"
    )
    assert (private, thrown_open) == (0, 0)
    assert served_to(0, bullpen.socket, 1) == 1
    figure(
        "X-03",
        "ATTK",
        f"0 of {2 * tries} connections by a second user, {tries} of them with the socket thrown open",
    )


def test_the_socket_and_its_directory_are_private(home: Bullpen) -> None:
    """Whatever the umask; also the directory that is made in a shared temp directory."""
    shared = home.home / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    del home.env["XDG_RUNTIME_DIR"]
    home.env["TMPDIR"] = str(shared)
    home.arguments = []
    home.socket = str(shared / f"bullpen-{os.geteuid()}" / "server.sock")
    home._forget_connections()
    before = os.umask(0)
    try:
        home.start()
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(home.socket).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(Path(home.socket).parent).st_mode) == 0o700
    assert {p.name for p in shared.iterdir()} == {f"bullpen-{os.geteuid()}"}


# Places that are not ours


def linked(place: Path) -> None:
    real = place.with_name("real")
    real.mkdir(mode=0o700)
    place.symlink_to(real)


def linked_elsewhere(place: Path) -> None:
    place.symlink_to("/tmp")


def dangling(place: Path) -> None:
    place.symlink_to(place.with_name("nowhere"))


def foreign(place: Path) -> None:
    place.mkdir(mode=0o700)
    os.chown(place, STRANGER, STRANGER)


def writable(mode: int) -> Callable[[Path], None]:
    def make(place: Path) -> None:
        place.mkdir()
        place.chmod(mode)

    return make


def file(place: Path) -> None:
    place.write_text("")


def with_link_as_socket(place: Path) -> None:
    place.mkdir(mode=0o700)
    (place / "s.sock").symlink_to("/tmp/elsewhere.sock")


def with_file_as_socket(place: Path) -> None:
    place.mkdir(mode=0o700)
    (place / "s.sock").write_text("precious")


def with_pipe_as_socket(place: Path) -> None:
    place.mkdir(mode=0o700)
    os.mkfifo(place / "s.sock")


def with_link_as_lock(place: Path) -> None:
    place.mkdir(mode=0o700)
    (place / "s.sock.lock").symlink_to(place.with_name("victim"))


UNSAFE: dict[str, Callable[[Path], None]] = {
    "linked": linked,
    "linked to the temp directory": linked_elsewhere,
    "dangling link": dangling,
    "somebody else's": foreign,
    "world-writable": writable(0o777),
    "sticky": writable(0o1777),
    "group-writable": writable(0o770),
    "a file": file,
    "link as socket": with_link_as_socket,
    "file as socket": with_file_as_socket,
    "pipe as socket": with_pipe_as_socket,
    "link as lock": with_link_as_lock,
}


def test_unsafe_places_are_refused(home: Bullpen, figure: Figure) -> None:
    """The server does not start there, says why, and leaves what it found."""
    victim = home.home / "victim"
    for number, (name, make) in enumerate(UNSAFE.items()):
        if make is foreign and os.geteuid() != 0:
            continue
        place = home.home / f"d{number}"
        make(place)
        done = home.run_to_end("--host", f"unix://{place}/s.sock")
        assert done.returncode == 1, name
        assert done.stderr.startswith("bullpen server: "), name
        assert "Traceback" not in done.stderr, name
        assert not victim.exists()
        if name == "file as socket":
            assert (place / "s.sock").read_text() == "precious"
    figure(
        "X-03", "ATTK", f"{len(UNSAFE)} of {len(UNSAFE)} linked, foreign, writable or planted places refused"
    )


@needs_root
def test_a_default_place_that_somebody_planted_is_refused(home: Bullpen) -> None:
    """In a shared temp directory anybody can make our directory first, or a link of its name."""
    shared = home.home / "shared"
    del home.env["XDG_RUNTIME_DIR"]
    home.env["TMPDIR"] = str(shared)
    for make in (foreign, linked, linked_elsewhere):
        shared.mkdir()
        shared.chmod(0o1777)
        make(shared / f"bullpen-{os.geteuid()}")
        done = home.run_to_end()
        assert (done.returncode, done.stderr.startswith("bullpen server: ")) == (1, True), make.__name__
        shutil.rmtree(shared)


def test_a_planted_live_socket_is_not_taken_for_ours(home: Bullpen) -> None:
    """Somebody listens there already: the server does not start, and the other keeps its socket."""
    with socket.socket(socket.AF_UNIX) as planted:
        planted.bind(home.socket)
        planted.listen()
        done = home.run_to_end("--host", f"unix://{home.socket}")
        assert done.returncode == 1
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(home.socket)
