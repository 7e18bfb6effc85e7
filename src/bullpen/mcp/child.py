"""A server that runs as a child process and speaks JSON, one message per line, on its standard streams.

It gets a process group of its own, and at the end the whole group goes, so that what the server itself started
does not stay behind. The end is bounded in time and cannot be cancelled half-way. What it writes to standard
error is read at all times, and the end of it is kept: there a server says why it does not work.

The library's own transport is not used: it hands on our environment, lets grandchildren live when the server
leaves by itself, and throws standard error away.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from asyncio.subprocess import PIPE, SubprocessStreamProtocol
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from bullpen.errors import ToolServerNotStarted

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.client import Transport
    from mcp.shared.message import SessionMessage

    Received = MemoryObjectSendStream[SessionMessage | Exception]

MAX_LINE_BYTES = 16 * 1024 * 1024
"""One message. A server that sends more is cut off before it fills the memory."""

STDERR_BYTES = 4096

LEAVE_S = 0.7
"""How long a server may take to leave when its input ends, and again after TERM: together with the rest this
stays below the 2 s that a person waits for a workspace to close."""

LOOK_S = 0.02
"""Nobody tells when the last process of a group is gone."""

KILL_S = 0.5
"""After KILL only the kernel is waited for."""

LAST_WORDS_S = 0.25
"""Between the end of the process and the end of its output. A grandchild may hold the pipe open for ever."""


class Child:
    """One run of a server. `streams` starts it and ends it; `story` tells how it went."""

    needs_auth = False

    def __init__(self, command: str, args: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> None:
        self._command = command
        self._args = args
        self._cwd = cwd
        self._env = env
        self._stderr = bytearray()
        self._silent = anyio.Event()
        self._heard = False
        self._left = False
        self._exit_code: int | None = None
        self._problem = ""

    def story(self) -> str:
        """How the server ended by itself, and its last words; empty when it is silent and runs."""
        parts = [self._problem or _ending(self._exit_code)]
        parts.append(self._stderr.decode("utf-8", "replace").strip())
        return ": ".join(part for part in parts if part)

    def streams(self) -> Transport:
        return self._streams()

    @asynccontextmanager
    async def _streams(
        self,
    ) -> AsyncIterator[
        tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]
    ]:
        # Not to be cancelled: a process between birth and the `try` below would be nobody's.
        with anyio.CancelScope(shield=True):
            process = await _start(self._executable(), self._args, self._cwd, self._env)
        to_session, received = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
        sent, from_session = anyio.create_memory_object_stream["SessionMessage"](0)
        try:
            async with to_session, received, sent, from_session, anyio.create_task_group() as tasks:
                try:
                    tasks.start_soon(self._read, process, to_session)
                    tasks.start_soon(self._write, process, from_session, to_session)
                    tasks.start_soon(self._listen, process)
                    tasks.start_soon(self._watch, process, to_session)
                    yield received, sent
                finally:
                    with anyio.CancelScope(shield=True):
                        await self._end(process)
                    tasks.cancel_scope.cancel()
        finally:
            process.transport.close()

    def _executable(self) -> str:
        path = self._env.get("PATH", os.defpath)
        wanted = str(self._cwd / self._command) if "/" in self._command else self._command
        found = shutil.which(wanted, path=path)
        if found is None:
            raise ToolServerNotStarted(f"command not found or not executable: {self._command}")
        return found

    async def _read(self, process: _Process, to_session: Received) -> None:
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        try:
            while line := await process.stdout.readline():
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    continue  # Some servers greet on standard output before they behave.
                self._heard = True
                await to_session.send(SessionMessage(message))
        except ValueError:
            self._problem = f"sent a message of more than {MAX_LINE_BYTES} bytes"
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # The session has ended first.
        except OSError:
            pass
        self._left = True
        to_session.close()

    async def _write(
        self, process: _Process, from_session: MemoryObjectReceiveStream[SessionMessage], to_session: Received
    ) -> None:
        try:
            async for sent in from_session:
                text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode("utf-8", "replace") + b"\n")
                await process.stdin.drain()
        except (OSError, RuntimeError):
            # It no longer reads, so it will not answer either. The second is how uvloop says it.
            to_session.close()

    async def _listen(self, process: _Process) -> None:
        while chunk := await process.stderr.read(STDERR_BYTES):
            self._stderr += chunk
            del self._stderr[:-STDERR_BYTES]
        self._silent.set()

    async def _watch(self, process: _Process, to_session: Received) -> None:
        await process.exited.wait()
        await anyio.sleep(LAST_WORDS_S)
        to_session.close()

    async def _end(self, process: _Process) -> None:
        """Ask, insist, and then kill whatever is left of the group."""
        by_itself = self._left or process.exited.is_set()
        with contextlib.suppress(OSError):
            process.stdin.close()
        with anyio.move_on_after(LEAVE_S if self._heard else LAST_WORDS_S):
            await process.exited.wait()
        if by_itself:
            # Later there would only be what we did to it.
            self._exit_code = process.transport.get_returncode()
            with anyio.move_on_after(LAST_WORDS_S):
                await self._silent.wait()
        process.signal(signal.SIGTERM)
        for _ in range(int(LEAVE_S / LOOK_S)):
            if not process.is_alive:
                break
            await anyio.sleep(LOOK_S)
        process.signal(signal.SIGKILL)
        with anyio.move_on_after(KILL_S):
            await process.exited.wait()


class _Process(SubprocessStreamProtocol):
    """Tells when the process itself has ended: asyncio's own wait also waits for the pipes, which others may hold."""

    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader
    transport: asyncio.SubprocessTransport

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=MAX_LINE_BYTES, loop=loop)
        self.exited = anyio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()

    @property
    def is_alive(self) -> bool:
        """Whether anything of the group is there."""
        return not self.exited.is_set() or self.signal(0)

    def signal(self, number: int) -> bool:
        try:
            os.killpg(self.transport.get_pid(), number)
        except (ProcessLookupError, PermissionError):
            return False
        return True


async def _start(executable: str, args: Sequence[str], cwd: Path, env: Mapping[str, str]) -> _Process:
    loop = asyncio.get_running_loop()
    try:
        transport, process = await loop.subprocess_exec(
            lambda: _Process(loop),
            executable,
            *args,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd=cwd,
            env=dict(env),
            start_new_session=True,
        )
    except (OSError, ValueError) as exc:
        why = exc.strerror if isinstance(exc, OSError) and exc.strerror else exc
        raise ToolServerNotStarted(f"{executable} could not be started in {cwd}: {why}") from exc
    process.transport = transport
    return process


def _ending(exit_code: int | None) -> str:
    if exit_code is None:
        return ""
    return f"ended with exit code {exit_code}" if exit_code >= 0 else f"was ended by signal {-exit_code}"
