"""A server process seen from outside: what it occupies, and what it counts of itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import httpx
from tests.journeys.server import Bullpen, until
from tests.journeys.stream import LIMIT_S

from bullpen.providers.direct import IDLE_S


class Size(NamedTuple):
    """What a process holds."""

    rss_kib: int
    files: int
    threads: int
    tasks: int
    streams: int
    subscriptions: int
    workspaces: int
    connections: int
    commands: int


def most_kib(bullpen: Bullpen) -> int:
    """The most memory it has ever had. What it takes again after having given it back is nothing new."""
    status = Path(f"/proc/{bullpen.process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


def stats(bullpen: Bullpen) -> tuple[dict[str, int], dict[str, int]]:
    """Counts and gauges of the running server."""
    answer: dict[str, Any] = bullpen.ok("GET", "/stats")
    return answer["counts"], answer["gauges"]


def counts(bullpen: Bullpen) -> dict[str, int]:
    return stats(bullpen)[0]


def size(bullpen: Bullpen, http: httpx.Client | None = None) -> Size:
    """What it holds now; asked over a connection of its own where others use the shared one."""
    gauges = stats(bullpen)[1] if http is None else http.get("/stats").json()["gauges"]
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{bullpen.process.pid}/status").read_text().splitlines()
    )
    return Size(
        rss_kib=int(status["VmRSS"].split()[0]),
        files=bullpen.open_files,
        threads=int(status["Threads"]),
        **{name: gauges[name] for name in Size._fields[3:]},
    )


def settled(bullpen: Bullpen, like: Size, what: str) -> Size:
    """Wait until the server holds no more than before, memory and threads apart; gives back what it holds then."""

    def look() -> Size | None:
        now = size(bullpen)
        held = (now.files, now.tasks, now.streams, now.subscriptions, now.connections, now.commands)
        before = (like.files, like.tasks, like.streams, like.subscriptions, like.connections, like.commands)
        return now if all(a <= b for a, b in zip(held, before, strict=True)) else None

    try:
        # Connections to models are kept for a while.
        found = until(look, what, limit_s=LIMIT_S + IDLE_S)
    except AssertionError:
        now = size(bullpen)
        raise AssertionError(f"{what}: it held {like}, now {now}; open: {_open(bullpen)}") from None
    assert found is not None
    return found


def _open(bullpen: Bullpen) -> list[str]:
    """What the descriptors of the process lead to."""
    return sorted(str(link.readlink()) for link in Path(f"/proc/{bullpen.process.pid}/fd").iterdir())
