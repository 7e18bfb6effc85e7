"""How much of a command's output a model is shown."""

from __future__ import annotations

from bullpen.tools.base import Job

MAX_CHARACTERS = 30_000
"""For each stream: enough for a test report, and no more than a few percent of a context window."""


def report_of(job: Job) -> str:
    """Standard output, standard error, and the exit code where it says something."""
    stdout, stderr = job.output()
    parts = [shorten(stream.rstrip()) for stream in (stdout, stderr)]
    if job.exit_code:
        parts.append(f"Exit code {job.exit_code}")
    return "\n".join(part for part in parts if part)


def shorten(text: str, limit: int = MAX_CHARACTERS) -> str:
    """Beginning and end of a long text, with a note of how many lines are missing between them."""
    if len(text) <= limit:
        return text
    half = limit // 2
    lines = text.count("\n", half, len(text) - half) + 1
    return f"{text[:half]}\n\n… [{lines} lines cut] …\n\n{text[-half:]}"
