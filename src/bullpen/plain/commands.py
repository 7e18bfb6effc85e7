"""The slash commands of the line-mode client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from msgspec.structs import replace

from bullpen.client.workspace import Room
from bullpen.plain.attaching import Attaching
from bullpen.plain.desk import Desk
from bullpen.plain.key_commands import KeyCommands
from bullpen.plain.queue_commands import QueueCommands
from bullpen.plain.session_commands import SessionCommands
from bullpen.plain.view import View
from bullpen.present.choosing import Choice, choices, choose_for_session, make_ready, pick
from bullpen.present.custom import listed, prepare
from bullpen.present.inert import inert_line
from bullpen.present.spending import spent_line
from bullpen.present.trust import lines as effect_lines
from bullpen.present.trust import summary
from bullpen.present.undoing import done_lines, latest, preview_lines, turn_lines
from bullpen.schema.api import Skip
from bullpen.schema.choices import ChoicesChange

LISTED_TURNS = 20

SUMMARY_S = 600.0
"""A model may think long about what to keep."""

HELP = """\
  text            a prompt for the agent; while it works, the prompt waits its turn
  1, 2, …         answers the ask that is shown
  !command        run a command of your own    //text         a prompt that begins with a slash

  /files letters  find files of the server's   /attach file   with the next prompt; file:10-20 for some lines
  /upload file    one of this machine          /detach        with nothing any more

  /sessions       list the sessions            /switch N      enter session N of that list
  /new [title]    start a new session          /rename title  give this one another name
  /search words   find it in what was said     /everywhere    sessions of all projects; or words to find
  /fork [title]   go on in a copy              /rewind [N]    go back to before a prompt
  /export [file]  write this session to a file /delete N      throw one away
  /trash          what was thrown away         /restore N     have it back
  /history        print this session from its beginning

  /queue          list the waiting prompts     /drop N        take waiting prompt N back
  /edit N text    let it say something else    /move N M      give it another place
  /now text       be heard at once             /after text    be heard when this turn is over
  /cancel         cancel the running turn      /wake          ask a waiting model now

  /model [name]   this session's model         /default name  the model of new sessions
  /effort level   how long it may think        /key [name]    enter a provider's key, unseen
  /login          log in to GitHub Copilot     /summarize     make room; /undo summary takes it back
  /changes [N]    turns that changed files; what undoing turn N would do
  /undo [N]       undo the latest turn, or N   /redo          take the last undo back
  /pin text       keep a note in summaries     /cost          what this workspace spent

  /show           print the open ask in full   /skip          answer a question with nothing
  /trust [yes]    what the project's files want; let them
  /free on|off    allow everything, or ask     /who           who is attached
  /jobs           list the background jobs     /jobs kill ID  end one
  /commands       your own commands and skills /NAME words    use one of them
  /quit           leave (also Ctrl-D; the turn goes on)
  Ctrl-C cancels the running turn, twice leaves."""


class Commands:
    """What can be done beside prompting. Every command may raise what the server says against it."""

    def __init__(self, room: Room, view: View, desk: Desk) -> None:
        self._room = room
        self._view = view
        self._desk = desk
        self._sessions = SessionCommands(room, view, desk)
        self._queue = QueueCommands(room, view)
        self.attaching = Attaching(room, view)
        self.keys = KeyCommands(room, view)
        self._offered: list[Choice] = []
        """Until the next line, which may be a number."""
        self._seen: list[Choice] = []
        """The list that was last shown: numbers mean what stood there, although a choice moves models up."""
        self._seen_trust = ""
        self._all: dict[str, Callable[[str], Awaitable[None]]] = {
            "help": self._help,
            "history": self._history,
            "show": self._show,
            "skip": self._skip,
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
            "summarize": self._summarize,
            "effort": self._effort,
            "free": self._free,
            **self._sessions.all,
            **self._queue.all,
            **self.attaching.all,
            **self.keys.all,
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

    def takes_long(self, line: str) -> bool:
        """Whether a line that begins with a slash waits for a person elsewhere, so that other lines must not wait for it."""
        return line.partition(" ")[0] == "/login"

    async def cancel(self) -> None:
        """Cancel the running turn and what waits behind it."""
        await self._queue.cancel()

    async def shell(self, command: str) -> None:
        """Run a person's own command."""
        await self._queue.shell(command)

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
        hint = "  others need a key: /key lists them"
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

    async def _effort(self, level: str) -> None:
        session = self._sessions.here()
        if session is None:
            return
        chosen = (await self._room.choices(session.id)).large or (await self._room.agent()).model_cfg
        if not level:
            now = chosen.reasoning_effort or "as the model likes"
            self._view.note(f"effort: {inert_line(now)}; /effort high changes it")
            return
        wanted = replace(chosen, reasoning_effort=level)
        await self._room.choose(session.id, ChoicesChange(large=wanted))
        self._view.note(f"effort: {inert_line(level)}, for this session")

    # The conversation

    async def _summarize(self, _rest: str) -> None:
        if session := self._sessions.here():
            await self._room.call(
                "POST", f"/agent/sessions/{session.id}/summarize", timeout_s=SUMMARY_S, once=True
            )
            self._view.note("summarised; /undo summary takes it back")

    async def _history(self, _rest: str) -> None:
        self._view.start_over()
        self._view.show_all()

    async def _pin(self, text: str) -> None:
        if not text or not self._room.current_session:
            self._view.note("what is to be kept? /pin and the words, in a session")
            return
        await self._room.pin(text, self._room.current_session)
        self._view.note("pinned: summaries of this session keep it word for word")

    # Files

    async def _changes(self, wanted: str) -> None:
        session = self._sessions.here()
        if session is None:
            return
        if wanted.isdecimal():
            preview = await self._room.preview_undo(int(wanted), session=session.id)
            self._view.block("\n".join(f"  {line}" for line in preview_lines(preview, verb="undo")))
        else:
            self._view.block("\n".join(turn_lines(await self._room.changes(session.id, limit=LISTED_TURNS))))

    async def _undo(self, wanted: str) -> None:
        session = self._sessions.here()
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
        session = self._sessions.here()
        if session is not None:
            done = await self._room.redo(session=session.id)
            self._tell(done_lines(done, verb="redid", back=f"/undo {done.turn} takes it back"))

    def _tell(self, lines: Iterable[str]) -> None:
        first, *rest = lines
        self._view.note("\n".join((first, *rest)))

    async def _cost(self, _rest: str) -> None:
        rows = await self._room.spending("model")
        told = [f"  {inert_line(row.key)}  {spent_line(row)}" for row in rows]
        self._view.block("\n".join(told) or "  nothing was spent yet")

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

    async def _free(self, wanted: str) -> None:
        """Everything is allowed without asking, for everybody in this workspace; or not any more."""
        if wanted not in ("on", "off"):
            self._view.note(
                "/free on allows everything without asking, for everybody here; /free off asks again"
            )
            return
        wish = Skip(skip=wanted == "on")
        if (await self._room.call("GET", "/permissions/skip")).read(Skip) == wish:
            self._view.note("it is so already")
        else:  # What it is from now on, everybody is told by an event.
            await self._room.call("POST", "/permissions/skip", wish)

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
