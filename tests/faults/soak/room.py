"""Clients of all kinds, each a task: they prompt, cancel, answer, look, freeze, vanish and come back.

`Room.stay` runs them for a time. What they are told is checked: a run that was accepted ends exactly once for the
witness of its workspace, who reads everything; nobody ever gets a 5xx.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
import struct
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx

WISHES = (
    "say 20",
    "say 400",
    "drip 100",
    "run echo hi",
    "run seq 1 20000",
    "run sleep 30",
    "reset",
    "busy",
    "wrong",
    "hang",
)
"""What is prompted, by the model's own language (see `model`)."""

PATIENCE_S = 30.0


class Room:
    """All clients of one soak, and what became of what they asked for."""

    def __init__(self, path: str, projects: list[Path], seed: int) -> None:
        self.path = path
        self.projects = projects
        self.random = random.Random(seed)
        self.did: Counter[str] = Counter()
        self.accepted: dict[str, str] = {}
        """Run id → workspace."""
        self.ended: Counter[str] = Counter()
        self.latencies_s: list[float] = []
        """From an event's being sent by somebody to its arrival; here: from a prompt's 202 to its first event."""
        self._http = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(
                uds=path, verify=False, limits=httpx.Limits(max_connections=100)
            ),
            base_url="http://localhost/v1",
            timeout=PATIENCE_S,
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def call(self, method: str, target: str, body: Any = None) -> Any:
        """The decoded answer; None when the server said no, as it may to a client that meets another's traces."""
        answer = await self._http.request(method, target, json=body)
        assert answer.status_code < 500, f"{method} {target}: {answer.status_code} {answer.text[:300]}"
        self.did[f"{answer.status_code // 100}xx"] += 1
        return (answer.json() if answer.content else {}) if answer.is_success else None

    async def stay(self, clients: int, seconds: float) -> None:
        """Until the time is over and every client has left. Each workspace has a witness who stays to the end."""
        self._ends = time.monotonic() + seconds
        self._stopped = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            witnesses = [tasks.create_task(self._witness(project)) for project in self.projects]
            visitors = [tasks.create_task(self._visitor(n)) for n in range(clients - len(self.projects))]
            await asyncio.gather(*visitors)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_S):
                    while self.unended():  # noqa: ASYNC110  # The witnesses note ends in a table.
                        await asyncio.sleep(0.05)
            self._stopped.set()
            await asyncio.gather(*witnesses)

    def unended(self) -> set[str]:
        return self.accepted.keys() - self.ended.keys()

    @property
    def _is_over(self) -> bool:
        return time.monotonic() >= self._ends

    # Clients

    async def _witness(self, project: Path) -> None:
        """Keeps the workspace open and sees every run end."""
        client_id, workspace = await self._create(project)
        async with Stream.open(self.path, workspace, client_id) as stream:
            reading = asyncio.create_task(self._note_ends(stream))
            await self._stopped.wait()
            reading.cancel()
        await self.call("DELETE", f"/clients/{client_id}")

    async def _note_ends(self, stream: Stream) -> None:
        async for kind, payload in stream.events():
            if kind == "run_complete":
                self.ended[payload["run_id"]] += 1
                for run_id in payload.get("run_ids") or ():
                    if run_id != payload["run_id"]:
                        self.ended[run_id] += 1
            elif kind == "permission_request":
                action = self.random.choice(["allow", "deny", "allow_session"])
                grant = {"permission": payload, "action": action}
                await self.call("POST", f"/workspaces/{stream.workspace}/permissions/grant", grant)
                self.did["answered"] += 1

    async def _visitor(self, number: int) -> None:
        """Comes and goes, with another temper each time."""
        await asyncio.sleep(number * 0.01)
        while not self._is_over:
            project = self.random.choice(self.projects)
            client_id, workspace = await self._create(project)
            temper = self.random.choice([self._talk, self._talk, self._freeze, self._vanish, self._churn])
            self.did[temper.__name__.strip("_")] += 1
            await temper(client_id, workspace)
            await self.call("DELETE", f"/clients/{client_id}")

    async def _create(self, project: Path) -> tuple[str, str]:
        client_id = str(uuid.uuid4())
        made = await self.call("POST", "/workspaces", {"path": str(project), "client_id": client_id})
        return client_id, made["id"]

    async def _talk(self, client_id: str, workspace: str) -> None:
        """A few prompts, some of them cancelled, with an eye on the stream."""
        base = f"/workspaces/{workspace}"
        async with Stream.open(self.path, workspace, client_id, deltas=self.random.random() < 0.5) as stream:
            session = await self.call("POST", f"{base}/sessions", {"title": "Soak"})
            reading = asyncio.create_task(stream.drain())
            for _ in range(self.random.randint(1, 3)):
                await self._prompt(base, workspace, session["id"])
                await asyncio.sleep(self.random.random() * 0.3)
                await self.call("GET", f"{base}/sessions/{session['id']}/messages")
            # What hangs, sleeps or waits does not end by itself.
            await self.call("POST", f"{base}/agent/sessions/{session['id']}/cancel", {})
            self.did["cancelled"] += 1
            if self.random.random() < 0.3:
                await self.call("DELETE", f"{base}/sessions/{session['id']}")
            reading.cancel()

    async def _prompt(self, base: str, workspace: str, session_id: str) -> None:
        wish = f"{self.random.choice(WISHES)} #{uuid.uuid4()}"
        run_id = str(uuid.uuid4()) if self.random.random() < 0.7 else ""
        body = {"session_id": session_id, "prompt": wish, "run_id": run_id}
        accepted = await self.call("POST", f"{base}/agent", body)
        if accepted is not None:
            self.accepted[accepted["run_id"]] = workspace
            self.did["prompted"] += 1

    async def _freeze(self, client_id: str, workspace: str) -> None:
        """Opens a stream and takes nothing of it."""
        async with Stream.open(self.path, workspace, client_id, frozen=True):
            await asyncio.sleep(self.random.random() * 3)

    async def _vanish(self, client_id: str, workspace: str) -> None:
        """Opens some streams and connections and is gone without a word."""
        for _ in range(self.random.randint(1, 5)):
            async with Stream.open(self.path, workspace, client_id) as stream:
                stream.cut()

    async def _churn(self, client_id: str, workspace: str) -> None:
        """A workspace of its own that nobody else knows, opened, used a little and released."""
        project = self.projects[0].parent / f"churn{self.random.randint(0, 9)}"
        made = await self.call("POST", "/workspaces", {"path": str(project), "client_id": client_id})
        base = f"/workspaces/{made['id']}"
        await self.call("POST", f"{base}/sessions", {"title": "Churn"})
        await self.call("GET", f"{base}/config")
        await self.call("DELETE", f"{base}?client_id={client_id}")


class Stream:
    """One event stream on a bare connection."""

    def __init__(self, workspace: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.workspace = workspace
        self._reader = reader
        self._writer = writer

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls,
        path: str,
        workspace: str,
        client_id: str,
        *,
        deltas: bool = True,
        frozen: bool = False,
        after: str = "",
    ) -> AsyncIterator[Stream]:
        limit = 64 if frozen else 1 << 24
        reader, writer = await asyncio.open_unix_connection(path, limit=limit)
        target = f"/v1/workspaces/{workspace}/events?client_id={client_id}" + ("&deltas=1" if deltas else "")
        again = f"Last-Event-ID: {after}\r\n" if after else ""
        writer.write(f"GET {target} HTTP/1.1\r\nHost: a\r\n{again}\r\n".encode())
        try:
            if not frozen:
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.split()[1] in {b"200", b"404", b"409"}, head
            yield cls(workspace, reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def events(self) -> AsyncIterator[tuple[str, Any]]:
        async for _, kind, payload in self.numbered():
            yield kind, payload

    async def numbered(self) -> AsyncIterator[tuple[str, str, Any]]:
        """The events with their ids."""
        event_id = ""
        with contextlib.suppress(ConnectionError):
            while line := await self._reader.readline():
                if line.startswith(b"id: "):
                    event_id = line[4:].decode().strip()
                elif line.startswith(b"data: "):
                    envelope = json.loads(line[6:])
                    yield event_id, envelope["type"], envelope["payload"]["payload"]

    async def drain(self) -> None:
        with contextlib.suppress(ConnectionError):
            while await self._reader.read(65536):
                pass

    def cut(self) -> None:
        """Zero seconds to linger: what is unsent is thrown away."""
        sock: socket.socket = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()
