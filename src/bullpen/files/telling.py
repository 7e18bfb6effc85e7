"""What is told of changes and undos: a turn's in a line, what stays of it, and what the conversation reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from bullpen.files.reverting import Step, chains
from bullpen.schema.changes import TurnSummary
from bullpen.schema.message import BORN_FINISHED, Message, Text, TextPart, new_message
from bullpen.store import changes as rows
from bullpen.store.changes import Change, ChangeSet
from bullpen.store.tx import Tx

PROMPT_CHARS = 120
NOTED_PATHS = 20

PARTIAL = "some changes of a command may not be known, and stay"
SHARED = "commands of other sessions ran at the same time; some of this may be theirs"
UNKNOWN = "the server went down meanwhile; some of this may have been done since, by somebody else"


async def summary(tx: Tx, workspace: str, session: str, turn: int) -> TurnSummary:
    """What a turn changed, and what became of it."""
    sets = await rows.of_turn(tx, workspace, session, turn)
    own = [s for s in sets if s.kind in ("call", "unknown")]
    ends = {path: (chain[0], chain[-1]) for path, chain in chains(own).items()}
    net = [Change(path, first.before, last.after) for path, (first, last) in sorted(ends.items())]
    files = [change for change in net if not change.is_directory]
    state: Literal["changed", "partly", "undone", "forgotten"] = "changed"
    if all(s.state == "forgotten" for s in own):
        state = "forgotten"
    elif (left := chains(sets)) != chains(own):
        state = "partly" if left else "undone"
    return TurnSummary(
        turn=turn,
        session_id=own[0].session,
        inherited=own[0].session != session,
        prompt=await rows.asked(tx, workspace, turn, PROMPT_CHARS),
        created_at=own[0].at,
        created=sum(change.verb == "created" for change in files),
        modified=sum(change.verb == "modified" for change in files),
        deleted=sum(change.verb == "deleted" for change in files),
        paths=tuple(change.path for change in files[: rows.TOLD_PATHS]),
        more=max(0, len(files) - rows.TOLD_PATHS),
        state=state,
        partial=any(s.partial for s in own),
        shared=any(s.shared for s in own),
        unknown=any(s.kind == "unknown" for s in own),
    )


def notes(steps: Sequence[Step], sets: Sequence[ChangeSet]) -> tuple[str, ...]:
    """What an undo of these leaves as it is, or is not sure of."""
    uncovered = [step for step in steps if step.status == "uncovered"]
    said = []
    if uncovered:
        files = "1 file" if len(uncovered) == 1 else f"{len(uncovered)} files"
        said.append(f"{files} cannot be undone: {uncovered[0].path}, {uncovered[0].reason}")
    for is_so, note in (
        (any(s.partial or s.state == "forgotten" for s in sets), PARTIAL),
        (any(s.shared for s in sets), SHARED),
        (any(s.kind == "unknown" for s in sets), UNKNOWN),
    ):
        if is_so:
            said.append(note)
    return tuple(said)


def told(done: ChangeSet, session: str, now: int) -> Message:
    """What people and the model read in a conversation."""
    paths = [change.path for change in done.changes if not change.is_directory]
    named = ", ".join(paths[:NOTED_PATHS]) or "directories only"
    more = f" and {len(paths) - NOTED_PATHS} more" if len(paths) > NOTED_PATHS else ""
    verb, which = ("redid", "again as it left them") if done.kind == "redo" else ("undid", "as before it")
    text = (
        f"[I {verb} what an earlier turn changed in these files, so they are {which}: {named}{more}. "
        "Read them again before you change them.]"
    )
    return new_message(
        "user", session, (TextPart(data=Text(text=text)), BORN_FINISHED), now, author=done.author
    )
