"""Programs that are spoken with: standard input and output are ours, and only what they write to standard error is kept."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio

from bullpen.system.processes import Process, Processes


class Conversation:
    """A program and the two ends of its streams. Made by `converse`; ended by `close`."""

    def __init__(
        self,
        process: Process,
        stdin: asyncio.StreamWriter,
        stdout: asyncio.StreamReader,
        source: asyncio.ReadTransport,
    ) -> None:
        self.process = process
        self.stdin = stdin
        self.stdout = stdout
        self._source = source

    async def close(self, *, grace_s: float) -> None:
        """End its input, let it leave by itself for a moment, then end it with all it started."""
        self.stdin.close()
        with anyio.move_on_after(grace_s):
            await self.process.wait()
        await self.process.kill()
        # Whatever still waits to be written or read goes with it.
        if self.stdin.transport.get_write_buffer_size():
            self.stdin.transport.abort()
        self._source.close()


async def converse(
    processes: Processes, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], limit_bytes: int
) -> Conversation:
    """Start a program to speak with, as `Processes.start` does. `limit_bytes` is read ahead of its output at most."""
    with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
        source, stdin = os.pipe()
        theirs.callback(os.close, source)
        ours.callback(os.close, stdin)
        stdout, sink = os.pipe()
        ours.callback(os.close, stdout)
        theirs.callback(os.close, sink)
        process = await processes.start(argv, cwd=cwd, env=env, stdin=source, stdout=sink)
        ours.pop_all()
    return await _connected(process, stdin, stdout, limit_bytes)


async def _connected(process: Process, stdin: int, stdout: int, limit_bytes: int) -> Conversation:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=limit_bytes, loop=loop)
    # Not to be cancelled: the pipes would be nobody's.
    with anyio.CancelScope(shield=True):
        source, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader, loop=loop), os.fdopen(stdout, "rb", buffering=0)
        )
        sink, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader(loop=loop), loop=loop),
            os.fdopen(stdin, "wb", buffering=0),
        )
    return Conversation(process, asyncio.StreamWriter(sink, protocol, None, loop), reader, source)
