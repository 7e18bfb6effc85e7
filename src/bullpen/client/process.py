"""The server as a process on this machine: who it is, where its notes lie, how a detached one is started.

Standard library alone, so that a one-shot command can use it too.
"""

from __future__ import annotations

import json
import os
import re
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from bullpen.client.locate import user_directory
from bullpen.system.address import UnixAddress
from bullpen.system.files import private

DIAL_S = 0.2
"""A server on this machine takes a connection at once, even when it is busy: the kernel does it."""

IDLE_EXIT_S = 60.0
"""How long a server that a client started stays when nobody needs it."""


def notes_directory(address: UnixAddress, env: Mapping[str, str] = os.environ) -> Path:
    """Where the starters of this server meet: its lock, its output, its process id."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", str(address))
    return user_directory(env, "BULLPEN_CACHE_DIR", "XDG_CACHE_HOME", ".cache") / f"server-{name}"


def server_pid(address: UnixAddress) -> int | None:
    """The process that listens on the socket, as the kernel knows it; None when nobody does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(DIAL_S)
        try:
            sock.connect(str(address.path))
            if sys.platform == "darwin":
                return int.from_bytes(sock.getsockopt(0, 2, 4), sys.byteorder) or None
            pid, _uid, _gid = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        except OSError:
            return None
    return int(pid) or None


def was_started_by_a_client(address: UnixAddress, env: Mapping[str, str] = os.environ) -> bool:
    """Whether the server now listening there is one that a client started, not one that a person did."""
    try:
        noted = json.loads((notes_directory(address, env) / "server.json").read_text())
        return bool(noted["pid"] == server_pid(address))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def start_server(address: UnixAddress, env: Mapping[str, str] = os.environ) -> subprocess.Popen[bytes]:
    """Start a server that lives on when we end. Its output goes to the notes directory."""
    notes = notes_directory(address, env)
    notes.mkdir(mode=0o700, parents=True, exist_ok=True)
    idle_exit = env.get("BULLPEN_SERVER_IDLE_TIMEOUT") or f"{IDLE_EXIT_S:g}"
    # -P: nothing that lies in the current directory may be taken for a module.
    command = [sys.executable, "-P", "-m", "bullpen.cli.main", "server"]
    arguments = ["--host", str(address), "--idle-exit", idle_exit]
    with (
        open(notes / "stdout.log", "wb", opener=private) as out,
        open(notes / "stderr.log", "wb", opener=private) as err,
    ):
        process = subprocess.Popen(
            command + arguments,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=dict(env),
            cwd="/",
            start_new_session=True,
        )
    # Takes its exit status should it end before us, so that no dead process stays in the table.
    threading.Thread(target=process.wait, daemon=True).start()
    with open(notes / "server.json", "w", opener=private) as note:
        json.dump({"pid": process.pid}, note)
    return process


def last_words(address: UnixAddress, env: Mapping[str, str] = os.environ) -> str:
    """The last line that a server which did not come up has written."""
    try:
        lines = (notes_directory(address, env) / "stderr.log").read_text(errors="replace").split("\n")
    except OSError:
        return ""
    said = [line.strip() for line in lines if line.strip()]
    return re.sub(r"^bullpen( server)?: ", "", said[-1]) if said else ""
