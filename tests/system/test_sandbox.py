"""Walls around commands: tried from inside, with real commands, for both ways of making them."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.conftest import Figure
from tests.system.escapes import ESCAPES, PROTECTED

from bullpen.errors import ToolFailed
from bullpen.system import confine
from bullpen.system.jobs import Jobs
from bullpen.system.processes import Processes
from bullpen.system.sandbox import Asked, Mode, Sandbox, no_bubblewrap, no_landlock, readable_places

MODES: list[Mode] = ["landlock", "bubblewrap"]

needed = {
    "landlock": pytest.mark.skipif(bool(no_landlock()), reason=no_landlock()),
    "bubblewrap": pytest.mark.skipif(bool(no_bubblewrap()), reason=no_bubblewrap()),
}


@pytest.fixture
def anyio_backend() -> str:
    """The loop makes no difference here, and there is much to try."""
    return "asyncio"


class World:
    """A workspace, and everything around it that must not be touched."""

    def __init__(self, base: Path) -> None:
        self.work, self.out, self.home, self.own = (base / name for name in ("work", "out", "home", "own"))
        for place in (self.work, self.out, self.home / ".ssh", self.home / ".aws", self.own):
            place.mkdir(parents=True)
        for file in (".ssh/id_rsa", ".aws/credentials", ".netrc"):
            (self.home / file).write_text("CANARY")
        (self.own / "bullpen.json").write_text("CANARY")
        (self.out / "canary").write_text("CANARY")
        (self.work / "inside").write_text("inside")
        self.victim = subprocess.Popen(
            ["sleep", "600"], cwd=self.out, env={"SECRET": "CANARY", "PATH": os.environ["PATH"]}
        )
        self.tcp, self.udp = socket.socket(), socket.socket(type=socket.SOCK_DGRAM)
        self.unix, self.abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        self.tcp.bind(("127.0.0.1", 0))
        self.udp.bind(("127.0.0.1", 0))
        self.unix.bind(str(self.out / "sock"))
        self.abstract.bind(f"\0bullpen-test-{os.getpid()}")
        for listening in (self.tcp, self.unix, self.abstract):
            listening.listen()
            listening.setblocking(False)
        self.udp.setblocking(False)
        self.before = self.traces()

    @property
    def env(self) -> dict[str, str]:
        return {
            # Not by way of a script that looks for an interpreter: there is much to try.
            "PATH": f"{Path(sys.executable).resolve().parent}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "OUT": str(self.out),
            "OWN": str(self.own),
            "PORT": str(self.tcp.getsockname()[1]),
            "UDP": str(self.udp.getsockname()[1]),
            "SOCK": str(self.out / "sock"),
            "ABSTRACT": f"bullpen-test-{os.getpid()}",
            "VICTIM": str(self.victim.pid),
        }

    def traces(self) -> dict[str, Any]:
        """All that an escape could have changed."""
        files = {
            str(file): (file.stat().st_mode, file.stat().st_nlink, file.read_text() if file.is_file() else "")
            for place in (self.out, self.home, self.own)
            for file in sorted(place.rglob("*"))
        }
        return {
            "files": files,
            "attributes": os.listxattr(self.out / "canary") if hasattr(os, "listxattr") else [],
            "victim": self.victim.poll(),
            "niceness": os.getpriority(os.PRIO_PROCESS, self.victim.pid),
            "limits": Path(f"/proc/{self.victim.pid}/limits").read_text(),
            "connections": [
                _arrived(listening) for listening in (self.tcp, self.unix, self.abstract, self.udp)
            ],
        }

    def close(self) -> None:
        self.victim.kill()
        self.victim.wait()
        for opened in (self.tcp, self.udp, self.unix, self.abstract):
            opened.close()


def _arrived(listening: socket.socket) -> bool:
    with contextlib.suppress(BlockingIOError):
        if listening.type == socket.SOCK_DGRAM:
            listening.recv(10)
        else:
            listening.accept()[0].close()
        return True
    return False


@pytest.fixture
def world() -> Iterator[World]:
    # Not below the usual temporary directory, which a sandbox replaces by its own.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as base:
        world = World(Path(base).resolve())
        yield world
        world.close()


@pytest.fixture(params=[pytest.param(mode, marks=needed[mode]) for mode in MODES])
def mode(request: pytest.FixtureRequest) -> Mode:
    chosen: Mode = request.param
    return chosen


class Inside:
    """Runs commands behind walls."""

    def __init__(self, world: World, processes: Processes, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self._world = world
        self.jobs = Jobs(world.env, processes, sandbox=sandbox)

    async def run(self, command: str) -> str:
        """What it printed."""
        job = await self.jobs.start(command, cwd=self._world.work, description="")
        with anyio.move_on_after(30):
            await job.wait()
        await job.kill()
        return "".join(job.output())


@pytest.fixture
async def inside(world: World, mode: Mode) -> AsyncIterator[Inside]:
    async with Processes() as processes:
        sandbox = Sandbox(world.work, own=[world.own])
        await sandbox.follow(Asked(mode), world.env)
        assert sandbox.state == (mode, False, "")
        inside = Inside(world, processes, sandbox)
        yield inside
        await inside.jobs.close()


async def test_nothing_gets_out(inside: Inside, world: World, figure: Figure) -> None:
    """Every known way is tried; nothing says that it got out, and nothing outside has changed."""
    told: dict[str, str] = {}
    limit = anyio.CapacityLimiter(4)

    async def attempt(name: str, command: str) -> None:
        async with limit:
            told[name] = await inside.run(
                f"mkdir '{name}' && cd '{name}' && {command}" if "inside" not in command else command
            )

    async with anyio.create_task_group() as tasks:
        for name, command in ESCAPES.items():
            tasks.start_soon(attempt, name, command)
    assert {name: said for name, said in told.items() if "ESCAPED" in said} == {}
    assert world.traces() == world.before
    assert len(told) >= 40
    figure(
        "X-16",
        "ATTK",
        f"{inside.sandbox.state.mode}: {len(told)} ways out tried, 0 escapes, nothing outside changed",
    )


async def test_the_corpus_gets_out_where_there_is_no_wall(world: World) -> None:
    """Else it would prove nothing: most of it works for anybody who may run a command."""
    async with Processes() as processes:
        inside = Inside(world, processes, Sandbox(world.work))
        for name in (
            "by path",
            "link made inside",
            "a key",
            "TCP",
            "UDP",
            "a unix socket",
            "limits of another process",
        ):
            await inside.run(ESCAPES[name])
        now = world.traces()
        await inside.jobs.close()
    assert now["connections"] == [True, True, False, True]
    assert (now["files"] != world.before["files"], now["limits"] != world.before["limits"]) == (True, True)


async def test_ordinary_work_goes_on(inside: Inside, world: World) -> None:
    """Reading the system, writing in the workspace and in a temporary directory, pipes, children, programs."""
    told = await inside.run(
        'set -e; echo a > new; mkdir -p d; mv new d/; cat d/new; t=$(mktemp); echo b > "$t"; cat "$t"; '
        "python3 -c \"import subprocess; print(subprocess.check_output(['echo', 'c'], text=True), end='')\"; "
        'echo d > /dev/null; head -c 2 /dev/urandom | wc -c; test -n "$(ls /usr)"; sleep 0 & wait; kill -0 $$; pwd'
    )
    assert told == f"a\nb\nc\n2\n{world.work}\n"


async def test_git_works_inside(inside: Inside, world: World) -> None:
    """A commit is ordinary work; its author's config is read, its hooks cannot be changed by bubblewrap's commands."""
    subprocess.run(["git", "init", "-q", str(world.work)], check=True)
    told = await inside.run(
        "git -c user.name=a -c user.email=a@b add inside && "
        "git -c user.name=a -c user.email=a@b commit -qm one && git log --format=%s"
    )
    assert told.endswith("one\n")


@needed["bubblewrap"]
@pytest.mark.parametrize("mode", ["bubblewrap"])
async def test_what_others_run_stays_as_it_is(inside: Inside, world: World, figure: Figure) -> None:
    """Hooks, settings and tasks in the workspace, also those that do not exist yet; and no trace of the care is left."""
    subprocess.run(["git", "init", "-q", str(world.work)], check=True)
    for place in (".vscode", ".github/workflows"):
        (world.work / place).mkdir(parents=True)
    before = sorted(str(p) for p in world.work.rglob("*"))
    told = {name: await inside.run(command) for name, command in PROTECTED.items()}
    assert {name: said for name, said in told.items() if "ESCAPED" in said} == {}
    assert sorted(str(p) for p in world.work.rglob("*")) == before
    figure("X-16", "ATTK", f"{len(told)} writes to what others run, 0 of them possible behind bubblewrap")


@needed["bubblewrap"]
async def test_secrets_within_the_workspace_are_hidden_by_bubblewrap_alone(world: World) -> None:
    """A home as the workspace: Landlock cannot take a directory out of it, and says so."""
    async with Processes() as processes:
        sandbox = Sandbox(world.home)
        await sandbox.follow(Asked("landlock"), world.env)
        assert ".aws" in sandbox.state.why
        with pytest.raises(ToolFailed, match="use bubblewrap"):
            await sandbox.wall(("/bin/true",), {}, world.home)
        await sandbox.follow(Asked("auto"), world.env)
        inside = Inside(world, processes, sandbox)
        told = await inside.run(f"cd {world.home}; cat .ssh/id_rsa .netrc; echo x > new; cat new")
        await inside.jobs.close()
    assert ("CANARY" in told, told.startswith("x\n")) == (False, True)


async def test_the_network_can_be_allowed(world: World, mode: Mode) -> None:
    """Internet sockets only: a unix socket still leads to somebody else's process."""
    async with Processes() as processes:
        sandbox = Sandbox(world.work)
        await sandbox.follow(Asked(mode, network=True), world.env)
        inside = Inside(world, processes, sandbox)
        await inside.run(ESCAPES["TCP"])
        await inside.run(ESCAPES["a unix socket"])
        await inside.jobs.close()
    assert world.traces()["connections"] == [True, False, False, False]


async def test_more_places_can_be_opened_and_shut(world: World, mode: Mode) -> None:
    """By the configuration: absolute, or below the home."""
    async with Processes() as processes:
        sandbox = Sandbox(world.work)
        await sandbox.follow(Asked(mode, writable=(str(world.out),), hidden=("~/.cache",)), world.env)
        (world.home / ".cache").mkdir()
        (world.home / ".cache/x").write_text("CANARY")
        inside = Inside(world, processes, sandbox)
        told = await inside.run('echo x > "$OUT/new"; cat "$HOME/.cache/x"')
        await inside.jobs.close()
    assert ((world.out / "new").read_text(), "CANARY" in told) == ("x\n", False)


async def test_without_walls_nothing_runs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for and not to be had: the words say what is missing, and the command never begins."""
    monkeypatch.setattr(confine, "landlock_abi", lambda: 3)
    monkeypatch.setattr("bullpen.system.sandbox._bubblewrap", lambda: "")
    async with Processes() as processes:
        sandbox = Sandbox(world.work)
        await sandbox.follow(Asked("auto"), world.env)
        inside = Inside(world, processes, sandbox)
        with pytest.raises(ToolFailed, match=r"the package bubblewrap.*Linux 6\.12"):
            await inside.run("touch made")
        await inside.jobs.close()
    assert not (world.work / "made").exists()


async def test_a_wall_that_cannot_stand_is_an_error(world: World) -> None:
    """Also when it only shows at the last moment, in the process that is to become the command."""
    walls = confine.Confinement("landlock", False, [], ["/"])
    async with Processes() as processes:
        with pytest.raises(OSError, match="null"):
            await processes.start(
                ["/no/such/program"], cwd=world.work, env={}, walls=walls._replace(readable=["\0"])
            )


async def test_a_person_has_no_walls(world: World, mode: Mode) -> None:
    """What somebody types is theirs."""
    async with Processes() as processes:
        sandbox = Sandbox(world.work)
        await sandbox.follow(Asked(mode), world.env)
        jobs = Jobs(world.env, processes, sandbox=sandbox)
        job = await jobs.start('echo x > "$OUT/new"', cwd=world.work, description="", is_persons=True)
        await job.wait()
        await jobs.close()
    assert (world.out / "new").exists()


def test_what_may_be_read_is_the_rest(tmp_path: Path) -> None:
    """The largest places without a secret in them."""
    for name in ("a/x", "a/secret", "b/c"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "a/secret")
    assert list(readable_places(tmp_path, [tmp_path / "a/secret"])) == [f"{tmp_path}/a/x", f"{tmp_path}/b"]
