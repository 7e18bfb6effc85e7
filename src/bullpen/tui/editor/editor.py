"""The prompt as a widget: text, attachments, completion, history and drafts put together.

empty page ──send──▶ on its way ──the session is there──▶ session (its own draft) ◀──▶ other session (its own)
                        │
                        └── refused: given back, before what was typed since
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from textual import on
from textual.actions import SkipAction
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import TextArea

from bullpen.errors import BadRequest, BullpenError
from bullpen.present.failure import one_line
from bullpen.schema.api import Attachment
from bullpen.tui.commands import COMMANDS
from bullpen.tui.editor import attachments, clipboard, external, keys, sources, words
from bullpen.tui.editor.area import Area
from bullpen.tui.editor.attachments import Chip, typable
from bullpen.tui.editor.chips import Chips
from bullpen.tui.editor.completion import Completion
from bullpen.tui.editor.drafts import Draft, Drafts
from bullpen.tui.editor.history import History
from bullpen.tui.editor.mark import Mark
from bullpen.tui.editor.messages import CommandTyped, Noticed, ShellTyped, Submitted, When
from bullpen.tui.editor.past import Past
from bullpen.tui.editor.popup import Popup
from bullpen.tui.editor.sheet import Sheet
from bullpen.tui.editor.slash import expanded
from bullpen.tui.preferences import Preferences
from bullpen.tui.status import Kind

if TYPE_CHECKING:
    from bullpen.client.workspace import Room

SAVED_AFTER_S = 0.4
"""So long after the last key the draft is written down."""


class Editor(Widget):
    """Where a person writes. What is sent comes out as `Submitted`, `ShellTyped` or `CommandTyped`; what could not be sent is given
    back."""

    DEFAULT_CSS = """
    Editor { height: auto; background: $surface; padding: 0 1; }
    Editor > Horizontal { height: auto; }
    Editor Area { height: auto; min-height: 3; max-height: 15; padding: 0; background: $surface;
                  scrollbar-size-vertical: 1; }
    """
    BINDINGS = keys.BINDINGS

    is_shell: reactive[bool] = reactive(False)
    free: reactive[bool] = reactive(False)
    """Whether everything is allowed."""

    def __init__(self, preferences: Preferences) -> None:
        super().__init__()
        self.preferences = preferences
        self.area = Area(self)
        self._chips = Chips()
        self._mark = Mark()
        self._popup = Popup()
        self._sheet = Sheet(self.area, self._chips)
        self._completion = Completion(
            self.area, self._popup, self._sheet, find=sources.find, resend=lambda: self._send("")
        )
        self._history = History()
        self._past = Past()
        self._room: Room | None = None
        self._drafts: Drafts | None = None
        self.session: str | None = None
        """The session whose draft this is; None while that is not known."""
        self._is_first = False
        """Whether a prompt is on its way that makes the session we shall be in."""

    def compose(self) -> ComposeResult:
        yield self._chips
        with Horizontal():
            yield self._mark
            yield self.area
        yield self._popup

    def on_mount(self) -> None:
        self._saving = self.set_timer(SAVED_AFTER_S, self.save_draft, pause=True)
        self.look()

    def on_unmount(self) -> None:
        self.save_draft()

    # What others ask of it

    @property
    def has_focus_within(self) -> bool:
        return self.area.has_focus

    @property
    def taken(self) -> frozenset[str]:
        """The commands whose keys mean something else while a list is open."""
        return keys.LIST_KEYS if self._completion.is_open else frozenset()

    @property
    def value(self) -> str:
        """All that is typed, a shell command with its mark."""
        return f"!{self.area.text}" if self.is_shell else self.area.text

    @value.setter
    def value(self, text: str) -> None:
        self.is_shell = text.startswith("!")
        self.area.swap(typable(text.removeprefix("!")))

    def focus(self, scroll_visible: bool = True) -> Editor:
        self.area.focus(scroll_visible)
        return self

    def attach(self, room: Room) -> None:
        """From now on prompts can be sent."""
        self._room = room
        self._drafts = Drafts(str(room.address), room.workspace.path)
        self.free = room.workspace.yolo
        self.run_worker(self._completion.keep_asking(room))
        self.look()

    def enter(self, session_id: str) -> None:
        """The person went to another session: its draft is what stands here."""
        if self._drafts is None or session_id == self.session:
            return
        # What was typed before a session was known, or since the prompt that makes it was sent, belongs to it.
        typed = self._draft() if self.session is None or self._is_first else Draft()
        if self._is_first:
            self._drafts.save("", Draft())
        else:
            self.save_draft()
        self.session, self._is_first, self._history = session_id, False, History()
        self._restore(self._drafts.load(session_id).followed_by(typed))
        if not session_id:
            self.run_worker(self._fetch_past())
        self.look()

    def give_back(self, submitted: Submitted) -> None:
        """It was not accepted: what was written must not be lost, nor what was written since."""
        self._is_first = False
        self._restore((submitted.draft or Draft(text=submitted.text)).followed_by(self._draft()))

    def look(self) -> None:
        """What one can do here may have changed."""
        session = self._room.session(self.session) if self._room and self.session else None
        self.area.placeholder = words.placeholder(
            attached=self._room is not None,
            busy=bool(session and session.is_busy),
            in_shell=self.is_shell,
            free=self.free,
        )

    # Keys

    def action_send(self) -> None:
        if self._completion.accept(sending=True):
            return
        if not self.area.continue_line():
            self._send("")

    def action_send_now(self) -> None:
        self._send("now")

    def action_send_step(self) -> None:
        self._send("step")

    def action_newline(self) -> None:
        self.area.put("\n")

    def action_earlier(self) -> None:
        if self._completion.is_open:
            self._completion.move(1)
        elif self.area.cursor_at_start_of_text or (self.area.is_on_first_row and self._history.is_walking):
            self._show(self._history.earlier(self.value, self._past.entries(self._room, self.session or "")))
        else:
            raise SkipAction

    def action_later(self) -> None:
        if self._completion.is_open:
            self._completion.move(-1)
        elif self.area.cursor_at_end_of_text and self._history.is_walking:
            self._show(self._history.later(self.value))
        else:
            raise SkipAction

    def action_list_next(self) -> None:
        self._completion.move(-1)

    def action_list_last(self) -> None:
        self._completion.move(1)

    def action_accept(self) -> None:
        if not self._completion.accept():
            raise SkipAction

    def action_search_history(self) -> None:
        self._completion.search(self._past.entries(self._room, self.session or ""))

    def action_step_back(self) -> None:
        if self._completion.close():
            return
        if self._history.is_walking:
            self.value = self._history.leave()
        elif self.is_shell and not self.area.text:
            self.is_shell = False
        else:
            raise SkipAction

    def action_leave_shell(self) -> None:
        if not self.is_shell or self.area.text:
            raise SkipAction
        self.is_shell = False

    def action_undo_typing(self) -> None:
        self.area.undo()

    def action_redo_typing(self) -> None:
        self.area.redo()

    def action_detach(self) -> None:
        self._sheet.remove()
        self.save_draft()

    def action_unfold(self) -> None:
        if text := self._sheet.unfold():
            self.area.put(text)

    def action_external(self) -> None:
        try:
            self.value = external.edited(self.app, self.value, self.preferences.editor)
            self.save_draft()
        except BadRequest as exc:
            self.notice(one_line(exc), "error")

    def action_clipboard(self) -> None:
        coming = clipboard.read(self.app.clipboard, self._sheet.image_name())
        self.run_worker(self._receive(coming), exclusive=True, group="clipboard")

    # What happens in it

    def catch_up(self) -> None:
        self._completion.look()

    def begin_shell(self) -> bool:
        begins, self.is_shell = not self.is_shell, True
        return begins

    @on(TextArea.Changed)
    def _changed(self) -> None:
        self._completion.look()
        self._sheet.show()
        self._saving.reset()
        self._saving.resume()

    @on(TextArea.SelectionChanged)
    def _moved(self) -> None:
        self._completion.look()

    @on(Popup.Picked)
    def _picked(self) -> None:
        self._completion.accept()

    @on(Chips.Removed)
    def _crossed(self, removed: Chips.Removed) -> None:
        self._sheet.remove(removed.chip)
        self.save_draft()

    @on(Area.Pasted)
    def _pasted(self, pasted: Area.Pasted) -> None:
        if paths := attachments.image_paths(pasted.text):
            self.run_worker(self._receive(attachments.read_images(paths)))
        elif attachments.is_long(pasted.text):
            self._sheet.fold(pasted.text)
            self.save_draft()
        else:
            self.area.put(pasted.text)
        self.area.focus()

    def watch_is_shell(self, is_shell: bool) -> None:
        self._mark.shell = is_shell
        self.look()

    def watch_free(self, free: bool) -> None:
        self._mark.free = free
        self.look()

    def notice(self, text: str, kind: Kind = "warning") -> None:
        self.post_message(Noticed(text, kind))

    # Sending

    def _send(self, when: When) -> None:
        draft = self._draft()
        text = draft.text.strip()
        if not draft or text == "!":
            return
        if text in words.LEAVING and not draft.attachments:
            self._clear()
            self.post_message(CommandTyped("leave", "now"))
        elif self._room is None:
            self.notice("not attached yet; what you wrote stays here")
        elif self.is_shell:
            self._let_go(text)
            self.post_message(ShellTyped(text.removeprefix("!").strip()))
        elif (name := words.command_of(text)) in COMMANDS:
            self._clear()
            self.post_message(CommandTyped(name, text.partition(" ")[2].strip()))
        elif name:
            self.run_worker(self._send_custom(self._room, name, draft, when), exclusive=True, group="send")
        else:
            self._submit(self._room, draft, text[1:] if text.startswith("//") else text, when)

    async def _send_custom(self, room: Room, name: str, draft: Draft, when: When) -> None:
        try:
            prepared = await expanded(room, draft.text.strip())
        except BullpenError as exc:
            self.notice(one_line(exc), "error")
            return
        if prepared is None:
            self.notice(f"there is no command /{name}; // sends it as text")
        else:
            self._submit(room, draft, prepared.text, when, prepared.attachments)

    def _submit(
        self, room: Room, draft: Draft, text: str, when: When, more: tuple[Attachment, ...] = ()
    ) -> None:
        """Let it go. What is typed from now on is the next draft."""
        self._let_go(draft.text.strip())
        self.run_worker(self._send_off(room, Submitted(text, more, when, draft)))

    async def _send_off(self, room: Room, submitted: Submitted) -> None:
        try:
            submitted.attachments = (*await sources.attached(room, submitted.draft), *submitted.attachments)
        except BullpenError as exc:
            self.give_back(submitted)
            self.notice(f"not sent: {one_line(exc)}", "error")
        else:
            self.post_message(submitted)

    def _let_go(self, text: str) -> None:
        """It is on its way; without a session it makes one, and what is typed from now on belongs there."""
        self._past.remember(self.session or "", text)
        self._is_first = not self.session
        self._clear()

    def _clear(self) -> None:
        self._history = History()
        self._restore(Draft())
        self.save_draft()

    # History and drafts

    async def _fetch_past(self) -> None:
        assert self._room is not None
        with suppress(BullpenError):
            await self._past.fetch(self._room)

    def _show(self, text: str | None) -> None:
        if text is not None:
            self.value = text
            self._completion.close()

    def save_draft(self) -> None:
        """Write down what stands here."""
        self._saving.pause()
        if self._drafts is not None and self.session is not None:
            self._drafts.save(self.session, self._draft())

    def _draft(self) -> Draft:
        return self._sheet.draft(self.value)

    def _restore(self, draft: Draft) -> None:
        self.value = draft.text
        self.area.history.clear()
        self._sheet.take(draft)
        self._completion.reset()

    async def _receive(self, coming: Awaitable[Sequence[Chip] | str]) -> None:
        """Attach images, or paste text, once it is there."""
        try:
            found = await coming
            if not isinstance(found, str) and self._room is not None:
                await sources.check_images(self._room)
        except BullpenError as exc:
            self.notice(one_line(exc), "error")
            return
        if isinstance(found, str):
            self.area.post_message(Area.Pasted(attachments.normalised(found)))
        else:
            self._sheet.add(found)
            self.save_draft()
