"""The watchdog measures how long the loop takes to answer, and names who holds it."""

from __future__ import annotations

import asyncio
import time

import pytest

from bullpen.system import watchdog
from bullpen.system.tally import Tally
from bullpen.system.watchdog import Watchdog


def hold(caplog: pytest.LogCaptureFixture, *, until: int) -> None:
    """Do what nothing on the loop may do: block it, here until the watchdog has said so often enough."""
    ends = time.monotonic() + 20
    while len(caplog.records) < until and time.monotonic() < ends:
        time.sleep(0.005)


async def answers(tally: Tally, many: int) -> None:
    async with asyncio.timeout(20):
        while tally.gauges["loop_answers"]() < many:  # noqa: ASYNC110  # The watching thread tells nobody.
            await asyncio.sleep(0.005)


async def test_whoever_holds_the_loop_is_named(caplog: pytest.LogCaptureFixture) -> None:
    tally = Tally()
    with Watchdog(tally, period_s=0.01, stall_s=0.02):
        hold(caplog, until=1)
        await answers(tally, 1)
    (said,) = [record.getMessage() for record in caplog.records]
    assert "the event loop is held" in said
    assert f"{__file__}:" in said
    assert "in hold" in said
    assert tally["loop_stalls"] == 1
    assert tally.gauges["loop_longest_ms"]() >= 20


async def test_a_place_is_named_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    """The second stall of the same line is counted and not told again."""
    tally = Tally()
    with Watchdog(tally, period_s=0.001, stall_s=0.02):
        for stalls in (1, 2):
            while tally["loop_stalls"] < stalls:  # It is to be held.
                time.sleep(0.005)  # noqa: ASYNC251
            await answers(tally, stalls)
    assert len(caplog.records) == 1


async def test_a_free_loop_answers_and_nobody_is_named(caplog: pytest.LogCaptureFixture) -> None:
    tally = Tally()
    with Watchdog(tally, period_s=0.001, stall_s=20) as dog:
        await answers(tally, 20)
    assert caplog.records == []
    assert "loop_stalls" not in tally
    assert sum(dog.histogram) >= 20
    assert dog.percentile_ms(0.5) in watchdog.BOUNDS_MS


async def test_shares_are_read_from_the_histogram() -> None:
    dog = Watchdog(Tally())
    dog.histogram[0], dog.histogram[6] = 990, 10
    assert [dog.percentile_ms(share) for share in (0.5, 0.99, 0.999)] == [1, 1, 100]
