"""What the line-mode client prints of the session it is in.

Everything about messages comes from the room's mirror through the `Transcript`, so lost links and reloads need no
care here: the view is told when to look, and prints what is new.
"""

from __future__ import annotations

from bullpen.client.workspace import Room
from bullpen.plain.terminal import Terminal
from bullpen.plain.transcript import Transcript
from bullpen.present.inert import cut, inert, inert_line
from bullpen.schema.agent import QueuedPrompt
from bullpen.schema.jobs import CommandOutput
from bullpen.schema.message import Message
from bullpen.schema.session import Session

RECENT_MESSAGES = 12
"""How much of a session is printed on entering it; /history prints the rest."""

OUTPUT_LINES = 3
"""How many lines of a running command are printed at once, a few times a second: a sign of life, not a log."""


class View:
    """The terminal as far as it shows the conversation and notes beside it."""

    def __init__(self, room: Room, terminal: Terminal) -> None:
        self._room = room
        self._terminal = terminal
        self._transcript = Transcript()
        self._mine: list[str] = []
        self._authors: dict[str, str] = {}
        self._child_calls: set[str] = set()

    # Notes

    def note(self, text: str) -> None:
        """One line beside the conversation."""
        self.block(f"· {text}")

    def block(self, text: str) -> None:
        """Whole lines, printed as they stand."""
        self._transcript.broke_line()
        self._terminal.line(text)

    # The input line

    def ask_unseen(self, prompt: str) -> None:
        """The next line is a secret: it is neither shown while it is typed nor remembered."""
        self._terminal.ask_unseen(prompt)

    def ask_seen(self) -> None:
        """Lines are what they usually are."""
        self._terminal.ask_seen()

    # The conversation

    async def enter(self, session: Session) -> None:
        """Go into a session and print how it ended so far."""
        messages = await self._room.open(session.id)
        self._transcript = Transcript()
        self.block(f"— session “{inert_line(session.title) or 'untitled'}” {session.id[:8]} —")
        earlier = max(len(messages) - RECENT_MESSAGES, 0)
        if earlier:
            self.note(f"{earlier} earlier messages: /history prints them")
        for message in messages[:earlier]:
            self._transcript.pass_over(message)
        for message in messages[earlier:]:
            self._show(message)

    def start_over(self) -> None:
        """Forget what was printed: the next look prints it all."""
        self._transcript = Transcript()

    def show_all(self) -> None:
        """Print what is new in any message of the session."""
        for message in self._room.messages(self._room.current_session):
            self._show(message)

    def show(self, session_id: str, message_id: str) -> None:
        """Print what is new in a message, if it belongs here."""
        message = self._room.message(session_id, message_id)
        if message is None:
            return
        if session_id == self._room.current_session:
            self._show(message)
        elif self._is_child(session_id):
            self._show_child(message)

    def show_output(self, output: CommandOutput, *, is_first: bool) -> None:
        """The last lines of what a running command has just printed; of a person's own, first that it runs."""
        if output.session_id != self._room.current_session:
            return
        if output.command and is_first:
            self.note(f"{cut(inert_line(output.command), self._terminal.width - 10)} runs …")
        lines = [line for line in inert(output.text).split("\n") if line.strip()]
        for line in lines[-OUTPUT_LINES:]:
            self.block(cut(f"  │ {line}", self._terminal.width))

    def _show(self, message: Message) -> None:
        author = self._author(message) if message.role == "user" else ""
        self._terminal.write(self._transcript.show(message, author=author, width=self._terminal.width))

    def _is_child(self, session_id: str) -> bool:
        session = self._room.session(session_id)
        parent = session.parent_session_id if session else ""
        return bool(parent) and parent == self._room.current_session

    def _show_child(self, message: Message) -> None:
        """Of a sub-agent only its tool calls are shown, set in."""
        for call in message.tool_calls:
            if call.finished and call.id not in self._child_calls:
                self._child_calls.add(call.id)
                self.note(f"  ↳ {inert_line(call.name)}")

    # Who said it

    def expect(self, text: str) -> None:
        """This person has sent a prompt; it is printed when it comes back."""
        self._mine.append(text)

    def expect_no_more(self, text: str) -> None:
        """It was not accepted after all."""
        if text in self._mine:
            self._mine.remove(text)

    def learn_authors(self, waiting: tuple[QueuedPrompt, ...]) -> None:
        """A waiting prompt names its author; messages of older servers do not."""
        self._authors.update({prompt.text: prompt.author for prompt in waiting if prompt.author})

    def _author(self, message: Message) -> str:
        """Who sent a prompt, as far as it is known."""
        text = message.text
        named = message.author or self._authors.get(text, "")
        if text in self._mine and named in {"", self._room.name, self._room.client_id}:
            self._mine.remove(text)
            return "you"
        return named or "someone"
