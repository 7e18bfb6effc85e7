"""Logins and keys are renewed against real hosts, by one process at a time."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import anyio
import msgspec
import pytest
from tests.journeys.model_host import ModelHost, model_host, says
from tests.providers.conftest import ask, said

from bullpen.config import tokens
from bullpen.config.keys import KeySource, Token
from bullpen.config.settings import ProviderSettings
from bullpen.errors import ConfigError, ProviderError
from bullpen.providers import registry
from bullpen.providers.credentials import current, renew
from bullpen.providers.http import ModelClient

NOW = 1_800_000_000


@pytest.fixture
def host() -> Iterator[ModelHost]:
    """Gives a new access token and a new refresh token for a refresh token, which is then good for nothing."""
    with model_host() as running:
        running.answers["/token"] = Rotation()
        running.answers["/v1/chat/completions"] = lambda headers, _: (
            says("hello") if headers["authorization"] == "Bearer access-1" else 401
        )
        yield running


class Rotation:
    def __init__(self) -> None:
        self.used = 0

    def __call__(self, _headers: Any, body: str) -> Any:
        if parse_qs(body)["refresh_token"] != [f"refresh-{self.used}"]:
            return 400
        self.used += 1
        return {
            "access_token": f"access-{self.used}",
            "refresh_token": f"refresh-{self.used}",
            "expires_in": 3600,
        }


def token_of(host: ModelHost, **changes: Any) -> Token:
    token = Token(
        access_token="access-0",
        refresh_token="refresh-0",
        expires_in=3600,
        expires_at=NOW + 3600,
        token_url=f"{host.url}/token",
    )
    return msgspec.structs.replace(token, **changes)


def settings_of(host: ModelHost, directory: Path, **changes: Any) -> ProviderSettings:
    """A provider that is logged in, on disk too."""
    token = token_of(host, **changes)
    file = directory / "bullpen.json"
    tokens.store(file, "p", token)
    return ProviderSettings(
        id="p",
        name="Mine",
        base_url=f"{host.url}/v1",
        api_key=token.access_token,
        token=token,
        token_file=str(file),
    )


@pytest.mark.parametrize(
    ("life", "left", "stale"),
    [(3600, 361, False), (3600, 360, True), (100, 31, False), (100, 30, True), (3600, -5, True)],
)
def test_a_token_is_renewed_a_little_early(life: int, left: int, stale: bool) -> None:
    """A tenth of its life, and at least half a minute."""
    token = Token(access_token="a", refresh_token="r", token_url="u", expires_in=life, expires_at=NOW + left)
    assert token.is_stale(NOW) is stale


@pytest.mark.parametrize("changes", [{"refresh_token": ""}, {"token_url": ""}])
async def test_a_token_that_cannot_be_renewed_lasts_to_its_end(
    host: ModelHost, http: ModelClient, tmp_path: Path, changes: dict[str, str]
) -> None:
    settings = settings_of(host, tmp_path, **changes)
    assert await current(settings, http, now=lambda: NOW + 3599) is settings
    with pytest.raises(ProviderError, match="log in again"):
        await current(settings, http, now=lambda: NOW + 3600)
    assert host.asked == []


def test_a_token_without_an_end_is_never_stale() -> None:
    assert not Token(access_token="a").is_stale(NOW)


def test_a_record_is_private_and_shows_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "bullpen.json"
    tokens.store(file, "p", Token(access_token="secret-a", refresh_token="secret-r"))
    assert file.stat().st_mode & 0o777 == 0o600
    assert "secret" not in repr(tokens.read(file, "p"))
    assert tokens.remove(file, "p")
    assert tokens.read(file, "p") is None
    assert not tokens.remove(file, "p")


async def test_a_fresh_token_is_left_alone(host: ModelHost, http: ModelClient, tmp_path: Path) -> None:
    settings = settings_of(host, tmp_path)
    assert await current(settings, http, now=lambda: NOW) is settings
    assert host.asked == []


async def test_a_stale_token_is_renewed_and_written_before_it_is_used(
    host: ModelHost, http: ModelClient, tmp_path: Path
) -> None:
    settings = settings_of(host, tmp_path)
    renewed = await current(settings, http, now=lambda: NOW + 3500)
    assert renewed.api_key == "access-1"
    assert renewed.token == tokens.read(tmp_path / "bullpen.json", "p")
    assert renewed.token == token_of(
        host, access_token="access-1", refresh_token="refresh-1", expires_at=NOW + 7100
    )


async def test_many_turns_at_once_renew_it_once(host: ModelHost, http: ModelClient, tmp_path: Path) -> None:
    settings = settings_of(host, tmp_path)
    found = await asyncio.gather(*(current(settings, http, now=lambda: NOW + 3500) for _ in range(20)))
    assert {each.api_key for each in found} == {"access-1"}
    assert host.paths() == ["/token"]


CHILD = """
import asyncio, sys, msgspec
from bullpen.config import tokens
from bullpen.config.settings import ProviderSettings
from bullpen.providers.credentials import current
from bullpen.providers.http import ModelClient
from pathlib import Path

async def main():
    file = Path(sys.argv[1])
    token = tokens.read(file, "p")
    settings = ProviderSettings(id="p", api_key=token.access_token, token=token, token_file=str(file))
    async with ModelClient() as http:
        print("ready", flush=True)
        sys.stdin.readline()
        print((await current(settings, http, now=lambda: float(sys.argv[2]))).api_key)

asyncio.run(main())
"""


async def test_two_processes_renew_it_once(host: ModelHost, tmp_path: Path) -> None:
    """Each refresh token is good once, so a second exchange would end the login."""
    settings_of(host, tmp_path)
    command = [sys.executable, "-c", CHILD, str(tmp_path / "bullpen.json"), str(NOW + 3500)]
    children = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    assert {child.communicate(timeout=30)[0].strip() for child in children} == {"access-1"}
    assert host.paths() == ["/token"]


async def test_a_newer_token_on_disk_is_taken(host: ModelHost, http: ModelClient, tmp_path: Path) -> None:
    """Another process was quicker; nothing is exchanged."""
    settings = settings_of(host, tmp_path)
    newer = token_of(host, access_token="access-9", refresh_token="refresh-9", expires_at=NOW + 9000)
    tokens.store(tmp_path / "bullpen.json", "p", newer)
    renewed = await current(settings, http, now=lambda: NOW + 3500)
    assert (renewed.token, host.asked) == (newer, [])


async def test_the_refresh_token_on_disk_counts_when_both_are_stale(
    host: ModelHost, http: ModelClient, tmp_path: Path
) -> None:
    """A server that slept while others renewed has a refresh token that is used up."""
    settings = settings_of(host, tmp_path)
    host.answers["/token"].used = 5
    tokens.store(
        tmp_path / "bullpen.json", "p", token_of(host, access_token="access-5", refresh_token="refresh-5")
    )
    assert (await current(settings, http, now=lambda: NOW + 3600)).api_key == "access-6"


async def test_a_revoked_login_says_to_log_in_again(
    host: ModelHost, http: ModelClient, tmp_path: Path
) -> None:
    host.answers["/token"] = 400
    with pytest.raises(ProviderError, match="log in again with 'bullpen login p'") as caught:
        await current(settings_of(host, tmp_path), http, now=lambda: NOW + 9000)
    assert (caught.value.status, caught.value.retryable) == (401, False)
    assert "refresh-0" not in str(caught.value)


@pytest.mark.parametrize("answer", [408, 429, 500, 503, (503, {"error": "temporarily_unavailable"}), {}, "?"])
async def test_a_login_host_that_is_unwell_is_asked_again_later(
    host: ModelHost, http: ModelClient, tmp_path: Path, answer: Any
) -> None:
    host.answers["/token"] = answer
    settings = settings_of(host, tmp_path)
    with pytest.raises(ProviderError, match="cannot be renewed: its host answered") as caught:
        await current(settings, http, now=lambda: NOW + 9000)
    assert caught.value.retryable
    assert tokens.read(tmp_path / "bullpen.json", "p") == settings.token


@pytest.mark.parametrize("answer", [400, 429, 503, {"error": "bad_refresh_token"}])
async def test_a_token_that_is_still_good_is_used_although_renewing_failed(
    host: ModelHost, http: ModelClient, tmp_path: Path, answer: Any
) -> None:
    """It is renewed early so that there is time for this. One that was refused is not good."""
    host.answers["/token"] = answer
    settings = settings_of(host, tmp_path)
    assert await current(settings, http, now=lambda: NOW + 3500) == settings
    with pytest.raises(ProviderError):
        await renew(settings, http, now=lambda: NOW + 3500)


async def test_whoever_logged_out_stays_logged_out(
    host: ModelHost, http: ModelClient, tmp_path: Path
) -> None:
    settings = settings_of(host, tmp_path)
    tokens.remove(tmp_path / "bullpen.json", "p")
    with pytest.raises(ProviderError, match="log in again"):
        await current(settings, http, now=lambda: NOW + 3500)
    assert tokens.read(tmp_path / "bullpen.json", "p") is None


@pytest.mark.parametrize("again", [False, True], ids=["out", "in"])
async def test_a_renewal_does_not_undo_what_a_person_did_meanwhile(
    host: ModelHost, http: ModelClient, tmp_path: Path, again: bool
) -> None:
    """Whoever logs out while the host thinks stays logged out; whoever logs in anew has that login."""
    settings, file = settings_of(host, tmp_path), tmp_path / "bullpen.json"
    rotation = host.answers["/token"]
    chosen = token_of(host, access_token="access-9", refresh_token="refresh-9") if again else None

    def answer(headers: Any, body: str) -> Any:
        tokens.remove(file, "p")
        if chosen:
            tokens.store(file, "p", chosen)
        return rotation(headers, body)

    host.answers["/token"] = answer
    if chosen:
        assert (await current(settings, http, now=lambda: NOW + 3500)).token == chosen
    else:
        with pytest.raises(ProviderError, match="log in again"):
            await current(settings, http, now=lambda: NOW + 3500)
    assert tokens.read(file, "p") == chosen


async def test_a_cancel_does_not_lose_the_new_refresh_token(
    host: ModelHost, http: ModelClient, tmp_path: Path
) -> None:
    """The exchange is finished and written, whatever became of the turn."""
    settings = settings_of(host, tmp_path)
    rotation = host.answers["/token"]
    with anyio.CancelScope() as scope:
        loop = asyncio.get_running_loop()

        def answer(headers: Any, body: str) -> Any:
            asyncio.run_coroutine_threadsafe(_cancel(scope), loop).result()
            return rotation(headers, body)

        host.answers["/token"] = answer
        await current(settings, http, now=lambda: NOW + 3500)
    assert scope.cancel_called
    kept = tokens.read(tmp_path / "bullpen.json", "p")
    assert kept is not None
    assert (kept.access_token, kept.refresh_token) == ("access-1", "refresh-1")


async def _cancel(scope: anyio.CancelScope) -> None:
    scope.cancel()


# In the middle of a turn


async def test_a_refused_token_is_renewed_and_the_request_asked_once_more(
    host: ModelHost, http: ModelClient, tmp_path: Path
) -> None:
    settings = settings_of(host, tmp_path, expires_at=0)
    assert await said(registry.build(settings, http).stream(ask("hi"))) == "hello"
    assert host.paths() == ["/v1/chat/completions", "/token", "/v1/chat/completions"]


async def test_it_is_asked_once_more_and_not_for_ever(
    host: ModelHost, http: ModelClient, tmp_path: Path
) -> None:
    host.answers["/v1/chat/completions"] = 401
    settings = settings_of(host, tmp_path, expires_at=0)
    with pytest.raises(ProviderError) as caught:
        await said(registry.build(settings, http).stream(ask("hi")))
    assert caught.value.status == 401
    assert host.paths().count("/v1/chat/completions") == 2


async def test_a_key_that_a_command_prints_is_printed_again(host: ModelHost, http: ModelClient) -> None:
    """Defect 9: custom providers forgot the template."""
    keys = iter(["access-1", "access-2"])
    settings = ProviderSettings(
        id="p",
        base_url=f"{host.url}/v1",
        api_key="access-0",
        key_source=KeySource("$(vault)", lambda: next(keys)),
    )
    assert await said(registry.build(settings, http).stream(ask("hi"))) == "hello"


async def test_the_same_key_again_is_no_help(host: ModelHost, http: ModelClient) -> None:
    settings = ProviderSettings(id="p", api_key="k", key_source=KeySource("$(vault)", lambda: "k"))
    assert await renew(settings, http) is None


async def test_a_command_that_fails_is_a_sentence(http: ModelClient) -> None:
    def fail() -> str:
        raise ConfigError("its command failed with exit code 1")

    with pytest.raises(ProviderError, match="the key of provider 'p' cannot be had: its command failed"):
        await renew(ProviderSettings(id="p", key_source=KeySource("$(vault)", fail)), http)


async def test_a_plain_key_cannot_be_renewed(http: ModelClient) -> None:
    assert await renew(ProviderSettings(id="p", api_key="k"), http) is None


def test_a_stored_login_is_used_by_the_config(tmp_path: Path) -> None:
    """With the address that came with it."""
    from tests.config.conftest import World

    world = World(tmp_path)
    token = Token(access_token="short", refresh_token="gho", client="copilot", endpoint="https://api.example")
    tokens.store(world.places.state_file, "copilot", token)
    settings = world.load()
    provider = settings.providers["copilot"]
    assert (provider.api_key, provider.base_url, provider.token) == ("short", "https://api.example", token)
    assert settings.raw["providers"]["copilot"]["oauth"]["access_token"] == "short"
    from bullpen.config.redact import redacted

    assert "short" not in json.dumps(redacted(settings)["providers"]["copilot"]["oauth"])
