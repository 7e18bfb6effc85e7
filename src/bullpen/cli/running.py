"""Running a command's asynchronous part, with its errors as they were raised."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio


def run_async(main: Callable[[], Awaitable[int]]) -> int:
    """Run `main` to its end. An error that task groups have wrapped comes out unwrapped."""
    try:
        return anyio.run(main)
    except BaseExceptionGroup as group:
        raise _innermost(group) from group


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
