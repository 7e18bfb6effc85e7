from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.providers.conftest import TOOL, FakeHost, ask, collect
from tests.providers.vendors import google_login, speak
from tests.providers.wires import ClaudeWire, GoogleWire, say

from bullpen.config.settings import ProviderSettings
from bullpen.errors import ProviderError
from bullpen.providers.base import Provider
from bullpen.providers.http import ModelClient
from bullpen.providers.vertex import Vertex
from bullpen.schema.agent import SelectedModel

WHERE = {"VERTEXAI_PROJECT": "p", "VERTEXAI_LOCATION": "global"}
GEMINI, CLAUDE = "gemini-3.1-pro-preview", "claude-opus-4-6"


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="module")
def login(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with google_login(tmp_path_factory.mktemp("google")) as file:
        yield file


def vertex(host: FakeHost, http: ModelClient, environment: dict[str, str], **facts: Any) -> Provider:
    plain = {"id": "vertexai", "type": "google-vertex", "base_url": host.url, "environment": environment}
    return Vertex(ProviderSettings(**(plain | facts)), http)


async def fails(model: Provider, name: str) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await collect(model.stream(ask(model=name)))
    return caught.value


@pytest.mark.parametrize("name", [GEMINI, CLAUDE])
async def test_who_asks_and_how_hard_to_think(
    host: FakeHost, http: ModelClient, login: Path, name: str
) -> None:
    """The service account's token, and thinking options that are really set."""
    wire = ClaudeWire() if name == CLAUDE else GoogleWire()
    host.will(lambda exchange: speak(exchange, wire, wire.answer(say("hi"))))
    model = vertex(host, http, {**WHERE, "GOOGLE_APPLICATION_CREDENTIALS": str(login)})
    settings = SelectedModel(reasoning_effort="high", temperature=1.0)
    await collect(model.stream(ask(model=name, can_reason=True, settings=settings, tools=(TOOL,))))
    seen = host.exchanges[0]
    assert seen.headers["authorization"] == "Bearer ya29.token"
    if name == GEMINI:
        wanted = {"include_thoughts": True, "thinking_level": "HIGH"}
        assert seen.json["generationConfig"]["thinkingConfig"] == wanted
    else:
        assert seen.json["thinking"] == {"type": "adaptive"}
        assert seen.json["output_config"] == {"effort": "high"}
        assert "temperature" not in seen.json


async def test_claude_is_cached_at_its_seams(host: FakeHost, http: ModelClient, login: Path) -> None:
    """Tools, system prompt and conversation, each marked in its last block."""
    wire = ClaudeWire()
    host.will(lambda exchange: speak(exchange, wire, wire.answer(say("hi"))))
    model = vertex(host, http, {**WHERE, "GOOGLE_APPLICATION_CREDENTIALS": str(login)})
    await collect(model.stream(ask(model=CLAUDE, tools=(TOOL,), max_tokens=9)))
    sent = host.exchanges[0].json
    marked = (sent["tools"][-1], sent["system"][-1], sent["messages"][-1]["content"][-1])
    assert [block["cache_control"]["type"] for block in marked] == ["ephemeral"] * 3
    assert sent["max_tokens"] == 9


async def test_caching_of_claude_can_be_turned_off(host: FakeHost, http: ModelClient, login: Path) -> None:
    wire = ClaudeWire()
    host.will(lambda exchange: speak(exchange, wire, wire.answer(say("hi"))))
    known = {**WHERE, "GOOGLE_APPLICATION_CREDENTIALS": str(login)}
    model = vertex(host, http, known, prompt_caching=False)
    await collect(model.stream(ask(model=CLAUDE, tools=(TOOL,))))
    assert b"cache_control" not in host.exchanges[0].raw


async def test_options_count_before_variables(host: FakeHost, http: ModelClient, login: Path) -> None:
    wire = GoogleWire()
    host.will(lambda exchange: speak(exchange, wire, wire.answer(say("hi"))))
    options = {"project": "mine", "location": "us-east5"}
    model = vertex(
        host, http, {**WHERE, "GOOGLE_APPLICATION_CREDENTIALS": str(login)}, provider_options=options
    )
    await collect(model.stream(ask(model=GEMINI)))
    assert "/projects/mine/locations/us-east5/" in host.exchanges[0].target
    assert "project" not in host.exchanges[0].json


@pytest.mark.parametrize("name", [GEMINI, CLAUDE])
async def test_what_is_missing_is_named(host: FakeHost, http: ModelClient, login: Path, name: str) -> None:
    file = {"GOOGLE_APPLICATION_CREDENTIALS": str(login)}
    for known, sentence in (
        (
            {"VERTEXAI_LOCATION": "global"},
            "has no project; set VERTEXAI_PROJECT or its provider_options.project",
        ),
        (
            {"VERTEXAI_PROJECT": "p"},
            "has no location; set VERTEXAI_LOCATION or its provider_options.location",
        ),
    ):
        error = await fails(vertex(host, http, known | file), name)
        assert error.details == f"provider 'vertexai' {sentence}"


@pytest.mark.parametrize("name", [GEMINI, CLAUDE])
@pytest.mark.parametrize("content", [None, "{}", "nonsense", "revoked"])
async def test_a_login_that_does_not_work(
    host: FakeHost, http: ModelClient, login: Path, tmp_path: Path, name: str, content: str | None
) -> None:
    """No file, a file that is none, an account that is no more: one sentence with the next step."""
    file = tmp_path / "login.json"
    if content == "revoked":
        host.will(
            lambda exchange: exchange.plain(400, {"error": "invalid_grant", "error_description": "no more"})
        )
        file.write_text(json.dumps(json.loads(login.read_text()) | {"token_uri": host.url}))
    elif content is not None:
        file.write_text(content)
    error = await fails(vertex(host, http, {**WHERE, "GOOGLE_APPLICATION_CREDENTIALS": str(file)}), name)
    assert error.details.startswith("Google's login does not work: ")
    assert "gcloud auth application-default login" in error.details
    assert (error.kind, error.retryable) == ("auth", False)


@pytest.mark.parametrize("variable", ["HOME", "CLOUDSDK_CONFIG"])
async def test_the_login_of_gcloud_is_that_of_the_workspace(
    host: FakeHost,
    http: ModelClient,
    login: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
) -> None:
    """Whatever the server's own environment says."""
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nonexistent")
    monkeypatch.setenv("CLOUDSDK_CONFIG", "/nonexistent")
    directory = tmp_path / ".config/gcloud" if variable == "HOME" else tmp_path
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "application_default_credentials.json").write_text(login.read_text())
    wire = GoogleWire()
    host.will(lambda exchange: speak(exchange, wire, wire.answer(say("hi"))))
    await collect(vertex(host, http, {**WHERE, variable: str(tmp_path)}).stream(ask(model=GEMINI)))
    assert host.exchanges[0].headers["authorization"] == "Bearer ya29.token"


async def test_no_login_at_all(
    host: FakeHost, http: ModelClient, login: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's own counts for no workspace."""
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(login))
    known = {**WHERE, "HOME": str(tmp_path), "NO_GCE_CHECK": "true"}
    error = await fails(vertex(host, http, known), GEMINI)
    assert error.details.startswith("Google's login does not work: there are no application default")
