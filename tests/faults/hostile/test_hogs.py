"""Commands that take all they can get, while somebody asks whether the server is well (R-24). All of them are bounded by themselves."""

from __future__ import annotations

import threading
import time

from tests.conftest import Figure
from tests.journeys.server import Bullpen
from tests.journeys.stream import parts_of
from tests.system.hogs import MEMORY, PROCESSES

LIMITS = {"processes": 64, "memory_mb": 128, "open_files": 64, "file_mb": 4}
HOGS = {
    "processes": PROCESSES["each starts two"],
    "sessions": PROCESSES["in sessions of their own"],
    "memory": MEMORY["in six processes"],
    "processor": "for i in 1 2 3 4 5 6 7 8; do timeout 2 sh -c 'while :; do :; done' & done; wait",
    "disk": "exec head -c 32M /dev/zero > file",
    "output": "timeout 2 yes",
    "descriptors": "exec python3 -c 'x = [open(\"/dev/null\") for _ in range(1000)]'",
}
TOLD = {
    "processes": "had more than 64 processes",
    "sessions": "had more than 64 processes",
    "memory": "took more than 128 MiB of memory",
    "processor": "",
    "disk": "wrote a file larger than 4 MiB",
    "output": "Exit code 124",
    "descriptors": "Too many open files",
}


class Pulse:
    """Asks for the server's health again and again, and notes how long each answer took."""

    def __init__(self, bullpen: Bullpen) -> None:
        self.took: list[float] = []
        self._over = threading.Event()
        self._client = bullpen.connect()
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> Pulse:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._client.close()

    def _ask(self) -> None:
        while not self._over.wait(0.02):
            begin = time.monotonic()
            assert self._client.get("/health").status_code == 200
            self.took.append(time.monotonic() - begin)


def test_the_server_answers_while_commands_take_all_they_can_get(home: Bullpen, figure: Figure) -> None:
    """Each is ended at its limit and the model reads why; nobody else notices."""
    script = [
        step
        for name, command in HOGS.items()
        for step in (
            {
                "when": name,
                "calls": [{"id": name, "name": "bash", "input": {"description": name, "command": command}}],
            },
            {"when": name, "say": "over"},
        )
    ]
    project = home.project(*script, options={"disable_default_providers": True, "command_limits": LIMITS})
    client = home.start().attach(project)
    stream, session_id = client.stream(), client.session()
    with Pulse(home) as pulse:
        for name in HOGS:
            stream.completion(client.prompt(session_id, name, permissions="allow"))
    told = {
        r["tool_call_id"]: r["content"]
        for m in client.messages(session_id)
        for r in parts_of(m, "tool_result")
    }
    assert {name: said in told[name] for name, said in TOLD.items()} == dict.fromkeys(TOLD, True)
    took = sorted(pulse.took)
    assert len(took) > 50
    p99_ms = 1000 * took[int(len(took) * 0.99)]
    figure(
        "R-24", "ATTK", f"{len(HOGS)} hogs: all held, /health answered {len(took)} times, p99 {p99_ms:.0f} ms"
    )
