"""Sessions as a library, for a client: found everywhere, forked, rewound, thrown away and had back, sent and taken in.

async with attach(".") as room:
    fork = await room.library.fork(session, message_id)
"""

from __future__ import annotations

from urllib.parse import quote

from bullpen.client.http import Answer
from bullpen.client.link import Link, was_not_sent
from bullpen.client.shelf import Shelf
from bullpen.schema.library import (
    Fork,
    RewindPreview,
    RewindRequest,
    Rewound,
    TrashedSession,
)
from bullpen.schema.session import SearchHit, Session
from bullpen.schema.transfer import Imported, SessionDocument

DOCUMENT_S = 120.0
"""A document of many MiB takes its time on the way and in the store."""


class Library:
    """Of a `Room`; what it changes comes back as events, like everybody else's."""

    def __init__(self, link: Link) -> None:
        self._link = link

    @property
    def everywhere(self) -> Shelf:
        """The sessions of all workspaces that the server keeps."""
        return Shelf(self._link.server)

    async def search(self, words: str, *, limit: int = 20) -> list[SearchHit]:
        """Those of this workspace."""
        answer = await self._link.call("GET", f"/search?q={quote(words, safe='')}&limit={limit}")
        return answer.read(list[SearchHit])

    async def fork(self, session: str, message_id: str = "", *, title: str = "") -> Session:
        """A new session that begins like another: with all of it, or with all up to and including a message."""
        body = Fork(message_id=message_id, title=title)
        return (await self._once("POST", f"{_path(session)}/fork", body)).read(Session)

    async def preview_rewind(self, session: str, message_id: str) -> RewindPreview:
        """What going back to before a message would cut off and undo."""
        where = f"{_path(session)}/rewind?message_id={quote(message_id, safe='')}"
        return (await self._link.call("GET", where)).read(RewindPreview)

    async def rewind(
        self, session: str, message_id: str, *, files: bool = False, fingerprint: str = ""
    ) -> Rewound:
        """Go back to before a message, with `files` in the files as well. Raises `SessionBusy`, `UndoConflict`, and with a
        fingerprint `PreviewOutdated` when it would not be what was shown."""
        body = RewindRequest(message_id=message_id, files=files, fingerprint=fingerprint)
        return (await self._once("POST", f"{_path(session)}/rewind", body)).read(Rewound)

    async def trash(self) -> list[TrashedSession]:
        """What was deleted and can be had back, the latest first."""
        return (await self._link.call("GET", "/trash")).read(list[TrashedSession])

    async def restore(self, session: str) -> Session:
        """Have a deleted session back. Raises `NotFound`."""
        return (await self._once("POST", f"/trash/{quote(session, safe='')}/restore")).read(Session)

    async def forget(self, session: str) -> None:
        """Delete a session of the trash for good. Raises `NotFound`."""
        await self._once("DELETE", f"/trash/{quote(session, safe='')}")

    async def export(self, session: str, *, redact: bool = False) -> SessionDocument:
        """The session as one document; with `redact` without what looks like a secret."""
        where = f"{_path(session)}/export{'?redact=1' if redact else ''}"
        return (await self._link.call("GET", where, timeout_s=DOCUMENT_S)).read(SessionDocument)

    async def take_in(self, document: SessionDocument) -> Imported:
        """Make a session of a document. Raises `BadRequest` for one that contradicts itself."""
        answer = await self._link.call(
            "POST", "/sessions/import", document, timeout_s=DOCUMENT_S, may_repeat=was_not_sent
        )
        return answer.read(Imported)

    async def _once(self, method: str, path: str, body: object = None) -> Answer:
        return await self._link.call(method, path, body, may_repeat=was_not_sent)


def _path(session: str) -> str:
    return f"/sessions/{quote(session, safe='')}"
