"""A model behind Anthropic's interface, as a real server asks it: a host on the loopback plays the vendor."""

from __future__ import annotations

import pytest
from tests.journeys.server import Bullpen, Client, config
from tests.journeys.stream import parts_of, reason_of, text_of
from tests.journeys.vendor import REFUSALS, Vendor
from tests.providers.messages_format import begin, call, end, event, say, start, stop, thought

THOUGHT = start(0, "thinking", thinking="", signature="") + thought(0, "hm", signature="sig-1") + stop(0)
HIDDEN = start(1, "redacted_thinking", data="enc") + stop(1)
AGAIN = start(3, "thinking", thinking="", signature="") + thought(3, "so", signature="sig-2") + stop(3)
CALLS = (
    begin(input_tokens=5, cache_creation_input_tokens=7)
    + THOUGHT
    + HIDDEN
    + say("I look.", index=2)
    + AGAIN
    + call(4, "toolu_1", "ls", '{"path"', ': "."}')
    + end("tool_use", output_tokens=9)
)
SPOKEN = [
    {"type": "thinking", "thinking": "hm", "signature": "sig-1"},
    {"type": "redacted_thinking", "data": "enc"},
    {"type": "text", "text": "I look."},
    {"type": "thinking", "thinking": "so", "signature": "sig-2"},
    {"type": "tool_use", "id": "toolu_1", "name": "ls", "input": {"path": "."}},
]


def answer(words: str) -> bytes:
    return begin(input_tokens=3) + say(words) + end(output_tokens=1)


@pytest.fixture
def client(bullpen: Bullpen, vendor: Vendor) -> Client:
    model = {"id": "claude-opus-4-6", "can_reason": True, "context_window": 200_000}
    provider = {"type": "anthropic", "base_url": vendor.url, "api_key": "sk-ant-mine", "models": [model]}
    chosen = {"provider": "claude", "model": "claude-opus-4-6"}
    models = {"large": chosen | {"reasoning_effort": "high"}, "small": chosen}
    return bullpen.attach(bullpen.project(**config([], providers={"claude": provider}, models=models)))


def test_thoughts_go_back_word_for_word_in_the_turn_and_after_a_crash(
    bullpen: Bullpen, vendor: Vendor, client: Client
) -> None:
    vendor.answers = [CALLS, answer("Done."), answer("Again.")]
    session = client.session()
    stream = client.stream()
    client.prompt(session, "look around", "r1")
    assert not stream.completion("r1").get("error")
    _, sent, results = vendor.asked[1]["messages"]
    sent["content"][-1].pop("cache_control")
    assert sent == {"role": "assistant", "content": SPOKEN}
    assert results["content"][0]["tool_use_id"] == "toolu_1"
    assert vendor.asked[0]["thinking"] == {"type": "adaptive"}
    assert vendor.asked[0]["output_config"] == {"effort": "high"}

    bullpen.kill()
    bullpen.restart()
    again = bullpen.attach(client.path)
    stream = again.stream()
    again.prompt(session, "and now?", "r2")
    assert not stream.completion("r2").get("error")
    assert vendor.asked[2]["messages"][1] == {"role": "assistant", "content": SPOKEN}
    shown = [m for m in again.messages(session) if m["role"] == "assistant"]
    assert parts_of(shown[0], "reasoning")[0]["thinking"] == "hm\n\nso"
    assert [text_of(m) for m in shown] == ["I look.", "Done.", "Again."]


def test_overload_before_and_in_the_middle_of_an_answer_costs_no_word(vendor: Vendor, client: Client) -> None:
    """R-22: tried again, and said once."""
    broken = begin() + say("Do") + event("error", error=REFUSALS[529])
    vendor.answers = [529, broken, answer("Done.")]
    session = client.session()
    stream = client.stream()
    client.prompt(session, "go", "r1")
    assert not stream.completion("r1").get("error")
    assert [text_of(m) for m in client.messages(session)][1:] == ["Done."]


def test_a_refused_key_ends_the_turn_with_the_next_step(vendor: Vendor, client: Client) -> None:
    """And the session takes the next prompt."""
    vendor.answers = [401, answer("Done.")]
    session = client.session()
    stream = client.stream()
    client.prompt(session, "go", "r1")
    assert stream.completion("r1").get("error")
    client.prompt(session, "go on", "r2")
    assert not stream.completion("r2").get("error")
    refused = client.messages(session)[1]
    assert reason_of(refused) == "error"
    assert parts_of(refused, "finish")[0]["details"] == (
        "the key for claude was refused: invalid x-api-key; set providers.claude.api_key to one that is valid"
    )
