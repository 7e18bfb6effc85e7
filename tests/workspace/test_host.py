"""The host: creates, joins and ends that meet each other. Real stores, real workspaces, a clock to put forward."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.engine.bench import PATIENCE_S, Gate, Puppet, Watcher, bench_tools, until
from tests.engine.timeloop import TimeLoop, advance, pass_until

from bullpen.errors import (
    BullpenError,
    ChannelsDiffer,
    ClientRetired,
    DataDirectoryInUse,
    ShuttingDown,
    StoreError,
    WorkspaceNotFound,
)
from bullpen.schema.api import NewPrompt, NewWorkspace
from bullpen.store.lock import DataLock
from bullpen.system.clock import SystemClock
from bullpen.system.processes import Processes
from bullpen.workspace.claims import CREATE_HOLD_S
from bullpen.workspace.host import Host
from bullpen.workspace.opening import Surroundings
from bullpen.workspace.workspace import Workspace

CONFIG = {
    "providers": {
        "puppet": {
            "type": "openai-compat",
            "base_url": "http://127.0.0.1:9/v1",
            "api_key": "none",
            "models": [{"id": "m", "name": "m", "context_window": 1000, "default_max_tokens": 100}],
        }
    },
    "models": {"large": {"model": "m", "provider": "puppet"}, "small": {"model": "m", "provider": "puppet"}},
}


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return ("asyncio", {"loop_factory": TimeLoop})


class House:
    """A host, its outside world, and what people do with it."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.host: Host
        self.puppet = Puppet()
        self.gate = Gate()
        self.exits = 0
        self.stop = asyncio.Event()

    def project(self, name: str = "p1") -> Path:
        root = self.base / name
        root.mkdir(exist_ok=True)
        (root / "bullpen.json").write_text(json.dumps(CONFIG))
        return root

    async def create(self, client: str = "ana", project: str = "p1", **more: Any) -> Workspace:
        body = NewWorkspace(path=str(self.project(project)), client_id=client, **more)
        return self.host.find((await self.host.create(body)).id)

    def attach(self, workspace: Workspace, client: str = "ana") -> Watcher:
        return Watcher(self.host.attach(workspace, client, deltas=False, after=None, name=""))

    def detach(self, workspace: Workspace, client: str, watcher: Watcher) -> None:
        self.host.detach(workspace, client, watcher.trail)

    async def prompt(self, workspace: Workspace, run_id: str = "r1") -> str:
        session = await workspace.create_session("named")
        body = NewPrompt(session_id=session.id, prompt="hello", run_id=run_id)
        await workspace.accept(body, idempotency_key="", author="", client="")
        return session.id

    async def until(self, wanted: Callable[[], bool]) -> None:
        """Until something comes true that sends no event."""
        await until(wanted)

    def is_open(self, workspace: Workspace) -> bool:
        return workspace in self.host.all()

    def is_found(self, workspace: Workspace) -> bool:
        try:
            self.host.find(workspace.id)
        except WorkspaceNotFound:
            return False
        return True


@asynccontextmanager
async def open_house(base: Path, *, idle_exit_s: float | None = None) -> AsyncIterator[House]:
    house = House(base)
    lock = DataLock(base / "data")
    started = asyncio.Event()

    def on_exit() -> None:
        house.exits += 1

    async with Processes() as processes:
        house.host = Host(
            surroundings=Surroundings(
                clock=SystemClock(),
                processes=processes,
                tools=lambda: bench_tools(house.gate),
                make_provider=lambda settings: house.puppet,
                trusted=True,
                detach_grace_s=10,
            ),
            data_dir=base / "data",
            lock=lock,
            env={"HOME": str(base / "home"), "PATH": "/usr/bin:/bin"},
            idle_exit_s=idle_exit_s,
            keepalive_s=15,
            on_exit=on_exit,
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(house.host.serve, started.set, house.stop)
            await started.wait()
            yield house
            house.gate.open_all()
            house.stop.set()
    lock.release()


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path) as opened:
        yield opened


# Creating and joining


async def test_creates_that_meet_end_in_one_workspace_that_holds_them_all(house: House) -> None:
    found: list[Workspace] = []

    async def create(client: str) -> None:
        found.append(await house.create(client))

    async with anyio.create_task_group() as tasks:
        for n in range(5):
            tasks.start_soon(create, f"c{n}")
    assert len({id(w) for w in found}) == 1
    assert sorted(c.client_id for c in found[0].clients()) == [f"c{n}" for n in range(5)]


async def test_a_join_with_other_channels_is_refused_and_registers_nothing(house: House) -> None:
    workspace = await house.create("ana")
    with pytest.raises(ChannelsDiffer):
        await house.create("ben", channels=("x",))
    assert [c.client_id for c in workspace.clients()] == ["ana"]


async def test_a_workspace_has_the_same_id_when_it_is_opened_again(house: House) -> None:
    first = await house.create()
    await house.host.release(first.id, "ana")
    assert not house.is_found(first)
    second = await house.create()
    assert (second.id, second is first) == (first.id, False)


async def test_a_create_that_meets_an_end_waits_and_opens_anew(house: House) -> None:
    """The end is slow: a tool lingers."""
    first = await house.create()
    await house.prompt(first)
    step = await house.puppet.next()
    step.call("c1", "linger", '{"name":"l"}')
    step.finish(reason="tool_use")
    await house.gate.entered()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(house.host.release, first.id, "ana")
        await house.until(lambda: not house.is_found(first))
        with pytest.raises(WorkspaceNotFound):
            house.host.attach(first, "ana", deltas=False, after=None, name="")
        tasks.start_soon(house.create, "ben")
        await asyncio.sleep(0)
        house.gate.open("l")
    assert [c.client_id for c in house.host.find(first.id).clients()] == ["ben"]


async def test_a_client_retired_while_its_create_opens_gets_no_workspace_and_leaves_none(
    house: House,
) -> None:
    async def create() -> None:
        with pytest.raises(ClientRetired):
            await house.create("ana")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(create)
        await asyncio.sleep(0)
        await house.host.retire("ana")
    await _nothing_hosted(house)


async def test_a_create_whose_caller_left_does_not_leave_a_workspace_behind(house: House) -> None:
    task = asyncio.ensure_future(house.create("ana"))
    await house.until(lambda: bool(house.host._hosted))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await _nothing_hosted(house)


async def test_a_create_whose_caller_left_does_not_end_what_another_joins(house: House) -> None:
    task = asyncio.ensure_future(house.create("ana"))
    other = asyncio.ensure_future(house.create("ben"))
    await house.until(lambda: bool(house.host._hosted))
    task.cancel()
    workspace = await other
    with pytest.raises(asyncio.CancelledError):
        await task
    assert house.is_found(workspace)
    assert [c.client_id for c in workspace.clients()] == ["ben"]


async def _nothing_hosted(house: House) -> None:
    """The server would agree to leave."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await house.host.control("shutdown", keep_alive=False)
            except BullpenError:
                await asyncio.sleep(0.001)
            else:
                break
    assert house.exits == 1


# Data directories


async def test_one_workspace_closes_a_data_directory_while_another_opens_it(house: House) -> None:
    """Both have their way: nobody is told that the directory is in use by ourselves."""
    shared = str(house.base / "shared")
    for _ in range(5):
        first = await house.create("ana", "p1", data_dir=shared)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(house.host.release, first.id, "ana")
            await asyncio.sleep(0)
            second = await house.create("ben", "p2", data_dir=shared)
        await house.host.release(second.id, "ben")


async def test_a_data_directory_of_somebody_else_is_refused_and_taken_when_they_leave(house: House) -> None:
    other = DataLock(house.base / "shared")
    for _ in range(2):
        with pytest.raises(DataDirectoryInUse):
            await house.create(data_dir=str(house.base / "shared"))
    other.release()
    assert house.is_found(await house.create(data_dir=str(house.base / "shared")))


async def test_a_data_directory_that_cannot_be_opened_keeps_no_lock(house: House) -> None:
    """Two creates fail on the same damaged file, each for that reason."""
    shared = house.base / "shared"
    shared.mkdir()
    (shared / "bullpen.db").write_bytes(b"this is not a database, whatever it says" * 100)
    failures: list[Exception] = []

    async def create(project: str) -> None:
        try:
            await house.create("ana", project, data_dir=str(shared))
        except BullpenError as exc:
            failures.append(exc)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(create, "p1")
        tasks.start_soon(create, "p2")
    assert [type(f).__name__ for f in failures] == ["StoreDamaged", "StoreDamaged"]
    DataLock(shared).release()


async def test_another_name_of_a_data_directory_is_the_same_directory(house: House) -> None:
    (house.base / "shared").mkdir()
    (house.base / "alias").symlink_to(house.base / "shared")
    (house.base / "default").symlink_to(house.base / "data")
    first = await house.create("ana", data_dir=str(house.base / "shared"))
    second = await house.create("ben", data_dir=str(house.base / "alias"))
    assert second is first
    assert (await house.create("ana", "p2")) is (
        await house.create("ben", "p2", data_dir=str(house.base / "default"))
    )


# Leaving


async def test_the_last_claim_takes_the_turn_with_it_and_its_events_still_arrive(house: House) -> None:
    workspace = await house.create()
    watcher = house.attach(workspace)
    await watcher.read()
    await house.prompt(workspace)
    await house.puppet.next()
    await house.host.retire("ana")
    done = await watcher.run_complete("r1")
    assert done.cancelled
    assert watcher.trail.subscription.closed


async def test_a_hold_that_runs_out_ends_the_workspace(house: House) -> None:
    workspace = await house.create()
    await advance(CREATE_HOLD_S + 1)
    assert not house.is_found(workspace)


async def test_retiring_ends_streams_in_workspaces_that_live_on_and_in_those_that_end(house: House) -> None:
    shared, own = await house.create("ana", "p1"), await house.create("ana", "p2")
    await house.create("ben", "p1")
    watchers = [house.attach(shared), house.attach(own)]
    bens = house.attach(shared, "ben")
    await house.host.retire("ana")
    assert [w.trail.subscription.closed for w in watchers] == [True, True]
    assert not bens.trail.subscription.closed
    assert house.is_found(shared)
    assert not house.is_found(own)
    for workspace, watcher in zip((shared, own), watchers, strict=True):
        house.detach(workspace, "ana", watcher)
    assert [c.client_id for c in shared.clients()] == ["ben"]
    with pytest.raises(ClientRetired):
        house.attach(shared, "ana")
    with pytest.raises(ClientRetired):
        await house.create("ana")


async def test_an_outliving_workspace_stays_for_its_turn_and_then_ends(house: House) -> None:
    """R-29."""
    workspace = await house.create(outlive=True)
    await house.prompt(workspace)
    step = await house.puppet.next()
    for _ in range(5):
        house.host.attach(workspace, "ana", deltas=False, after=None, name="")
        workspace.claims.release("ana")
        workspace.claims.detach("ana")
        await advance(1.1)
    assert house.is_found(workspace)
    step.finish("all alone")
    await pass_until(lambda: not house.is_found(workspace), 1.1)


async def test_a_store_that_fails_does_not_take_the_server_with_it(house: House) -> None:
    """The watcher of an outliving workspace asks the store whether there is work."""
    workspace = await house.create(outlive=True)
    other = await house.create("ben", "p2")
    broken = StoreError("gone")

    async def has_work() -> bool:
        raise broken

    workspace.has_work = has_work  # type: ignore[method-assign]
    workspace.claims.release("ana")
    await advance(1.1)
    await advance(1.1)
    assert house.is_found(other)
    assert house.is_found(workspace)


async def test_a_claim_of_a_workspace_that_died_does_not_end_its_successor(house: House) -> None:
    first = await house.create("ana")

    async def die() -> None:
        raise ValueError("a bug")

    first._tasks.start_soon(die)
    await house.until(lambda: not house.is_found(first))
    await house.until(lambda: not house.host._hosted)
    second = await house.create("ben")
    house.attach(second, "ben")
    await advance(CREATE_HOLD_S + 1)
    assert house.is_found(second)


async def test_what_a_dying_workspace_left_active_is_closed_when_it_is_opened_again(house: House) -> None:
    """R-06 without a restart of the server."""
    first = await house.create("ana")
    session = await house.prompt(first)
    await house.puppet.next()

    async def die() -> None:
        raise ValueError("a bug")

    first._tasks.start_soon(die)
    await house.until(lambda: not house.host._hosted)
    second = await house.create("ben")
    assert not (await second.session(session)).is_busy
    messages = json.loads(await second.messages(session))
    assert messages[-1]["parts"][-1]["data"]["reason"] == "error"


# The server


async def test_an_unused_server_leaves_and_a_create_keeps_it(tmp_path: Path) -> None:
    async with open_house(tmp_path, idle_exit_s=60) as house:
        workspace = await house.create()
        await advance(20)
        assert house.exits == 0
        await house.host.release(workspace.id, "ana")
        await advance(59)
        assert house.exits == 0
        await advance(2)
        assert house.exits == 1
        with pytest.raises(ShuttingDown):
            await house.create("ben")


async def test_a_server_that_leaves_refuses_creates_that_wait_for_an_end(house: House) -> None:
    first = await house.create()
    await house.prompt(first)
    step = await house.puppet.next()
    step.call("c1", "linger", '{"name":"l"}')
    step.finish(reason="tool_use")
    await house.gate.entered()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(house.host.release, first.id, "ana")
        await house.until(lambda: not house.is_found(first))
        late = asyncio.ensure_future(house.create("ben"))
        await asyncio.sleep(0)
        house.stop.set()
        await asyncio.sleep(0)
        house.gate.open("l")
    with pytest.raises(ShuttingDown):
        await late
