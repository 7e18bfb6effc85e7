"""Finding the session a person means, and saying that one is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bullpen.errors import BadRequest
from bullpen.present.inert import inert_line
from bullpen.schema.session import Session

if TYPE_CHECKING:
    from bullpen.client.workspace import Room


def find_session(room: Room, wanted: str) -> Session:
    """The session whose id begins with `wanted`. Raises `BadRequest` when none or several do."""
    found = [s for s in room.sessions if s.id == wanted] or [
        s for s in room.sessions if s.id.startswith(wanted)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        several = ", ".join(f"{s.id[:12]} “{inert_line(s.title)}”" for s in found[:5])
        raise BadRequest(f"several sessions begin with {wanted}: {several}")
    recent = ", ".join(f"{s.id[:8]} “{inert_line(s.title)}”" for s in room.sessions[:5])
    there = f"; there are {recent}" if recent else "; there are none yet"
    raise BadRequest(f"no session {inert_line(wanted)} in this workspace{there}")


def deleted_line(room: Room, session: Session) -> str:
    """That it was deleted, and by whom if it was somebody else."""
    is_mine = session.deleted_by in {"", room.name, room.client_id}
    who = "" if is_mine else f" by {inert_line(session.deleted_by)}"
    return f"“{inert_line(session.title) or 'untitled'}” was deleted{who}"
