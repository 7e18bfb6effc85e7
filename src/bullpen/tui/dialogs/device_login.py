"""Logging in to GitHub Copilot: a code to enter at GitHub, and a wait until that is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from bullpen.errors import BullpenError
from bullpen.present.failure import one_line
from bullpen.present.inert import inert_line
from bullpen.schema.api import LoginCode
from bullpen.tui.dialogs.dialog import Dialog

if TYPE_CHECKING:
    from bullpen.client.workspace import Room


class DeviceLogin(Dialog[str]):
    """Dismissed with a sentence when it is done. Closing it ends the login."""

    DEFAULT_CSS = """
    DeviceLogin #box { width: 72; }
    DeviceLogin #text { height: auto; margin-bottom: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "copy('user_code')", "copy the code"),
        Binding("a", "copy('verification_uri')", "copy the address"),
    ]
    place = "Login"

    def __init__(self, room: Room) -> None:
        super().__init__("Log in to GitHub Copilot", "c copy the code  a copy the address  esc give up")
        self._room = room
        self._code: LoginCode | None = None

    def body(self) -> ComposeResult:
        yield Static(Text("Asking GitHub for a code …"), id="text")

    def on_mount(self) -> None:
        self.attempt(self._log_in())

    async def _log_in(self) -> None:
        try:
            await self._carry_through()
        except BullpenError as exc:
            self._fail(one_line(exc))

    async def _carry_through(self) -> None:
        code = self._code = await self._room.keys.begin_login()
        address, letters = inert_line(code.verification_uri), inert_line(code.user_code)
        self.query_one("#text", Static).update(
            Text(f"Open  {address}\nand enter the code  {letters}\n\nWaiting until that is done …")
        )
        ended = await self._room.keys.login_end()
        if ended.state == "done":
            self.decide("logged in to GitHub Copilot")
        else:
            self._fail(inert_line(ended.message))

    def _fail(self, why: str) -> None:
        self._code = None
        self.query_one("#text", Static).update(Text(why, self.app.theme_variables["error"]))
        self.hint("esc close")

    def action_copy(self, what: str) -> None:
        if self._code is not None:
            self.app.copy_to_clipboard(getattr(self._code, what))
            self.hint("copied  esc give up")

    def action_close(self) -> None:
        self.attempt(self._give_up())

    async def _give_up(self) -> None:
        try:
            await self._room.keys.cancel_login()
        finally:
            self.decide()
