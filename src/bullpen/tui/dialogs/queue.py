"""The prompts that wait in this session: changed, moved, taken back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from bullpen.errors import BadRequest
from bullpen.present.inert import inert_line
from bullpen.schema.events import Event, QueueChanged
from bullpen.tui.dialogs.dialog import Dialog
from bullpen.tui.dialogs.keyed import Confirm
from bullpen.tui.dialogs.picker import Picker
from bullpen.tui.dialogs.rows import Option
from bullpen.tui.dialogs.words import Words

if TYPE_CHECKING:
    from bullpen.client.workspace import Room


class Queue(Picker):
    """Looks at the queue as it is: what others do to it is seen at once."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+up,alt+up", "move(-1)", "earlier", priority=True),
        Binding("ctrl+down,alt+down", "move(1)", "later", priority=True),
        Binding("ctrl+x", "withdraw", "take it back", priority=True),
        Binding("ctrl+d", "clear", "take all of them back", priority=True),
    ]
    place = "The queue"

    def __init__(self, room: Room) -> None:
        super().__init__(
            "What waits",
            hint="enter change  alt+↑↓ move  ctrl+x take back  ctrl+d all  esc close",
            empty="nothing waits: a prompt sent while the agent works does",
        )
        self._room = room

    async def options(self) -> Sequence[Option]:
        waiting = await self._room.queue() if self._room.current_session else []
        return [
            Option(
                str(prompt.seq),
                f"{number} {prompt.text}",
                right=inert_line(prompt.author),
                also=prompt.author,
            )
            for number, prompt in enumerate(waiting, 1)
        ]

    def moved(self, event: Event) -> None:
        if isinstance(event.payload, QueueChanged):
            self.reload()

    @property
    def _seq(self) -> int:
        if self.chosen is None:
            raise BadRequest("nothing waits")
        return int(self.chosen.key)

    async def pick(self, option: Option) -> None:
        waiting = {prompt.seq: prompt for prompt in await self._room.queue()}
        prompt = waiting.get(int(option.key))
        if prompt is None:
            raise BadRequest("it does not wait any more")
        text = await self.also(Rewrite(prompt.text))
        if text is not None:
            await self._room.edit(prompt.seq, text=text)
            self.reload()

    def action_move(self, by: int) -> None:
        self.attempt(self._move(by))

    async def _move(self, by: int) -> None:
        seq = self._seq
        order = [prompt.seq for prompt in await self._room.queue()]
        if seq in order:
            await self._room.edit(seq, index=min(max(order.index(seq) + by, 0), len(order) - 1))
            self.reload()

    def action_withdraw(self) -> None:
        self.attempt(self._withdraw())

    async def _withdraw(self) -> None:
        await self._room.withdraw(self._seq)
        self.reload()

    def action_clear(self) -> None:
        self.attempt(self._clear())

    async def _clear(self) -> None:
        if await self.also(Confirm("Take all of them back?", "The running turn goes on.", yes="yes, all")):
            await self._room.clear_queue()
            self.reload()


class Rewrite(Dialog[str]):
    """A prompt to be written anew; dismissed with what it reads then."""

    def __init__(self, text: str) -> None:
        super().__init__("Change the prompt", "enter keep it  shift+enter new line  esc leave it as it was")
        self._text = text

    def body(self) -> ComposeResult:
        yield Words(self._text)

    def on_mount(self) -> None:
        words = self.query_one(Words)
        words.focus()
        words.move_cursor(words.document.end)

    def on_words_done(self, done: Words.Done) -> None:
        if done.text.strip():
            self.decide(done.text)
        else:
            self.hint("an empty prompt says nothing: esc, then ctrl+x takes it back", is_wrong=True)
