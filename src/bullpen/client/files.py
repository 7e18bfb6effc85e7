"""Files of the workspace for whoever writes a prompt: found by a few letters, and read to be attached."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from bullpen.schema.api import Attachment, FileContent, FileHit

if TYPE_CHECKING:
    from bullpen.client.workspace import Room


async def find_files(room: Room, query: str, *, limit: int = 20) -> list[str]:
    """Paths of files and folders (with a slash at the end), relative to the workspace, the likeliest first."""
    answer = await room.call("GET", f"/files?query={quote(query, safe='')}&limit={limit}")
    return [hit.path for hit in answer.read(list[FileHit])]


async def read_attachment(room: Room, path: str, *, lines: str = "") -> Attachment:
    """A file as it is now, some lines of it (`"10-20"`), or what a folder holds. Raises `BadRequest`."""
    where = f"/files/content?path={quote(path, safe='')}&lines={quote(lines, safe='')}"
    found = (await room.call("GET", where)).read(FileContent)
    cut = b"\n(There is more in the file.)" if found.truncated else b""
    return Attachment(
        file_path=found.file_path,
        file_name=found.file_name,
        mime_type=found.mime_type,
        content=found.content + cut,
    )
