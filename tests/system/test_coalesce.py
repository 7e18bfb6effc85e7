from __future__ import annotations

import asyncio

from bullpen.system.coalesce import Coalesced


class Slow:
    """Work that the test finishes."""

    def __init__(self) -> None:
        self.begun = 0
        self.gate = asyncio.Semaphore(0)

    async def __call__(self) -> int:
        self.begun += 1
        mine = self.begun
        await self.gate.acquire()
        return mine


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_all_who_ask_before_it_begins_share_it() -> None:
    slow = Slow()
    ask = Coalesced(slow)
    first = [asyncio.ensure_future(ask()) for _ in range(10)]
    await settled()
    later = [asyncio.ensure_future(ask()) for _ in range(10)]
    await settled()
    assert slow.begun == 1
    slow.gate.release()
    slow.gate.release()
    assert await asyncio.gather(*first) == [1] * 10
    assert await asyncio.gather(*later) == [2] * 10


async def test_who_stops_waiting_stops_it_for_nobody() -> None:
    slow = Slow()
    ask = Coalesced(slow)
    gone, stays = asyncio.ensure_future(ask()), asyncio.ensure_future(ask())
    await settled()
    gone.cancel()
    slow.gate.release()
    assert await stays == 1
