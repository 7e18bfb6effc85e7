"""What went wrong, in one line for a person."""

from __future__ import annotations

from bullpen import errors
from bullpen.present.inert import inert_line


def one_line(error: errors.BullpenError) -> str:
    """What went wrong, and what the person can do, in one line that is safe to print."""
    said = inert_line(error.message)
    hint = _hint(error)
    return f"{said} – {hint}" if hint else said


def _hint(error: errors.BullpenError) -> str:
    match error:
        case errors.ServerUnreachable():
            return "'bullpen doctor' says more"
        case errors.Unauthorized():
            return "set BULLPEN_TOKEN to the server's token"
        case errors.AgentNotReady():
            return "no model is configured: run 'bullpen' and choose one"
        case errors.HostingWorkspaces():
            return "'bullpen ps' shows who is attached"
        case _:
            return ""
