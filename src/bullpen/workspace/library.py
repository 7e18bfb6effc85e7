"""What can be done with whole sessions of a workspace: fork, rewind, throw away and have back, export, import."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path

import msgspec

from bullpen.config.redact import text_without
from bullpen.engine.choices import Choices
from bullpen.errors import BadRequest
from bullpen.files.undoing import Undoing
from bullpen.schema.choices import SessionChoices
from bullpen.schema.library import CutMessage, Fork, RewindPreview, RewindRequest, Rewound, TrashedSession
from bullpen.schema.message import Message
from bullpen.schema.session import Session
from bullpen.schema.transfer import Imported, SessionDocument
from bullpen.schema.wire import INT64_MAX
from bullpen.store import choices, copying, messages, rewinds, sessions, transfer, trash
from bullpen.store.store import Store
from bullpen.store.tx import Tx
from bullpen.workspace.redacting import redacted

SHOWN_CHARS = 200
JOINED = "the turn that this message joined began before it: what it changed in files stays"


class Library:
    def __init__(
        self,
        store: Store,
        workspace: str,
        root: Path,
        *,
        chosen: Choices,
        undoing: Undoing,
        want: Callable[[Collection[str]], Awaitable[None]],
        secrets: Callable[[], Collection[str]],
    ) -> None:
        self._store = store
        self._workspace = workspace
        self._root = root
        self._choices = chosen
        self._undoing = undoing
        self._want = want
        self._secrets = secrets

    async def fork(self, session_id: str, body: Fork) -> Session:
        """A new session that begins like another. Raises `SessionNotFound`, and `BadRequest` for a message that is not in it
        or has not ended."""

        async def work(tx: Tx) -> tuple[Session, SessionChoices | None]:
            source = await sessions.get(tx, self._workspace, session_id)
            end, moment = await self._end_of_fork(tx, session_id, body.message_id)
            title = body.title.strip() or f"{source.title} (fork)"
            made = await copying.copy_session(
                tx, self._workspace, session_id, title=title, end=end, read_before=moment
            )
            said = await choices.get(tx, self._workspace, session_id)
            own = msgspec.structs.replace(said, session_id=made) if said else None
            session = await sessions.appear(tx, self._workspace, made)
            if own is not None:
                await choices.put(tx, self._workspace, own)
            return session, own

        session, _ = await self._store.write(work, then=lambda made: self._choices.adopt(made[1]))
        return session

    async def _end_of_fork(self, tx: Tx, session_id: str, message_id: str) -> tuple[int, float]:
        """The place of the first message that is left out, and the moment from which on nothing counts as read."""
        if not message_id:
            return INT64_MAX, math.inf
        found: Message | None = None
        for message in await messages.of_session(tx, self._workspace, session_id):
            if found is not None and message.role != "tool":
                return await messages.position_of(tx, message.id), message.created_at
            found = message if message.id == message_id else found
        if found is None or found.finish is None:
            raise BadRequest("message_id names no message of this session that has ended")
        return INT64_MAX, math.inf

    async def preview_rewind(self, session_id: str, message_id: str) -> RewindPreview:
        """What a rewind would do now. Nothing is changed."""
        cut, going = await self._store.read(
            lambda tx: rewinds.plan(tx, self._workspace, session_id, message_id)
        )
        undo, fingerprint = await self._undoing.preview_rewind(cut)
        return RewindPreview(
            session_id=session_id,
            message_id=message_id,
            text=going[0].text,
            messages=tuple(CutMessage(id=m.id, role=m.role, text=m.text[:SHOWN_CHARS]) for m in going),
            turns=cut.turns,
            undo=undo,
            fingerprint=fingerprint,
            notes=(JOINED,) if cut.joined else (),
        )

    async def rewind(self, session_id: str, body: RewindRequest, author: str) -> Rewound:
        """Go back to before a message; what is cut off is kept in the trash. Raises `SessionBusy`, `PreviewOutdated`,
        `UndoConflict`, `BadRequest`."""
        cut, going = await self._store.read(
            lambda tx: rewinds.plan(tx, self._workspace, session_id, body.message_id)
        )
        carried, undone = await self._undoing.rewind(
            cut, with_files=body.files, wanted=body.fingerprint, author=author
        )
        return Rewound(
            session=carried.session,
            text=going[0].text,
            removed=carried.removed,
            trash_id=carried.trash,
            undone=undone,
        )

    # Trash

    async def trash(self) -> list[TrashedSession]:
        return await self._store.read(lambda tx: trash.listed(tx, self._workspace))

    async def restore(self, session_id: str) -> Session:
        """Have a session back. Raises `NotFound`."""

        async def work(tx: Tx) -> tuple[Session, list[SessionChoices]]:
            session = await trash.restore(tx, self._workspace, session_id)
            said = [await choices.get(tx, self._workspace, session_id)]
            return session, [each for each in said if each is not None]

        def over(restored: tuple[Session, list[SessionChoices]]) -> None:
            for said in restored[1]:
                self._choices.adopt(said)

        session, _ = await self._store.write(work, then=over)
        await self._want(self._choices.providers())
        return session

    async def forget(self, session_id: str) -> None:
        """Delete a session of the trash for good. Raises `NotFound`."""
        await self._store.write(lambda tx: trash.forget(tx, self._workspace, session_id), reserved=True)

    # Documents

    async def export(self, session_id: str, *, redact: bool) -> SessionDocument:
        document = await self._store.read(
            lambda tx: transfer.export(tx, self._workspace, self._root, session_id)
        )
        if not redact:
            return document
        secrets = self._secrets()
        return redacted(document, lambda text: text_without(text, secrets))

    async def take_in(self, document: SessionDocument) -> Imported:
        """Raises `BadRequest` for a document that contradicts itself."""
        transfer.check(document)
        return await self._store.write(lambda tx: transfer.take_in(tx, self._workspace, self._root, document))
