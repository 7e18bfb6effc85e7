"""Models behind the library, as a real server asks them: what a vendor signed outlives the server."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from tests.journeys.server import Bullpen, Client, config
from tests.journeys.stream import parts_of, text_of
from tests.journeys.vendor import Vendor
from tests.providers.wires import Call, ConverseWire, GoogleWire, ResponsesWire, Think, say

AWS = {"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "aws-secret-0123456789"}
SIGNED = base64.b64encode(b"SIGNED").decode()

KINDS: dict[str, tuple[ResponsesWire | GoogleWire | ConverseWire, str, str, str]] = {
    "openai": (ResponsesWire(), "gpt-5.6-sol", "completed", "SIGNED"),
    "google": (GoogleWire(), "gemini-3.1-pro-preview", "STOP", SIGNED),
    "bedrock": (ConverseWire(), "us.anthropic.claude-opus-4-6-v1", "tool_use", "SIGNED"),
}


def attached(bullpen: Bullpen, vendor: Vendor, kind: str) -> Client:
    wire, name, _, _ = KINDS[kind]
    vendor.content_type = wire.content_type
    model = {"id": name, "can_reason": True, "context_window": 200_000}
    provider: dict[str, Any] = {"type": kind, "base_url": vendor.url, "models": [model]}
    provider |= {} if kind == "bedrock" else {"api_key": "sk-mine"}
    chosen = {"provider": "cloud", "model": name}
    models = {"large": chosen | {"reasoning_effort": "high"}, "small": chosen}
    return bullpen.attach(
        bullpen.project(**config([], providers={"cloud": provider}, models=models, env=AWS))
    )


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_signed_goes_back_in_the_turn_and_after_a_crash(
    bullpen: Bullpen, vendor: Vendor, kind: str
) -> None:
    client = attached(bullpen, vendor, kind)
    wire, _, finish, signed = KINDS[kind]
    look = wire.answer(Think("hm", "SIGNED"), say("I look."), Call("c1", "ls", {"path": "."}), finish=finish)
    vendor.answers = [
        b"".join(look),
        b"".join(wire.answer(say("Done."))),
        b"".join(wire.answer(say("Again."))),
    ]
    session = client.session()
    stream = client.stream()
    client.prompt(session, "look around", "r1")
    assert not stream.completion("r1").get("error")
    assert json.dumps(vendor.asked[1]).count(signed) == 1

    bullpen.kill()
    bullpen.restart()
    again = bullpen.attach(client.path)
    stream = again.stream()
    again.prompt(session, "and now?", "r2")
    assert not stream.completion("r2").get("error")
    assert json.dumps(vendor.asked[2]).count(signed) == 1
    shown = [m for m in again.messages(session) if m["role"] == "assistant"]
    assert parts_of(shown[0], "reasoning")[0]["thinking"] == "hm"
    assert [text_of(m) for m in shown] == ["I look.", "Done.", "Again."]


def test_a_half_configured_provider_is_told(bullpen: Bullpen) -> None:
    """One sentence with the next step; the server goes on."""
    provider = {"type": "google-vertex", "models": [{"id": "gemini-3.1-pro-preview"}]}
    client = bullpen.attach(bullpen.project(**config([], providers={"vertex": provider}, models={})))
    info = client.ok("GET")
    assert any(
        warning.endswith("it has no project; set VERTEXAI_PROJECT or its provider_options.project")
        for warning in info["warnings"]
    )
