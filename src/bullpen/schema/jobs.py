"""Shell commands as clients see them: background jobs, what commands print while they run, and the walls around them."""

from __future__ import annotations

from bullpen.schema.wire import Wire


class Job(Wire, frozen=True, kw_only=True):
    """A background job. `exit_code` counts once it is not running; `limit` says which limit ended it. Times are seconds
    since the epoch."""

    id: str
    session_id: str
    command: str
    description: str = ""
    working_dir: str
    running: bool
    exit_code: int = 0
    limit: str = ""
    output_bytes: int = 0
    started_at: float
    ended_at: float = 0


class JobOutput(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """Both streams of a job as they came. `offset` is later than asked for where what lay between is not kept any more;
    go on from `next_offset`."""

    offset: int
    text: str
    next_offset: int
    total: int
    running: bool


class CommandOutput(Wire, frozen=True, kw_only=True):
    """What a command in the foreground has printed since the last of these; `offset` counts bytes. Of much at once only the
    end is shown, so an offset may be later than expected. The whole comes with the call's result.

    With a `command` it is a person's own, which has no call: `tool_call_id` tells it from others, and `deleted` says that it has
    ended and stands in the conversation."""

    session_id: str
    tool_call_id: str
    offset: int
    text: str
    command: str = ""


class SandboxState(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """Whether the agent's shell commands run in a sandbox. `mode` is `off`, `landlock` or `bubblewrap`; with `why` there is
    none to be had, and every command is refused for that reason."""

    mode: str = "off"
    network: bool = True
    why: str = ""
