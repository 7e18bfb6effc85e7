"""What all vendors behind the library have in common, each over HTTP in its own format."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.providers.conftest import TOOL, Exchange, FakeHost, ask, collect
from tests.providers.vendors import KEY, VENDORS, Vendor, google_login, head_of, speak
from tests.providers.wires import Call, Part, Think, say

from bullpen.errors import ProviderError
from bullpen.providers.base import (
    AssistantTurn,
    ModelEvent,
    ModelRequest,
    Native,
    Provider,
    ReasoningDelta,
    ReasoningDone,
    StepDone,
    TextDelta,
    ToolCallDone,
    ToolCallStarted,
    ToolTurn,
    Usage,
    UserTurn,
)
from bullpen.providers.http import ModelClient
from bullpen.providers.streaming import Limits
from bullpen.schema.message import Binary, ToolCall, ToolResult

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """The loop of the server alone: what differs between loops is below the library, and tested there."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="session")
def login(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with google_login(tmp_path_factory.mktemp("google")) as file:
        yield file


@pytest.fixture(params=VENDORS, ids=lambda vendor: vendor.name)
def vendor(request: pytest.FixtureRequest) -> Vendor:
    found: Vendor = request.param
    return found


Build = Callable[..., Provider]


@pytest.fixture
def build(vendor: Vendor, host: FakeHost, http: ModelClient, login: Path) -> Build:
    """The vendor's provider; keyword arguments are settings, `limits` apart."""

    def make(limits: Limits | None = None, **facts: Any) -> Provider:
        return vendor.build(host.url, http, login, limits, facts)

    return make


def asked(vendor: Vendor, **facts: Any) -> ModelRequest:
    plain: dict[str, Any] = {"model": vendor.model, "can_reason": True, "tools": (TOOL,)}
    return ask(**(plain | facts))


def says(vendor: Vendor, *parts: Part, **facts: Any) -> Callable[[Exchange], Any]:
    async def answer(exchange: Exchange) -> None:
        await speak(exchange, vendor.wire, vendor.wire.answer(*parts, **facts))

    return answer


async def fails(events: Any, seen: list[ModelEvent] | None = None) -> ProviderError:
    """The error with which a step ends; the events before it go to `seen`."""
    before = [] if seen is None else seen
    try:
        async for event in events:
            before.append(event)
    except ProviderError as error:
        return error
    raise AssertionError(f"the step did not fail: {before}")


async def test_words_become_events_as_they_come(vendor: Vendor, host: FakeHost, build: Build) -> None:
    host.will(says(vendor, say("hello ", "there"), cached=40))
    events = await collect(build().stream(asked(vendor)))
    assert events == [
        TextDelta("hello "),
        TextDelta("there"),
        StepDone("end_turn", Usage(input=60, cache_read=40, output=10)),
    ]
    assert host.exchanges[0].target == f"POST {vendor.target} HTTP/1.1"


async def test_a_call_and_its_reasoning_go_back_as_they_came(
    vendor: Vendor, host: FakeHost, build: Build
) -> None:
    """Two steps: the second request holds what the vendor signed, in its place, and the call's result."""
    host.will(
        says(
            vendor,
            Think("hmm", "SIGNED"),
            say("I look."),
            Call("c1", "ls", {"path": "x"}),
            finish=_tool_finish(vendor),
        ),
        says(vendor, say("done")),
    )
    model = build()
    events = await collect(model.stream(asked(vendor)))
    started = next(event for event in events if isinstance(event, ToolCallStarted))
    last = events[-1]
    assert isinstance(last, StepDone)
    assert last.native is not None
    assert events == [
        ReasoningDelta("hmm"),
        ReasoningDone(),
        TextDelta("I look."),
        ToolCallStarted(started.id, "ls"),
        ToolCallDone(started.id, "ls", _json(events)),
        StepDone("tool_use", Usage(input=100, output=10), last.native),
    ]
    turns = (UserTurn("hello"), _said(events, last.native), _result(started.id, "a b"))
    await collect(model.stream(asked(vendor, turns=turns)))
    sent = host.exchanges[1].json
    assert json.dumps(sent).count(_signature(vendor)) == 1
    assert _order(sent, ("hmm", "I look.", '"x"', "a b")) == sorted(
        _order(sent, ("hmm", "I look.", '"x"', "a b"))
    )


async def test_an_answer_of_another_interface_is_told_plainly(
    vendor: Vendor, host: FakeHost, build: Build
) -> None:
    """Text and calls go; what somebody else signed does not."""
    host.will(says(vendor, say("done")))
    other = Native("elsewhere", '{"secret": "FOREIGN"}')
    call = ToolCall(id="c1", name="ls", input="not json", finished=True)
    turns = (
        UserTurn("hello"),
        AssistantTurn("I look.", "foreign thought", "FOREIGN", (call,), other),
        _result("c1", "a b", is_error=True),
    )
    await collect(build().stream(asked(vendor, turns=turns)))
    sent = json.dumps(host.exchanges[0].json)
    assert "I look." in sent
    assert "a b" in sent
    assert "FOREIGN" not in sent
    assert "foreign thought" not in sent


async def test_kept_answers_that_cannot_be_read_are_told_plainly(
    vendor: Vendor, host: FakeHost, build: Build
) -> None:
    host.will(says(vendor, Think("hmm", "SIGNED"), say("hi")), says(vendor, say("done")))
    model = build()
    first = (await collect(model.stream(asked(vendor))))[-1]
    assert isinstance(first, StepDone)
    assert first.native is not None
    old = Native(first.native.form, '[{"kind": "from another time"}]')
    turns = (UserTurn("hello"), AssistantTurn("I said so.", native=old), UserTurn("and?"))
    await collect(model.stream(asked(vendor, turns=turns)))
    assert "I said so." in json.dumps(host.exchanges[1].json)


async def test_pictures_in_prompts_and_results(vendor: Vendor, host: FakeHost, build: Build) -> None:
    host.will(says(vendor, say("a dot")))
    picture = Binary(path="dot.png", mime_type="image/png", data=PIXEL)
    call = ToolCall(id="c1", name="ls", input="{}", finished=True)
    seen = ToolResult(
        tool_call_id="c1",
        name="ls",
        content="Here.",
        data=base64.b64encode(PIXEL + b"2").decode(),
        mime_type="image/png",
        metadata="",
        is_error=False,
    )
    turns = (UserTurn("what is it?", (picture,)), AssistantTurn("", tool_calls=(call,)), ToolTurn(seen))
    await collect(build().stream(asked(vendor, turns=turns)))
    sent = json.dumps(host.exchanges[0].json).replace("-", "+").replace("_", "/")
    assert base64.b64encode(PIXEL).decode().rstrip("=") in sent
    assert base64.b64encode(PIXEL + b"2").decode().rstrip("=") in sent


async def test_headers_and_body_of_the_config_are_sent(vendor: Vendor, host: FakeHost, build: Build) -> None:
    host.will(says(vendor, say("hi")))
    model = build(extra_headers={"X-Team": "blue"}, extra_body={"custom_field": {"a": 1}})
    await collect(model.stream(asked(vendor, max_tokens=50)))
    seen = host.exchanges[0]
    assert seen.headers["x-team"] == "blue"
    assert "custom_field" in json.dumps(seen.json)
    assert "50" in json.dumps(seen.json)


@pytest.mark.parametrize(
    ("status", "title", "retryable"),
    [
        (400, "Bad Request", False),
        (401, "Unauthorized", False),
        (429, "Too Many Requests", True),
        (503, "Service Unavailable", True),
    ],
)
async def test_refusals(
    vendor: Vendor, host: FakeHost, build: Build, status: int, title: str, retryable: bool
) -> None:
    """One request, the host's words, and whether another try makes sense."""
    host.will(lambda exchange: exchange.plain(status, _refusal(vendor, status, f"fake failure {status}")))
    error = await fails(build().stream(asked(vendor)))
    assert (error.title, error.status, error.retryable) == (title, status, retryable)
    assert error.details.startswith(f"fake failure {status}")
    assert ("; check the credentials of provider 'fake'" in error.details) == (status == 401)
    assert len(host.exchanges) == 1


@pytest.mark.parametrize("name", ["Retry_After", "rETRY_aFTER"])
async def test_the_host_says_when_to_come_back(
    vendor: Vendor, host: FakeHost, build: Build, name: str
) -> None:
    host.will(lambda exchange: exchange.plain(429, _refusal(vendor, 429, "slow down"), **{name: "7"}))
    error = await fails(build().stream(asked(vendor)))
    assert (error.retry_after_s, error.retryable) == (7.0, True)


async def test_no_secret_is_repeated(vendor: Vendor, host: FakeHost, build: Build) -> None:
    is_amazon = vendor.name == "bedrock"
    quoted = f"bad key {'aws-secret-0123456789' if is_amazon else KEY} and X-Secret: header-secret"
    host.will(lambda exchange: exchange.plain(400, _refusal(vendor, 400, quoted)))
    settings = {"api_key": "" if is_amazon else KEY, "extra_headers": {"X-Secret": "header-secret"}}
    error = await fails(build(**settings).stream(asked(vendor)))
    assert error.details == "bad key … and X-Secret: …"


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
async def test_a_cut_answer_fails_wherever_it_is_cut(
    vendor: Vendor, host: FakeHost, build: Build, reset: bool
) -> None:
    """R-22: no call of it is complete, and it may be tried again."""
    whole = vendor.wire.answer(say("hi "), Call("c1", "ls", {"path": "x"}), finish=_tool_finish(vendor))
    finish = len(whole) - (2 if vendor.name in ("vertex-claude", "bedrock") else 1)
    model = build()

    def cut_at(count: int) -> Callable[[Exchange], Any]:
        async def answer(exchange: Exchange) -> None:
            await speak(exchange, vendor.wire, [*whole[:count], whole[count][:-5]], ends=False)
            exchange.cut(reset=reset)

        return answer

    for count in range(finish):
        host.will(cut_at(count))
        seen: list[ModelEvent] = []
        error = await fails(model.stream(asked(vendor)), seen)
        assert error.retryable, error.details
        assert not any(isinstance(event, ToolCallDone | StepDone) for event in seen)


async def test_an_answer_without_a_finish_reason_has_failed(
    vendor: Vendor, host: FakeHost, build: Build
) -> None:
    """A stream that ends in good order, but too early."""
    whole = vendor.wire.answer(say("hi "))
    early = whole[: -2 if vendor.name in ("vertex-claude", "bedrock") else -1]
    host.will(lambda exchange: speak(exchange, vendor.wire, early))
    error = await fails(build().stream(asked(vendor)))
    assert (error.title, error.retryable) == ("Stream Transport Error", True)
    assert "ended early, without a finish reason" in error.details


async def test_garbage_is_an_error(vendor: Vendor, host: FakeHost, build: Build) -> None:
    """R-21: in the middle of an answer, and instead of one."""
    begun = vendor.wire.answer(say("hi "))[:2]
    host.will(
        lambda exchange: speak(exchange, vendor.wire, [*begun, vendor.wire.garbage, vendor.wire.garbage]),
        lambda exchange: exchange.plain(200, b"<html>what?</html>"),
    )
    model = build()
    for _ in range(2):
        error = await fails(model.stream(asked(vendor)))
        assert error.title == "Stream Transport Error"


async def test_a_host_that_never_begins_is_given_up(vendor: Vendor, host: FakeHost, build: Build) -> None:
    """R-20: no head, or nothing that means anything after it."""

    async def silent(exchange: Exchange) -> None:
        await exchange.wait_gone()

    async def empty(exchange: Exchange) -> None:
        await speak(exchange, vendor.wire, [vendor.wire.ping], ends=False)
        await exchange.wait_gone()

    model = build(Limits(0.3, 5))
    await collect_warm(model, vendor, host)
    for answer in (silent, empty):
        host.will(answer)
        began = time.monotonic()
        error = await fails(model.stream(asked(vendor)))
        assert time.monotonic() - began < 1.3
        assert "silent for 0.3 s" in error.details
        assert error.retryable
        with anyio.fail_after(2):
            await host.exchanges[-1].gone.wait()


async def test_pings_do_not_count(vendor: Vendor, host: FakeHost, build: Build) -> None:
    """R-20: a host that only keeps the line open is silent."""

    async def dripping(exchange: Exchange) -> None:
        await speak(exchange, vendor.wire, vendor.wire.answer(say("one "))[:3], ends=False)
        while True:
            await anyio.sleep(0.05)
            await exchange.chunk(vendor.wire.ping)

    host.will(dripping)
    error = await fails(build(Limits(5, 0.3)).stream(asked(vendor)))
    assert "silent for 0.3 s" in error.details


async def test_a_cancel_hangs_up(vendor: Vendor, host: FakeHost, build: Build) -> None:
    """At every moment of an answer: before its head, after it, after its first words; and by leaving early."""

    def stuck(*said: bytes) -> Callable[[Exchange], Any]:
        async def answer(exchange: Exchange) -> None:
            for piece in said:
                await (exchange.send(piece) if piece == head_of(vendor.wire) else exchange.chunk(piece))
            reached.set()
            await exchange.wait_gone()

        return answer

    model = build()
    await collect_warm(model, vendor, host)
    head, words = head_of(vendor.wire), vendor.wire.answer(say("one ", "two "))[: _begun(vendor)]
    for n, said in enumerate(((), (head,), (head, *words)), 1):
        reached = anyio.Event()
        host.will(stuck(*said))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(collect, model.stream(asked(vendor)))
            await reached.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(2):
            await host.exchanges[n].gone.wait()
    async with aclosing(model.stream(asked(vendor))) as events:
        assert await anext(events) == TextDelta("one ")
    with anyio.fail_after(2):
        await host.exchanges[4].gone.wait()


async def test_an_unreachable_host(vendor: Vendor, build: Build) -> None:
    error = await fails(build(base_url="http://127.0.0.1:9" + vendor.path).stream(asked(vendor)))
    assert (error.title, error.retryable) == ("Connection Error", True)
    assert error.details.startswith("Fake cannot be reached")


async def test_a_cut_length_is_said(vendor: Vendor, host: FakeHost, build: Build) -> None:
    reasons = {
        "google": "MAX_TOKENS",
        "vertex": "MAX_TOKENS",
        "openai": "max_output_tokens",
        "azure": "max_output_tokens",
    }
    host.will(says(vendor, say("lo"), finish=reasons.get(vendor.name, "max_tokens")))
    last = (await collect(build().stream(asked(vendor))))[-1]
    assert isinstance(last, StepDone)
    assert last.reason == "max_tokens"


async def test_finished_connections_are_used_again(vendor: Vendor, host: FakeHost, build: Build) -> None:
    host.will(says(vendor, say("hi")))
    model = build()
    for _ in range(3):
        await collect(model.stream(asked(vendor)))
    assert host.connections == 1


def test_nothing_is_imported_before_a_turn_needs_it() -> None:
    """Building a provider of every type loads neither the library nor a vendor's package."""
    script = (
        "import sys\n"
        "from bullpen.config.settings import ProviderSettings\n"
        "from bullpen.providers.registry import build\n"
        "from bullpen.providers.http import ModelClient\n"
        "for kind in ('openai', 'google', 'google-vertex', 'bedrock', 'azure'):\n"
        "    build(ProviderSettings(id='x', type=kind, base_url='http://127.0.0.1:1', api_key='k'), ModelClient())\n"
        "print(*sys.modules)\n"
    )
    child = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True)
    slow = {
        "pydantic",
        "pydantic_ai",
        "openai",
        "anthropic",
        "google.genai",
        "google.auth",
        "boto3",
        "botocore",
    }
    assert slow.intersection(child.stdout.split()) == set()


async def collect_warm(model: Provider, vendor: Vendor, host: FakeHost) -> None:
    """Ask until it is answered in time, so that what follows waits for no import and no login."""
    host.will(says(vendor, say("warm")))
    for _ in range(20):
        with suppress(ProviderError):
            await collect(model.stream(asked(vendor)))
            return
    raise AssertionError("the host was never in time")


def _tool_finish(vendor: Vendor) -> str:
    return {"vertex-claude": "tool_use", "bedrock": "tool_use", "google": "STOP", "vertex": "STOP"}.get(
        vendor.name, "completed"
    )


def _signature(vendor: Vendor) -> str:
    return base64.b64encode(b"SIGNED").decode() if vendor.name in ("google", "vertex") else "SIGNED"


def _refusal(vendor: Vendor, status: int, message: str) -> Any:
    if vendor.name == "bedrock":
        return {"message": message}
    return {"type": "error", "error": {"type": "some_error", "code": status, "message": message}}


def _json(events: list[ModelEvent]) -> str:
    text = next(event.input for event in events if isinstance(event, ToolCallDone))
    assert json.loads(text) == {"path": "x"}
    return text


def _said(events: list[ModelEvent], native: Native) -> AssistantTurn:
    done = next(event for event in events if isinstance(event, ToolCallDone))
    call = ToolCall(id=done.id, name=done.name, input=done.input, finished=True)
    return AssistantTurn("I look.", "hmm", "", (call,), native)


def _result(call_id: str, content: str, *, is_error: bool = False) -> ToolTurn:
    return ToolTurn(
        ToolResult(tool_call_id=call_id, name="ls", content=content, metadata="", is_error=is_error)
    )


def _order(sent: Any, words: tuple[str, ...]) -> list[int]:
    """Where the words stand in the conversation that was sent."""
    text = json.dumps(sent.get("input") or sent.get("contents") or sent["messages"])
    return [text.replace("\\", "").index(word) for word in words]


def _begun(vendor: Vendor) -> int:
    """How many pieces of an answer it takes until its first word is there."""
    return {"google": 1, "vertex": 1, "bedrock": 2}.get(vendor.name, 3)
