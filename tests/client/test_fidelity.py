"""What a room shows is what the server has, after everything that can happen to a link."""

import os
import random
import signal

import anyio
import pytest
from tests.client.conftest import Home

from bullpen.client.updates import LinkChanged
from bullpen.client.workspace import Room, attach
from bullpen.schema.events import Event
from bullpen.schema.message import Message

pytestmark = pytest.mark.timeout(120)

SCRIPT = [
    {
        "when": "long",
        "think": "let me see " * 20,
        "say": " ".join(f"wörd{n}" for n in range(150)),
        "pace_ms": 4,
    },
    {"when": "tool", "say": "Looking.", "calls": [{"name": "ls", "input": {}}]},
    {"when": "tool", "say": "Looked.", "pace_ms": 5},
]


@pytest.fixture
def script(home: Home) -> None:
    provider = {
        "type": "scripted",
        "models": [{"id": "m", "name": "M"}],
        "provider_options": {"script": SCRIPT},
    }
    chosen = {"provider": "play", "model": "m"}
    home.configure({"providers": {"play": provider}, "models": {"large": chosen, "small": chosen}})


async def stored(room: Room, session_id: str) -> list[Message]:
    return (await room.call("GET", f"/sessions/{session_id}/messages")).read(list[Message])


@pytest.mark.usefixtures("script")
@pytest.mark.parametrize("seed", range(3))
async def test_two_rooms_agree_with_the_store_through_crashes(home: Home, seed: int) -> None:
    """One writes, one only watches; the server is killed at any moment of a turn. No event comes twice."""
    rng = random.Random(seed)
    async with (
        attach(home.project, env=home.env, name="ana") as ana,
        attach(home.project, env=home.env) as ben,
    ):
        session = await ana.new_session("talk")
        await ben.open(session.id)
        seen: list[str] = []
        updates = ben.updates()
        with anyio.fail_after(100):
            for round_ in range(4):
                runs = [await ana.prompt(f"{kind} {round_}", session=session.id) for kind in ("long", "tool")]
                if round_ % 2 == 0:
                    await anyio.sleep(rng.uniform(0, 0.8))
                    pid = home.pid()
                    assert pid
                    os.kill(pid, signal.SIGKILL)
                for run in runs:
                    ends = [await room.wait_for(run) for room in (ana, ben)]
                    assert ends[0] == ends[1]
                truth = await stored(ana, session.id)
                assert ana.messages(session.id) == truth
                assert ben.messages(session.id) == truth
    with anyio.move_on_after(0.1):
        async for update in updates:
            if isinstance(update, Event) and "." not in update.id:
                seen.append(update.id)
            elif isinstance(update, LinkChanged):
                assert update.state in {"connected", "reconnecting"}
    numbers = [int(event_id.rpartition("-")[2]) for event_id in seen]
    assert numbers == sorted(set(numbers))
