"""Renewing a login at AWS: a command is run, and a person may have to open the address that it prints."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import AsyncGenerator, Coroutine
from typing import Any, TypeVar

import anyio

from bullpen.config.settings import ProviderSettings
from bullpen.errors import ProviderError
from bullpen.providers.base import LoginBegun

T = TypeVar("T")

LIMIT_S = 300.0
"""A person has to confirm the login in a browser."""

KEPT_BYTES = 16 * 1024
"""How much is kept of what the command says: an address comes early, the reason for a failure last."""

_URL = re.compile(rb"https://[^\s\"'<>]+(?=[\s\"'<>])")


async def renew(settings: ProviderSettings) -> AsyncGenerator[LoginBegun, None]:
    """Run `aws_auth_refresh`, where and as a person of the workspace would run it; yields when it begins, and when it has named an
    address. Leaving early ends it. Raises `ProviderError`."""
    command = settings.aws_auth_refresh
    process = await asyncio.create_subprocess_exec(
        "/bin/sh",
        "-c",
        command,
        cwd=settings.directory or None,
        env=settings.command_environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    until = asyncio.get_running_loop().time() + LIMIT_S
    said, is_named = b"", False
    try:
        yield LoginBegun(command)
        # Not one limit around all: it would go on counting in whoever takes what is yielded.
        while piece := await _before(until, process.stdout.read(KEPT_BYTES)):
            said = (said + piece)[-KEPT_BYTES:]
            if not is_named and (found := _URL.search(said)):
                is_named = True
                yield LoginBegun(command, found[0].decode("utf-8", "replace"))
        status = await _before(until, process.wait())
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with anyio.CancelScope(shield=True):
                await process.wait()
    if status:
        last = said.decode("utf-8", "replace").strip().rpartition("\n")[2][:200]
        raise ProviderError(f"aws_auth_refresh failed with status {status}: {last}")


async def _before(until: float, work: Coroutine[Any, Any, T]) -> T:
    try:
        async with asyncio.timeout_at(until):
            return await work
    except TimeoutError:
        raise ProviderError(f"aws_auth_refresh was not done after {LIMIT_S:g} s") from None
