"""Going back to before a prompt: which one, what that would cut off and undo, and how; or going on from there in a copy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text
from textual.app import ComposeResult
from textual.widgets import Static

from bullpen.errors import BadRequest
from bullpen.present.inert import cut, inert_line
from bullpen.schema.events import Event
from bullpen.schema.library import CutMessage, RewindPreview, Rewound
from bullpen.schema.message import Message
from bullpen.tui.dialogs.diff import Diff, undoing
from bullpen.tui.dialogs.keyed import Keyed, Shown, answer
from bullpen.tui.dialogs.picker import Picker
from bullpen.tui.dialogs.rows import Option, Rows
from bullpen.tui.dialogs.sessions import age

if TYPE_CHECKING:
    from bullpen.client.workspace import Room

NAMES = {"user": "prompt", "assistant": "answer", "tool": "result"}
NAMED = 4
"""So many messages that go are shown with their words."""

PROMPT_WIDTH = 60


class Prompts(Picker):
    """What people said in this session, the latest first. Dismissed with the id of one."""

    DEFAULT_CSS = "Prompts #box { width: 96; }"

    def __init__(self, room: Room, *, chosen: str = "") -> None:
        super().__init__(
            "Back to before which prompt?",
            hint="enter look what that would do  esc close",
            empty="nothing was said in this session yet",
            chosen=chosen,
        )
        self._room = room

    async def options(self) -> Sequence[Option]:
        return self.at_once()

    def at_once(self) -> Sequence[Option]:
        said = self._room.messages(self._room.current_session)
        return [_prompt(message) for message in reversed(said) if message.role == "user" and message.text]

    def moved(self, event: Event) -> None:
        if isinstance(event.payload, Message):
            self.reload()


def _prompt(message: Message) -> Option:
    right = "  ".join(filter(None, (inert_line(message.author), age(message.created_at))))
    return Option(message.id, inert_line(message.text), right=right)


class Outcome(NamedTuple):
    """Where to go, what to write there again, and what to tell."""

    session_id: str
    text: str
    told: str


class Rewinding(Keyed[Outcome]):
    """What going back would do, and the ways to do it. Nothing is done but what is shown here: the fingerprint goes along."""

    DEFAULT_CSS = "Rewinding #box { width: 100; } Rewinding #facts { height: auto; margin-bottom: 1; }"
    place = "Rewind"

    def __init__(self, room: Room, message_id: str) -> None:
        super().__init__("Go back to before this prompt?", "page up/down look  esc back")
        self._room = room
        self._session_id = room.current_session
        self._message_id = message_id
        self._preview: RewindPreview | None = None
        self._is_at_it = False

    def body(self) -> ComposeResult:
        with Shown():
            yield Static(Text("looking …"), id="facts")
            yield Diff()
        yield Rows()

    def on_mount(self) -> None:
        self.attempt(self._look())

    async def _look(self) -> None:
        preview = await self._room.library.preview_rewind(self._session_id, self._message_id)
        self._preview = preview
        self.query_one("#facts", Static).update(Text("\n".join(_facts(preview))))
        self.query_one(Diff).show(undoing(preview.undo.files) if preview.undo else ())
        self.rows.show(self.answers(), chosen=None)

    def answers(self) -> Sequence[Option]:
        if self._preview is None:
            return ()
        undo = self._preview.undo
        files = "rewind the files as well"
        if undo is None:
            files += ": there is nothing to undo in them"
        elif undo.conflicts:
            files += ": not while there are conflicts"
        return (
            answer("r", "rewind the conversation, and leave the files as they are"),
            answer("f", files, off=undo is None or bool(undo.conflicts)),
            answer("k", "leave this session alone, and go on from there in a copy"),
        )

    def answered(self, key: str) -> None:
        if not self._is_at_it and self._preview is not None:
            self._is_at_it = True
            self.attempt(self._carry_out(key, self._preview))

    async def _carry_out(self, key: str, preview: RewindPreview) -> None:
        try:
            if key == "k":
                self.decide(
                    Outcome(await self._fork(), preview.text, "a copy: the other session is as it was")
                )
            else:
                done = await self._room.library.rewind(
                    self._session_id, self._message_id, files=key == "f", fingerprint=preview.fingerprint
                )
                self.decide(Outcome(self._session_id, preview.text, _told(done)))
        finally:
            self._is_at_it = False

    async def _fork(self) -> str:
        """Of all that stands before the prompt; before the first one stands nothing."""
        said = [message.id for message in self._room.messages(self._session_id)]
        if self._message_id not in said:
            raise BadRequest("that prompt has gone meanwhile")
        before = said.index(self._message_id) - 1
        if before >= 0:
            return (await self._room.library.fork(self._session_id, said[before])).id
        session = self._room.session(self._session_id)
        return (await self._room.new_session(f"{session.title} (fork)" if session else "New Session")).id


def _facts(preview: RewindPreview) -> Iterator[str]:
    prompt, *rest = preview.messages
    yield f"“{cut(inert_line(prompt.text), PROMPT_WIDTH)}”"
    spoken = [message for message in rest if message.text.strip()][:NAMED]
    for message in spoken:
        yield f"  {NAMES.get(message.role, message.role):<7} {cut(inert_line(message.text), PROMPT_WIDTH)}"
    if more := len(rest) - len(spoken):
        yield f"  and {more} more"
    yield ""
    yield f"{_counted(preview.messages)} into the trash."
    yield from (f"! {inert_line(note)}" for note in preview.notes)
    if preview.undo is None:
        yield "No file that is known of was changed since."
    else:
        yield "With the files, this is undone as well:"
        yield from (f"! {inert_line(note)}" for note in preview.undo.notes)


def _counted(messages: Sequence[CutMessage]) -> str:
    count = Counter(NAMES.get(message.role, message.role) for message in messages)
    kinds = ", ".join(f"{number} {name}{'s' * (number != 1)}" for name, number in count.items())
    return f"{kinds} {'goes' if len(messages) == 1 else 'go'}"


def _told(done: Rewound) -> str:
    messages = f"{done.removed} {'message is' if done.removed == 1 else 'messages are'} in the trash (/trash)"
    if done.undone is None:
        return f"rewound: {messages}"
    count = len(done.undone.restored)
    return f"rewound: {messages}, {count} {'path is' if count == 1 else 'paths are'} as before (alt+u redoes)"
