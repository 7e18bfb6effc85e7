"""Slash commands about what goes with the next prompt: files of the server's, and files of this machine."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

import anyio

from bullpen.client.files import find_files, read_attachment
from bullpen.client.workspace import Room
from bullpen.errors import BadRequest
from bullpen.plain.view import View
from bullpen.present.inert import inert_line
from bullpen.schema.api import Attachment
from bullpen.schema.media import media_type

MAX_BYTES = 5 * 1024 * 1024
LISTED = 20
_LINES = re.compile(r"(.+):(\d+(?:-\d+)?)")


class Attaching:
    """What waits for the next prompt. Numbers mean what `/files` listed last."""

    def __init__(self, room: Room, view: View) -> None:
        self._room = room
        self._view = view
        self._waiting: list[Attachment] = []
        self._listed: list[str] = []
        self.all: dict[str, Callable[[str], Awaitable[None]]] = {
            "files": self._files,
            "attach": self._attach,
            "upload": self._upload,
            "detach": self._detach,
        }

    def taken(self) -> tuple[Attachment, ...]:
        """All that waits; it goes with one prompt."""
        taken, self._waiting = tuple(self._waiting), []
        return taken

    def give_back(self, attachments: tuple[Attachment, ...]) -> None:
        """The prompt was not accepted: they go with the next one."""
        self._waiting = [*attachments, *self._waiting]

    async def _files(self, letters: str) -> None:
        self._listed = await find_files(self._room, letters, limit=LISTED)
        rows = [f"  {number:>2} {inert_line(path)}" for number, path in enumerate(self._listed, 1)]
        self._view.block(
            "\n".join([*rows, "  /attach N attaches one"] if rows else ["  nothing is called so"])
        )

    async def _attach(self, wanted: str) -> None:
        if not wanted:
            self._view.note("which one? /attach and a path, with :10-20 for some lines; /files finds them")
            return
        if wanted.isdecimal() and 1 <= int(wanted) <= len(self._listed):
            wanted = self._listed[int(wanted) - 1]
        ranged = _LINES.fullmatch(wanted)
        path, lines = (ranged[1], ranged[2]) if ranged else (wanted, "")
        self._add(await read_attachment(self._room, path, lines=lines))

    async def _upload(self, wanted: str) -> None:
        if not wanted:
            self._view.note("which file of this machine? /upload and its path")
            return
        file = await anyio.Path(wanted).expanduser()
        try:
            if (await file.stat()).st_size > MAX_BYTES:
                raise BadRequest(f"{wanted} is larger than {MAX_BYTES // 2**20} MB")
            content = await file.read_bytes()
        except OSError as exc:
            raise BadRequest(f"{wanted} cannot be read: {exc.strerror}") from exc
        kind = media_type(content)
        if not kind:
            raise BadRequest(f"{wanted} is neither text nor a picture or a PDF")
        self._add(Attachment(file_path=str(file), file_name=file.name, mime_type=kind, content=content))

    async def _detach(self, _rest: str) -> None:
        gone = len(self.taken())
        self._view.note(f"{gone} {'file goes' if gone == 1 else 'files go'} with nothing any more")

    def _add(self, attachment: Attachment) -> None:
        self._waiting.append(attachment)
        self._view.note(f"goes with the next prompt: {inert_line(attachment.file_name)}")
