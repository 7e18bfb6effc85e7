"""The people of a simulated world: each has a client that prompts, cancels, answers, leaves, freezes and comes back.

A person writes down in the `Book` what was asked of the server and what was answered, and when. What was asked but never
answered may have happened or not.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec
from tests.faults.sim.network import ClientEnd, Connection, Cut
from tests.faults.sim.server import Life, Server
from tests.faults.sim.world import World

from bullpen.client.stream import SILENCE_S, FrameParser, Place, decode_event
from bullpen.schema.events import RunComplete
from bullpen.workspace.claims import CREATE_HOLD_S, DETACH_GRACE_S

ANSWER_S = 60.0
"""How long a person waits for an answer, as the product's client does."""

FOREVER = float("inf")


@dataclass(slots=True)
class Asked:
    """Something asked of the server. `answered_at` is infinite while, or because, no answer came."""

    what: str
    session: str
    asked_at: float
    run_id: str = ""
    text: str = ""
    key: str = ""
    answered_at: float = FOREVER
    refused: bool = False


@dataclass(slots=True)
class Covered:
    """What an answered cancel must have ended, as it was stored when the answer came."""

    states: dict[str, str]
    messages: dict[str, bytes]


@dataclass(slots=True)
class Looked(Covered):
    """How a session stands, by run: whether it was begun, and its prompt."""

    begun: dict[str, bool]
    texts: dict[str, str]


@dataclass(slots=True)
class Claim:
    """A time in which a client surely held the workspace, in one life of the server."""

    life: Life
    begins: float
    ends: float
    stream: Connection | None = None
    """Whose loss begins the last part of it."""

    @property
    def until(self) -> float:
        lost_at = None if self.stream is None else self.stream.lost_at
        return self.ends if lost_at is None else min(self.ends, lost_at + DETACH_GRACE_S)


@dataclass
class Book:
    prompts: list[Asked] = field(default_factory=list)
    stops: list[Asked] = field(default_factory=list)
    """Cancels and whatever else was asked that may end a prompt before it is done."""
    claims: list[Claim] = field(default_factory=list)
    ended: dict[str, float] = field(default_factory=dict)
    """When the end of a run was first seen."""
    covered: list[Covered] = field(default_factory=list)
    answers: dict[str, list[str]] = field(default_factory=dict)
    """Which answers to an ask were said to have settled it."""
    wrong: list[str] = field(default_factory=list)


class Reply(msgspec.Struct):
    status: int
    body: bytes

    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Stream:
    """One open event stream of a person."""

    def __init__(self, end: ClientEnd, life: Life) -> None:
        self.end = end
        self.life = life
        self.task: asyncio.Task[None] | None = None
        self.frozen_until = 0.0
        self.released = False
        self.opened = asyncio.Event()


class Person:
    """One client, as careless and as unlucky as the seed makes it."""

    def __init__(
        self,
        world: World,
        server: Server,
        book: Book,
        name: str,
        *,
        outlive: bool,
        look: Callable[[str], Looked],
    ) -> None:
        self.world = world
        self.server = server
        self.book = book
        self.name = name
        self.id = f"00000000-0000-4000-8000-{ord(name[0]):012d}"
        self.outlive = outlive
        self.deltas = world.chance(50)
        self.workspace = ""
        self.stream: Stream | None = None
        self.cursor = ""
        self.first = 0
        self.numbers: list[int] = []
        self.resyncs = 0
        self.longest_gap_s = 0.0
        self.careful = False
        self.sessions: list[str] = []
        self._look = look
        self._claims: list[Claim] = []
        self._count = 0

    def tell(self, what: str) -> None:
        self.world.tell(self.name, what)

    # Calls

    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        """Raises `Cut` when no answer came."""
        life, what = self.server.life, path.replace(self.workspace or "none", "W").partition("?")[0]
        end = self.server.connect()
        if not self.careful and self.world.chance(5):
            self.world.loop.call_later(self.world.moment(), end.cut)
        content = b"" if body is None else json.dumps(body).encode()
        lines = [
            f"{method} {path} HTTP/1.1",
            "Host: bullpen",
            f"Content-Length: {len(content)}",
            f"Bullpen-Client-Id: {self.id}",
        ]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        if content:
            lines.append("Content-Type: application/json")
        try:
            end.write("\r\n".join(lines).encode() + b"\r\n\r\n" + content)
            async with asyncio.timeout(ANSWER_S):
                status, _, answer = await read_reply(end)
                reply = Reply(status, answer)
        except TimeoutError as exc:
            raise Cut from exc
        finally:
            end.cut()
        self.tell(f"{method} {what} {reply.status}")
        if reply.status == 404 and b"workspace" in reply.body:
            self._check_claim(life)
            self.workspace = ""
        return reply

    async def below(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        return await self.call(method, f"/v1/workspaces/{self.workspace or 'none'}{path}", body, **headers)

    def _check_claim(self, life: Life | None) -> None:
        """R-29, R-35: a workspace on which this client had a claim all the time was not found."""
        if not self.workspace or life is None or life.is_over or life.stop.is_set():
            return
        until = max((claim.until for claim in self._claims if claim.life is life), default=0.0)
        if self.world.now < until:
            self.book.wrong.append(f"R-29: {self.name} lost a workspace that it held until {until}")

    def _claim(self, claim: Claim) -> None:
        self._claims.append(claim)
        self.book.claims.append(claim)

    def _shorten_claims(self, ends: float) -> None:
        for claim in self._claims:
            claim.ends = min(claim.ends, ends)

    async def join(self) -> bool:
        """Create the workspace, or join it."""
        life = self.server.life
        body = {
            "path": str(self.server.root),
            "client_id": self.id,
            "outlive": self.outlive,
            "client_name": self.name,
        }
        reply = await self.call("POST", "/v1/workspaces", body)
        if reply.status != 200:
            return False
        self.workspace = reply.json()["id"]
        # The hold began when the server answered, a moment ago.
        assert life is not None
        self._claim(Claim(life, self.world.now, self.world.now + CREATE_HOLD_S - 5.0))
        return True

    # The stream

    async def attach(self) -> None:
        """Open the stream behind the last event seen, and read it in the background."""
        if self.stream is not None or not self.workspace or self.server.life is None:
            return
        try:
            end, life = self.server.connect(), self.server.life
        except Cut:
            return
        self.stream = Stream(end, life)
        self.stream.task = self.world.loop.create_task(self._follow(self.stream))

    async def _follow(self, stream: Stream) -> None:
        try:
            await self._read(stream)
        except (Cut, TimeoutError) as exc:
            self.tell(f"stream broke: {type(exc).__name__}")
        else:
            self.tell("stream ended")
            if not stream.released and not stream.life.stop.is_set() and stream.opened.is_set():
                self.book.wrong.append(f"R-29: the stream of {self.name} was ended though nobody had left")
        finally:
            stream.end.cut()
            self.stream = None

    async def _read(self, stream: Stream) -> None:
        deltas = "&deltas=1" if self.deltas else ""
        head = [
            f"GET /v1/workspaces/{self.workspace}/events?client_id={self.id}{deltas} HTTP/1.1",
            "Host: bullpen",
            *([f"Last-Event-ID: {self.cursor}"] if self.cursor else []),
        ]
        # From now on a stream may begin and break, and the hold after it is the shorter one.
        self._shorten_claims(self.world.now + DETACH_GRACE_S)
        stream.end.write("\r\n".join(head).encode() + b"\r\n\r\n")
        async with asyncio.timeout(ANSWER_S):
            status, headers, rest = await _read_head(stream.end)
        if status != 200:
            self.tell(f"GET events {status}")
            self.workspace = ""
            return
        self.tell(f"attached behind {self.cursor or 'nothing'}")
        if not self.cursor:
            self.cursor = headers["bullpen-cursor"]
            self.first = Place.of(self.cursor).seq  # type: ignore[union-attr]  # It is one.
        stream.opened.set()
        if not stream.released:
            self._claim(Claim(stream.life, self.world.now, FOREVER, stream.end.connection))
        self.world.tally["streams"] += 1
        parser = FrameParser()
        while True:
            for frame in parser.feed(rest):
                self._take(frame)
            if (wait := stream.frozen_until - self.world.now) > 0:
                await asyncio.sleep(wait)
            heard_at, jumps = self.world.now, self.world.tally["stood still"]
            async with asyncio.timeout(SILENCE_S):
                rest = await stream.end.read()
            if not rest:
                return
            if stream.frozen_until < heard_at and jumps == self.world.tally["stood still"]:
                self.longest_gap_s = max(self.longest_gap_s, self.world.now - heard_at)

    def _take(self, frame: Any) -> None:
        event = decode_event(frame)
        assert event is not None, frame
        place = Place.of(event.id)
        assert place is not None
        if event.kind == "resync":
            self.resyncs += 1
            self.book.wrong.append(f"R-13: {self.name} had to read everything anew, and nothing was lost")
        if not place.volatile:
            self.tell(f"sees {event.id} {event.kind} {getattr(event.payload, 'run_id', '')}")
            self.numbers.append(place.seq)
            self.cursor = event.id
            if isinstance(event.payload, RunComplete):
                for run_id in (event.payload.run_id, *event.payload.run_ids):
                    self.book.ended.setdefault(run_id, self.world.now)
        else:
            self.tell(f"sees {event.id} {event.kind}")

    @property
    def is_following(self) -> bool:
        """Whether the stream is open, read, and not dead without anybody's knowing."""
        stream = self.stream
        return (
            stream is not None
            and stream.opened.is_set()
            and stream.frozen_until < self.world.now
            and stream.end.connection.vanished_at is None
            and stream.end.connection.lost_at is None
        )

    def drop(self) -> None:
        if self.stream is not None:
            self.stream.end.cut()

    def vanish(self) -> None:
        if self.stream is not None and self.stream.opened.is_set():
            self.world.tally["peers that vanished"] += 1
            self.stream.end.vanish()

    def freeze(self, seconds: float) -> None:
        """Longer, if it is frozen already: the sleeper does not look at the clock again."""
        if self.stream is not None:
            self.stream.frozen_until = max(self.stream.frozen_until, self.world.now + seconds)

    async def leave(self) -> None:
        """Say goodbye, then go."""
        stream = self.stream
        if stream is not None:
            stream.released = True
        self._shorten_claims(self.world.now)
        with suppress(Cut):
            await self.below("DELETE", f"?client_id={self.id}")
        self.workspace = ""
        if stream is not None:
            stream.end.cut()

    # What a person asks for

    async def begin(self) -> None:
        """Join and open the sessions everybody uses."""
        assert await self.join()
        for _ in range(2):
            self.sessions.append((await self.below("POST", "/sessions", {"title": "a talk"})).json()["id"])

    async def prompt(self, session: str) -> None:
        self._count += 1
        text = f"{self.name}{self._count}"
        own = self.world.chance(60)
        asked = Asked(
            "prompt",
            session,
            self.world.now,
            run_id=f"run-{text}" if own else "",
            text=text,
            key=f"key-{text}" if self.world.chance(50) else "",
        )
        self.book.prompts.append(asked)
        await self._send(asked)
        if asked.key and (asked.answered_at == FOREVER or self.world.chance(30)):
            await asyncio.sleep(self.world.rng.random() * 20)
            self.world.tally["retries with a key"] += 1
            with suppress(Cut):
                await self._send(asked)

    async def _send(self, asked: Asked) -> None:
        permissions = self.world.rng.choice(("ask", "ask", "allow", "deny"))
        body = {
            "session_id": asked.session,
            "prompt": asked.text,
            "run_id": asked.run_id if asked.run_id.startswith("run-") else "",
            "permissions": permissions,
        }
        headers = {"Idempotency_Key": asked.key} if asked.key else {}
        reply = await self.below("POST", "/agent", body, **headers)
        if reply.status == 202:
            given = reply.json()["run_id"]
            if asked.answered_at < FOREVER and given != asked.run_id:
                self.book.wrong.append(f"R-02: {asked.key} ran as {asked.run_id} and as {given}")
            asked.run_id = given
            asked.answered_at = min(asked.answered_at, self.world.now)
        else:
            asked.refused = asked.answered_at == FOREVER

    async def cancel(self, session: str, where: str) -> None:
        asked = Asked("cancel", session, self.world.now)
        accepted = [p.run_id for p in self.book.prompts if p.session == session and p.answered_at < FOREVER]
        before = self._look(session)
        self.book.stops.append(asked)
        reply = await self.below("POST", f"/agent/sessions/{session}/cancel")
        if reply.status != 200:
            return
        asked.answered_at = self.world.now
        found = self._look(session)
        self.book.covered.append(Covered({r: found.states.get(r, "lost") for r in accepted}, found.messages))
        dropped = reply.json()["dropped"] or ()
        for run_id, state in found.states.items():
            if state == "cancelled" and before.states.get(run_id) != "cancelled":
                how = (
                    where
                    if found.begun[run_id]
                    else "queued"
                    if found.texts[run_id] in dropped
                    else "before dispatch"
                )
                self.world.tally[f"cancel {how}"] += 1

    async def clear(self, session: str) -> None:
        self.book.stops.append(Asked("clear", session, self.world.now))
        await self.below("POST", f"/agent/sessions/{session}/prompts/clear")

    async def withdraw(self, session: str) -> None:
        reply = await self.below("GET", f"/agent/sessions/{session}/prompts")
        if reply.status == 200 and (waiting := reply.json()):
            self.book.stops.append(Asked("withdraw", session, self.world.now))
            await self.below("DELETE", f"/agent/sessions/{session}/prompts/{waiting[-1]['seq']}")

    async def summarize(self, session: str) -> None:
        await self.below("POST", f"/agent/sessions/{session}/summarize")

    async def answer(self) -> None:
        """Settle whatever waits for somebody."""
        reply = await self.below("GET", "/asks")
        if reply.status != 200:
            return
        asks = reply.json()
        for ask in asks["permissions"]:
            allow = self.world.chance(60)
            body = {
                "permission": {"id": ask["id"]},
                "action": "allow" if allow else "deny",
                "reason": "" if allow or self.world.chance(50) else "not so",
            }
            answered = await self.below("POST", "/permissions/grant", body)
            self._settled(ask["id"], answered)
        for batch in asks["questions"]:
            said: Any = {
                "batch_request_id": batch["id"],
                "responses": [{"request_id": "q", "fill_in_text": "yes"}],
            }
            answered = await self.below("POST", "/questions/answer", said)
            self._settled(batch["id"], answered)

    def _settled(self, ask: str, reply: Reply) -> None:
        if reply.status == 200 and reply.json()["resolved"]:
            self.book.answers.setdefault(ask, []).append(self.name)


async def _read_head(end: ClientEnd) -> tuple[int, dict[str, str], bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = await end.read()
        if not piece:
            raise Cut
        data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return int(first.split()[1]), headers, rest


async def read_reply(end: ClientEnd) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the one answer on a connection. Raises `Cut`."""
    status, headers, body = await _read_head(end)
    while len(body) < int(headers["content-length"]):
        piece = await end.read()
        if not piece:
            raise Cut
        body += piece
    return status, headers, body
