"""How much of a command's output a model is shown."""

from __future__ import annotations

from typing import NamedTuple

from bullpen.tools.base import Job

MAX_CHARACTERS = 30_000
"""For each stream: enough for a test report, and no more than a few percent of a context window."""


WALLED = (
    "It ran in a sandbox: it may write only in the workspace and in $TMPDIR, and it may have no network. If that is why it "
    "failed, say so instead of looking for a way around."
)


class Report(NamedTuple):
    text: str
    is_cut: bool


def report_of(job: Job) -> Report:
    """Standard output, standard error, and the exit code where it says something."""
    streams = [stream.rstrip() for stream in job.output()]
    parts = [shorten(stream) for stream in streams]
    is_cut = parts != streams
    if job.exit_code:
        parts.append(f"Exit code {job.exit_code}")
    if job.exit_code and job.is_walled:
        parts.append(WALLED)
    if job.broke_limit:
        parts.append(f"Ended with all that it had started, because it {job.broke_limit}.")
    return Report("\n".join(part for part in parts if part), is_cut)


def state_of(job: Job) -> str:
    """Whether it runs, or how it ended, in a few words."""
    if not job.done:
        return "running"
    return f"ended, exit code {job.exit_code}" + (
        f", because it {job.broke_limit}" if job.broke_limit else ""
    )


def shorten(text: str, limit: int = MAX_CHARACTERS) -> str:
    """Beginning and end of a long text, with a note of how many lines are missing between them."""
    if len(text) <= limit:
        return text
    half = limit // 2
    lines = text.count("\n", half, len(text) - half) + 1
    return f"{text[:half]}\n\n… [{lines} lines cut] …\n\n{text[-half:]}"
