"""What all dialogs are: a calm box over the conversation, with a title, one row of help, and esc to close it."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, ClassVar, TypeVar, cast

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from bullpen.errors import BullpenError
from bullpen.present.failure import one_line
from bullpen.present.inert import inert_line
from bullpen.schema.events import Event

if TYPE_CHECKING:
    from bullpen.tui.chat import ChatScreen

T = TypeVar("T")
U = TypeVar("U")


class Dialog(ModalScreen[T]):
    """Says what was decided by `dismiss`; closed without a decision it says None."""

    DEFAULT_CSS = """
    Dialog { align: center middle; background: $background 55%; }
    Dialog #box {
        width: 78; max-width: 100%; height: auto; max-height: 100%;
        border: round $primary; border-title-color: $foreground; border-title-style: bold;
        background: $surface; padding: 0 1;
    }
    Dialog #help { height: 1; color: $faint; text-wrap: nowrap; text-overflow: ellipsis; }
    Dialog Input { height: 1; border: none; padding: 0; background: $surface; }
    Dialog Input:focus { border: none; }
    """
    AUTO_FOCUS = ""
    """Fields that are not shown yet would take it."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "close", id="dialog.close"),
        Binding("ctrl+c", "close", "close", priority=True, show=False),
    ]
    place: ClassVar[str] = "Dialogs"
    """Under which heading the help lists its keys."""

    def __init__(self, heading: str, hint: str = "esc close") -> None:
        super().__init__()
        self._heading = heading
        self._hint = hint

    def compose(self) -> ComposeResult:
        with Vertical(id="box") as box:
            box.border_title = Text(f" {inert_line(self._heading)} ")
            yield from self.body()
            yield Static(Text(self._hint), id="help")

    def body(self) -> ComposeResult:
        """What stands between the title and the help."""
        yield from ()

    @property
    def chat(self) -> ChatScreen:
        """The main screen under it all."""
        return cast("ChatScreen", self.app.screen_stack[0])

    @property
    def heading(self) -> str:
        return self._heading

    @heading.setter
    def heading(self, text: str) -> None:
        self._heading = text
        if self.is_mounted:
            self.query_one("#box").border_title = Text(f" {inert_line(text)} ")

    def hint(self, text: str, *, is_wrong: bool = False) -> None:
        """What the row of help says from now on."""
        style = self.app.theme_variables["error"] if is_wrong else ""
        self.query_one("#help", Static).update(Text(text, style))

    def usual_hint(self) -> None:
        self.hint(self._hint)

    def decide(self, said: T | None = None) -> None:
        """Close it, with what was decided. One that is closed already stays so."""
        if self.is_active:
            _ = self.dismiss(said)

    def moved(self, event: Event) -> None:
        """Something moved in the room while this is open."""

    async def also(self, dialog: Dialog[U]) -> U | None:
        """Open another one over this; what was decided in it. Only within `attempt`."""
        return await self.app.push_screen(dialog, wait_for_dismiss=True)

    def action_close(self) -> None:
        self.decide()

    def attempt(self, doing: Coroutine[None, None, None]) -> None:
        """Do it beside the keys; what is said against it stands in the row of help, and the dialog stays."""
        self.run_worker(self._attempt(doing))

    async def _attempt(self, doing: Coroutine[None, None, None]) -> None:
        try:
            await doing
        except BullpenError as exc:
            if self.is_active:
                self.hint(one_line(exc), is_wrong=True)
            else:
                self.chat.notice(one_line(exc), "error")
