"""What was typed and not sent, kept beside other state of this person for each session: an exit or a crash loses nothing."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from bullpen.schema.api import Attachment

KEPT_BYTES = 256 * 1024
"""Attachments larger than this are not written down with every pause in typing."""


class Draft(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`mentions` are the files and resources of the text that were chosen from the list, by how the text names them: which tool
    server keeps it, none for a file, and its path or address there."""

    text: str = ""
    attachments: tuple[Attachment, ...] = ()
    mentions: dict[str, tuple[str, str]] = msgspec.field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.text.strip() or self.attachments)

    def followed_by(self, other: Draft) -> Draft:
        """Both of them in one."""
        return Draft(
            text="\n".join(filter(None, (self.text, other.text))),
            attachments=(*self.attachments, *other.attachments),
            mentions=self.mentions | other.mentions,
        )


class Drafts:
    """The drafts of one workspace at one server."""

    def __init__(self, server: str, workspace: str, env: Mapping[str, str] = os.environ) -> None:
        home = env.get("HOME") or os.path.expanduser("~")
        state = env.get("XDG_STATE_HOME") or os.path.join(home, ".local", "state")
        self._directory = Path(state, "bullpen", "drafts")
        self._room = f"{server}\n{workspace}"

    def load(self, session: str) -> Draft:
        """The draft of a session; an empty one where there is none that can be read."""
        try:
            return msgspec.json.decode(self._file(session).read_bytes(), type=Draft)
        except (OSError, msgspec.DecodeError):
            return Draft()

    def save(self, session: str, draft: Draft) -> None:
        """Write it down, or forget it when it is empty. Where nothing can be written there is only the screen."""
        with suppress(OSError):
            file = self._file(session)
            if not draft:
                file.unlink(missing_ok=True)
                return
            small = tuple(each for each in draft.attachments if len(each.content) <= KEPT_BYTES)
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            beside = file.with_name(f".{file.name}.{os.getpid()}")
            fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            with open(fd, "wb") as written:
                written.write(msgspec.json.encode(msgspec.structs.replace(draft, attachments=small)))
            beside.replace(file)

    def _file(self, session: str) -> Path:
        name = hashlib.sha256(f"{self._room}\n{session}".encode()).hexdigest()[:32]
        return self._directory / f"{name}.json"
