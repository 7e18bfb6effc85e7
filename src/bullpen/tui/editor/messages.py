"""What comes out of the editor."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from textual.message import Message

from bullpen.schema.api import Attachment
from bullpen.tui.editor.drafts import Draft
from bullpen.tui.status import Kind

When = Literal["", "now", "step", "after"]


@dataclass
class Submitted(Message, namespace="editor"):
    """A prompt is to be sent; `when` says how soon it is heard by a session that is busy."""

    text: str
    attachments: tuple[Attachment, ...] = ()
    when: When = ""
    draft: Draft = field(default_factory=Draft)
    """What stood in the editor, to give it back."""


@dataclass
class ShellTyped(Message, namespace="editor"):
    """A command is to be run by the shell, without the agent."""

    command: str


@dataclass
class CommandTyped(Message, namespace="editor"):
    """A command of the screen, with the words behind it."""

    name: str
    words: str = ""


@dataclass
class Noticed(Message, namespace="editor"):
    """Something that the person should know."""

    text: str
    kind: Kind = "warning"
