"""The built-in `demo` provider: a guided tour of Bullpen with the real tools, without a model or a network.

It reads and lists for real, and it asks before it writes, because the tools do. What comes next is read from the
conversation, so a tour survives a restart, and other clients that join see the same.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec

from bullpen.config.settings import ProviderSettings
from bullpen.providers.base import (
    AssistantTurn,
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    ReasoningDone,
    StepDone,
    ToolCallDone,
    ToolCallStarted,
    ToolTurn,
    UserTurn,
)
from bullpen.providers.spoken import last_prompt, spoken, usage_of
from bullpen.schema.message import ToolResult

if TYPE_CHECKING:
    from bullpen.providers.http import ModelClient

PACE_S = 0.03
"""Between two words: quick enough not to bore, slow enough to be seen streaming."""

SLOWER = 14
"""How many times slower the numbers come that are there to be interrupted: twenty of them in eight seconds."""

NUMBERS = " ".join(map(str, range(1, 21))) + "\n\n"

NOTE = "BULLPEN-TOUR.md"
NOTE_TEXT = """\
# A note from the Bullpen tour

This file was written by the `write` tool after somebody allowed it.
Everyone attached to this workspace saw the request, and the first answer counted.
You can delete it, or ask the tour to show you something else.
"""

WORDS = """\
Say one of these words and I will show you:

- **files**: list this directory
- **read** and a file's name: open a file
- **write**: write a note, after you allowed it
- **run**: run a command
- **question**: ask you something
- **think**: think aloud
- **count**: count slowly, so that you can cancel me
- **attach**: how others join this session
- **model**: how to use a real model
- **tour**: begin again"""


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """One step of the tour."""

    say: str
    slowly: str = ""
    """Said after the rest, slowly enough to be interrupted."""
    think: str = ""
    tool: str = ""
    input: dict[str, Any] = {}


class Moment(msgspec.Struct, frozen=True):
    """Where the conversation stands: the last message, and what tools answered to it since."""

    prompt: str
    results: tuple[ToolResult, ...]
    offered: frozenset[str]
    is_first: bool

    @property
    def last(self) -> ToolResult | None:
        return self.results[-1] if self.results else None

    def result_of(self, tool: str) -> ToolResult | None:
        return next((r for r in self.results if r.name == tool), None)


class Demo:
    """Gives the tour. Its one model is called `tour`."""

    def __init__(self, settings: ProviderSettings, http: ModelClient | None = None) -> None:
        pace_ms = settings.provider_options.get("pace_ms")
        self._pace_s = pace_ms / 1000 if isinstance(pace_ms, (int, float)) else PACE_S

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        scene = _scene_for(request)
        if scene.think:
            async for word in spoken(scene.think, self._pace_s):
                yield ReasoningDelta(word.text)
            yield ReasoningDone()
        async for event in spoken(scene.say, self._pace_s):
            yield event
        async for event in spoken(scene.slowly, self._pace_s * SLOWER):
            yield event
        if scene.tool:
            call_id = f"tour_{uuid4().hex[:12]}"
            yield ToolCallStarted(call_id, scene.tool)
            yield ToolCallDone(call_id, scene.tool, msgspec.json.encode(scene.input).decode())
        yield StepDone("tool_use" if scene.tool else "end_turn", usage_of(request, scene.say))


def _scene_for(request: ModelRequest) -> Scene:
    match request.purpose:
        case "title":
            return Scene(say="A tour of Bullpen")
        case "summary":
            return Scene(say="So far this was the guided tour: the directory was listed and a file was read.")
        case "turn":
            moment = _moment(request)
            play = _tour if moment.is_first else _play_for(moment.prompt)
            scene = play(moment)
            if scene.tool and scene.tool not in moment.offered:
                return Scene(say=f"{scene.say} (The tool `{scene.tool}` is switched off here, so I stop.)")
            return scene


def _moment(request: ModelRequest) -> Moment:
    turns = request.turns
    at = max((i for i, turn in enumerate(turns) if isinstance(turn, UserTurn)), default=-1)
    return Moment(
        last_prompt(request),
        tuple(turn.result for turn in turns[at + 1 :] if isinstance(turn, ToolTurn)),
        frozenset(spec.name for spec in request.tools),
        not any(isinstance(turn, AssistantTurn) for turn in turns[: max(at, 0)]),
    )


# The tour


def _tour(now: Moment) -> Scene:
    """Greeting, list, read, write, farewell; what fails or is missing is passed over."""
    listed, viewed, written = now.result_of("ls"), now.result_of("view"), now.result_of("write")
    if listed is None and "ls" in now.offered:
        return Scene(
            say="Welcome to Bullpen. I am not a language model: I am a short tour that plays inside the real "
            "server, with its real tools, in your directory. Nothing leaves this machine.\n\n"
            "An agent looks before it acts. Here is what is in this directory:",
            tool="ls",
            input={"depth": 2},
        )
    names = _top_files(listed.content) if listed and not listed.is_error else []
    if viewed is None and "view" in now.offered and (file := _worth_reading(names)):
        return Scene(
            say=f"Reading inside the workspace needs no permission. I open `{file}` as an example.",
            tool="view",
            input={"file_path": file, "limit": 20},
        )
    if written is None and "write" in now.offered and NOTE not in names:
        return Scene(
            say=f"{_about(viewed)}Changing something is another matter. I would like to write a small file, "
            f"`{NOTE}`. You will be asked, and so will everyone else who is attached; the first answer counts.",
            tool="write",
            input={"file_path": NOTE, "content": NOTE_TEXT},
        )
    about = f"{_about_writing(written)}{_attach(now).say}\n\n"
    if "question" not in now.offered:  # Nobody is there to press a key.
        return Scene(say=f"{about}{WORDS}")
    return Scene(say=f"{about}{WORDS}\n\n{STOP_ME}\n\n", slowly=NUMBERS)


def _about(viewed: ToolResult | None) -> str:
    if viewed is None or viewed.is_error:
        return ""
    lines = (re.sub(r"^\s*\d+\|", "", line).strip() for line in viewed.content.splitlines())
    first = next((line for line in lines if line and not line.startswith("<")), "")
    return f"It begins with “{first[:80]}”. " if first else "It is empty. "


def _about_writing(written: ToolResult | None) -> str:
    if written is None:
        return "That is all I need to look at.\n\n"
    if written.is_error:
        return "Nothing was written, and that is fine: a refusal is an answer an agent has to live with.\n\n"
    return (
        f"`{NOTE}` is there now. Its old and new state are kept, so a change can be looked at and undone.\n\n"
    )


def _top_files(tree: str) -> list[str]:
    """The files at the top of a listed directory."""
    return re.findall(r"^ {2}- (.*[^/\n])$", tree, re.MULTILINE)


def _worth_reading(names: list[str]) -> str:
    """A file that says something and holds no secret."""
    for pattern in (r"readme.*", r".*\.(md|rst|txt)", r".*\.(toml|py|js|ts|go|rs|c|h|java|sh)", r"makefile"):
        found = next(
            (n for n in names if re.fullmatch(pattern, n, re.IGNORECASE) and not n.startswith(".")), ""
        )
        if found:
            return found
    return ""


# What the words do


def _files(now: Moment) -> Scene:
    if now.last is None:
        return Scene(say="Here is the directory:", tool="ls", input={"depth": 2})
    return Scene(say=f"{len(_top_files(now.last.content))} files lie at the top of this directory.")


def _read(now: Moment) -> Scene:
    if now.last is not None:
        return Scene(say=_about(now.last) or "That file cannot be read.")
    named = re.search(r"[\w./-]*\w\.\w+", now.prompt)
    if named is None:
        return Scene(say="Say “read” and the name of a file, for example “read README.md”.")
    return Scene(say=f"I open `{named[0]}`.", tool="view", input={"file_path": named[0], "limit": 40})


def _write(now: Moment) -> Scene:
    if now.last is not None:
        return Scene(say=_about_writing(now.last))
    return Scene(
        say=f"I would like to write `{NOTE}`.", tool="write", input={"file_path": NOTE, "content": NOTE_TEXT}
    )


def _run(now: Moment) -> Scene:
    if now.last is not None:
        return Scene(
            say="No luck." if now.last.is_error else "That is what the command printed, for me and for you."
        )
    command = {"command": "uname -sr", "description": "Show the system's name"}
    return Scene(
        say="A command that may change something is shown to you exactly as it will run; this one only looks.",
        tool="bash",
        input=command,
    )


def _question(now: Moment) -> Scene:
    if now.last is not None:
        return Scene(say="Thank you. A real model would go on with your answer.")
    question = {
        "type": "single_choice",
        "question": "What would you like to do next?",
        "description": "Nothing depends on it; this shows how an agent asks.",
        "choices": [
            {"id": "look", "label": "Look around", "description": "Stay on the tour."},
            {"id": "work", "label": "Get to work", "description": "Configure a model."},
        ],
    }
    return Scene(
        say="An agent may ask instead of guessing.", tool="question", input={"questions": [question]}
    )


STOP_ME = (
    "One last thing: whatever I do, anybody here can stop me. Press Ctrl-C, or Esc in a full screen, while I count; what I said stays, and "
    "the next prompt goes on from there."
)


def _count(now: Moment) -> Scene:
    return Scene(say=f"{STOP_ME}\n\n", slowly=NUMBERS)


def _think(now: Moment) -> Scene:
    return Scene(
        think="Someone wants to see thinking. It is shown apart from the answer and folded away when it is over.",
        say="That was thinking: it is streamed like everything else, and kept with the session.",
    )


def _attach(now: Moment) -> Scene:
    return Scene(
        say="This session lives in the server, not in your terminal. Open a second terminal in this directory and "
        "type `bullpen attach` (or `./run attach` in a checkout): it sees every word as it comes, and can answer, "
        "prompt and cancel as well. Close this one in the middle of a turn, and the turn goes on."
    )


def _model(now: Moment) -> Scene:
    return Scene(
        say="To work with a real model, set a key such as `OPENAI_API_KEY` or `OPENROUTER_API_KEY` and choose the "
        "provider in the model list, or describe any host that speaks chat completions in "
        "`~/.config/bullpen/bullpen.json`:\n\n"
        "```json\n"
        '{"providers": {"local": {"type": "ollama", "base_url": "http://127.0.0.1:11434/v1",\n'
        '  "models": [{"id": "qwen3", "context_window": 32768}]}},\n'
        ' "models": {"large": {"provider": "local", "model": "qwen3"}}}\n'
        "```"
    )


def _help(now: Moment) -> Scene:
    return Scene(say=f"I only know a tour, so I cannot work on what you said.\n\n{WORDS}")


PLAYS: tuple[tuple[str, Callable[[Moment], Scene]], ...] = (
    (r"tour|again|start|begin", _tour),
    (r"attach|join|client|terminal|browser|others?", _attach),
    (r"models?|keys?|provider|config\w*", _model),
    (r"think\w*|reason\w*", _think),
    (r"count\w*|cancel|stop", _count),
    (r"questions?|ask", _question),
    (r"run|shell|command|bash", _run),
    (r"write|create|edit|note", _write),
    (r"read|view|open|show|cat", _read),
    (r"files?|ls|list|dir\w*|look", _files),
)
"""The first whose word is in the message plays."""


def _play_for(prompt: str) -> Callable[[Moment], Scene]:
    text = prompt.lower()
    return next((play for words, play in PLAYS if re.search(rf"\b(?:{words})\b", text)), _help)
