"""One seed from its beginning to its end.

First the unlucky part: three people work while the server crashes, the disk refuses, clocks jump and peers vanish. Then the
calm one: nothing more goes wrong, and everything that was begun has to end, for everybody to see.

Clocks: a *step* moves the wall clock by a day, either way. A *suspend* moves it by eight hours while the monotonic clock stands still,
as Linux has it; sockets on one machine survive that. *Standing still* is a process that was stopped, or a machine that was
paused from outside: both clocks are ahead when it goes on, and every timer of that time is due at once.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.faults.sim.agent import Agent
from tests.faults.sim.checks import DEAD_PEER_S, TRAVEL_S, Records, check
from tests.faults.sim.network import Cut
from tests.faults.sim.people import FOREVER, Asked, Book, Person
from tests.faults.sim.server import Server
from tests.faults.sim.world import World, seeded

NAMES = ("ana", "ben", "cho")
DAY_S = 24 * 3600.0
SUSPEND_S = 8 * 3600.0

CALM_S = 3600.0
"""By then everything has ended, or it never will. Nobody waits for it: the time is not real."""


@dataclass(frozen=True)
class Outcome:
    seed: int
    digest: str
    wrong: list[str]
    trace: list[str]
    tally: Counter[str]
    longest_gap_s: float
    slowest_notice_s: float
    """The longest time between a peer's vanishing and the server's knowing."""


def run_seed(seed: int, base: Path) -> Outcome:
    """Live through a seed in an empty directory, which is gone afterwards."""
    world = World(seed)
    story = Story(world, base)
    asyncio.set_event_loop(None)
    try:
        with seeded(world):
            world.loop.run_until_complete(story.run())
            world.loop.run_until_complete(world.loop.shutdown_asyncgens())
    except (AssertionError, Exception) as exc:
        story.wrong.append(f"{type(exc).__name__}: {exc}")
    finally:
        world.loop.close()
        story.records.close()
        shutil.rmtree(base, ignore_errors=True)
    wrong = story.wrong + [f"unexpected: {what}" for what in world.loop.unexpected]
    gap = max((p.longest_gap_s for p in story.people), default=0.0)
    return Outcome(seed, world.digest, wrong, world.trace, world.tally, gap, story.slowest_notice_s)


class Story:
    def __init__(self, world: World, base: Path) -> None:
        self.world = world
        self.agent = Agent(world)
        self.server = Server(world, base, self.agent)
        self.server.toolbox = self.agent.tools()
        self.records = Records(self.server.database)
        self.book = Book()
        self.outlive = world.chance(75)
        self.people = [
            Person(world, self.server, self.book, name, outlive=self.outlive, look=self.records.look)
            for name in NAMES
        ]
        self.wrong: list[str] = []
        self.slowest_notice_s = 0.0
        self._unlucky = True
        self._away_until = 0.0

    async def run(self) -> None:
        self.server.start()
        first = self.people[0]
        first.careful = True
        await first.begin()
        first.careful = False
        for person in self.people:
            person.sessions = first.sessions
        ends_at = self.world.now + self.world.rng.uniform(5, 30)
        lives = [self.world.loop.create_task(self._live(person, ends_at)) for person in self.people]
        await self._trouble(ends_at)
        self._calm_down()
        await asyncio.wait(lives)
        for life in lives:
            life.result()
        await self._finish()
        self._check_vanished()
        self.wrong += check(self.records, self.book, self.agent, self.people, outlive=self.outlive)
        self.world.tally["prompts"] += sum(p.answered_at < FOREVER for p in self.book.prompts)
        self.world.tally["events"] += sum(len(person.numbers) for person in self.people)
        self.world.tally["asks"] += len(self.records.rows("SELECT 1 FROM asks"))

    # The unlucky part

    async def _trouble(self, ends_at: float) -> None:
        """One misfortune after another."""
        world, rng = self.world, self.world.rng
        while (wait := min(rng.expovariate(1 / 8), ends_at - world.now)) > 0 and world.now + wait < ends_at:
            await asyncio.sleep(wait)
            kind = rng.choices(
                ("crash", "stop", "disk", "step", "suspend", "still", "cut", "alone"),
                (30, 8, 14, 16, 10, 4, 10, 14),
            )[0]
            if self.server.life is None:
                continue
            world.tell("fate", kind)
            match kind:
                case "crash":
                    world.tally["crashes"] += 1
                    self.server.crash()
                    await self._come_back()
                case "stop":
                    world.tally["stops"] += 1
                    stop = Asked("stop", "", world.now)
                    self.book.stops.append(stop)
                    await self.server.stop()
                    stop.answered_at = world.now
                    await self._come_back()
                case "disk":
                    world.tally["disk refusals"] += 1
                    self.server.life.disk.refuse(rng.random() * 5)
                case "step":
                    world.tally["clock steps"] += 1
                    world.clock.offset += rng.choice((DAY_S, -DAY_S))
                case "suspend":
                    world.tally["suspends"] += 1
                    world.clock.offset += SUSPEND_S
                case "still":
                    world.tally["stood still"] += 1
                    world.loop.pass_time(rng.choice((60.0, SUSPEND_S)))
                case "cut":
                    world.tally["cuts of all"] += 1
                    for person in self.people:
                        person.drop()
                case "alone":
                    world.tally["times with nobody there"] += 1
                    await self._all_leave()

    async def _all_leave(self) -> None:
        """Everybody goes, some without a word, for longer than any hold."""
        self._away_until = self.world.now + self.world.rng.uniform(12.0, 40.0)
        for person in self.people:
            if self.world.chance(50):
                with suppress(Cut):
                    await person.leave()
            else:
                person.drop()

    async def _come_back(self) -> None:
        """The server is away for a moment, or longer than holds last."""
        await asyncio.sleep(self.world.rng.choice((0.05, 0.5, 5.0, 15.0)))
        self.server.start()

    async def _live(self, person: Person, ends_at: float) -> None:
        while self._unlucky and self.world.now < ends_at:
            await asyncio.sleep(self.world.rng.expovariate(1 / 2))
            if self.world.now < self._away_until:
                continue
            with suppress(Cut):
                await self._act(person)

    async def _act(self, person: Person) -> None:
        rng = self.world.rng
        if not person.workspace and not await person.join():
            return
        if person.stream is None and self.world.chance(70):
            await person.attach()
        session = rng.choice(person.sessions)
        match rng.choices(
            (
                "prompt",
                "cancel",
                "answer",
                "drop",
                "freeze",
                "vanish",
                "leave",
                "clear",
                "withdraw",
                "summary",
            ),
            (34, 16, 16, 5, 3, 5, 4, 2, 3, 8),
        )[0]:
            case "prompt":
                for _ in range(rng.choice((1, 1, 2, 3))):
                    await person.prompt(session)
                if self.world.chance(20):
                    await asyncio.gather(person.prompt(session), self._cancel_at_once(person, session))
            case "cancel":
                # Mostly somebody who cancels has something to cancel.
                session = next(iter(self.records.busy()), session) if self.world.chance(90) else session
                await person.cancel(session, self.records.where(session, self.agent))
                if (
                    self.world.chance(15)
                    and self.server.life is not None
                    and not self.server.life.stop.is_set()
                ):
                    await self._crash_after_cancel()
            case "answer":
                await person.answer()
            case "drop":
                person.drop()
            case "freeze":
                person.freeze(rng.choice((5.0, 20.0, 60.0)))
            case "vanish":
                person.vanish()
            case "leave":
                self.world.tally["goodbyes"] += 1
                await person.leave()
            case "clear":
                await person.clear(session)
            case "withdraw":
                await person.withdraw(session)
            case "summary":
                await asyncio.gather(person.summarize(session), self._think_better_of_it(person, session))

    async def _cancel_at_once(self, person: Person, session: str) -> None:
        """Before the prompt is accepted, or before it has begun."""
        await asyncio.sleep(self.world.moment())
        await person.cancel(session, self.records.where(session, self.agent))

    async def _think_better_of_it(self, person: Person, session: str) -> None:
        if self.world.chance(50):
            await asyncio.sleep(self.world.rng.random())
            await person.cancel(session, self.records.where(session, self.agent))

    async def _crash_after_cancel(self) -> None:
        self.world.tally["cancel followed by a crash"] += 1
        self.server.crash()
        self.world.loop.call_later(0.5, self._start_again)

    def _start_again(self) -> None:
        if self.server.life is None:
            self.server.start()

    # The calm part

    def _calm_down(self) -> None:
        self.world.tell("fate", "calm")
        self._unlucky = False
        self.agent.calm.set()
        if self.server.life is not None:
            self.server.life.disk.relent()
        for person in self.people:
            person.careful = True

    async def _finish(self) -> None:
        """Everything ends; then everybody goes home and the workspace with them."""
        gives_up_at = self.world.now + CALM_S
        while self.records.busy() or not all(person.is_following for person in self.people):
            assert self.world.now < gives_up_at, "not everything ended"
            self._start_again()
            for person in self.people:
                with suppress(Cut):
                    if person.workspace or await person.join():
                        await person.attach()
            with suppress(Cut):
                if self.records.has_asks():
                    await self.people[0].answer()
            await asyncio.sleep(2.0)
        await asyncio.sleep(10.0)
        for person in self.people:
            await person.leave()
        await asyncio.sleep(60.0)
        life = self.server.life
        assert life is not None
        assert not life.host._hosted, "the workspace outlived everybody and all work"
        await self.server.stop()
        await self.server.settle()
        await asyncio.sleep(60.0)
        left = [t for t in asyncio.all_tasks(self.world.loop) if t is not asyncio.current_task()]
        assert not left, f"tasks left behind: {left}"

    def _check_vanished(self) -> None:
        """R-17: the server knows of a dead peer in time."""
        if self.world.tally["stood still"]:
            return
        for connection in (c for life in self.server.lives for c in life.connections):
            if connection.vanished_at is None or connection.lost_at is None:
                continue
            noticed_s = connection.lost_at - connection.vanished_at
            self.slowest_notice_s = max(self.slowest_notice_s, noticed_s)
            if noticed_s > DEAD_PEER_S + TRAVEL_S:
                self.wrong.append(f"R-17: a dead peer was known after {noticed_s:.1f} s")
