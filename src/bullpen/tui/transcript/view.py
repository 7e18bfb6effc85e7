"""The conversation of one session as a widget: its lines, the bar to find words, and what has to be seen wherever one reads.

What moves is told in passing and shown at most fifteen times a second, however much it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Self

from textual.app import ComposeResult
from textual.message import Message as Told
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from bullpen.schema.events import RunWaiting
from bullpen.schema.jobs import CommandOutput
from bullpen.tui import keymap
from bullpen.tui.preferences import Preferences
from bullpen.tui.transcript.column import Place
from bullpen.tui.transcript.copying import copied
from bullpen.tui.transcript.items import Book, Call, Ending, Item, Note, Prompt, Shell
from bullpen.tui.transcript.keys import KEYS
from bullpen.tui.transcript.lines import NOWHERE, Lines
from bullpen.tui.transcript.palette import UNPAINTED
from bullpen.tui.transcript.refusal import Refusal
from bullpen.tui.transcript.running import Running
from bullpen.tui.transcript.scene import Scene, Spent
from bullpen.tui.transcript.search import FindBar, Match, matches, row_of
from bullpen.tui.transcript.tools import SENDS

if TYPE_CHECKING:
    from bullpen.client.workspace import Room

FRAME_S = 1 / 15


class Transcript(Widget):
    """Look at the messages of a session; told when something moved."""

    DEFAULT_CSS = """
    Transcript { layers: below above; }
    Transcript #behind { dock: bottom; layer: above; width: 1fr; height: 1; text-align: center; color: $accent; display: none; }
    """
    BINDINGS = keymap.bindings(KEYS)

    @dataclass
    class Opened(Told):
        """Somebody wants to see the session of a sub-agent."""

        session_id: str

    @dataclass
    class Noticed(Told):
        """Something to be told in the last row."""

        words: str

    class Woken(Told):
        """The model's host is to be asked again now."""

    class Left(Told):
        """The person wants to write."""

    def __init__(self, session_id: str, preferences: Preferences) -> None:
        # The id of a sub-agent's session has signs that no widget's may have.
        super().__init__(
            id=f"session-{sha256(session_id.encode()).hexdigest()[:16] if session_id else 'none'}"
        )
        self.session_id = session_id
        self.preferences = preferences
        self._room: Room | None = None
        self._book = Book()
        self._scene = Scene(80, UNPAINTED, diff=preferences.diff)
        self._lines = Lines(self._scene, preferences)
        self._moved: dict[str, None] = {}
        """The messages to look at, in the order in which they moved: new ones stand below each other in it."""
        self._frame: Timer | None = None
        self._painted_at = 0.0
        self._commands = Running()
        self._heard: dict[str, float] = {}
        self._spent: dict[str, Spent] = {}
        self._spent_before: float | None = None
        self._matches: list[Match] = []
        self._match = -1

    def compose(self) -> ComposeResult:
        yield self._lines
        yield Refusal()
        yield Static(id="behind")
        yield FindBar()

    def focus(self, scroll_visible: bool = True) -> Self:
        self._lines.focus(scroll_visible)
        return self

    # What the screen tells

    def attach(self, room: Room) -> None:
        """From now on there is something to look at."""
        self._room = room
        scene = self._scene
        scene.me, scene.session, scene.messages = room.name, room.session, room.messages
        scene.printed, scene.moved_at, scene.spent = self._commands.printed, self._heard, self._spent
        self.load()

    def load(self) -> None:
        """Look at everything anew: the messages may be others."""
        if self._room is None:
            return
        self._commands.forget_own()
        self._book.load(self._room.messages(self.session_id))
        self._scene.texts.clear()
        self._scene.now = time.time()
        self._look_at_asks()
        self._lines.load(self._book.items)

    def changed(self, message_id: str) -> None:
        """A message came, grew, ended or went."""
        self._moved[message_id] = None
        self._paint_soon()

    def child_changed(self, session_id: str) -> None:
        """A sub-agent of this session did something."""
        self._heard[session_id] = time.time()
        message_id, _, call_id = session_id.partition("$$")
        if self._room is not None and self._room.message(self.session_id, message_id):
            self._stale(call_id)

    def output(self, output: CommandOutput, *, is_over: bool = False) -> None:
        """A running command has printed something, or a person's own has ended."""
        if is_over:
            self._commands.end(output.tool_call_id)
        else:
            self._commands.take(output)
        if output.command:
            self.changed(output.tool_call_id)
        else:
            self._stale(output.tool_call_id)

    def waiting(self, waiting: RunWaiting | None) -> None:
        """The model's host refused, and the turn waits; or it goes on."""
        self.query_one(Refusal).show(waiting)

    def look(self) -> None:
        """Asks came or went."""
        if self._room is not None and self._look_at_asks():
            self._paint_soon()

    def follow(self) -> None:
        """Go to the end and stay there."""
        self._lines.follow()

    def find(self) -> None:
        """Have words typed to look for."""
        self.query_one(FindBar).open()

    # Painting what has moved

    def _paint_soon(self) -> None:
        if self._frame is None:
            due = self._painted_at + FRAME_S - time.monotonic()
            self._frame = self.set_timer(max(due, 0.001), self._paint)

    def _paint(self) -> None:
        self._frame = None
        self._painted_at = time.monotonic()
        self._scene.now = time.time()
        moved, self._moved = self._moved, {}
        for message_id in moved:
            self._take(message_id)
        self._lines.lay_out()

    def _take(self, message_id: str) -> None:
        assert self._room is not None
        if (command := self._commands.command(message_id)) is not None:
            printed = self._commands.printed[message_id]
            self._lines.take(self._book.take_running(message_id, command, printed))
            return
        message = self._room.message(self.session_id, message_id)
        if message is None:
            self._lines.take(self._book.drop(message_id))
            return
        change = self._book.take(message)
        self._lines.take(change)
        for item in self._book.items[change.start : change.start + change.added]:
            if isinstance(item, Call) and item.result is not None:
                self._commands.end(item.call.id)
            elif isinstance(item, Shell) and (key := self._commands.end_own(item.command)):
                self.changed(key)
            self._count(item)

    def _count(self, item: Item) -> None:
        """What a turn costs is what the session's sum has grown by meanwhile; known for turns that began while we looked."""
        assert self._room is not None
        session = self._room.session(self.session_id)
        if session is None:
            return
        if isinstance(item, Prompt):
            self._spent_before = session.cost if self._spent_before is None else self._spent_before
        elif isinstance(item, Ending | Note) and self._spent_before is not None:
            tokens = session.prompt_tokens + session.completion_tokens
            self._spent[item.message_id] = Spent(session.cost - self._spent_before, tokens)
            self._spent_before = None

    def _stale(self, call_id: str) -> None:
        index = self._book.find_call(call_id)
        if index is not None:
            self._lines.window.stale(self._book.items[index].key)
            self._paint_soon()

    def _look_at_asks(self) -> bool:
        """Whether other calls wait for a person than before."""
        assert self._room is not None
        asking = frozenset(ask.tool_call_id for ask in self._room.asks if ask.session_id == self.session_id)
        moved = asking ^ self._scene.asking
        self._scene.asking = asking
        for call_id in moved:
            self._stale(call_id)
        return bool(moved)

    # What has to be seen wherever one reads

    def on_lines_moved(self, event: Lines.Moved) -> None:
        event.stop()
        mark = self.query_one("#behind", Static)
        rows = f"{event.behind} new {'line' if event.behind == 1 else 'lines'}"
        mark.update(f"↓ {rows} (ctrl+end)" if event.behind else "", layout=False)
        mark.display = bool(event.behind)

    # Keys

    def action_do(self, action: str) -> None:
        """One of the keys of the conversation was pressed."""
        self._actions[action]()

    @property
    def _actions(self) -> dict[str, Callable[[], object]]:
        lines = self._lines
        page = max(lines.size.height - 1, 1)
        return {
            "row_up": lambda: lines.scroll_relative(y=-1, animate=False),
            "row_down": lambda: lines.scroll_relative(y=1, animate=False),
            "item_up": lambda: self._step(-1),
            "item_down": lambda: self._step(1),
            "half_up": lambda: lines.scroll_relative(y=-(page // 2), animate=False),
            "half_down": lambda: lines.scroll_relative(y=page // 2, animate=False),
            "page_up": lambda: lines.scroll_relative(y=-page, animate=False),
            "page_down": lambda: lines.scroll_relative(y=page, animate=False),
            "top": lambda: lines.go_to(0),
            "bottom": lines.follow,
            "fold": self._fold,
            "fold_all": self._fold_all,
            "copy": self._copy,
            "enter_item": self._enter,
            "times": self._show_times,
            "split": self._split,
            "retry": lambda: self.post_message(self.Woken()),
            "find_here": self.find,
            "next_match": lambda: self._to_match(1),
            "last_match": lambda: self._to_match(-1),
            "leave_item": self._leave,
        }

    def _step(self, step: int) -> None:
        """To another item; the first time to the last one that can be seen."""
        items = self._book.items
        if not items:
            return
        at = self._index()
        index = list(self._lines.in_window())[-1] if at is None else min(max(at + step, 0), len(items) - 1)
        self._lines.cursor = items[index].key
        self._lines.bring(index)
        self._lines.refresh()

    def _index(self) -> int | None:
        """Where the item stands that keys are about."""
        key = self._lines.cursor
        return next((n for n, item in enumerate(self._book.items) if item.key == key), None) if key else None

    def _chosen(self) -> Item | None:
        """The item that keys are about; without one, the last that can be seen."""
        index = self._index()
        if index is None:
            index = next(reversed(list(self._lines.in_window())), None)
        return self._book.items[index] if index is not None else None

    def _fold(self) -> None:
        if (item := self._chosen()) is not None:
            self._scene.unfolded ^= {item.key}
            self._lines.window.stale(item.key)
            self._lines.lay_out()

    def _fold_all(self) -> None:
        keys = {item.key for item in self._book.items}
        self._scene.unfolded = set() if keys & self._scene.unfolded else keys
        self._lines.repaint()

    def _copy(self) -> None:
        if text := self.screen.get_selected_text():
            self._to_clipboard(text)
        elif (item := self._chosen()) is not None:
            self._to_clipboard(copied(item))

    def copy_selection(self) -> None:
        """Copy what was selected with the mouse, as soon as it is."""
        if text := self.screen.get_selected_text():
            self._to_clipboard(text)

    def _to_clipboard(self, text: str) -> None:
        self.app.copy_to_clipboard(text)
        lines = text.count("\n") + 1
        self.post_message(self.Noticed(f"copied {lines} {'line' if lines == 1 else 'lines'}"))

    def _enter(self) -> None:
        item = self._chosen()
        if isinstance(item, Call) and item.call.name in SENDS:
            self.post_message(self.Opened(item.child))
        else:
            self._fold()

    def _show_times(self) -> None:
        self._scene.has_times = not self._scene.has_times
        self._lines.repaint()

    def _split(self) -> None:
        self._scene.diff = "unified" if self._scene.diff == "split" else "split"
        self._lines.repaint()

    def _leave(self) -> None:
        if self.screen.selections:
            self.screen.clear_selection()
        elif self._lines.sought:
            self.seek("")
        elif self._lines.cursor:
            self._lines.cursor = ""
            self._lines.refresh()
        else:
            self.post_message(self.Left())

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        event.stop()
        item = event.item
        self._lines.cursor = item.key
        if event.clicks == 1 and isinstance(item, Call) and item.call.name in SENDS and event.row:
            self.post_message(self.Opened(item.child))
        elif event.clicks == 1 and event.row in (0, event.rows - 2):
            self._fold()
        elif event.clicks > 1:
            self.copy_selection()
        self._lines.refresh()

    # Finding

    def on_find_bar_sought(self, event: FindBar.Sought) -> None:
        event.stop()
        self.seek(event.words)

    def on_find_bar_stepped(self, event: FindBar.Stepped) -> None:
        event.stop()
        self._to_match(event.step)

    def on_find_bar_closed(self, event: FindBar.Closed) -> None:
        event.stop()
        self.query_one(FindBar).close()
        self.focus()

    def seek(self, words: str) -> None:
        """Mark where these words stand, and go to the last of them."""
        self._lines.sought = words.lower()
        self._lines.found = NOWHERE
        self._match = 0
        self._matches = matches(self._book.items, words)
        self._lines.refresh()
        self._to_match(-1)

    def _to_match(self, step: int) -> None:
        """To another place at which the words stand, round and round; what is folded there is unfolded."""
        if not self._lines.sought:
            return
        if self._matches:
            self._match = (self._match + step) % len(self._matches)
            index, number = self._matches[self._match]
            row = row_of(self._lines.window.strips(index), self._lines.sought, number)
            if row is None:
                key = self._book.items[index].key
                self._scene.unfolded.add(key)
                self._lines.window.stale(key)
                row = row_of(self._lines.window.strips(index), self._lines.sought, number)
            self._lines.found = Place(index, row or 0)
            self._lines.go_to(index, row or 0, above=self._lines.size.height // 3)
        self._lines.refresh()
        self.query_one(FindBar).tell(self._match + 1, len(self._matches))
