"""Background jobs: which there are, what they print, and their end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from bullpen.errors import BullpenError
from bullpen.present.failure import one_line
from bullpen.present.inert import inert, inert_line
from bullpen.schema.events import Event
from bullpen.schema.jobs import Job
from bullpen.tui.dialogs.keyed import Confirm
from bullpen.tui.dialogs.picker import Picker
from bullpen.tui.dialogs.rows import Option
from bullpen.tui.dialogs.sessions import age
from bullpen.tui.dialogs.viewer import Viewer

if TYPE_CHECKING:
    from bullpen.client.workspace import Room

WAIT_S = 20
"""So long the server keeps a question for more output open."""


class Jobs(Picker):
    """All of the workspace, running ones first."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+x", "kill", "end the job", priority=True)]
    place = "Jobs"

    def __init__(self, room: Room) -> None:
        super().__init__(
            "Background jobs",
            hint="enter follow its output  ctrl+x end it  esc close",
            empty="no jobs: the agent starts them for what takes long",
        )
        self._room = room

    async def options(self) -> Sequence[Option]:
        jobs = sorted(await self._room.jobs(), key=lambda job: (not job.running, -job.started_at))
        return [_row(job) for job in jobs]

    def moved(self, event: Event) -> None:
        if isinstance(event.payload, Job):
            self.reload()

    async def pick(self, option: Option) -> None:
        await self.also(Output(self._room, option.key, option.label))

    def action_kill(self) -> None:
        if self.chosen is not None:
            self.attempt(self._kill(self.chosen))

    async def _kill(self, option: Option) -> None:
        if await self.also(Confirm("End this job?", option.label, yes="yes, with all that it started")):
            await self._room.kill_job(option.key)
            self.reload()


def _row(job: Job) -> Option:
    state = "runs" if job.running else job.limit or f"exit {job.exit_code}"
    mark = "●" if job.running else "✓" if not job.exit_code else "✗"
    since = age(job.started_at if job.running else job.ended_at)
    return Option(
        job.id, inert_line(job.command), right=f"{inert_line(state)} {since}", mark=mark, also=job.id
    )


class Output(Viewer):
    """What a job prints, while it prints it."""

    def __init__(self, room: Room, job_id: str, command: str) -> None:
        super().__init__(command, "")
        self._room = room
        self._job_id = job_id

    def on_mount(self) -> None:
        self.run_worker(self._follow())

    async def _follow(self) -> None:
        offset, is_running = 0, True
        try:
            while is_running or offset == 0:
                output = await self._room.job_output(self._job_id, offset, wait_s=WAIT_S if offset else 0)
                self.area.insert(inert(output.text), self.area.document.end)
                self.area.scroll_end(animate=False)
                if not output.running and output.next_offset >= output.total:
                    break
                offset, is_running = output.next_offset, True
            self.hint("it has ended  / find  c copy  esc close")
        except BullpenError as exc:
            self.hint(one_line(exc), is_wrong=True)
