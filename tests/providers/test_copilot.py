"""GitHub Copilot, against a host that plays GitHub and the model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.journeys.model_host import ModelHost, model_host, says
from tests.providers.conftest import ask, said
from tests.providers.wires import ResponsesWire, say

from bullpen.config import tokens
from bullpen.config.keys import Token
from bullpen.config.settings import ProviderSettings
from bullpen.errors import ProviderError
from bullpen.providers import copilot_login, registry
from bullpen.providers.base import AssistantTurn, ModelRequest, UserTurn
from bullpen.providers.copilot import initiator
from bullpen.providers.copilot_login import DeviceCode, Hosts
from bullpen.providers.credentials import current
from bullpen.providers.http import ModelClient
from bullpen.schema.agent import Model, SelectedModel

NOW = 1_800_000_000


@pytest.fixture
def host() -> Iterator[ModelHost]:
    with model_host() as running:
        yield running


def github(host: ModelHost, *answers: Any) -> None:
    """A person who takes their time, and an account with Copilot."""
    waiting = list(answers)
    host.answers |= {
        "/login/device/code": {
            "device_code": "d",
            "user_code": "ABCD-1234",
            "verification_uri": "https://github.com/login/device",
            "interval": 1,
            "expires_in": 900,
        },
        "/login/oauth/access_token": lambda _headers, _body: waiting.pop(0),
        "/copilot_internal/v2/token": lambda headers, _: (
            {"token": "short", "expires_at": NOW + 1800, "endpoints": {"api": host.url}}
            if headers["authorization"] == "Bearer gho_1"
            else 401
        ),
    }


PENDING = {"error": "authorization_pending"}


async def test_logging_in_waits_as_long_as_github_asks(host: ModelHost, http: ModelClient) -> None:
    github(host, PENDING, {"error": "slow_down"}, PENDING, {"access_token": "gho_1"})
    naps: list[float] = []

    async def nap(seconds: float) -> None:
        naps.append(seconds)

    hosts = Hosts.of(host.url)
    code = await copilot_login.begin(hosts, http)
    assert (code.user_code, code.verification_uri) == ("ABCD-1234", "https://github.com/login/device")
    github_token = await copilot_login.wait_for_person(hosts, code, http, sleep=nap)
    token = await copilot_login.log_in(github_token, hosts, http, now=lambda: NOW)
    assert naps == [5, 5, 10, 10]
    assert (token.access_token, token.refresh_token, token.expires_in) == ("short", "gho_1", 1800)
    assert (token.client, token.endpoint) == ("copilot", host.url)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ({"error": "access_denied"}, "refused at GitHub"),
        ({"error": "expired_token"}, "nobody entered the code in time"),
        ({"error": "incorrect_client_credentials"}, "does not let us log in"),
        (500, "does not let us log in"),
    ],
)
async def test_a_login_that_fails_says_why(
    host: ModelHost, http: ModelClient, answer: Any, sentence: str
) -> None:
    github(host, answer)
    code = DeviceCode(device_code="d", user_code="u", verification_uri="v")
    with pytest.raises(ProviderError, match=sentence):
        await copilot_login.wait_for_person(Hosts.of(host.url), code, http, sleep=_no_time)


async def test_a_network_that_is_away_for_a_moment_costs_no_new_code(
    host: ModelHost, http: ModelClient
) -> None:
    github(host)
    tries = iter((ConnectionResetError, None))

    def answer(_headers: Any, _body: Any) -> Any:
        if away := next(tries):
            raise away
        return {"access_token": "gho_1"}

    host.answers["/login/oauth/access_token"] = answer
    code = await copilot_login.begin(Hosts.of(host.url), http)
    assert await copilot_login.wait_for_person(Hosts.of(host.url), code, http, sleep=_no_time) == "gho_1"
    with pytest.raises(ProviderError, match="does not answer: there is no code"):
        await copilot_login.begin(Hosts.of("http://127.0.0.1:1"), http)


async def test_an_account_without_copilot_is_told_so(host: ModelHost, http: ModelClient) -> None:
    github(host)
    host.answers["/copilot_internal/v2/token"] = 403
    with pytest.raises(ProviderError, match="has no access to Copilot"):
        await copilot_login.log_in("gho_1", Hosts.of(host.url), http)


async def test_a_code_that_does_not_come_issaid(host: ModelHost, http: ModelClient) -> None:
    with pytest.raises(ProviderError, match="gave no code"):
        await copilot_login.begin(Hosts.of(host.url), http)


def logged_in(host: ModelHost, directory: Path, **changes: Any) -> ProviderSettings:
    """With a short token that ends half an hour from `NOW`."""
    plain = Token(
        access_token="valid",
        refresh_token="gho_1",
        expires_in=1800,
        expires_at=NOW + 1800,
        client="copilot",
        token_url=Hosts.of(host.url).token_url,
        endpoint=host.url,
    )
    token, file = msgspec.structs.replace(plain, **changes), directory / "bullpen.json"
    tokens.store(file, "copilot", token)
    return ProviderSettings(
        id="copilot",
        name="GitHub Copilot",
        type="copilot",
        base_url=host.url,
        api_key=token.access_token,
        token=token,
        token_file=str(file),
    )


@pytest.mark.parametrize(
    "answer", [408, 429, 500, 503, (403, {"message": "API rate limit exceeded for user ID 1."}), (200, {})]
)
async def test_a_github_that_is_busy_ends_no_login(
    host: ModelHost, http: ModelClient, tmp_path: Path, answer: Any
) -> None:
    """The short token is used to its end, and after that GitHub is asked again later."""
    host.answers["/copilot_internal/v2/token"] = answer
    settings = logged_in(host, tmp_path)
    assert (await current(settings, http, now=lambda: NOW + 1700)).api_key == "valid"
    with pytest.raises(ProviderError, match="the login of GitHub Copilot cannot be renewed") as caught:
        await current(settings, http, now=lambda: NOW + 1800)
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("status", "sentence"), [(401, "log in again"), (404, "log in again"), (403, "no access to Copilot")]
)
async def test_a_github_that_says_no_does(
    host: ModelHost, http: ModelClient, tmp_path: Path, status: int, sentence: str
) -> None:
    host.answers["/copilot_internal/v2/token"] = status
    with pytest.raises(ProviderError, match=sentence) as caught:
        await current(logged_in(host, tmp_path), http, now=lambda: NOW + 1800)
    assert not caught.value.retryable


async def test_copilot_is_spoken_to_like_an_editor(
    host: ModelHost, http: ModelClient, tmp_path: Path
) -> None:
    """The short token is bought anew when it is old, and the host is told who began."""
    github(host)
    host.answers["/chat/completions"] = lambda headers, _: (
        says("hello") if headers["authorization"] == "Bearer short" else 401
    )
    settings = logged_in(host, tmp_path, access_token="old", expires_at=1)
    provider = registry.build(settings, http)
    assert await said(provider.stream(ask("hi"))) == "hello"
    _, headers, _ = host.asked[-1]
    assert headers["editor-version"].startswith("vscode/")
    assert (headers["copilot-integration-id"], headers["x-initiator"]) == ("vscode-chat", "user")
    assert "copilot-vision-request" not in headers


@pytest.mark.parametrize(
    ("purpose", "turns", "for_agent", "who"),
    [
        ("turn", "user", False, "user"),
        ("turn", "user assistant user", False, "agent"),
        ("turn", "user", True, "agent"),
        ("title", "user", False, "agent"),
    ],
)
def test_who_began(purpose: Any, turns: str, *, for_agent: bool, who: str) -> None:
    turns_of = tuple(UserTurn("x") if each == "user" else AssistantTurn("y") for each in turns.split())
    request = ModelRequest(
        purpose=purpose, session_id="s", model="m", system=(), turns=turns_of, for_agent=for_agent
    )
    assert initiator(request) == who


async def test_models_that_are_only_served_over_responses_are_asked_there(
    host: ModelHost, http: ModelClient
) -> None:
    host.answers["/responses"] = b"".join(ResponsesWire().answer(say("hello")))
    model = Model(id="gpt-6-sol", options={"api": "responses"})
    settings = ProviderSettings(
        id="copilot", type="copilot", base_url=host.url, api_key="short", models=(model,)
    )
    wish = ask("hi", model="gpt-6-sol", can_reason=True, settings=SelectedModel(reasoning_effort="high"))
    assert await said(registry.build(settings, http).stream(wish)) == "hello"
    path, headers, body = host.asked[-1]
    assert body["reasoning"]["effort"] == "high"
    assert (path, headers["x-initiator"]) == ("/responses", "user")
    assert (headers["copilot-integration-id"], headers["authorization"]) == ("vscode-chat", "Bearer short")


async def _no_time(_seconds: float) -> None:
    pass
