"""Shell commands that a person typed. They run without asking, in the workspace's directory, and are part of
the conversation; while they run, everybody sees what they print. Neither the command nor its place in the conversation depends on the caller staying; whoever
cancels the session ends them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from anyio.abc import TaskGroup

from bullpen.schema.api import ShellDone
from bullpen.schema.events import Action
from bullpen.schema.jobs import CommandOutput
from bullpen.schema.message import BORN_FINISHED, ShellCommand, ShellCommandPart, new_message
from bullpen.store import messages, sessions
from bullpen.store.store import Store
from bullpen.store.tx import Tx
from bullpen.system.following import follow
from bullpen.system.jobs import Jobs, ShellJob
from bullpen.system.spool import Piece

CANCELLED = 130
"""As a shell says of a command that was ended by Ctrl+C."""


class Shell:
    def __init__(
        self,
        store: Store,
        workspace: str,
        root: Path,
        jobs: Jobs,
        *,
        announce: Callable[[CommandOutput, Action], None],
        tasks: TaskGroup,
    ) -> None:
        self._store = store
        self._workspace = workspace
        self._root = root
        self._jobs = jobs
        self._announce = announce
        self._tasks = tasks
        self._running: dict[ShellJob, str] = {}
        """With the session that each is a part of."""
        self._cancelled: set[ShellJob] = set()

    async def cancel(self, session_id: str) -> None:
        """End the commands of a session with all that they started; what they printed is kept."""
        for job in [job for job, session in self._running.items() if session == session_id]:
            self._cancelled.add(job)
            await job.kill()

    async def run(self, session_id: str, command: str) -> ShellDone:
        """Run to the end and store it, if the session exists."""
        done: asyncio.Future[ShellDone] = asyncio.get_running_loop().create_future()
        self._tasks.start_soon(self._carry_through, session_id, command, done)
        return await asyncio.shield(done)

    async def _carry_through(self, session_id: str, command: str, done: asyncio.Future[ShellDone]) -> None:
        try:
            job = await self._jobs.start(
                command, cwd=self._root, description="typed by a person", is_persons=True
            )
            self._running[job] = session_id
            live = _Live(session_id, job, self._announce)
            try:
                await follow(job, live.show)
            finally:
                del self._running[job]
            out, err = job.output()
            glue = "\n" if out and err and not out.endswith("\n") else ""
            exit_code = CANCELLED if job in self._cancelled else job.exit_code or 0
            self._cancelled.discard(job)
            ran = ShellDone(output=out + glue + err, exit_code=exit_code)
            try:
                await self._store.write(lambda tx: self._keep(tx, session_id, command, ran))
            finally:
                live.end()
        except Exception as exc:
            if not done.done():
                done.set_exception(exc)
        else:
            if not done.done():
                done.set_result(ran)
        finally:
            done.cancel()

    async def _keep(self, tx: Tx, session_id: str, command: str, ran: ShellDone) -> None:
        if not await sessions.exists(tx, self._workspace, session_id):
            return
        part = ShellCommandPart(
            data=ShellCommand(command=command, output=ran.output, exit_code=ran.exit_code)
        )
        message = new_message("user", session_id, (part, BORN_FINISHED), tx.now)
        await messages.insert(tx, self._workspace, message)


class _Live:
    """A command as everybody sees it while it runs. Of one that ends at once nothing is shown but its end in the
    conversation."""

    def __init__(
        self, session_id: str, job: ShellJob, announce: Callable[[CommandOutput, Action], None]
    ) -> None:
        self._session_id = session_id
        self._job = job
        self._announce = announce
        self._is_shown = False

    def show(self, piece: Piece) -> None:
        # Once also with nothing in it: a silent command is seen to run.
        if piece.text or not self._is_shown:
            self._tell(piece.offset, piece.text, "updated" if self._is_shown else "created")
            self._is_shown = True

    def end(self) -> None:
        if self._is_shown:
            self._tell(self._job.tape.total, "", "deleted")

    def _tell(self, offset: int, text: str, action: Action) -> None:
        told = CommandOutput(
            session_id=self._session_id,
            tool_call_id=f"shell-{self._job.id}",
            offset=offset,
            text=text,
            command=self._job.command,
        )
        self._announce(told, action)
