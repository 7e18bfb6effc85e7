"""Others at the same data: a second server, a dead one's lock, a program that holds the database (R-10)."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from tests.conftest import Figure
from tests.journeys.server import Bullpen, new_home

from bullpen.store.store import DATABASE_NAME


@pytest.fixture
def bullpen() -> Iterator[Bullpen]:
    with new_home() as made:
        yield made.start()


def test_a_database_that_somebody_holds_is_waited_for_and_then_refused(
    bullpen: Bullpen, figure: Figure
) -> None:
    client = bullpen.attach(bullpen.project({"say": "done"}))
    stream = client.stream()
    session = client.session()
    other = bullpen.project({"say": "done"})
    with closing(sqlite3.connect(bullpen.data / DATABASE_NAME, isolation_level=None)) as outside:
        outside.execute("BEGIN EXCLUSIVE")
        with ThreadPoolExecutor() as calls:
            prompt = calls.submit(client.call, "POST", "/agent", {"session_id": session, "prompt": "held"})
            create = calls.submit(_create, bullpen, str(other))
        assert client.messages(session) == [], "reads go on"
        outside.execute("ROLLBACK")
    refused = prompt.result()
    assert (refused.status_code, refused.json()["code"]) == (503, "store_busy")
    assert int(refused.headers["retry-after"]) > 0
    assert create.result() == 500, "503 would tell the reference client that the server goes away"
    stream.completion(client.prompt(session, "free"))
    assert bullpen.process.poll() is None
    figure("R-10", "VFS", "BEGIN EXCLUSIVE outside: 503 + Retry-After, 500 on create, reads go on, healed")


def _create(bullpen: Bullpen, path: str) -> int:
    with bullpen.connect() as http:
        body = {"path": path, "client_id": "00000000-0000-4000-8000-000000000001"}
        return http.post("/workspaces", json=body).status_code


def test_a_second_server_leaves_and_a_dead_one_is_replaced(bullpen: Bullpen, figure: Figure) -> None:
    began = time.monotonic()
    second = bullpen.run_to_end("--host", f"unix://{bullpen.home}/other.sock")
    left_s = time.monotonic() - began
    assert second.returncode == 1
    assert f"pid={bullpen.process.pid}" in second.stderr
    bullpen.kill()
    began = time.monotonic()
    bullpen.restart()
    took_s = time.monotonic() - began
    figure(
        "R-10",
        "VFS",
        f"a second server left in {left_s:.2f} s; a stale lock was taken over in {took_s:.2f} s",
    )
