"""The slash commands of the line-mode client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Literal

from bullpen.client.workspace import Room
from bullpen.plain.desk import Desk
from bullpen.plain.view import View
from bullpen.present.choosing import Choice, choices, choose_for_session, make_ready, pick
from bullpen.present.custom import listed, prepare
from bullpen.present.inert import inert_line
from bullpen.present.sessions import find_session
from bullpen.present.spending import spent_line
from bullpen.present.trust import lines as effect_lines
from bullpen.present.trust import summary
from bullpen.present.undoing import done_lines, latest, preview_lines, turn_lines
from bullpen.schema.session import Session

LISTED_TURNS = 20

HELP = """\
  text            a prompt for the agent; while it works, the prompt waits its turn
  1, 2, …         answers the ask that is shown
  /sessions       list the sessions            /switch N      enter session N of that list
  /new [title]    start a new session          /history       print this session from its beginning
  /queue          list the waiting prompts     /drop N        take waiting prompt N back
  /cancel         cancel the running turn      /show          print the open ask in full
  /now text       be heard at once             /after text    be heard when this turn is over
  /model [name]   this session's model         /default name  the model of new sessions
  /wake           ask a waiting model now      /skip          answer a question with nothing
  /changes [N]    turns that changed files; what undoing turn N would do
  /undo [N]       undo the latest turn, or N   /redo          take the last undo back
  /pin text       keep a note in summaries     /undo summary  take the last summary back
  /cost           what this workspace spent    /trust [yes]   what the project's files want; let them
  /who            who is attached              /quit          leave (also Ctrl-D; the turn goes on)
  /jobs           list the background jobs     /jobs kill ID  end one
  /commands       your own commands and skills /NAME words    use one of them
  //text          a prompt that begins with a slash
  Ctrl-C cancels the running turn, twice leaves."""


class Commands:
    """What can be done beside prompting. Every command may raise what the server says against it."""

    def __init__(self, room: Room, view: View, desk: Desk) -> None:
        self._room = room
        self._view = view
        self._desk = desk
        self._listed: list[Session] = []
        self._offered: list[Choice] = []
        """Until the next line, which may be a number."""
        self._seen: list[Choice] = []
        """The list that was last shown: numbers mean what stood there, although a choice moves models up."""
        self._seen_trust = ""
        self._all: dict[str, Callable[[str], Awaitable[None]]] = {
            "help": self._help,
            "sessions": self._sessions,
            "switch": self._switch,
            "new": self._new,
            "history": self._history,
            "queue": self._queue,
            "drop": self._drop,
            "cancel": self.cancel,
            "show": self._show,
            "skip": self._skip,
            "now": self._now,
            "after": self._after,
            "wake": self._wake,
            "pin": self._pin,
            "changes": self._changes,
            "undo": self._undo,
            "redo": self._redo,
            "cost": self._cost,
            "model": self._model,
            "default": self._default,
            "who": self._who,
            "jobs": self._jobs,
            "trust": self._trust,
            "commands": self._commands,
        }

    async def run(self, line: str) -> None:
        """Carry out a line that begins with a slash."""
        name, _, rest = line[1:].partition(" ")
        command = self._all.get(name)
        if command is not None:
            await command(rest.strip())
            return
        prepared = await prepare(self._room, line)
        if prepared is None:
            self._view.note(
                f"there is no /{inert_line(name)}; /help and /commands list what there is (//… sends it as a prompt)"
            )
            return
        self._view.expect(prepared.text)
        await self._room.prompt(prepared.text, attachments=prepared.attachments)

    async def _commands(self, _rest: str) -> None:
        self._view.block(
            "\n".join(await listed(self._room)) or "  none: docs/commands.md says how to write one"
        )

    # Models

    async def offer_models(self, heading: str) -> None:
        """List the models that could be used; the next line may be the number of one."""
        among = await choices(self._room)
        self._offered = [choice for choice in among if choice.usual]
        self._seen = self._offered
        rows = [
            f"  {number:>2} {inert_line(c.label)}  ({inert_line(c.name)})" + (f"  {c.mark}" if c.mark else "")
            for number, c in enumerate(self._offered, 1)
        ]
        more = len(among) - len(self._offered)
        hint = "  others: set the provider's key (OPENAI_API_KEY …) or write it into bullpen.json"
        named = (
            [f"  {more} more by name: /model provider/model ('bullpen models' lists them)"] if more else []
        )
        self._view.block("\n".join([heading, *rows, *named, hint]))

    async def choose_model(self, text: str) -> bool:
        """Take a line as the choice among the offered models; whether it was one. Other lines end the choosing."""
        offered, self._offered = self._offered, []
        if not offered or not text.isdecimal():
            return False
        if not 1 <= int(text) <= len(offered):
            self._offered = offered
            self._view.note(f"a number from 1 to {len(offered)}, please")
            return True
        await self._take_model(offered[int(text) - 1])
        return True

    async def _model(self, wanted: str) -> None:
        if wanted.isdecimal():
            self._offered = self._seen or [choice for choice in await choices(self._room) if choice.usual]
            await self.choose_model(wanted)
        elif wanted:
            await self._take_model(pick(wanted, await choices(self._room)))
        else:
            await self.offer_models("models (choose by number):")

    async def _take_model(self, choice: Choice) -> None:
        """For the session one is in; where there is none, or no model at all yet, for the workspace."""
        session = self._room.current_session
        if session and (await self._room.agent()).is_ready:
            await choose_for_session(self._room, session, choice)
        else:
            await self._make_default(choice)

    async def _default(self, wanted: str) -> None:
        if not wanted:
            self._view.note("which one? /model lists them")
            return
        await self._make_default(pick(wanted, await choices(self._room)))

    async def _make_default(self, choice: Choice) -> None:
        await make_ready(self._room, choice)
        self._view.note(f"model: {inert_line(choice.name)}, for every session that chose none")

    # Sessions

    async def _sessions(self, _rest: str) -> None:
        self._listed = self._room.sessions
        rows = [f"  {number:>2} {self._describe(session)}" for number, session in enumerate(self._listed, 1)]
        self._view.block("\n".join(rows) or "  no sessions yet: the first prompt starts one")

    def _describe(self, session: Session) -> str:
        marks = [
            "here" if session.id == self._room.current_session else "",
            "busy" if session.is_busy else "",
            f"{session.attached_clients} in it" if session.attached_clients else "",
        ]
        told = ", ".join(mark for mark in marks if mark)
        return f"{inert_line(session.title) or 'untitled'}  {session.id[:8]}  {told}".rstrip()

    async def _switch(self, wanted: str) -> None:
        listed = self._listed or self._room.sessions
        if wanted.isdecimal() and 1 <= int(wanted) <= len(listed):
            session = listed[int(wanted) - 1]
        elif wanted and not wanted.isdecimal():
            session = find_session(self._room, wanted)
        else:
            self._view.note("which one? /sessions numbers them")
            return
        await self._view.enter(session)
        self._desk.show(again=True)

    async def _new(self, title: str) -> None:
        session = await self._room.new_session(title or "New Session")
        self._view.start_over()
        self._view.block(f"— new session {session.id[:8]} —")

    async def _history(self, _rest: str) -> None:
        self._view.start_over()
        self._view.show_all()

    # Turns and prompts

    async def cancel(self, _rest: str = "") -> None:
        """Cancel the running turn and what waits behind it."""
        if not self._room.current_session:
            self._view.note("nothing is running")
            return
        for text in await self._room.cancel():
            self._view.note(f"dropped: {inert_line(text)}")

    async def _now(self, text: str) -> None:
        await self._send(text, "now")

    async def _after(self, text: str) -> None:
        await self._send(text, "after")

    async def _send(self, text: str, when: Literal["now", "after"]) -> None:
        if not text:
            self._view.note(f"what is to be said? /{when} and the words")
            return
        self._view.expect(text)
        await self._room.prompt(text, when=when)

    async def _wake(self, _rest: str) -> None:
        if not self._room.current_session or not await self._room.wake():
            self._view.note("nothing waits for a model")

    async def _pin(self, text: str) -> None:
        if not text or not self._room.current_session:
            self._view.note("what is to be kept? /pin and the words, in a session")
            return
        await self._room.pin(text, self._room.current_session)
        self._view.note("pinned: summaries of this session keep it word for word")

    # Files

    async def _changes(self, wanted: str) -> None:
        session = self._here()
        if session is None:
            return
        if wanted.isdecimal():
            preview = await self._room.preview_undo(int(wanted), session=session.id)
            self._view.block("\n".join(f"  {line}" for line in preview_lines(preview, verb="undo")))
        else:
            self._view.block("\n".join(turn_lines(await self._room.changes(session.id, limit=LISTED_TURNS))))

    async def _undo(self, wanted: str) -> None:
        session = self._here()
        if session is None:
            return
        if wanted == "summary":
            await self._room.undo_summary(session.id)
            self._view.note("the model sees again what the summary stood for")
        elif wanted and not wanted.isdecimal():
            self._view.note("which turn? /changes numbers them")
        else:
            turn = int(wanted) if wanted else await latest(self._room, session)
            done = await self._room.undo(turn, session=session.id)
            self._tell(done_lines(done, verb="undid", back="/redo takes it back"))

    async def _redo(self, _rest: str) -> None:
        session = self._here()
        if session is not None:
            done = await self._room.redo(session=session.id)
            self._tell(done_lines(done, verb="redid", back=f"/undo {done.turn} takes it back"))

    def _here(self) -> Session | None:
        session = self._room.session(self._room.current_session)
        if session is None:
            self._view.note("there is no session yet")
        return session

    def _tell(self, lines: Iterable[str]) -> None:
        first, *rest = lines
        self._view.note("\n".join((first, *rest)))

    async def _cost(self, _rest: str) -> None:
        rows = await self._room.spending("model")
        told = [f"  {inert_line(row.key)}  {spent_line(row)}" for row in rows]
        self._view.block("\n".join(told) or "  nothing was spent yet")

    async def _queue(self, _rest: str) -> None:
        waiting = await self._room.queue() if self._room.current_session else []
        rows = [
            f"  {number:>2} {inert_line(p.text)}" + (f"  ({inert_line(p.author)})" if p.author else "")
            for number, p in enumerate(waiting, 1)
        ]
        self._view.block("\n".join(rows) or "  nothing waits")

    async def _drop(self, wanted: str) -> None:
        waiting = await self._room.queue() if self._room.current_session else []
        if not wanted.isdecimal() or not 1 <= int(wanted) <= len(waiting):
            self._view.note("which one? /queue numbers them")
            return
        await self._room.withdraw(waiting[int(wanted) - 1].seq)

    # Asks and people

    async def _show(self, _rest: str) -> None:
        if not self._desk.show(whole=True):
            self._view.note("nothing is asked")

    async def _skip(self, _rest: str) -> None:
        if not await self._desk.skip():
            self._view.note("no question is open")

    async def _who(self, _rest: str) -> None:
        rows = []
        for client in await self._room.clients():
            session = self._room.session(client.current_session)
            where = f"  in “{inert_line(session.title)}”" if session else ""
            me = " (you)" if client.client_id == self._room.client_id else ""
            rows.append(f"  {inert_line(client.name) or client.client_id[:8]}{me}{where}")
        self._view.block("\n".join(rows) or "  nobody")

    async def _jobs(self, wanted: str) -> None:
        word, _, job_id = wanted.partition(" ")
        if word == "kill" and job_id:
            ended = await self._room.kill_job(job_id.strip())
            self._view.note(f"ended: {inert_line(ended.id)}")
            return
        rows = [
            f"  {inert_line(job.id)}  {'running' if job.running else f'exit {job.exit_code}':<8}  {inert_line(job.command)}"
            for job in await self._room.jobs()
        ]
        self._view.block("\n".join(rows) or "  no background jobs")

    async def _trust(self, wanted: str) -> None:
        """Show what waits for trust; `yes` trusts exactly what was shown last, all or single items, `no` takes trust back."""
        word, *named = wanted.split()[:50] or [""]
        if word == "no":
            for item in named or [""]:
                await self._room.revoke_trust(item)
            self._view.note(f"no longer trusted: {inert_line(' '.join(named)) or 'all of it'}")
        elif word == "yes" and self._seen_trust:
            await self._room.give_trust(self._seen_trust, items=named)
            self._view.note("trusted, until it changes")
        else:
            shown = await self._room.trust()
            self._seen_trust = shown.fingerprint
            rows = [f"  {line}" for line in effect_lines(shown.effects)]
            self._view.block("\n".join(rows) or "  nothing in this project waits for trust")
            if rows:
                how = "" if shown.trusted else "; /trust yes lets it take effect, /trust yes ITEM a part"
                self._view.note(summary({effect.state for effect in shown.effects}) + how)

    async def _help(self, _rest: str) -> None:
        self._view.block(HELP)
