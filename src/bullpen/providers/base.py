"""What a model is: a request goes in, a stream of events comes out.

A provider turns our request into its vendor's and its vendor's stream into ours, and translates errors
into `ProviderError`. It keeps no history, retries nothing and prices nothing; the engine does that once
for all. Leaving the stream early (a cancelled scope, `aclose`) closes the connection to the vendor at
once.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import cached_property
from typing import Any, Literal, Protocol

import msgspec

from bullpen.schema.agent import SelectedModel
from bullpen.schema.message import Binary, FinishReason, ToolCall, ToolResult


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as the model sees it; `parameters` is a JSON Schema object."""

    name: str
    description: str
    parameters: dict[str, Any]


class _Said(msgspec.Struct, frozen=True, dict=True):
    @cached_property
    def rendered(self) -> dict[str, msgspec.Raw]:
        """The turn in the forms of the vendors that were sent it: it is sent again with every step."""
        return {}


class UserTurn(_Said, frozen=True):
    text: str
    files: tuple[Binary, ...] = ()


class Native(msgspec.Struct, frozen=True):
    """An answer as its vendor wants to see it again, where text, reasoning and calls cannot say all of it: several signed
    thoughts, their order, encrypted reasoning. `form` names the interface; adapters of another form pass over it."""

    form: str
    content: str
    """JSON, word for word."""


class AssistantTurn(_Said, frozen=True):
    """What the model said. With a `native` of its own form, an adapter sends that and leaves the rest aside."""

    text: str
    reasoning: str = ""
    signature: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    native: Native | None = None


class ToolTurn(_Said, frozen=True):
    result: ToolResult


Turn = UserTurn | AssistantTurn | ToolTurn


class Settled:
    """The beginning of a conversation, which never changes, and what vendors' adapters made of it: they are asked with it
    again and again."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.rendered: dict[str, tuple[int, bytes]] = {}
        """By the form's name: how many of the turns were rendered, and what became of them."""


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One step. `purpose` lets the scripted model tell a title from a turn; `turns` is all of the conversation, and
    `settled` its beginning if that is kept. `for_agent` is set when an agent, and no person, has given the task."""

    purpose: Literal["turn", "title", "summary"]
    session_id: str
    model: str
    system: tuple[str, ...]
    turns: tuple[Turn, ...]
    settled: Settled | None = None
    tools: tuple[ToolSpec, ...] = ()
    max_tokens: int = 0
    settings: SelectedModel = SelectedModel()
    can_reason: bool = False
    for_agent: bool = False


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """`input` excludes what came from the cache. `cost` is what the vendor itself says the answer cost, in dollars."""

    input: int = 0
    output: int = 0
    cache_write: int = 0
    cache_read: int = 0
    cost: float | None = None


class TextDelta(msgspec.Struct, frozen=True):
    text: str


class ReasoningDelta(msgspec.Struct, frozen=True):
    text: str


class ReasoningDone(msgspec.Struct, frozen=True):
    signature: str = ""


class ToolCallStarted(msgspec.Struct, frozen=True):
    """The model begins a call; its arguments are still coming in."""

    id: str
    name: str


class ToolCallDone(msgspec.Struct, frozen=True):
    """All arguments are there; `input` is the model's JSON text as it came, valid or not."""

    id: str
    name: str
    input: str


class LoginBegun(msgspec.Struct, frozen=True):
    """`command` renews a login that has expired. A person may have to open `url`; it is empty until the command names one."""

    command: str
    url: str = ""


class LoginEnded(msgspec.Struct, frozen=True):
    """The command is done; the step begins anew, or fails with this error."""

    command: str
    error: str = ""


class StepDone(msgspec.Struct, frozen=True):
    """Always the last event. A stream that ends without it has failed."""

    reason: FinishReason
    usage: Usage
    native: Native | None = None


ModelEvent = (
    TextDelta
    | ReasoningDelta
    | ReasoningDone
    | ToolCallStarted
    | ToolCallDone
    | LoginBegun
    | LoginEnded
    | StepDone
)


class Provider(Protocol):
    """Streams one step; raises `ProviderError` for whatever the vendor's side does wrong."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]: ...
