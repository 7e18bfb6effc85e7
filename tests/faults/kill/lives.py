"""One home over many lives of its server: each begins, is worked with, and ends at once, wherever that hits.

After some lives everything is brought to rest and checked (`rest`); then new sessions begin, so that a check
never has to look further back than that.
"""

from __future__ import annotations

import itertools
import json
import random
import signal
import sqlite3
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

from tests.faults.kill.checker import Evidence, check
from tests.faults.kill.crowd import KINDS, OLD, Crowd, Gone, Wire, file_of, steps_of
from tests.faults.kill.ledger import Ledger, Sent, Value
from tests.journeys.server import Bullpen, config, until
from tests.journeys.stream import LIMIT_S, Seen, Stream

SESSIONS = 4
"""Two that are never cancelled and two that may be: few enough that prompts meet."""

AT_START = {"recovery-begun", "turn-recovering", "recovery-done", "queue-taken-up"}
"""These moments come by themselves after a crash in the middle of work."""

AT_STOP = {"stopping", "turns-stopped", "store-closing"}
"""And these only when the server is asked to leave."""


class Lives:
    def __init__(self, bullpen: Bullpen, seed: str) -> None:
        self.seed = seed
        self.deaths: Counter[str] = Counter()
        """How often it ended, and where."""
        self.totals: Counter[str] = Counter()
        self.accept_s: list[float] = []
        self.cancel_s: list[float] = []
        self._rng = random.Random(seed)
        self._bullpen = bullpen
        self._project: Path = bullpen.project({"say": "Hello."}, name="p")
        (self._project / "out").mkdir()
        self._client_id = str(uuid.uuid4())
        self._marks = itertools.count(1)
        self._life = 0
        self._last_id = ""
        bullpen.start()
        self._begin_generation()

    # A life

    def live(self, failpoint: str = "", *, stop: str = "") -> None:
        """One life, ended at the failpoint, by SIGTERM (`once`, `twice`), or by SIGKILL at a random moment."""
        if failpoint.partition("=")[0] in AT_START:
            # Late enough that something runs and something waits.
            self._work_and_die("prompt-accepted=kill@7")
        self._work_and_die(failpoint, stop)

    def _work_and_die(self, failpoint: str, stop: str = "") -> None:
        name = failpoint.partition("=")[0]
        self._bullpen.env["BULLPEN_FAILPOINTS"] = failpoint
        self._life += 1
        planned = self._plan()
        self._write_script()
        stream: Stream | None = None
        reached = name
        try:
            self._begin()
            stream = self._follow()
            crowd = Crowd(self._bullpen.socket, self._url, self._ledger, self.seed, self._life, stream)
            crowd.run(self._sessions, planned, self._desk, self._notes)
            try:
                reached = self._end(name, stop, crowd)
            finally:
                crowd.join()
        except Gone:
            # It did not live long enough to be worked with, which only a failpoint does.
            assert name, f"the server died by itself: {self._bullpen.log[-2000:]}"
        self._bury(stream)
        self.deaths[reached] += 1

    def _begin(self) -> None:
        """Start the server, unless it runs, and open the workspace. Raises `Gone` when it dies on the way."""
        if self._bullpen.process.poll() is None:
            self._bullpen.kill()
        self._bullpen.launch()
        wire = Wire(self._bullpen.socket)

        def is_there() -> bool:
            if self._bullpen.process.poll() is not None:
                raise Gone
            try:
                return wire.request("GET", "/workspaces")[0] == 200
            except Gone:
                return False

        try:
            until(is_there, "the server to answer")
            body = {"path": str(self._project), "client_id": self._client_id, "outlive": True}
            status, info, _ = wire.request("POST", "/workspaces", body)
            assert status == 200, info
            self._url = f"/workspaces/{info['id']}"
        finally:
            wire.close()

    def _end(self, name: str, stop: str, crowd: Crowd) -> str:
        """Wait for the death that was ordered, or bring another; gives back where it came."""
        process = self._bullpen.process
        if name in AT_STOP or not name:
            crowd.enough.wait(self._rng.uniform(0.0, 0.35))
        if stop or name in AT_STOP:
            process.send_signal(signal.SIGTERM)
        if stop == "twice":
            crowd.enough.wait(self._rng.uniform(0.0, 0.05))
            process.send_signal(signal.SIGTERM)
        if stop:
            assert process.wait(LIMIT_S) in (0, 128 + signal.SIGTERM, -signal.SIGTERM), self._bullpen.log[
                -2000:
            ]
            return f"stopped {stop}"
        if not name:
            process.kill()
            return "random"
        until(lambda: process.poll() is not None or self._has_nothing_to_do(crowd), f"the death at {name}")
        if process.poll() is None:
            process.kill()
            return f"not {name}"
        assert process.returncode == -signal.SIGKILL, self._bullpen.log[-2000:]
        return name

    def _has_nothing_to_do(self, crowd: Crowd) -> bool:
        """Whether everybody has done all that was planned: the failpoint will not be met any more."""
        if crowd.is_busy:
            return False
        wire = Wire(self._bullpen.socket)
        try:
            status, agent, _ = wire.request("GET", f"{self._url}/agent")
            return status == 200 and not agent["is_busy"]
        except Gone:
            return False
        finally:
            wire.close()

    def _bury(self, stream: Stream | None) -> None:
        self._bullpen.process.wait(LIMIT_S)
        if stream is not None:
            stream.wait_end()
            stream.cut()
            self._seen += stream.events
            self._last_id = next((e.id for e in reversed(stream.events)), self._last_id)
        self._heads[self._life] = self._stored_head()

    def _stored_head(self) -> int:
        """How far the log went; read from the file alone, which is left as the dead server left it."""
        path = self._bullpen.data / "bullpen.db"
        mode = "ro" if path.with_name("bullpen.db-wal").exists() else "rw"
        database = sqlite3.connect(f"file:{path}?mode={mode}", uri=True)
        try:
            rows = database.execute("SELECT head FROM workspaces").fetchall()
        finally:
            database.close()
        return int(rows[0][0])

    def _follow(self) -> Stream:
        try:
            target = f"/v1{self._url}/events?client_id={self._client_id}"
            return Stream(self._bullpen.socket, target, {"Last-Event-ID": self._last_id})
        except OSError as exc:
            raise Gone from exc

    # What is done in a life

    def _plan(self) -> list[Sent]:
        """Each kind in a turn of its own that nobody cancels, and some more anywhere."""
        calm = [
            self._new(kind, self._sessions[n % 2], own_run_id=True)
            for n, kind in enumerate(self._rng.sample(KINDS, len(KINDS)))
        ]
        others = [
            self._new(self._rng.choice(KINDS), session, own_run_id=self._rng.random() < 0.5)
            for session in self._rng.choices(self._sessions[1:], k=4)
        ]
        planned = [*others, *calm]
        self._rng.shuffle(planned)
        self._planned += planned
        return planned

    def _new(self, kind: str, session: str, *, own_run_id: bool) -> Sent:
        mark = f"#{next(self._marks)}#"
        if kind == "rewrite":
            (self._project / file_of(mark)).write_text(OLD)
        return Sent(
            mark,
            kind,
            session,
            f"please {mark}",
            key=f"key-{mark}" if self._rng.random() < 0.5 else "",
            own_run_id=own_run_id,
            run_id=f"run-{mark}" if own_run_id else "",
        )

    def _write_script(self) -> None:
        steps: list[dict[str, Any]] = []
        for sent in self._planned:
            steps += steps_of(sent, self._bullpen.home / "effects")
        for n in range(40):
            # The desk's prompts hold each other up for a moment, so that there is a queue.
            steps.append({"when": f"#desk-{self._life - n}-", "say": "One moment.", "delay_ms": 100})
        (self._project / "bullpen.json").write_text(json.dumps(config(steps)))

    # Rest

    def rest(self) -> None:
        """Start once more without any fault, let everything end, and check it all."""
        self._bullpen.env["BULLPEN_FAILPOINTS"] = ""
        self._begin()
        stream = self._follow()
        wire = Wire(self._bullpen.socket)
        try:
            for sent in self._ledger.prompts:
                if sent.key and not sent.acked and not sent.refused:
                    Crowd(self._bullpen.socket, self._url, self._ledger, "", 0, None).prompt(wire, sent)
            until(lambda: self._is_idle(wire), "everything to end")
            evidence = self._gather(wire, stream)
        finally:
            wire.close()
            stream.cut()
        wrong = check(evidence)
        assert not wrong, f"BULLPEN_SEED={self.seed}, life {self._life}: " + "\n  ".join(wrong[:20])
        self._count(evidence)
        self._begin_generation()

    def _is_idle(self, wire: Wire) -> bool:
        for permission in wire.request("GET", f"{self._url}/asks")[1]["permissions"]:
            body = {"permission": permission, "action": "allow"}
            wire.request("POST", f"{self._url}/permissions/grant", body)
        return not wire.request("GET", f"{self._url}/agent")[1]["is_busy"]

    def _gather(self, wire: Wire, stream: Stream) -> Evidence:
        def get(path: str) -> Any:
            status, answer, _ = wire.request("GET", self._url + path)
            assert status == 200, (path, answer)
            return answer

        sessions = {s["id"]: s["title"] for s in get("/sessions")}
        _, _, cursor = wire.request("GET", f"{self._url}/sessions")
        target = f"/v1{self._url}/events?client_id={self._client_id}"
        again = Stream(self._bullpen.socket, target, {"Last-Event-ID": self._start})
        try:
            for one, begin in ((stream, self._last_id), (again, self._start)):
                if begin.partition(".")[0] != cursor:
                    one.wait(lambda event: event.id == cursor, f"the log up to {cursor}")
        finally:
            again.cut()
        effects = self._bullpen.home / "effects"
        return Evidence(
            self._ledger,
            self._seen + stream.events,
            [event for event in again.events if event.is_durable],
            {s: get(f"/sessions/{s}/messages") for s in (*self._sessions, self._desk, self._notes)},
            sessions,
            {(g.get("session_id", ""), g["scope"]) for g in get("/permissions/grants")},
            get("/asks"),
            get("/config").get("options", {}).get("tui", {}).get("compact_mode", False),
            effects.read_text().split() if effects.exists() else [],
            self._project,
            self._heads,
        )

    def _count(self, e: Evidence) -> None:
        ledger = self._ledger
        self.accept_s += ledger.accept_s
        self.cancel_s += ledger.cancel_s
        self.totals["accepted"] += sum(p.acked for p in ledger.prompts)
        self.totals["retries"] += ledger.retries
        self.totals["cancels"] += len(ledger.cancels)
        self.totals["writes"] += ledger.writes + len(ledger.cancels) + sum(p.acked for p in ledger.prompts)
        self.totals["effects"] += len(e.effects)
        self.totals["events"] += len(e.replayed)
        for ends in e.ends.values():
            for _, end in ends:
                error = end.get("error", "")
                how = "cancelled" if end.get("cancelled") else "interrupted" if "stopped" in error else error
                self.totals[how or "done"] += 1
        contents = [
            r["content"] for ms in e.messages.values() for m in ms for r in _results(m) if r.get("is_error")
        ]
        self.totals["unknown"] += sum("outcome is unknown" in content for content in contents)

    def _begin_generation(self) -> None:
        """New sessions, and a ledger that knows of them alone. The server runs."""
        (self._bullpen.home / "effects").unlink(missing_ok=True)
        client = self._bullpen.attach(self._project, outlive=True)
        self._url = client.url
        compact = client.ok("GET", "/config").get("options", {}).get("tui", {}).get("compact_mode", False)
        self._ledger = Ledger()
        self._ledger.compact = Value(compact)
        self._sessions = [client.session(f"Talk {n}") for n in range(SESSIONS)]
        self._desk = client.session("Desk")
        self._notes = client.session("Notes")
        client.prompt(self._notes, "hello")
        until(lambda: not client.is_busy(self._notes), "something to summarise")
        for session in self._sessions:
            self._ledger.titles[session] = Value(f"Talk {self._sessions.index(session)}")
        self._ledger.titles[self._desk] = Value("Desk")
        self._start = client.call("GET", "/sessions").headers["bullpen-cursor"]
        self._last_id = self._start
        self._planned: list[Sent] = []
        self._seen: list[Seen] = []
        self._heads: dict[int, int] = {}


def _results(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [part["data"] for part in message["parts"] if part["type"] == "tool_result"]
