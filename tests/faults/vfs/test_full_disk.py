"""A full disk: writes are refused, what runs still gets its end, and with room everything goes on by itself (R-11)."""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import Figure
from tests.engine.bench import Bench, open_bench
from tests.faults.vfs.checker import look_over
from tests.faults.vfs.disk import Disk, Operation, Trouble
from tests.journeys.server import Bullpen, gate, new_home, until

from bullpen.errors import StoreFull
from bullpen.store.store import DATABASE_NAME

TURNS = 8


def fill(disk: Disk, directory: Path) -> None:
    """No room for anybody, except for what the reserve has given up."""
    reserve = (directory / DATABASE_NAME).with_suffix(".reserve")

    def on_call(operation: Operation, path: str) -> Trouble | None:
        has_room = operation != "write" or reserve.stat().st_size == 0
        return None if has_room else "full"

    disk.on_call = on_call


async def test_turns_end_on_a_full_disk_and_the_rest_waits(tmp_path: Path, disk: Disk) -> None:
    async with open_bench(tmp_path, vfs=disk.name) as bench:
        await bench.session()
        await bench.session("s2")
        await bench.watcher.read()
        await bench.prompt("one", run_id="one")
        first = await bench.puppet.next()
        await bench.prompt("two", run_id="two", session="s2")
        await bench.puppet.next()
        await bench.prompt("waits", run_id="waits")
        fill(disk, tmp_path)
        with pytest.raises(StoreFull):
            await bench.prompt("refused", run_id="refused")
        first.finish("all of it")
        assert (await bench.watcher.run_complete("one")).text == "all of it"
        await bench.runner.cancel("s2")
        assert (await bench.watcher.run_complete("two")).cancelled
        assert await bench.states() == {"one": "done", "two": "cancelled", "waits": "accepted"}
        assert bench.store.tally["store_full"] > 0
        disk.heal()
        assert await bench.prompt("taken", run_id="taken", session="s2") == "taken"
        for _ in ("waits", "taken"):
            (await bench.puppet.next()).finish("late")
        await bench.settled()
        assert await bench.states() == {"one": "done", "two": "cancelled", "waits": "done", "taken": "done"}
    look_over(tmp_path)


async def test_a_turn_that_cannot_store_its_steps_is_told_why(tmp_path: Path, disk: Disk) -> None:
    async with open_bench(tmp_path, vfs=disk.name) as bench:
        await bench.session()
        await bench.watcher.read()
        await bench.prompt("one", run_id="one")
        step = await bench.puppet.next()
        fill(disk, tmp_path)
        step.call("c1", "echo", '{"name": "n"}')
        step.finish(reason="tool_use")
        assert "space" in (await bench.watcher.run_complete("one")).error
        assert await _last_reason(bench) == "error"
    look_over(tmp_path)


async def _last_reason(bench: Bench) -> str:
    finish = (await bench.messages())[-1].finish
    assert finish is not None
    return finish.reason


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, 16 MiB large."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "none", place], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("mounting a file system needs root")
    yield place
    subprocess.run(["umount", place], check=True)


def fill_up(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass


def reach(pipe: Path) -> int:
    """The writing end, once a command reads from it; until then 0."""
    try:
        return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return 0


@pytest.fixture
def bullpen(small_disk: Path) -> Iterator[Bullpen]:
    with new_home() as made:
        yield made.start("--data-dir", str(small_disk / "data"))


def test_a_server_on_a_full_file_system_goes_on_serving(
    bullpen: Bullpen, small_disk: Path, figure: Figure
) -> None:
    """Eight turns are in the middle of a tool when the last byte is taken."""
    gates = [bullpen.home / f"gate{n}" for n in range(TURNS)]
    script = [{"when": f"turn {n}", "calls": [gate(path)]} for n, path in enumerate(gates)]
    client = bullpen.attach(bullpen.project(*script, {"say": "done"}))
    stream = client.stream()
    sessions = [client.session() for _ in gates]
    runs = [
        client.prompt(session, f"turn {n}", f"run-{n}", permissions="allow")
        for n, session in enumerate(sessions)
    ]
    held = [until(functools.partial(reach, path), "a command to stand at its gate") for path in gates]
    ballast = small_disk / "ballast"
    fill_up(ballast)
    answers = {client.call("POST", "/sessions", {"title": "no"}).status_code for _ in range(200)}
    refused = client.call("POST", "/agent", {"session_id": sessions[0], "prompt": "no"})
    assert (507 in answers, refused.status_code, refused.json()["code"]) == (True, 507, "store_full")
    for pipe in held:
        os.write(pipe, b"open\n")
        os.close(pipe)
    ends = [stream.completion(run) for run in runs]
    assert len(ends) == TURNS
    assert all(client.messages(session) for session in sessions)
    ballast.unlink()
    began = time.monotonic()
    while client.call("POST", "/sessions", {"title": "yes"}).status_code != 200:
        assert time.monotonic() - began < 30
    healed_s = time.monotonic() - began
    stream.completion(client.prompt(sessions[0], "again"))
    assert bullpen.terminate() == 0
    look_over(small_disk / "data")
    figure("R-11", "VFS", f"{TURNS} of {TURNS} turns ended on a full file system, healed in {healed_s:.2f} s")
