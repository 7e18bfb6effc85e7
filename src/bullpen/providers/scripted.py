"""A model that follows a script: for tests, demonstrations and the first look at a configuration.

The provider type is `scripted`; the script is the list `provider_options.script`. Each entry is one step:

    {"say": "…", "think": "…", "calls": [{"name": "view", "input": {…}, "id": "…"}]}

What else a step may hold: `when` (a part of the person's last message; without it the step belongs to the main
line), `purpose` (`title` or `summary`), `delay_ms` before it begins, `pace_ms` between words, `hang` to say what
there is and then nothing more, `fail` with `message`, `status`, `retry_after_s` and `times`, `reason` for an
unusual end, and `usage` with `input` and `output`.

Which step comes next is read from the conversation, so a script goes on after a restart and does not mind
several sessions at once. When the script is over, the model says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

import anyio
import msgspec

from bullpen.config.settings import ProviderSettings
from bullpen.errors import ConfigError, ProviderError
from bullpen.providers.base import (
    AssistantTurn,
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    ReasoningDone,
    StepDone,
    ToolCallDone,
    ToolCallStarted,
    Usage,
    UserTurn,
)
from bullpen.providers.spoken import spoken, title_of, usage_of, words_of
from bullpen.schema.message import FinishReason

if TYPE_CHECKING:
    from bullpen.providers.http import ModelClient


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """`input` may be text, to try arguments that are not JSON."""

    name: str
    input: dict[str, Any] | str = {}
    id: str = ""

    @property
    def text(self) -> str:
        return self.input if isinstance(self.input, str) else msgspec.json.encode(self.input).decode()


class Fail(msgspec.Struct, frozen=True, kw_only=True):
    """`times` is how often the step fails before it succeeds; 0 is for ever. By status, as with a real host."""

    message: str = "the script says so"
    status: int = 0
    title: str = "Provider Error"
    retry_after_s: float | None = None
    times: int = 0

    @property
    def error(self) -> ProviderError:
        return ProviderError(
            self.message,
            title=self.title,
            status=self.status,
            retryable=self.status in (0, 408, 409, 429) or self.status >= 500,
            retry_after_s=self.retry_after_s,
        )


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    input: int = 0
    output: int = 0


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    say: str = ""
    think: str = ""
    calls: tuple[Call, ...] = ()
    when: str = ""
    purpose: Literal["turn", "title", "summary"] = "turn"
    delay_ms: float = 0
    pace_ms: float = 0
    hang: bool = False
    fail: Fail | None = None
    reason: FinishReason | None = None
    usage: Counts | None = None


OVER = Step(say="The script is over.")
SUMMARY = Step(say="A summary, as the script has it: the conversation so far went as planned.")


class Scripted:
    """Plays a script."""

    def __init__(self, settings: ProviderSettings, http: ModelClient | None = None) -> None:
        try:
            script = msgspec.convert(settings.provider_options.get("script", []), tuple[Step, ...])
        except msgspec.ValidationError as exc:
            raise ConfigError(f"provider {settings.id!r}: the script is not valid: {exc}") from exc
        self._script = script
        self._tries: Counter[str] = Counter()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        step = self._step(request)
        pace_s = step.pace_ms / 1000
        await anyio.sleep(step.delay_ms / 1000)
        if step.think:
            for word in words_of(step.think):
                await anyio.sleep(pace_s)
                yield ReasoningDelta(word)
            yield ReasoningDone()
        async for event in spoken(step.say, pace_s):
            yield event
        calls = [(call.id or f"call_{uuid4().hex[:12]}", call) for call in step.calls]
        for call_id, call in calls:
            yield ToolCallStarted(call_id, call.name)
        if step.hang:
            await anyio.sleep_forever()
        self._fail_if_due(request, step)
        for call_id, call in calls:
            yield ToolCallDone(call_id, call.name, call.text)
        counts = step.usage
        usage = Usage(input=counts.input, output=counts.output) if counts else usage_of(request, step.say)
        yield StepDone(step.reason or ("tool_use" if calls else "end_turn"), usage)

    def _fail_if_due(self, request: ModelRequest, step: Step) -> None:
        if step.fail is None:
            return
        place = f"{request.session_id} {len(request.turns)} {self._script.index(step)}"
        self._tries[place] += 1
        if step.fail.times == 0 or self._tries[place] <= step.fail.times:
            raise step.fail.error

    def _step(self, request: ModelRequest) -> Step:
        if request.purpose != "turn":
            own = (s for s in self._script if s.purpose == request.purpose)
            return next(own, Step(say=title_of(request)) if request.purpose == "title" else SUMMARY)
        line, place = self._line_and_place(request)
        return line[place] if place < len(line) else OVER

    def _line_and_place(self, request: ModelRequest) -> tuple[list[Step], int]:
        """The steps that the last message calls for, and how many of them are behind us.

        The steps of one `when` begin anew with each message that holds its text; the main line goes on
        through the whole conversation.
        """
        main = [s for s in self._script if s.purpose == "turn" and not s.when]
        line, place, main_place = main, 0, 0
        for turn in request.turns:
            if isinstance(turn, UserTurn):
                when = next((s.when for s in self._script if s.when and s.when in turn.text), "")
                line = [s for s in self._script if s.when == when] if when else main
                place = 0
            elif isinstance(turn, AssistantTurn):
                place += 1
                main_place += line is main
        return line, main_place if line is main else place
