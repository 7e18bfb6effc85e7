"""A callback of the loop begins a task although sniffio is there."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest
import sniffio

from bullpen.system.callbacks import allow_tasks_from_callbacks, take_back


async def test_a_task_is_begun_from_a_callback(anyio_backend_name: str) -> None:
    assert sniffio.current_async_library() == anyio_backend_name
    allow_tasks_from_callbacks()
    begun = asyncio.Event()

    async def note() -> None:
        begun.set()

    async with anyio.create_task_group() as tasks:
        asyncio.get_running_loop().call_soon(tasks.start_soon, note)
        await begun.wait()
    take_back()


def test_when_all_have_taken_it_back_another_loop_can_run() -> None:
    async def nothing() -> int:
        return 7

    def ask_twice() -> None:
        for _ in range(2):
            allow_tasks_from_callbacks()
        take_back()
        with pytest.raises(RuntimeError, match="Already running"):
            anyio.run(nothing)
        take_back()
        assert anyio.run(nothing) == 7

    # A thread of its own: in this one a loop of another test may still be open.
    with ThreadPoolExecutor(max_workers=1) as thread:
        thread.submit(ask_twice).result()
