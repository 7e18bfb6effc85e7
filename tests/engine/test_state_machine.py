"""Clients, prompts, cancels, asks, a model and crashes in any order, against a few lines of bookkeeping.

Checked whatever happens:

* R-03  prompts of a session run in the order they were accepted;
* R-05  a cancel covers exactly what was accepted before it;
* R-06  every accepted prompt ends in exactly one `run_complete`, its own or the one that names it;
* R-07  no effect happens twice, and none without a grant;
* R-13  every client sees every durable event once and in order, across reconnects and crashes;
* R-28  an ask is answered once, and everybody learns how.

A crash is what a killed process leaves: the files as they lie between two commits, opened again by a new engine.
`BULLPEN_LONG=1` runs the long size, for the night.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.engine.bench import WORKSPACE, Answering, Bench, Gate, Puppet, Watcher, open_bench

from bullpen.engine import queue
from bullpen.errors import PromptNotFound, ProviderError
from bullpen.schema.api import QueueEdit
from bullpen.schema.asks import PermissionRequest
from bullpen.schema.events import RunComplete
from bullpen.store import asks, log
from bullpen.store.tx import Tx

T = TypeVar("T")
LONG = os.environ.get("BULLPEN_LONG") == "1"
SESSIONS = ("s1", "s2")

sessions_ = st.sampled_from(SESSIONS)
clients_ = st.integers(0, 2)


class Client:
    """Somebody who watches, goes and comes back with the last id they saw."""

    def __init__(self, *, deltas: bool) -> None:
        self.deltas = deltas
        self.watcher: Watcher | None = None
        self.cursor: str | None = None
        self.first = 0
        """The number of the last event before the first attach."""
        self.numbers: list[int] = []
        self.texts: dict[str, str] = {}

    def attach(self, bench: Bench) -> None:
        if self.watcher is None:
            feed = bench.store.feeds[WORKSPACE]
            if self.cursor is None:
                self.first = feed.head
                self.cursor = feed.cursor
            self.watcher = bench.watch(deltas=self.deltas, after=self.cursor)

    async def read(self, at_most: int | None = None) -> None:
        """Take in what is there, or only its beginning, as when the connection is cut."""
        if self.watcher is None:
            return
        await self.watcher.read()
        for event in self.watcher.seen[:at_most]:
            assert event.kind != "resync"
            self.cursor = event.id
            if event.seq:
                self.numbers.append(event.seq)
            if event.kind == "message":
                self.texts[event.payload.id] = event.payload.text
            if event.kind == "message_delta" and event.payload.part == "text":
                text = self.texts.get(event.payload.message_id, "")
                assert event.payload.offset == len(text), "a delta does not fit what was shown before"
                self.texts[event.payload.message_id] = text + event.payload.text
        self.watcher.seen.clear()

    def leave(self) -> None:
        if self.watcher is not None:
            self.watcher.close()
            self.watcher = None


class Room(RuleBasedStateMachine):
    """Each rule is one thing that somebody does; the engine works on in between."""

    def __init__(self) -> None:
        super().__init__()
        self.base = Path(tempfile.mkdtemp(prefix="bpsm"))
        self.loop = asyncio.new_event_loop()
        self.calls: asyncio.Queue[tuple[Callable[[], Awaitable[Any]], asyncio.Future[Any]] | None] = (
            asyncio.Queue()
        )
        self.puppet, self.gate = Puppet(), Gate()
        self.bench: Bench
        self.crashes = 0
        self.count = 0
        self.accepted: dict[str, list[str]] = {s: [] for s in SESSIONS}
        """Run ids in the order of acceptance."""
        self.keys: dict[str, str] = {}
        self.cancellable: dict[str, bool] = {}
        """Whether somebody withdrew, cancelled or cleared after the run was accepted."""
        self.steps: list[Answering] = []
        self.wins: Counter[str] = Counter()
        self.allowed: set[str] = set()
        self.clients = [Client(deltas=n == 1) for n in range(3)]
        self.driver = self.loop.create_task(self._drive())

    # The engine lives in one task; rules hand it what to do.

    async def _drive(self) -> None:
        stack = AsyncExitStack()
        self.bench = await stack.enter_async_context(
            open_bench(self.base / "0", puppet=self.puppet, gate=self.gate)
        )
        for session in SESSIONS:
            await self.bench.session(session)
        while (call := await self.calls.get()) is not None:
            work, done = call
            try:
                if work is _crash_mark:
                    stack = await self._crash(stack)
                    done.set_result(None)
                else:
                    done.set_result(await work())
            except BaseException as exc:
                done.set_exception(exc)
        await stack.aclose()

    async def _crash(self, stack: AsyncExitStack) -> AsyncExitStack:
        self.crashes += 1
        for client in self.clients:
            client.leave()
        directory = self.base / str(self.crashes)
        await self.bench.crash_into(directory)
        await stack.aclose()
        while not self.puppet.asked.empty():
            self.puppet.asked.get_nowait()
        self.steps.clear()
        self.gate._open.clear()
        stack = AsyncExitStack()
        self.bench = await stack.enter_async_context(
            open_bench(directory, puppet=self.puppet, gate=self.gate)
        )
        return stack

    def do(self, work: Callable[[], Awaitable[T]]) -> T:
        async def ask() -> T:
            done: asyncio.Future[T] = self.loop.create_future()
            self.calls.put_nowait((work, done))
            async with asyncio.timeout(30):
                return await done

        return self.loop.run_until_complete(ask())

    @initialize()
    def begin(self) -> None:
        self.do(lambda: asyncio.sleep(0))

    def teardown(self) -> None:
        try:
            if not self.driver.done():
                self.do(self._run_out)
                self.do(self._check)
        finally:
            self.calls.put_nowait(None)
            self.loop.run_until_complete(asyncio.wait([self.driver], timeout=30))
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()
            shutil.rmtree(self.base, ignore_errors=True)

    # People

    @rule(session=sessions_, own=st.booleans(), key=st.sampled_from(["", "", "", "k1", "k2"]))
    def prompt(self, session: str, own: bool, key: str) -> None:
        self.count += 1
        text = f"p{self.count}"
        run_id = f"run-{text}" if own else ""

        async def work() -> str:
            return await self.bench.prompt(text, run_id=run_id, session=session, idempotency_key=key)

        given = self.do(work)
        if key in self.keys:
            assert given == self.keys[key]
            return
        if key:
            self.keys[key] = given
        self.accepted[session].append(given)
        self.cancellable[given] = False

    @rule(session=sessions_)
    def cancel(self, session: str) -> None:
        async def work() -> list[Any]:
            await self.bench.runner.cancel(session)
            return await self.bench.sql(
                "SELECT run_id FROM prompts WHERE session = $1 AND state IN ('accepted', 'active')", session
            )

        left = self.do(work)
        assert left == [], "a cancel left something running"
        for run_id in self.accepted[session]:
            self.cancellable[run_id] = True

    @rule(session=sessions_)
    def clear(self, session: str) -> None:
        self.do(lambda: self.bench.write(lambda tx: queue.clear(tx, WORKSPACE, session)))
        for run_id in self.accepted[session]:
            self.cancellable[run_id] = True

    @rule(session=sessions_, withdraw=st.booleans())
    def change_the_last_that_waits(self, session: str, withdraw: bool) -> None:
        async def work() -> str:
            listed = await self.bench.read(lambda tx: queue.listed(tx, WORKSPACE, session))
            if not listed:
                return ""
            last = listed[-1]
            try:
                if withdraw:
                    await self.bench.write(lambda tx: queue.withdraw(tx, WORKSPACE, session, last.seq))
                else:
                    change = QueueEdit(prompt=f"{last.text} edited")
                    await self.bench.write(lambda tx: queue.edit(tx, WORKSPACE, session, last.seq, change))
            except PromptNotFound:
                return ""
            return last.run_id

        run_id = self.do(work)
        if withdraw and run_id:
            self.cancellable[run_id] = True

    @rule(n=clients_)
    def attach(self, n: int) -> None:
        async def work() -> None:
            self.clients[n].attach(self.bench)

        self.do(work)

    @rule(n=clients_)
    def read(self, n: int) -> None:
        self.do(self.clients[n].read)

    @rule(n=clients_, last_events=st.integers(0, 9))
    def detach(self, n: int, last_events: int) -> None:
        """Cut off after some of what was on its way."""

        async def work() -> None:
            await self.clients[n].read(last_events)
            self.clients[n].leave()

        self.do(work)

    @rule(allow=st.booleans(), voices=st.integers(1, 3))
    def answer_an_ask(self, allow: bool, voices: int) -> None:
        self.do(lambda: self._answer(allow, voices))

    async def _answer(self, allow: bool, voices: int) -> None:
        for request in await self._open_asks():
            if allow:
                self.allowed.add(request.params["name"])
            actions = ["allow" if allow else "deny"] * voices
            won = await asyncio.gather(*(self.bench.grant(request, action) for action in actions))
            assert sum(won) <= 1
            self.wins[request.id] += sum(won)

    async def _open_asks(self) -> list[PermissionRequest]:
        found = await self.bench.read(lambda tx: asks.all_open(tx, WORKSPACE))
        return [msgspec.json.decode(a.body, type=PermissionRequest) for a in found]

    # The model

    def _live(self) -> list[Answering]:
        while not self.puppet.asked.empty():
            self.steps.append(self.puppet.asked.get_nowait())
        self.steps = [s for s in self.steps if not s.closed.is_set()]
        return self.steps

    @rule(which=st.integers(0, 3), settled=st.booleans())
    def say(self, which: int, settled: bool) -> None:
        async def work() -> None:
            if steps := self._live():
                self.count += 1
                steps[which % len(steps)].say(f"w{self.count} ")
                if settled:
                    await self._breathe()

        self.do(work)

    @rule(which=st.integers(0, 3))
    def finish(self, which: int) -> None:
        async def work() -> None:
            if steps := self._live():
                steps[which % len(steps)].finish("the end")
                await self._breathe()

        self.do(work)

    @rule(which=st.integers(0, 3), retryable=st.booleans())
    def fail(self, which: int, retryable: bool) -> None:
        async def work() -> None:
            if steps := self._live():
                steps[which % len(steps)].fail(
                    ProviderError("down", retryable=retryable, retry_after_s=0 if retryable else None)
                )
                await self._breathe()

        self.do(work)

    @rule(
        which=st.integers(0, 3),
        tools=st.lists(st.sampled_from(["act", "echo", "send"]), min_size=1, max_size=3),
    )
    def call(self, which: int, tools: list[str]) -> None:
        async def work() -> None:
            if steps := self._live():
                step = steps[which % len(steps)]
                for name in tools:
                    self.count += 1
                    arguments = (
                        f'{{"prompt":"t{self.count}"}}' if name == "send" else f'{{"name":"x{self.count}"}}'
                    )
                    step.call(f"c{self.count}", name, arguments)
                step.finish(reason="tool_use")
                await self._breathe()

        self.do(work)

    @rule()
    def breathe(self) -> None:
        self.do(self._breathe)

    async def _breathe(self) -> None:
        """Give the engine the time of a few commits."""
        for _ in range(4):
            await self.bench.write(_nothing, durable=False)

    # The world

    @precondition(lambda self: self.crashes < 3)
    @rule()
    def crash(self) -> None:
        self.do(_crash_mark)

    # Checks

    async def _run_out(self) -> None:
        """Everybody does what is left to do, until nothing runs."""
        for _ in range(2000):
            for step in list(self._live()):
                step.finish("at last")
                self.steps.remove(step)
            await self._answer(False, 1)
            if self.bench.runner.is_idle and self.puppet.asked.empty():
                break
            await self._breathe()
        assert self.bench.runner.is_idle, "something never ended"
        for client in self.clients:
            client.attach(self.bench)
            await client.read()

    async def _check(self) -> None:
        events = await self.bench.sql(
            "SELECT seq, kind, keep, key, body FROM events WHERE workspace = $1 ORDER BY seq", WORKSPACE
        )
        assert [e[0] for e in events] == list(range(1, len(events) + 1))
        await self._check_ends()
        await self._check_order()
        await self._check_asks(events)
        self._check_clients(events)
        await self._check_texts()
        assert await self.bench.open_messages() == []
        assert await self.bench.sql("SELECT * FROM chunks") == []
        assert await self.bench.sql("SELECT * FROM intents") == []

    async def _check_ends(self) -> None:
        ends: Counter[str] = Counter()
        cancelled: set[str] = set()
        after = 0
        while True:
            page = await self.bench.read(partial(log.read_page, workspace=WORKSPACE, after=after))
            for event in page.events:
                if event.kind == "run_complete":
                    done = _decode(event.body)
                    named = [done.run_id, *done.run_ids] if done.run_id else []
                    ends.update(named)
                    if done.cancelled:
                        cancelled.update(named)
            if page.complete:
                break
            after = page.last
        every = [run_id for runs in self.accepted.values() for run_id in runs]
        assert ends == Counter(every), "not exactly one end for each"
        states = await self.bench.states()
        assert set(states) == set(every)
        assert not set(states.values()) & {"accepted", "active"}
        assert {r for r, s in states.items() if s == "cancelled"} == cancelled
        for run_id in cancelled:
            assert self.cancellable[run_id], f"{run_id} was cancelled, and nobody had said so"

    async def _check_order(self) -> None:
        for session in SESSIONS:
            said = [m.text for m in await self.bench.messages(session) if m.role == "user"]
            numbers = [int(text.removeprefix("p").split()[0]) for text in said]
            assert numbers == sorted(set(numbers)), f"run in another order than accepted: {numbers}"

    async def _check_asks(self, events: list[Any]) -> None:
        asked = {e[3] for e in events if e[1] == "permission_request"}
        notices: Counter[str] = Counter()
        for _, kind, _, key, body in events:
            if kind == "permission_notification" and key in asked:
                notices[key] += body.count(b'"granted":true') + body.count(b'"denied":true')
        assert notices == Counter(asked), "not exactly one outcome for each ask"
        assert not [ask for ask, wins in self.wins.items() if wins > 1]
        effects = Counter(self.gate.effects)
        assert not [name for name, times in effects.items() if times > 1], "an effect was repeated"
        assert set(effects) <= self.allowed, "an effect without a grant"

    def _check_clients(self, events: list[Any]) -> None:
        last = {(kind, key): seq for seq, kind, _, key, _ in events}
        superseded = {
            seq for seq, kind, keep, key, _ in events if keep == "latest" and last[kind, key] != seq
        }
        for client in self.clients:
            assert client.numbers == sorted(set(client.numbers)), "twice, or out of order"
            missing = set(range(client.first + 1, len(events) + 1)) - set(client.numbers)
            assert missing <= superseded, f"never seen: {sorted(missing - superseded)}"

    async def _check_texts(self) -> None:
        for session in SESSIONS:
            stored = {m.id: m.text for m in await self.bench.messages(session)}
            for client in self.clients:
                shown = {k: v for k, v in client.texts.items() if k in stored}
                assert shown == {k: stored[k] for k in shown}


async def _nothing(tx: Tx) -> None:
    """A commit that comes after all that was asked for before."""


async def _crash_mark() -> None:
    """A mark for the driver."""


def _decode(body: bytes) -> Any:
    return msgspec.json.decode(body, type=RunComplete)


TestRoom = Room.TestCase
TestRoom.settings = settings(
    max_examples=2000 if LONG else 200,
    stateful_step_count=100 if LONG else 50,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
    database=None,
)
