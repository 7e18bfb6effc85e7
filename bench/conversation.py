"""What the conversation on the screen costs: opening a long session, following a fast answer in it, and moving about.

The terminal runs without a display and without a server, so that what is seen is the screen's own work.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import msgspec
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from bench import process
from bench.progress import Progress
from bench.targets import aligned
from bullpen.client.workspace import Room
from bullpen.schema.asks import Ask
from bullpen.schema.message import (
    BORN_FINISHED,
    Finish,
    FinishPart,
    Message,
    Text,
    TextPart,
    ToolCall,
    ToolCallPart,
    ToolResult,
    ToolResultPart,
    new_message,
)
from bullpen.schema.session import Session
from bullpen.tui import themes
from bullpen.tui.preferences import Preferences
from bullpen.tui.transcript.view import Transcript

MESSAGES = 10_000
TOKENS_PER_S = 200
FOLLOWED_S = 10.0
PAGES = 50
WORDS = [
    "the",
    "agent",
    "reads",
    "a",
    "file",
    "and",
    "then",
    "writes",
    "another",
    "one",
    "`code`",
    "with",
    "**bold**",
    "words",
    "so",
    "that",
    "it",
    "may",
    "be",
    "seen",
]


@dataclass
class Figures:
    open_ms: float = 0.0
    memory_mib: float = 0.0
    """How much more the process holds with the session open and looked through."""
    cpu_percent: float = 0.0
    frames_per_s: float = 0.0
    longest_ms: float = 0.0
    """The longest time for which nothing else got its turn while the answer was followed."""
    page_ms: float = 0.0
    find_ms: float = 0.0
    resize_ms: float = 0.0


def measure(progress: Progress) -> Figures:
    progress.step(f"a session of {MESSAGES:,} messages")
    return asyncio.run(_measured(progress))


def table(figures: Figures) -> str:
    rows = [
        ("opening the session", f"{figures.open_ms:.0f} ms", f"{MESSAGES:,} messages"),
        ("memory for it", f"{figures.memory_mib:.0f} MiB", "beside the messages themselves"),
        (
            "CPU while an answer is followed",
            f"{figures.cpu_percent:.0f} %",
            f"of one core, at {TOKENS_PER_S} tokens/s",
        ),
        ("frames", f"{figures.frames_per_s:.1f} /s", f"longest pause {figures.longest_ms:.0f} ms"),
        ("a page up", f"{figures.page_ms:.1f} ms", ""),
        ("finding a word in all of it", f"{figures.find_ms:.0f} ms", ""),
        ("another width", f"{figures.resize_ms:.0f} ms", ""),
    ]
    return aligned([list(row) for row in rows])


class _Told:
    """As much of a room as a conversation looks at."""

    name = "ana"

    def __init__(self, messages: list[Message]) -> None:
        self.held = {message.id: message for message in messages}
        self.asks: list[Ask] = []

    def messages(self, _session: str) -> list[Message]:
        return list(self.held.values())

    def message(self, _session: str, message_id: str) -> Message | None:
        return self.held.get(message_id)

    def session(self, _session: str) -> Session | None:
        return None


class _Screen(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.transcript = Transcript("s", Preferences())
        self.frames = 0

    def compose(self) -> ComposeResult:
        yield self.transcript

    def on_mount(self) -> None:
        self.register_theme(themes.DARK)
        self.theme = themes.DARK.name

    def post_display_hook(self) -> None:
        self.frames += 1


async def _measured(progress: Progress) -> Figures:
    figures = Figures()
    told = _Told(_messages())
    app = _Screen()
    async with app.run_test(size=(120, 40)) as pilot:
        before = process.resident_mib(os.getpid())
        began = time.perf_counter()
        app.transcript.attach(cast(Room, told))
        await pilot.pause()
        figures.open_ms = (time.perf_counter() - began) * 1000
        progress.step(f"an answer at {TOKENS_PER_S} tokens/s")
        await _followed(app, told, figures)
        progress.step("moving about")
        figures.page_ms = await _took(pilot, lambda: app.transcript.action_do("page_up"), PAGES)
        figures.find_ms = await _took(pilot, lambda: app.transcript.seek("agent"))
        began = time.perf_counter()
        await pilot.resize_terminal(100, 30)
        figures.resize_ms = (time.perf_counter() - began) * 1000
        figures.memory_mib = process.resident_mib(os.getpid()) - before
    return figures


async def _followed(app: _Screen, told: _Told, figures: Figures) -> None:
    message = new_message("assistant", "s", (), int(time.time()), model="m", provider="p")
    words = _answer().split(" ")
    frames, cpu, began = app.frames, time.process_time(), time.monotonic()
    said, woken = 0, began
    while (now := time.monotonic()) - began < FOLLOWED_S:
        figures.longest_ms = max(figures.longest_ms, (now - woken) * 1000)
        due = min(int((now - began) * TOKENS_PER_S), len(words))
        if due > said:
            said = due
            parts = (TextPart(data=Text(text=" ".join(words[:said]))),)
            told.held[message.id] = msgspec.structs.replace(message, parts=parts)
            app.transcript.changed(message.id)
        woken = time.monotonic() + 0.005
        await asyncio.sleep(0.005)
    took = time.monotonic() - began
    figures.cpu_percent = (time.process_time() - cpu) / took * 100
    figures.frames_per_s = (app.frames - frames) / took


async def _took(pilot: Pilot[None], do: Callable[[], None], times: int = 1) -> float:
    began = time.perf_counter()
    for _ in range(times):
        do()
        await pilot.pause()
    return (time.perf_counter() - began) * 1000 / times


def _messages() -> list[Message]:
    """Prompts, calls with their results, and answers of three paragraphs."""
    made: list[Message] = []
    for number in range(MESSAGES // 4):
        call = ToolCall(id=f"c{number}", name="bash", input='{"command": "ls -la"}', finished=True)
        result = ToolResult(
            tool_call_id=call.id, name="bash", content="line\n" * 20, metadata="", is_error=False
        )
        more, over = (
            FinishPart(data=Finish(reason=reason, time=number)) for reason in ("tool_use", "end_turn")
        )
        answer = "\n\n".join(_words(40) for _ in range(3))
        made += [
            new_message("user", "s", (TextPart(data=Text(text=_words(20))), BORN_FINISHED), number),
            new_message("assistant", "s", (ToolCallPart(data=call), more), number),
            new_message("tool", "s", (ToolResultPart(data=result), BORN_FINISHED), number),
            new_message("assistant", "s", (TextPart(data=Text(text=answer)), over), number),
        ]
    return made


def _answer() -> str:
    """Paragraphs, a fence, a list, and more paragraphs: as models like to talk."""
    code = "\n".join(f"def f{n}(x): return x + {n}  # yes" for n in range(30))
    listed = "\n".join(f"- {_words(10)}" for _ in range(40))
    talk = "\n\n".join(_words(60) for _ in range(4))
    return f"{talk}\n\n```python\n{code}\n```\n\n{listed}\n\n{talk}\n\n{talk}\n\n{talk}"


def _words(count: int) -> str:
    return " ".join(random.choices(WORDS, k=count))
