"""The agent asks: yes or no, one of several, some of several, or in words; several questions at once are pages with a last one that
sums up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Key
from textual.widgets import Static

from bullpen.present.inert import inert, inert_line
from bullpen.schema.asks import QuestionBatch
from bullpen.tui.dialogs.rows import Option, Rows
from bullpen.tui.dialogs.sheet import Sheet
from bullpen.tui.dialogs.unasked import Unasked
from bullpen.tui.dialogs.words import Words

if TYPE_CHECKING:
    from bullpen.client.workspace import Room

OWN = "\0own"
SEND = "\0send"
BACK = "\0back"

HINTS = {
    "yes_no": "y yes  n no",
    "single_choice": "↑↓ 1-9  enter take",
    "multi_choice": "1-9 pick  enter done",
    "free_text": "enter done",
}


class Questions(Unasked[str]):
    """Dismissed with what became of it; with None when it was only put aside."""

    DEFAULT_CSS = """
    Questions #box { border: round $secondary; }
    Questions #pages { height: 1; margin-bottom: 1; }
    Questions #question { height: auto; text-style: bold; }
    Questions #about { height: auto; color: $faint; }
    Questions Rows { height: auto; max-height: 12; margin-top: 1; }
    Questions Words { margin-top: 1; display: none; }
    Questions #note { height: auto; margin-top: 1; color: $faint; display: none; }
    Questions #help { margin-top: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+left", "go(-1)", "question before", priority=True),
        Binding("ctrl+right", "go(1)", "next question", priority=True),
        Binding("alt+n", "note", "a note on the choice or the question", priority=True),
        Binding("ctrl+x", "decline", "answer none of it, and end the turn", priority=True),
    ]
    place = "When the agent asks"

    def __init__(self, room: Room, ask: QuestionBatch, *, count: int = 1) -> None:
        of = f" · 1 of {count}" if count > 1 else ""
        super().__init__(f"A question{of}" if len(ask.questions) == 1 else f"Questions{of}")
        self.ask = ask
        self.is_answering = False
        """An answer of ours is on its way: that the ask is gone then is no news."""
        self._room = room
        self._sheet = Sheet(ask)
        self._writes: str | None = None
        """What the words are for: `OWN`, or the choice that a note is on, "" being the question itself."""
        self._declines = False

    def body(self) -> ComposeResult:
        pages = Static(id="pages")
        pages.display = self._sheet.is_batch
        yield pages
        yield Static(id="question")
        yield Static(id="about")
        yield Rows()
        yield Static(id="note")
        yield Words()

    def on_mount(self) -> None:
        self._open()

    def settled(self) -> None:
        """A field for words takes the focus only now."""
        self._open()

    # What there is to see

    @property
    def rows(self) -> Rows:
        return self.query_one(Rows)

    @property
    def words(self) -> Words:
        return self.query_one(Words)

    def _open(self) -> None:
        """Show the page one is on."""
        self._writes = None
        question = self._sheet.question
        self._draw(chosen=None)
        is_text = question is not None and question.type == "free_text"
        self.words.display = is_text
        self.words.text = self._sheet.draft.text if is_text else ""
        if is_text and self.quiet.is_over:
            self._writes = OWN
            self.words.focus()
        else:
            self.set_focus(None)
        if question is None:
            self._tell(self.ask.confirm_title or "Send these answers?", self._summed_up())
        else:
            self._tell(question.question, inert(question.description))
        self._usual()

    def _usual(self) -> None:
        question = self._sheet.question
        keys = HINTS[question.type] if question else "enter take it"
        pages = "  ctrl+←→ page" if self._sheet.is_batch else ""
        note = "  alt+n note" if question else ""
        self.hint(f"{keys}{note}{pages}  ctrl+x decline  esc later")

    def _tell(self, title: str, about: str) -> None:
        self.query_one("#question", Static).update(Text(inert(title)))
        self.query_one("#about", Static).update(Text(about))
        self.query_one("#about").display = bool(about)

    def _summed_up(self) -> str:
        rows = [f"{asked}\n  → {said}" for asked, said in self._sheet.summary()]
        if self.ask.confirm_description:
            rows.insert(0, inert(self.ask.confirm_description))
        return "\n".join(rows)

    def _draw(self, chosen: str | None) -> None:
        rows = list(self._options())
        self.rows.show(rows, chosen=chosen)
        self.rows.display = bool(rows)
        self.query_one("#pages", Static).update(self._pages())
        question = self._sheet.question
        notes = self._sheet.draft.notes if question else {}
        labels = {choice.id: choice.label for choice in question.choices} if question else {}
        told = [f"note{f' on {labels[key]}' if key else ''}: {note}" for key, note in notes.items() if note]
        shown = self.query_one("#note", Static)
        shown.update(Text("\n".join(inert_line(each) for each in told)))
        shown.display = bool(told)

    def _options(self) -> Iterator[Option]:
        question = self._sheet.question
        if question is None:
            left = self._sheet.open_count
            yield Option(SEND, "send them" + (f", {left} skipped" if left else ""), mark="✓")
            yield Option(BACK, "not yet", mark="←")
            return
        draft = self._sheet.draft
        if question.type == "yes_no":
            for key, yes in (("y", True), ("n", False)):
                here = "  ●" if draft.yes is yes else ""
                yield Option(key, f"{'yes' if yes else 'no'}{here}", mark=key)
            return
        if question.type == "free_text":
            return
        signs = "☐☑" if question.type == "multi_choice" else "○●"
        for number, choice in enumerate(question.choices, 1):
            more = f"  {choice.description}" if choice.description else ""
            mark = signs[choice.id in draft.picked]
            yield Option(choice.id, f"{number} {choice.label}{more}", mark=mark)
        own = f": {draft.text}" if draft.text else " …"
        yield Option(
            OWN, f"{len(question.choices) + 1} in my own words{own}", mark=signs[bool(draft.text.strip())]
        )

    def _pages(self) -> Text:
        """One tab for each question; a click goes there."""
        text = Text()
        names = [each.label or f"question {n}" for n, each in enumerate(self._sheet.questions, 1)]
        for page, name in enumerate([*names, "summary"]):
            done = "✓ " if self._sheet.is_answered(page) else ""
            style = Style(reverse=page == self._sheet.at) + Style.from_meta(
                {"@click": f"screen.open({page})"}
            )
            text.append(f" {done}{inert_line(name)} ", style).append(" ")
        return text

    # Keys and mouse

    def on_key(self, event: Key) -> None:
        if event.key == "escape" or self._writes is not None:
            return
        if not self.quiet.counts(event.time):
            event.prevent_default().stop()
            return
        self._declines = False
        question = self._sheet.question
        match event.key:
            case "up" | "k":
                self.rows.step(-1)
            case "down" | "j":
                self.rows.step(1)
            case "left_square_bracket":
                self.action_go(-1)
            case "right_square_bracket":
                self.action_go(1)
            case "enter":
                self._enter()
            case "space":
                self._pick(self.rows.chosen.key if self.rows.chosen else "")
            case "y" | "n" | "left" | "right" if question is not None and question.type == "yes_no":
                self._decide(yes=event.key in ("y", "left"))
            case key if key.isdecimal():
                self._pick_number(int(key))
            case _:
                return
        event.stop()

    def _pick_number(self, number: int) -> None:
        options = self.rows.options
        if 1 <= number <= len(options):
            self._pick(options[number - 1].key)

    def _pick(self, key: str) -> None:
        """Mark a choice; the words of one's own are asked for."""
        question = self._sheet.question
        if not key or question is None:
            return
        if key == OWN:
            self._write(OWN)
        elif question.type == "yes_no":
            self._decide(yes=key == "y")
        else:
            self._sheet.pick(key)
            self._draw(chosen=key)

    def _enter(self) -> None:
        question, chosen = self._sheet.question, self.rows.chosen
        if question is None:
            if chosen is not None and chosen.key == BACK:
                self.action_go(-1)
            else:
                self._send()
        elif question.type == "yes_no" and chosen is not None:
            self._decide(yes=chosen.key == "y")
        elif chosen is not None and chosen.key == OWN:
            self._write(OWN)
        elif question.type == "single_choice" and chosen is not None:
            self._sheet.pick(chosen.key)
            self._next()
        elif self._sheet.draft.is_answered:
            self._next()
        else:
            self.hint("pick something first; ctrl+→ goes on, ctrl+x answers none of it", is_wrong=True)

    def _decide(self, *, yes: bool) -> None:
        self._sheet.draft.yes = yes
        self._next()

    def _next(self) -> None:
        if self._sheet.is_batch:
            self.action_go(1)
        else:
            self._send()

    def on_rows_clicked(self, clicked: Rows.Clicked) -> None:
        question = self._sheet.question
        if question is None or (clicked.times == 2 and question.type == "single_choice"):
            self._enter()
        elif clicked.times == 1 or question.type == "multi_choice":
            self._pick(clicked.option.key)

    def action_go(self, by: int) -> None:
        self.action_open(self._sheet.at + by)

    def action_open(self, page: int) -> None:
        """Go to a page; what stands in the field goes along."""
        if self._writes == OWN:
            self._sheet.say(self.words.text)
        self._sheet.go(page)
        self._open()

    # Words

    def action_note(self) -> None:
        question = self._sheet.question
        if question is None:
            return
        if self._writes == OWN:
            self._sheet.say(self.words.text)
        chosen = self.rows.chosen.key if self.rows.chosen else ""
        self._write(chosen if chosen in {choice.id for choice in question.choices} else "")

    def _write(self, what: str) -> None:
        self._writes = what
        draft = self._sheet.draft
        self.words.text = draft.text if what == OWN else draft.notes.get(what, "")
        self.words.display = True
        self.words.focus()
        self.hint(
            f"{'your own words' if what == OWN else 'a note'}: enter done  shift+enter new line  esc back"
        )

    def on_words_done(self, done: Words.Done) -> None:
        question = self._sheet.question
        if question is None or self._writes is None:
            return
        if self._writes != OWN:
            self._sheet.draft.notes[self._writes] = done.text
            self._open()
            return
        self._sheet.say(done.text)
        if question.type == "multi_choice":
            self._open()
        elif done.text.strip():
            self._next()
        else:
            self.hint("write something, or ctrl+x to answer none of it", is_wrong=True)

    def action_close(self) -> None:
        """Back from the words to the choices; from those it is only put aside."""
        question = self._sheet.question
        is_page_of_words = self._writes == OWN and question is not None and question.type == "free_text"
        if self._writes is not None and not is_page_of_words:
            self._open()
        else:
            self.decide()

    # Answers

    def action_decline(self) -> None:
        if self._declines:
            self.attempt(self._answer(declines=True))
        else:
            self._declines = True
            self.hint("ctrl+x again answers none of it, and the turn ends", is_wrong=True)

    def _send(self) -> None:
        self.attempt(self._answer(declines=False))

    async def _answer(self, *, declines: bool) -> None:
        if self.is_answering:
            return
        self.is_answering = True
        try:
            counted = (
                await self._room.decline(self.ask)
                if declines
                else await self._room.answer(self.ask, self._sheet.responses())
            )
        finally:
            self.is_answering = False
        said = "declined, the turn ends" if declines else "answered"
        self.decide(said if counted else "somebody else answered first")
