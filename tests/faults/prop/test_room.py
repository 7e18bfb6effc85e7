"""Clients, prompts, cancels, asks, a model, time, stops and crashes in any order, against a few lines of bookkeeping.

Checked whatever happens:

* R-02  a prompt sent again with its key is the same run, and nothing happens twice;
* R-03  prompts of a session run in the order they were accepted;
* R-04  what was accepted before an answered cancel is over when the answer comes, and stays as it was;
* R-05  a cancel covers nothing else;
* R-06  every accepted prompt ends in exactly one `run_complete`, its own or the one that names it;
* R-07  no effect happens twice, and none without a grant;
* R-13  every client sees every durable event once and in order, across reconnects and crashes;
* R-14  what a client read when it came, and what it was told since, is what is stored;
* R-28  an ask is answered once, and everybody learns how;
* R-29  a workspace with clients stays open, and with `outlive` nobody's leaving ends a run.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.campaign import sized
from tests.conftest import Figure
from tests.engine.bench import answer_to
from tests.faults.prop.room import Client, Room, arguments, payload
from tests.faults.sim.checks import ENDED

from bullpen.broker import tail
from bullpen.errors import BullpenError, PromptNotFound, ProviderError
from bullpen.schema.api import NewPrompt, QuestionAnswer, QueueEdit
from bullpen.schema.asks import OpenAsks, QuestionResponse
from bullpen.schema.events import RunComplete
from bullpen.store import log

T = TypeVar("T")

PARTS = sized(2, 8)
RUNS = sized(80, 5_000)
STEPS = 50

MOST_LIVES = 5

sessions_ = st.integers(0, 1)
clients_ = st.integers(0, 2)
which_ = st.integers(0, 3)
TOOLS = ("act", "echo", "send", "hold", "linger", "wonder")

total: Counter[str] = Counter()
"""What all runs of this process did together."""


class Machine(RuleBasedStateMachine):
    """Each rule is one thing that somebody does; the engine works on in between."""

    room: Room

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.accepted: list[list[str]] = [[], []]
        """Run ids by session, in the order of acceptance."""
        self.keys: dict[str, str] = {}
        self.cancellable: set[str] = set()
        """Runs that somebody has given a reason to end as cancelled."""
        self.covered: dict[str, str] = {}
        """The state that a run had when a cancel that covers it was answered."""
        self.wins: Counter[str] = Counter()
        self.allowed: set[str] = set()
        self.background: list[asyncio.Task[Any]] = []

    @initialize(number=st.integers(0, 2**32), outlive=st.booleans())
    def begin(self, number: int, outlive: bool) -> None:
        self.room = Room(number, outlive=outlive)
        self.do(self.room.open)

    def do(self, work: Callable[[], Awaitable[T]]) -> T:
        return self.room.do(work)

    def teardown(self) -> None:
        if not hasattr(self, "room"):
            return
        try:
            self.do(self._run_out)
            self._check()
        finally:
            self.room.close()

    # People

    @rule(session=sessions_, own=st.booleans(), keyed=st.booleans())
    def prompt(self, session: int, own: bool, keyed: bool) -> None:
        self.do(lambda: self._prompt(session, own=own, keyed=keyed))

    @rule(session=sessions_, own=st.booleans(), many=st.integers(2, 4))
    def prompt_often(self, session: int, own: bool, many: int) -> None:
        """One after the other, so that a queue builds up."""

        async def work() -> None:
            for _ in range(many):
                await self._prompt(session, own=own, keyed=False)

        self.do(work)

    async def _prompt(self, session: int, *, own: bool, keyed: bool) -> str:
        self.count += 1
        text = f"p{self.count}"
        key = f"key-{text}" if keyed else ""
        given = await self._accept(session, text, run_id=f"run-{text}" if own else "", key=key)
        if keyed:
            self.keys[key] = given
        self.accepted[session].append(given)
        total["prompts"] += 1
        return given

    async def _accept(self, session: int, text: str, *, run_id: str, key: str) -> str:
        workspace = await self.room.workspace()
        body = NewPrompt(session_id=self.room.sessions[session], prompt=text, run_id=run_id)
        return (await workspace.accept(body, idempotency_key=key, author="", client="")).run_id

    @precondition(lambda self: self.keys)
    @rule(which=which_, session=sessions_, at_once=st.integers(1, 3))
    def prompt_again(self, which: int, session: int, at_once: int) -> None:
        """With a key that is known, and whatever else: the key alone decides."""
        key = sorted(self.keys)[which % len(self.keys)]
        total["retries"] += at_once

        async def work() -> list[str]:
            again = (self._accept(session, f"again {n}", run_id="", key=key) for n in range(at_once))
            return await asyncio.gather(*again)

        assert set(self.do(work)) == {self.keys[key]}, "a key was given to two runs"

    @rule(session=sessions_, words=st.integers(0, 6))
    def cancel(self, session: int, words: int) -> None:
        """While the model may be in the middle of a sentence."""
        before = list(self.accepted[session])
        self.cancellable.update(before)

        async def work() -> None:
            await asyncio.gather(self._cancel(session), self._talk(session, words))

        self.do(work)
        self._cover(before)

    @rule(session=sessions_, own=st.booleans())
    def prompt_and_cancel_at_once(self, session: int, own: bool) -> None:
        """Whoever is first: the prompt is cancelled or it is not, and what was there before it is."""
        before = list(self.accepted[session])
        self.cancellable.update(before)

        async def work() -> str:
            run_id, _ = await asyncio.gather(
                self._prompt(session, own=own, keyed=False), self._cancel(session)
            )
            return run_id

        self.cancellable.add(self.do(work))
        self._cover(before)

    async def _cancel(self, session: int) -> None:
        workspace = await self.room.workspace()
        answering = self.room.steps(session)
        await workspace.cancel(self.room.sessions[session])
        total["cancels"] += 1
        await asyncio.sleep(0.1)
        assert all(step.closed.is_set() for step in answering), "a cancel left the model talking"

    async def _talk(self, session: int, words: int) -> None:
        for _ in range(words):
            for step in self.room.steps(session):
                self.count += 1
                step.say(f"w{self.count} ")
            await asyncio.sleep(0.002)

    def _cover(self, runs: list[str]) -> None:
        states = self.room.states()
        for run_id in runs:
            assert states[run_id] in ENDED, f"a cancel left {run_id} {states[run_id]}"
            self.covered[run_id] = states[run_id]

    @rule(session=sessions_)
    def clear(self, session: int) -> None:
        self.cancellable.update(self.accepted[session])

        async def work() -> None:
            await (await self.room.workspace()).clear_queue(self.room.sessions[session])

        self.do(work)

    @rule(session=sessions_, withdraw=st.booleans())
    def change_the_last_that_waits(self, session: int, withdraw: bool) -> None:
        async def work() -> str:
            workspace, sid = await self.room.workspace(), self.room.sessions[session]
            listed = await workspace.queue(sid)
            if not listed:
                return ""
            last = listed[-1]
            try:
                if withdraw:
                    await workspace.withdraw(sid, last.seq)
                else:
                    await workspace.edit_queued(sid, last.seq, QueueEdit(prompt=f"{last.text} edited"))
            except PromptNotFound:
                return ""
            return last.run_id

        run_id = self.do(work)
        if withdraw and run_id:
            self.cancellable.add(run_id)

    @rule(session=sessions_)
    def summarize(self, session: int) -> None:
        async def summary() -> None:
            try:
                await (await self.room.workspace()).summarize(self.room.sessions[session])
            except BullpenError:
                total["summaries refused"] += 1

        async def work() -> None:
            self.background.append(asyncio.ensure_future(summary()))
            await asyncio.sleep(0.01)

        self.do(work)

    @rule(n=clients_)
    def attach(self, n: int) -> None:
        self.do(lambda: self.room.attach(self.room.clients[n]))

    @rule(n=clients_)
    def read(self, n: int) -> None:
        self.do(self.room.clients[n].read)

    @rule(n=clients_, last_events=st.integers(0, 9))
    def be_cut(self, n: int, last_events: int) -> None:
        """Cut off after some of what was on its way."""
        client = self.room.clients[n]

        async def work() -> None:
            await client.read(last_events)
            client.cut()

        self.do(work)

    @rule(n=clients_, for_good=st.booleans())
    def leave(self, n: int, for_good: bool) -> None:
        """Say goodbye, and come back as before, or as somebody who knows nothing."""
        client = self.room.clients[n]

        async def work() -> None:
            await client.read()
            workspaces = self.room.life.host.all()
            client.cut()
            for workspace in workspaces:
                workspace.claims.release(client.id)
            await asyncio.sleep(0)
            if for_good:
                client.cursor = None

        self.do(work)

    @rule(allow=st.booleans(), voices=st.integers(1, 3))
    def answer_an_ask(self, allow: bool, voices: int) -> None:
        self.do(lambda: self._answer(allow, voices))

    async def _answer(self, allow: bool, voices: int) -> None:
        workspace = await self.room.workspace()
        found = payload(OpenAsks, await workspace.asks())
        for request in found.permissions:
            if allow:
                self.allowed.add(request.params["name"])
            answer = answer_to(request, "allow" if allow else "deny")
            won = await asyncio.gather(*(workspace.grant(answer, f"voice {n}") for n in range(voices)))
            self.wins[request.id] += sum(won)
        for batch in found.questions:
            said = QuestionAnswer(
                batch_request_id=batch.id, responses=(QuestionResponse(request_id="q1", fill_in_text="yes"),)
            )
            won = await asyncio.gather(*(workspace.answer_questions(said, f"v{n}") for n in range(voices)))
            self.wins[batch.id] += sum(won)

    # The model and the tools

    @rule(which=which_, settled=st.booleans())
    def say(self, which: int, settled: bool) -> None:
        async def work() -> None:
            if steps := self.room.steps():
                self.count += 1
                steps[which % len(steps)].say(f"w{self.count} ")
                await asyncio.sleep(0.5 if settled else 0)

        self.do(work)

    @rule(which=which_)
    def finish(self, which: int) -> None:
        async def work() -> None:
            if steps := self.room.steps():
                steps[which % len(steps)].finish("the end")
                await asyncio.sleep(0.5)

        self.do(work)

    @rule(which=which_, retryable=st.booleans())
    def fail(self, which: int, retryable: bool) -> None:
        async def work() -> None:
            if steps := self.room.steps():
                error = ProviderError("down", retryable=retryable, retry_after_s=0 if retryable else None)
                steps[which % len(steps)].fail(error)
                await asyncio.sleep(0.5)

        self.do(work)

    @rule(which=which_, tools=st.lists(st.sampled_from(TOOLS), min_size=1, max_size=3), settled=st.booleans())
    def call(self, which: int, tools: list[str], settled: bool) -> None:
        async def work() -> None:
            if steps := self.room.steps():
                step = steps[which % len(steps)]
                for name in tools:
                    self.count += 1
                    step.call(f"c{self.count}", name, arguments(name, self.count))
                step.finish(reason="tool_use")
                await asyncio.sleep(0.5 if settled else 0)

        self.do(work)

    @rule()
    def let_tools_go_on(self) -> None:
        async def work() -> None:
            self.room.gate.open_all()
            await asyncio.sleep(0.1)

        self.do(work)

    # The world

    @rule(seconds=st.sampled_from((0.001, 0.01, 0.1, 3.0, 12.0, 35.0)))
    def pass_time(self, seconds: float) -> None:
        self.do(lambda: asyncio.sleep(seconds))

    @precondition(lambda self: len(self.room.server.lives) < MOST_LIVES)
    @rule()
    def crash(self) -> None:
        async def work() -> None:
            self.room.crash()
            while self.background:  # Whoever waited for an answer has lost the connection.
                self.background.pop().cancel()
            await self.room.start()

        total["crashes"] += 1
        self.do(work)

    @precondition(lambda self: len(self.room.server.lives) < MOST_LIVES)
    @rule()
    def stop(self) -> None:
        """The server leaves and comes back: what runs ends as cancelled, what waits is kept."""
        for runs, session in zip(self.accepted, self.room.sessions, strict=True):
            unfinished = self.room.unfinished(session)
            # The next one may begin before the server hears of it, and take those with it that may join.
            self.cancellable.update(
                unfinished if any(not r.startswith("run-") for r in runs) else unfinished[:2]
            )

        async def work() -> None:
            await self.room.stop()
            await self.room.start()

        total["stops"] += 1
        self.do(work)

    # Checks

    @invariant()
    def covered_runs_stay_as_they_were(self) -> None:
        if self.covered:
            states = self.room.states()
            assert {run_id: states[run_id] for run_id in self.covered} == self.covered

    @invariant()
    def a_workspace_with_clients_is_open(self) -> None:
        if not hasattr(self, "room"):
            return
        attached = any(client.is_attached for client in self.room.clients)
        assert self.room.is_open or not attached, "a workspace was closed under its clients"
        if not attached and not self.room.outlive:
            for runs in self.accepted:
                self.cancellable.update(runs)

    async def _run_out(self) -> None:
        """Everybody does what is left to do, until nothing runs and nobody waits."""
        for _ in range(500):
            await self.room.workspace()
            for step in list(self.room.steps()):
                step.finish("at last")
            self.room.gate.open_all()
            await self._answer(False, 1)
            await asyncio.sleep(1.0)
            if not self._left():
                break
        else:
            raise AssertionError(f"something never ended: {self._left()}")
        await asyncio.sleep(5.0)
        for client in self.room.clients:
            await self.room.attach(client)
            await client.read()

    def _left(self) -> list[str]:
        """What has not ended, and who waits: a slow disk may only take a summary when nothing else is left."""
        runs = [run_id for session in self.room.sessions for run_id in self.room.unfinished(session)]
        return runs + ["somebody waits for a summary" for task in self.background if not task.done()]

    def _check(self) -> None:
        for task in self.background:
            task.result()
        rows = self.room.records.rows
        events = rows("SELECT seq, kind, keep, key, body FROM events ORDER BY seq")
        assert [e[0] for e in events] == list(range(1, len(events) + 1))
        self._check_ends(events)
        self._check_order()
        self._check_asks(events)
        for client in self.room.clients:
            self._check_client(client, events)
        assert rows("SELECT id FROM messages WHERE finished = 0") == []
        assert rows("SELECT * FROM chunks") == []
        assert rows("SELECT * FROM intents") == []
        total["runs"] += 1
        total["events"] += sum(len(client.numbers) for client in self.room.clients)
        total["snapshots"] += sum(client.snapshots for client in self.room.clients)

    def _check_ends(self, events: list[Any]) -> None:
        ends: Counter[str] = Counter()
        cancelled: set[str] = set()
        for _, kind, _, _, body in events:
            if kind == "run_complete":
                done = payload(RunComplete, body)
                named = [done.run_id, *done.run_ids] if done.run_id else []
                ends.update(named)
                if done.cancelled:
                    cancelled.update(named)
        every = [run_id for runs in self.accepted for run_id in runs]
        assert ends == Counter(every), "not exactly one end for each"
        found = self.room.records.rows("SELECT run_id, state FROM prompts WHERE kind = 'prompt'")
        states = dict(found)
        assert sorted(run_id for run_id, _ in found) == sorted(every)
        assert set(states.values()) <= ENDED
        assert {r for r, s in states.items() if s == "cancelled"} == cancelled
        unasked = cancelled - self.cancellable
        assert not unasked, f"{unasked} were cancelled, and nobody had said so"

    def _check_order(self) -> None:
        for session in self.room.sessions:
            said = [m.text for m in self.room.messages(session) if m.role == "user"]
            numbers = [int(text.removeprefix("p").split()[0]) for text in said]
            assert numbers == sorted(set(numbers)), f"run in another order than accepted: {numbers}"

    def _check_asks(self, events: list[Any]) -> None:
        asked = {e[3] for e in events if e[1] in ("permission_request", "question_batch_request")}
        notices: Counter[str] = Counter()
        for _, kind, _, key, body in events:
            if kind == "permission_notification" and key in asked:
                notices[key] += body.count(b'"granted":true') + body.count(b'"denied":true')
            if kind == "question_batch_notification":
                notices[key] += 1
        assert notices == Counter(asked), "not exactly one outcome for each ask"
        assert not [ask for ask, wins in self.wins.items() if wins > 1], "an ask was answered twice"
        total["asks"] += len(asked)
        effects = Counter(self.room.gate.effects)
        assert not [name for name, times in effects.items() if times > 1], "an effect was repeated"
        assert set(effects) <= self.allowed, "an effect without a grant"

    def _check_client(self, client: Client, events: list[Any]) -> None:
        last = {(kind, key): seq for seq, kind, _, key, _ in events}
        replaced = {seq for seq, kind, keep, key, _ in events if keep == "latest" and last[kind, key] != seq}
        assert client.numbers == sorted(set(client.numbers)), "twice, or out of order"
        missing = set(range(client.first + 1, len(events) + 1)) - set(client.numbers)
        assert missing <= replaced, f"never seen: {sorted(missing - replaced)}"
        stored = {m.id: m.text for session in self.room.sessions for m in self.room.messages(session)}
        shown = {k: v for k, v in client.said.items() if k in stored}
        assert shown == stored, "what a client shows is not what is stored"


@pytest.mark.timeout(sized(300, 3600))
@pytest.mark.parametrize("part", range(PARTS))
def test_room(part: int, figure: Figure, monkeypatch: pytest.MonkeyPatch) -> None:
    # Servers that lose their disk complain at length.
    monkeypatch.setattr(logging.root.manager, "disable", logging.CRITICAL)
    # So little is kept in memory and read at once that fifty steps go far beyond it.
    monkeypatch.setattr(tail, "TAIL_BYTES", 2_000)
    monkeypatch.setattr(log, "PAGE", 10)
    total.clear()

    class Part(Machine):
        """A class of its own, for a seed of its own."""

    run_state_machine_as_test(
        seed(random.getrandbits(64) + part)(Part),
        settings=settings(
            max_examples=RUNS // PARTS,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
            database=None,
            # One bug at a time is enough, and its smallest form is worth waiting for only by hand.
            report_multiple_bugs=False,
        ),
    )
    missing = [
        what for what in ("retries", "cancels", "asks", "snapshots", "crashes", "stops") if not total[what]
    ]
    # Among so few runs one of them may be missing by chance.
    assert len(missing) <= sized(1, 0), missing
    runs = f"{total['runs']:,} runs"
    figure("R-02", "PROP", f"0 doubles in {total['retries']:,} retries, {runs}")
    figure("R-03", "PROP", f"0 inversions in {total['prompts']:,} prompts, {runs}")
    figure("R-04", "PROP", f"0 of {total['cancels']:,} cancels lost")
    figure("R-05", "PROP", f"0 of {total['prompts']:,} prompts ended without a reason")
    figure("R-06", "PROP", f"0 missing, 0 double ends of {total['prompts']:,} prompts")
    figure("R-13", "PROP", f"0 gaps, 0 doubles in {total['events']:,} events, {total['crashes']:,} crashes")
    figure("R-14", "PROP", f"0 missed behind {total['snapshots']:,} snapshots")
    figure("R-28", "PROP", f"0 of {total['asks']:,} asks settled twice or in silence")
    figure("R-29", "PROP", f"0 workspaces closed under their clients in {runs}")
