"""A tool asks to do something: exactly what, where, why, and what each answer would let through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text
from textual.app import ComposeResult
from textual.events import Key
from textual.highlight import highlight
from textual.visual import VisualType
from textual.widgets import Input, Static

from bullpen.present import asking
from bullpen.present.inert import inert, inert_line
from bullpen.schema.asks import PermissionAction, PermissionRequest
from bullpen.tui.dialogs.diff import Change, Diff
from bullpen.tui.dialogs.keyed import Keyed, Shown, answer
from bullpen.tui.dialogs.rows import Option, Rows
from bullpen.tui.dialogs.unasked import Unasked

if TYPE_CHECKING:
    from bullpen.client.workspace import Room

SPLIT_FROM = 140
"""From this many columns on, a diff has room for two of them."""

ACTIONS: dict[str, PermissionAction] = {"a": "allow", "s": "allow_session", "e": "allow_exact", "d": "deny"}
"""The answers that need no words."""


class Permission(Keyed[str], Unasked[str]):
    """Dismissed with what was answered, in words; with None when it was only put aside."""

    DEFAULT_CSS = """
    Permission #box { width: 80%; max-width: 140; min-width: 78; border: round $warning; max-height: 96%; }
    Permission.-whole #box { width: 100%; max-width: 100%; height: 100%; max-height: 100%; }
    Permission Shown { min-height: 3; }
    Permission.-whole Shown { height: 1fr; max-height: 100%; }
    Permission #facts { height: auto; margin-bottom: 1; }
    Permission #what { height: auto; background: $panel; padding: 0 1; }
    Permission #claim { height: auto; margin-top: 1; color: $faint; display: none; }
    Permission #preview { height: auto; display: none; color: $faint; margin-top: 1; }
    Permission #words { display: none; background: $panel; padding: 0 1; margin-top: 1; }
    Permission.-writing #words, Permission.-writing #preview { display: block; }
    Permission.-writing Rows { display: none; }
    """
    place = "When a tool asks"

    def __init__(self, room: Room, ask: PermissionRequest, *, number: int = 1, count: int = 1) -> None:
        of = f" · {number} of {count}" if count > 1 else ""
        keys = "t two columns  f full screen  " if asking.change_lines(ask.params) else "f full screen  "
        super().__init__(f"May it?{of}", f"{keys}page up/down look  esc later")
        self.ask = ask
        self.is_answering = False
        """An answer of ours is on its way: that the ask is gone then is no news."""
        self._room = room
        self._change = asking.change_lines(ask.params)
        self._is_split: bool | None = None
        self._writes = ""
        """Which answer the words are for: a pattern (r) or a reason (n)."""

    # What there is to see

    def body(self) -> ComposeResult:
        with Shown():
            yield Static(id="facts")
            yield Diff() if self._change else Static(id="what")
            yield Static(id="claim")
        yield Rows()
        yield Static(id="preview")
        yield Input(id="words", compact=True, select_on_focus=False)

    def on_mount(self) -> None:
        self.set_class(self.size.width <= 80 or self.size.height <= 24, "-whole")
        self._draw()

    def settled(self) -> None:
        if not self._writes:
            self.usual_hint()

    def _draw(self) -> None:
        self.query_one("#facts", Static).update(self._facts())
        if self._change:
            if self._is_split is None:
                self._is_split = self.size.width >= SPLIT_FROM
            change = Change(asking.target(self.ask.params), "\n".join(self._change))
            self.query_one(Diff).show([change], split=self._is_split)
        elif command := asking.command(self.ask.params):
            self._tell(highlight(command, language="bash") + self._beside())
        else:
            self._tell(Text(asking.details(self.ask.params, self.ask.description)))
        if claim := asking.claim(self.ask.params):
            told = self.query_one("#claim", Static)
            told.update(Text(f"the model says: {claim}"))
            told.display = True

    def _tell(self, what: VisualType) -> None:
        self.query_one("#what", Static).update(what)

    def _beside(self) -> str:
        """The other arguments of a command, as far as they say something."""
        told = {
            key: value
            for key, value in self.ask.params.items()
            if key not in ("command", "description") and value and value != self.ask.path
        }
        return f"\n{asking.details(told, '')}" if told else ""

    def _facts(self) -> Text:
        ask, colours = self.ask, self.app.theme_variables
        text = Text.assemble(
            (inert_line(ask.tool_name), "bold"), f" asks to {inert_line(ask.action)}", f"{self._where()}\n"
        )
        rows = [("in", inert_line(ask.path)), ("on", asking.target(ask.params)), ("why", inert_line(ask.why))]
        for name, told in rows:
            if told:
                text.append(f"{name:<4}", colours["faint"]).append(f"{told}\n")
        for warning in ask.warnings:
            text.append(f"! risk: it {inert_line(warning)}\n", f"bold {colours['error']}")
        if ask.shown:
            text.append("with all that is hidden made visible:\n", colours["warning"])
            text.append(f"{inert(ask.shown)}\n")
        text.rstrip()
        return text

    def _where(self) -> str:
        """Which session, where it is not the one in front."""
        session = self._room.session(self.ask.session_id)
        if session is None or session.id == self._room.current_session:
            return ""
        return f"  (in “{inert_line(session.title)}”)"

    def answers(self) -> Sequence[Option]:
        ask = self.ask
        beside = ", but not targets like this one" if ask.protected else ""
        tool, action = inert_line(ask.tool_name), inert_line(ask.action)
        return (
            answer("a", "allow once"),
            answer("s", f"allow {tool} to {action} {asking.scope(ask.params)} for this session{beside}"),
            answer("e", "allow exactly this from now on"),
            *(
                [answer("r", f"allow from now on, or another pattern: {inert_line(ask.rule)}")]
                * bool(ask.rule)
            ),
            answer("d", "deny, and end the turn"),
            answer("n", "deny and say why; the turn goes on"),
        )

    # Keys

    def takes(self, event: Key) -> bool:
        if event.key == "escape" or self._writes:
            return False
        if not self.quiet.counts(event.time):
            event.prevent_default().stop()
            return False
        if event.character == "t" and self._change:
            self._is_split = not self._is_split
            self._draw()
        elif event.character == "f":
            self.toggle_class("-whole")
        else:
            return True
        return False

    def action_close(self) -> None:
        """Back from the words to the answers; from those it is only put aside."""
        if self._writes:
            self._write("")
        else:
            self.decide()

    # Answers

    def answered(self, key: str) -> None:
        if not self.quiet.is_over:
            return
        if key in ("r", "n"):
            self._write(key)
        else:
            self._give(ACTIONS[key])

    def _write(self, key: str) -> None:
        """Let the person write words for the answer of that key."""
        self._writes = key
        self.set_class(bool(key), "-writing")
        words = self.query_one("#words", Input)
        if not key:
            self.set_focus(None)
            self.usual_hint()
            return
        words.value = asking.offered_pattern(self.ask.rule) if key == "r" else ""
        words.cursor_position = len(words.value)
        words.placeholder = "as offered" if key == "r" else "what should it do instead?"
        words.focus()
        self._preview(words.value)
        self.hint(f"enter {'allow that' if key == 'r' else 'deny with this reason'}  esc back")

    def on_input_changed(self, changed: Input.Changed) -> None:
        self._preview(changed.value)

    def _preview(self, words: str) -> None:
        told = "the model reads this, and goes on"
        if self._writes == "r":
            offered = words in ("", asking.offered_pattern(self.ask.rule))
            told = (
                f"allowed from now on, for 30 days in this workspace: {inert_line(self.ask.rule)}"
                if offered
                else asking.pattern_text(self.ask, words)
            )
        self.query_one("#preview", Static).update(Text(told))

    def on_input_submitted(self, submitted: Input.Submitted) -> None:
        words = submitted.value.strip()
        if self._writes == "r":
            self._give("allow_rule", rule="" if words == asking.offered_pattern(self.ask.rule) else words)
        elif words:
            self._give("deny", reason=words)
        else:
            self.hint("say why, or esc and d to deny without a reason", is_wrong=True)

    def _give(self, action: PermissionAction, *, reason: str = "", rule: str = "") -> None:
        self.attempt(self._send(action, reason, rule))

    async def _send(self, action: PermissionAction, reason: str, rule: str) -> None:
        if self.is_answering:
            return
        self.is_answering = True
        try:
            counted = await self._room.grant(self.ask, action, reason=reason, rule=rule)
        finally:
            self.is_answering = False
        self.decide(
            ("denied" if action == "deny" else "allowed") if counted else "somebody else answered first"
        )
