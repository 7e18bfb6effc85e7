"""A session too large for memory opens by pages (R-19)."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.campaign import sized
from tests.conftest import Figure
from tests.journeys.server import Bullpen, Client, new_home

from bullpen.schema.message import BORN_FINISHED, Text, TextPart, ToolResult, ToolResultPart, new_message
from bullpen.store import messages
from bullpen.store.store import DATABASE_NAME, open_store
from bullpen.store.tx import Tx
from bullpen.system.clock import SystemClock

MESSAGES = sized(4_000, 100_000)
BODY_BYTES = 12_000
BATCH = 500
PAGE = 50
MOST_MIB = 64


@pytest.fixture
def bullpen() -> Iterator[Bullpen]:
    with new_home() as made:
        yield made.start()


async def fill(directory: Path, workspace: str, session: str) -> None:
    """Long outputs of tools, with a word from the model now and then."""
    output = "0123456789abcdef" * (BODY_BYTES // 16)

    async def insert(tx: Tx, numbers: range) -> None:
        for n in numbers:
            if n % 10:
                result = ToolResult(
                    tool_call_id=f"c{n}", name="bash", content=output, metadata="", is_error=False
                )
                message = new_message("tool", session, (ToolResultPart(data=result), BORN_FINISHED), n)
            else:
                said = TextPart(data=Text(text=f"message {n}"))
                message = new_message("user", session, (said, BORN_FINISHED), n)
            await messages.insert(tx, workspace, message)

    async with open_store(directory, clock=SystemClock(), attached=lambda w, s: 0) as store:
        for start in range(0, MESSAGES, BATCH):
            await store.write(functools.partial(insert, numbers=range(start, start + BATCH)), durable=False)


def memory_mib(bullpen: Bullpen, field: str) -> float:
    status = Path(f"/proc/{bullpen.process.pid}/status").read_text()
    found = re.search(rf"{field}:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) / 1024


def page(client: Client, session: str, before: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = client.ok(
        "GET", f"/sessions/{session}/messages?limit={PAGE}&before={before}"
    )
    return found


async def test_a_huge_session_opens_by_pages(bullpen: Bullpen, figure: Figure) -> None:
    project = bullpen.project({"say": "done"})
    client = bullpen.attach(project)
    session = client.session()
    assert bullpen.terminate() == 0
    await fill(bullpen.data, str(client.info["id"]), session)
    bullpen.restart()
    client = bullpen.attach(project)
    before_mib = memory_mib(bullpen, "VmRSS")
    began = time.monotonic()
    newest = page(client, session, "")
    first_s = time.monotonic() - began
    pages = [newest]
    for _ in range(9):
        pages.insert(0, page(client, session, str(pages[0][0]["id"])))
    seen = [message["created_at"] for found in pages for message in found]
    assert seen == list(range(MESSAGES - 10 * PAGE, MESSAGES))
    grown_mib = memory_mib(bullpen, "VmHWM") - before_mib
    assert grown_mib <= MOST_MIB
    size_mib = (bullpen.data / DATABASE_NAME).stat().st_size / (1 << 20)
    figure(
        "R-19",
        "GOLD",
        f"{MESSAGES:,} messages, {size_mib:,.0f} MiB: first page in {first_s * 1000:.0f} ms, "
        f"RSS +{grown_mib:.0f} MiB",
    )


def test_pages_end_where_the_session_begins(bullpen: Bullpen) -> None:
    client = bullpen.attach(bullpen.project({"say": "done"}))
    stream = client.stream()
    session = client.session()
    stream.completion(client.prompt(session, "hi"))
    everything = client.messages(session)
    assert page(client, session, "") == everything
    assert page(client, session, str(everything[1]["id"])) == everything[:1]
    assert page(client, session, str(everything[0]["id"])) == []
    assert page(client, session, "unknown") == []
    assert client.call("GET", f"/sessions/{session}/messages?limit=1001").status_code == 400
