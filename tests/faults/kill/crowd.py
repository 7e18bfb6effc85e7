"""The clients of a campaign: threads that prompt, cancel, answer, rename and delete until the server is gone."""

from __future__ import annotations

import contextlib
import functools
import http.client
import json
import queue
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults.kill.ledger import Cancel, Ledger, Sent, Value
from tests.journeys.stream import LIMIT_S, Seen, Stream, connect

KINDS = ("say", "long", "tool", "ask", "stubborn", "write", "rewrite", "fail")

OLD = "as it was\n"
"""What stands in a file before it is written anew."""

WORDS = " ".join(f"word{n}" for n in range(60))


class Gone(Exception):
    """The server went away before it answered: whether it did what was asked, nobody knows."""


class Wire:
    """One client's connection. `socket` is the server's path."""

    def __init__(self, socket: str) -> None:
        self._path = socket
        self._connection: http.client.HTTPConnection | None = None

    def request(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any, str]:
        """Status, decoded answer and cursor. Raises `Gone`."""
        connection = self.send(method, path, body, headers)
        try:
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as exc:
            self.close()
            raise Gone from exc
        cursor = answer.headers.get("bullpen-cursor", "")
        is_json = answer.headers.get("content-type", "").startswith("application/json")
        return answer.status, json.loads(content) if content and is_json else None, cursor

    def send(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> http.client.HTTPConnection:
        """A request whose answer is left for later, or for nobody. Raises `Gone`."""
        try:
            connection = self._connection or self._dial()
            payload = None if body is None else json.dumps(body)
            fields = {"Content-Type": "application/json"} | (headers or {})
            connection.request(method, f"/v1{path}", payload, fields)
        except (OSError, http.client.HTTPException) as exc:
            self.close()
            raise Gone from exc
        return connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _dial(self) -> http.client.HTTPConnection:
        self._connection = http.client.HTTPConnection("localhost", timeout=LIMIT_S)
        self._connection.sock = connect(self._path)
        return self._connection


def steps_of(sent: Sent, effects: Path) -> list[dict[str, Any]]:
    """What the scripted model does when it reads this prompt."""
    mark = sent.mark
    touch = f"echo '{mark}' >> {effects}"
    call: dict[str, Any] = {"id": f"call-{mark}", "name": "bash"}
    match sent.kind:
        case "say":
            return [{"when": mark, "say": "Here you are."}]
        case "long":
            return [{"when": mark, "say": WORDS, "pace_ms": 3}]
        case "fail":
            return [{"when": mark, "say": "well", "fail": {"status": 400, "message": "no"}}]
        case "tool" | "ask":
            call["input"] = {"description": "count", "command": touch}
        case "stubborn":
            call["input"] = {"description": "stay", "command": f"{touch}; trap '' TERM; sleep 0.15"}
        case "write" | "rewrite":
            call["name"] = "write"
            call["input"] = {"file_path": file_of(mark), "content": content_of(mark)}
    look = {"id": f"look-{mark}", "name": "view", "input": {"file_path": file_of(mark)}}
    before = [{"when": mark, "calls": [look]}] if sent.kind == "rewrite" else []
    return [*before, {"when": mark, "say": "Let me see.", "calls": [call]}, {"when": mark, "say": "Done."}]


def file_of(mark: str) -> str:
    return f"out/{mark.strip('#')}.txt"


def content_of(mark: str) -> str:
    return f"{mark}\n" * 500


class Crowd:
    """Everybody who works with the server during one of its lives. `run` starts them, `join` waits for them."""

    def __init__(
        self, socket: str, url: str, ledger: Ledger, seed: str, life: int, stream: Stream | None
    ) -> None:
        self._socket, self._url = socket, url
        self._ledger = ledger
        self._seed, self._life = seed, life
        self._stream = stream
        self._threads: list[threading.Thread] = []
        self.enough = threading.Event()

    def run(self, sessions: list[str], planned: list[Sent], desk: str, notes: str) -> None:
        half = len(planned) // 2
        for n, plans in enumerate((planned[:half], planned[half:])):
            self._start(f"talker{n}", functools.partial(self._talk, plans))
        self._start("canceller", lambda wire, rng: self._cancel(wire, rng, sessions))
        self._start("clerk", lambda wire, rng: self._keep_the_desk(wire, rng, desk))
        summarize = f"{self._url}/agent/sessions/{notes}/summarize"
        self._start("reader", lambda wire, rng: wire.request("POST", summarize))
        if self._stream is not None:
            self._start("answerer", functools.partial(self._answer_asks, sessions[:2]))

    def join(self) -> None:
        self.enough.set()
        for thread in self._threads:
            thread.join(LIMIT_S)
            assert not thread.is_alive(), f"{thread.name} is stuck"

    @property
    def is_busy(self) -> bool:
        return any(t.is_alive() for t in self._threads if t.name != "answerer")

    def _start(self, name: str, work: Callable[[Wire, random.Random], object]) -> None:
        def live() -> None:
            wire = Wire(self._socket)
            try:
                work(wire, random.Random(f"{self._seed}/{self._life}/{name}"))
            except Gone:
                pass
            except Exception as exc:
                with self._ledger.lock:
                    self._ledger.wrong.append(f"{name}: {exc!r}")
            finally:
                wire.close()

        thread = threading.Thread(target=live, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    # Talkers

    def _talk(self, plans: list[Sent], wire: Wire, rng: random.Random) -> None:
        with self._ledger.lock:
            known = [p for p in self._ledger.prompts if p.key]
        unsure = [p for p in known if not p.acked and not p.refused]
        repeated = [p for p in known if p.acked]
        for sent in unsure + rng.sample(repeated, min(2, len(repeated))):
            # Whoever saw no answer sends again, and so does a client that forgot.
            with self._ledger.lock:
                self._ledger.retries += 1
            self.prompt(wire, sent)
        for sent in plans:
            self.prompt(wire, sent)
            if sent.key and rng.random() < 0.3:
                self.prompt(wire, sent)

    def prompt(self, wire: Wire, sent: Sent) -> None:
        self._ledger.send(sent)
        body = {
            "session_id": sent.session,
            "prompt": sent.text,
            "run_id": sent.run_id if sent.own_run_id else "",
            "permissions": "ask" if sent.kind == "ask" else "allow",
        }
        headers = {"Idempotency-Key": sent.key} if sent.key else {}
        status, answer, _ = wire.request("POST", f"{self._url}/agent", body, headers)
        self._ledger.answered(sent, status, answer["run_id"] if status == 202 else "")

    # The canceller

    def _cancel(self, wire: Wire, rng: random.Random, sessions: list[str]) -> None:
        """Half of the sessions are left in peace, so that something gets done."""
        for session in sessions[2:]:
            self.enough.wait(rng.uniform(0.0, 0.12))
            sent_at = time.monotonic()
            status, _, _ = wire.request("POST", f"{self._url}/agent/sessions/{session}/cancel")
            if status != 200:
                continue
            cancel = Cancel(session, sent_at, self._life)
            self._ledger.cancelled(cancel)
            _, _, cursor = wire.request("GET", f"{self._url}/agent/sessions/{session}")
            if cursor:
                cancel.seq = int(cursor.rpartition("-")[2])

    # The clerk

    def _keep_the_desk(self, wire: Wire, rng: random.Random, desk: str) -> None:
        name = f"{self._life}-{rng.randrange(1000)}"
        self._change_titles(wire, desk, name)
        self._change_queue(wire, desk, name)
        self._come_and_go(wire, name)
        value = bool(rng.randrange(2))
        self._ledger.compact.maybe.append(value)
        if wire.request("POST", f"{self._url}/config/compact", {"scope": 1, "enabled": value})[0] == 200:
            self._ledger.compact = Value(value)
            self._ledger.wrote()

    def _change_titles(self, wire: Wire, desk: str, name: str) -> None:
        title = self._ledger.titles[desk]
        for wish in (f"Desk {name}", f"Desk {name} again"):
            title.maybe.append(wish)
            if wire.request("PUT", f"{self._url}/sessions/{desk}", {"title": wish})[0] == 200:
                title.acked, title.maybe = wish, []
                self._ledger.wrote()

    def _change_queue(self, wire: Wire, desk: str, name: str) -> None:
        """Two prompts wait behind another; one is edited, the other withdrawn."""
        marks = [f"#desk-{name}-{n}#" for n in range(3)]
        prompts = [
            Sent(mark, "say", desk, f"do {mark}", own_run_id=True, run_id=f"run-{mark}") for mark in marks
        ]
        for sent in prompts:
            self.prompt(wire, sent)
        queue_url = f"{self._url}/agent/sessions/{desk}/prompts"
        _, waiting, _ = wire.request("GET", queue_url)
        for item in waiting if isinstance(waiting, list) else []:
            sent = next((p for p in prompts if p.run_id == item["run_id"]), prompts[0])
            if sent is prompts[1]:
                sent.wish = f"edited {sent.mark}"
                if wire.request("PATCH", f"{queue_url}/{item['seq']}", {"prompt": sent.wish})[0] == 200:
                    sent.text = sent.wish
                    self._ledger.wrote()
            elif sent is prompts[2]:
                sent.withdrawn = wire.request("DELETE", f"{queue_url}/{item['seq']}")[0] == 200
                if sent.withdrawn:
                    self._ledger.wrote()

    def _come_and_go(self, wire: Wire, name: str) -> None:
        for n in range(2):
            status, session, _ = wire.request("POST", f"{self._url}/sessions", {"title": f"Passing {name}"})
            if status != 200:
                return
            self._ledger.titles[session["id"]] = Value(f"Passing {name}")
            self._ledger.wrote()
            if n == 0:
                self._ledger.deleted[session["id"]] = False
                gone = wire.request("DELETE", f"{self._url}/sessions/{session['id']}")[0] == 200
                self._ledger.deleted[session["id"]] = gone
                if gone:
                    self._ledger.wrote()

    # The answerer

    def _answer_asks(self, calm: list[str], wire: Wire, rng: random.Random) -> None:
        """Whoever asks gets an answer; those in the calm sessions are asked for again the next time."""
        assert self._stream is not None
        for event in _asks_of(self._stream, self.enough):
            action = rng.choice(["allow", "deny"])
            if action == "allow" and event.data["session_id"] not in calm:
                action = "allow_session"
            body = {"permission": event.data, "action": action}
            status, answer, _ = wire.request("POST", f"{self._url}/permissions/grant", body)
            if status == 200 and answer["resolved"]:
                self._ledger.wrote()
                if action == "allow_session":
                    with self._ledger.lock:
                        self._ledger.grants.add((event.data["session_id"], "session"))


def _asks_of(stream: Stream, enough: threading.Event) -> Any:
    """The permission requests of a stream as they come, until it ends or there is enough."""
    asks: queue.SimpleQueue[Seen] = queue.SimpleQueue()
    stream.listen(lambda event: asks.put(event) if event.kind == "permission_request" else None)
    while not enough.is_set() and not stream.ended:
        with contextlib.suppress(queue.Empty):
            yield asks.get(timeout=0.05)
