"""Sessions as documents: read from the rows, and taken in as new ones."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import msgspec

from bullpen.errors import BadRequest
from bullpen.schema.message import Binary, BinaryPart, Message, Part
from bullpen.schema.session import Session
from bullpen.schema.transfer import (
    FORMAT,
    VERSION,
    ExportedFile,
    ExportedPin,
    ExportedPrompt,
    ExportedSession,
    Imported,
    SessionDocument,
)
from bullpen.schema.wire import encode
from bullpen.store import files, messages, pins, prompts, sessions, trash
from bullpen.store.tx import Tx


async def export(tx: Tx, workspace: str, root: Path, session_id: str) -> SessionDocument:
    """The session with all it holds; of a turn that runs, what is finished. Raises `SessionNotFound`."""
    session = await sessions.get(tx, workspace, session_id)
    said = [m for m in await messages.of_session(tx, workspace, session_id) if m.finish is not None]
    versions = await files.history(tx, workspace, session_id)
    inside = [(v, Path(v.path).relative_to(root)) for v in versions if Path(v.path).is_relative_to(root)]
    return SessionDocument(
        format=FORMAT,
        version=VERSION,
        exported_at=tx.now,
        session=ExportedSession(
            title=session.title,
            created_at=session.created_at,
            updated_at=session.updated_at,
            cost=session.cost,
            prompt_tokens=session.prompt_tokens,
            completion_tokens=session.completion_tokens,
            summary_message_id=session.summary_message_id,
            todos=session.todos,
        ),
        messages=tuple(_without_places(m, root) for m in said),
        pins=tuple(
            ExportedPin(text=p.text, author=p.author, created_at=p.created_at)
            for p in await pins.of_session(tx, workspace, session_id)
        ),
        files=tuple(
            ExportedFile(path=path.as_posix(), content=v.content, version=v.version, created_at=v.created_at)
            for v, path in inside
        ),
        queue=tuple(
            ExportedPrompt(text=p.text, author=p.author)
            for p in await prompts.waiting(tx, workspace, session_id)
            if p.kind == "prompt"
        ),
        left_out=len(versions) - len(inside),
    )


def _without_places(message: Message, root: Path) -> Message:
    """Where attached files lay on this machine is nobody else's business."""
    parts: tuple[Part, ...] = tuple(
        BinaryPart(data=msgspec.structs.replace(p.data, path=_place(p.data, root)))
        if isinstance(p, BinaryPart)
        else p
        for p in message.parts
    )
    return msgspec.structs.replace(message, parts=parts)


def _place(file: Binary, root: Path) -> str:
    path = Path(file.path)
    if path.is_relative_to(root):
        return path.relative_to(root).as_posix()
    return path.name if path.is_absolute() else file.path


def check(document: SessionDocument) -> None:
    """Raises `BadRequest` with the first thing that cannot be: what it is and where."""
    for wrong in _wrong(document):
        raise BadRequest(f"this session cannot be imported: {wrong}")


def _wrong(document: SessionDocument) -> Iterator[str]:
    known: set[str] = set()
    for n, message in enumerate(document.messages):
        if not message.role:
            yield f"messages[{n}] has no role"
        if message.finish is None:
            yield f"messages[{n}] has no finish part"
        if not message.id or message.id in known:
            yield f"messages[{n}].id is {'used twice' if message.id else 'empty'}"
        known.add(message.id)
    if document.session.summary_message_id and document.session.summary_message_id not in known:
        yield "session.summary_message_id names no message of it"
    versions: set[tuple[str, int]] = set()
    for n, file in enumerate(document.files):
        path = PurePosixPath(file.path)
        if path.is_absolute() or ".." in path.parts or "\0" in file.path or not path.parts:
            yield f"files[{n}].path does not lie in the workspace"
        if (str(path), file.version) in versions:
            yield f"files[{n}] is there twice"
        versions.add((str(path), file.version))


async def take_in(tx: Tx, workspace: str, root: Path, document: SessionDocument) -> Imported:
    """Make a session of a document that was checked; one of the same origin stays as it is."""
    if document.origin and (before := await _imported(tx, workspace, document.origin)):
        return Imported(session=before, is_new=False)
    made, said = str(uuid.uuid4()), document.session
    await sessions.create(tx, workspace, made, said.title)
    names = {message.id: str(uuid.uuid4()) for message in document.messages}
    for message in document.messages:
        own = msgspec.structs.replace(message, id=names[message.id], session_id=made)
        await messages.insert(tx, workspace, own)
    for pin in document.pins:
        await pins.add(tx, workspace, made, pin.text, pin.author)
    for file in document.files:
        path = str(root / PurePosixPath(file.path))
        await files.add(tx, workspace, made, path, file.content, file.version)
    await tx.run(
        """UPDATE sessions SET prompt_tokens = $3, completion_tokens = $4, summary_message = $5, cost = $6, todos = $7,
               created_at = $8, updated_at = $9 WHERE workspace = $1 AND id = $2""",
        workspace,
        made,
        said.prompt_tokens,
        said.completion_tokens,
        names.get(said.summary_message_id, ""),
        said.cost,
        encode(said.todos).decode(),
        said.created_at,
        said.updated_at,
    )
    if document.origin:
        await tx.run(
            """INSERT INTO imports (workspace, origin, session) VALUES ($1, $2, $3)
               ON CONFLICT (workspace, origin) DO UPDATE SET session = excluded.session""",
            workspace,
            document.origin,
            made,
        )
    return Imported(session=await sessions.changed(tx, workspace, made), is_new=True)


async def _imported(tx: Tx, workspace: str, origin: str) -> Session | None:
    """What was made of this origin before, also when it is in the trash."""
    row = await tx.row("SELECT session FROM imports WHERE workspace = $1 AND origin = $2", workspace, origin)
    for place in (workspace, trash.trash_of(workspace)):
        if row is not None and await sessions.exists(tx, place, row[0]):
            return await sessions.get(tx, place, row[0])
    return None
