"""What the tests of the command line share: the command as a process, and a terminal to type into."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from tests import commands
from tests.client.standin import StandIn

BULLPEN = commands.BULLPEN


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def home() -> Iterator[Path]:
    """A short directory for everything: home, sockets, a project."""
    with tempfile.TemporaryDirectory(prefix="bp") as directory:
        (Path(directory) / "project").mkdir()
        yield Path(directory)


@pytest.fixture
def env(home: Path) -> dict[str, str]:
    kept = {
        key: os.environ[key] for key in ("PATH", "PYTHONPATH", "COVERAGE_PROCESS_START") if key in os.environ
    }
    return {**kept, "HOME": str(home), "TMPDIR": str(home), "LANG": "C.UTF-8", "TERM": "xterm-256color"}


@pytest.fixture
async def server(home: Path) -> AsyncIterator[StandIn]:
    stand_in = StandIn(home / "s.sock")
    await stand_in.start()
    yield stand_in
    await stand_in.stop()


class Command:
    """Runs `bullpen` with arguments and waits for its end."""

    def __init__(self, env: dict[str, str], cwd: Path) -> None:
        self.env = env
        self.cwd = cwd

    async def __call__(
        self, *arguments: str, stdin: str = "", **env: str
    ) -> subprocess.CompletedProcess[str]:
        run = partial(commands.carry_out, arguments, env={**self.env, **env}, cwd=self.cwd, stdin=stdin)
        return await anyio.to_thread.run_sync(run)


@pytest.fixture
def bullpen(env: dict[str, str], home: Path) -> Command:
    return Command(env, home / "project")


class Screen:
    """A command in a terminal of its own: keys go in, the screen can be looked at."""

    def __init__(self, socket: Path, name: str) -> None:
        self.tmux = ["tmux", "-S", str(socket)]
        self.name = name

    def send(self, *keys: str) -> None:
        """Keys by tmux's names; everything else is typed as it stands."""
        subprocess.run([*self.tmux, "send-keys", "-t", self.name, *keys], check=True)

    def type(self, text: str) -> None:
        """A line and Enter."""
        subprocess.run([*self.tmux, "send-keys", "-t", self.name, "-l", text], check=True)
        self.send("Enter")

    def paste(self, text: str) -> None:
        """Text from the clipboard, marked as such."""
        subprocess.run([*self.tmux, "set-buffer", "-b", "clip", text], check=True)
        subprocess.run([*self.tmux, "paste-buffer", "-p", "-r", "-b", "clip", "-t", self.name], check=True)

    def resize(self, columns: int, rows: int) -> None:
        subprocess.run(
            [*self.tmux, "resize-window", "-t", self.name, "-x", str(columns), "-y", str(rows)], check=True
        )

    def text(self) -> str:
        """What stands on the screen and has scrolled out of it."""
        shown = subprocess.run(
            [*self.tmux, "capture-pane", "-p", "-t", self.name, "-S", "-1000"],
            capture_output=True,
            text=True,
            check=True,
        )
        return shown.stdout.rstrip("\n")

    def cursor(self) -> tuple[int, int]:
        """Column and row of the terminal's own cursor, where an input method opens its window."""
        shown = subprocess.run(
            [*self.tmux, "display-message", "-p", "-t", self.name, "#{cursor_x},#{cursor_y}"],
            capture_output=True,
            text=True,
            check=True,
        )
        column, _, row = shown.stdout.strip().partition(",")
        return int(column), int(row)

    async def until(self, *texts: str, limit_s: float = 20) -> str:
        """Wait until all texts are on the screen."""
        ends = time.monotonic() + limit_s
        while not all(text in (shown := self.text()) for text in texts):
            assert time.monotonic() < ends, f"waiting for {texts} in:\n{shown}"
            await anyio.sleep(0.05)
        return shown


Open = Callable[..., Screen]


@pytest.fixture
def terminal(env: dict[str, str], home: Path) -> Iterator[Open]:
    """Opens commands in terminals."""
    if shutil.which("tmux") is None:
        assert not os.environ.get("CI"), "tmux is needed for this test"
        pytest.skip("tmux is not installed")
    socket = home / "tmux"

    def start(*arguments: str, columns: int = 80, rows: int = 24, **more: str) -> Screen:
        name = uuid.uuid4().hex[:8]
        settings = [f"{key}={value}" for key, value in {**env, **more}.items()]
        command = ["env", "-i", *settings, *BULLPEN, *arguments]
        # The pane stays when the command has ended, so that its last words can be read.
        shell = (
            "trap : INT; " + " ".join(map(_quoted, command)) + "; printf '[status %s]\\n' $?; exec sleep 600"
        )
        subprocess.run(
            [
                *["tmux", "-S", str(socket), "-f", "/dev/null", "new-session", "-d", "-s", name],
                *["-x", str(columns), "-y", str(rows), "-c", str(home / "project"), "sh", "-c", shell],
            ],
            env={**env, "SHELL": "/bin/sh"},
            check=True,
        )
        return Screen(socket, name)

    yield start
    subprocess.run(["tmux", "-S", str(socket), "kill-server"], check=False, capture_output=True)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
