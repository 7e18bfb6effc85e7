from __future__ import annotations

import asyncio
import json
import os
import shlex
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec
import pytest
import trustme
from tests.providers.conftest import TOOL, Exchange, FakeHost, ask, collect, fails, said
from tests.providers.vendors import speak
from tests.providers.wires import ConverseWire, frame, say

from bullpen.config.settings import ProviderSettings
from bullpen.errors import ProviderError
from bullpen.providers.base import LoginBegun, LoginEnded, ModelEvent, TextDelta
from bullpen.providers.bedrock import Bedrock
from bullpen.providers.http import ModelClient
from bullpen.schema.agent import SelectedModel

WIRE = ConverseWire()
CLAUDE = "us.anthropic.claude-opus-4-6-v1"
KEYS = {"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "aws-secret-0123456789"}


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(autouse=True)
def _no_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of this machine's is used."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))


def bedrock(host: FakeHost, http: ModelClient, environment: dict[str, str], **facts: Any) -> Bedrock:
    plain = {
        "id": "bedrock",
        "type": "bedrock",
        "base_url": host.url,
        "environment": environment,
        "command_environment": {"PATH": "/usr/bin:/bin"},
    }
    return Bedrock(ProviderSettings(**(plain | facts)), http)


async def hello(exchange: Exchange) -> None:
    await speak(exchange, WIRE, WIRE.answer(say("hi")))


def region_in(exchange: Exchange) -> str:
    return exchange.headers["authorization"].split("/")[2]


@pytest.mark.parametrize(
    ("known", "facts", "name", "region"),
    [
        ({"AWS_REGION": "eu-north-1", "AWS_DEFAULT_REGION": "us-west-2"}, {}, CLAUDE, "eu-north-1"),
        ({"AWS_DEFAULT_REGION": "us-west-2"}, {}, CLAUDE, "us-west-2"),
        (
            {"AWS_REGION": "eu-north-1"},
            {"provider_options": {"region": "ap-south-1"}},
            CLAUDE,
            "ap-south-1",
        ),
        ({}, {}, CLAUDE, "us-east-1"),
        ({}, {}, "eu.anthropic.claude-opus-4-6-v1", "eu-west-1"),
    ],
)
async def test_the_region(
    host: FakeHost, http: ModelClient, known: dict[str, str], facts: Any, name: str, region: str
) -> None:
    host.will(hello)
    await collect(bedrock(host, http, KEYS | known, **facts).stream(ask(model=name)))
    assert region_in(host.exchanges[0]) == region
    assert "region" not in json.dumps(host.exchanges[0].json)


async def test_a_profile_of_the_workspace(host: FakeHost, http: ModelClient, tmp_path: Path) -> None:
    """The files and the profile that the workspace's environment names, not the server's."""
    credentials, config = tmp_path / "credentials", tmp_path / "config"
    credentials.write_text("[work]\naws_access_key_id = AKIAWORK\naws_secret_access_key = s\n")
    config.write_text("[profile work]\nregion = sa-east-1\n")
    host.will(hello)
    known = {"AWS_SHARED_CREDENTIALS_FILE": str(credentials), "AWS_CONFIG_FILE": str(config)}
    await collect(bedrock(host, http, known | {"AWS_PROFILE": "work"}).stream(ask(model=CLAUDE)))
    assert "Credential=AKIAWORK/" in host.exchanges[0].headers["authorization"]
    assert region_in(host.exchanges[0]) == "sa-east-1"


SERVER = {
    "AWS_ACCESS_KEY_ID": "AKIASERVER",
    "AWS_SECRET_ACCESS_KEY": "s",
    "AWS_SESSION_TOKEN": "of-the-server",
    "AWS_BEARER_TOKEN_BEDROCK": "of-the-server",
    "AWS_PROFILE": "of-the-server",
    "AWS_REGION": "ca-central-1",
    "AWS_WEB_IDENTITY_TOKEN_FILE": "/nonexistent",
    "AWS_ROLE_ARN": "arn:aws:iam::1:role/server",
    "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
}


@pytest.fixture
def other_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's own environment is full of somebody else's."""
    for name, text in SERVER.items():
        monkeypatch.setenv(name, text)


@pytest.mark.usefixtures("other_account")
async def test_workspaces_do_not_mix_with_each_other_nor_with_the_server(
    host: FakeHost, http: ModelClient, tmp_path: Path
) -> None:
    """Keys by variables, keys in a home, and nothing at all."""
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/credentials").write_text(
        "[default]\naws_access_key_id = AKIAHOME\naws_secret_access_key = s\n"
    )
    (tmp_path / ".aws/config").write_text("[default]\nregion = sa-east-1\n")
    host.will(hello)
    for known in (KEYS, {"HOME": str(tmp_path)}):
        await collect(bedrock(host, http, known).stream(ask(model=CLAUDE)))
    first, second = (exchange.headers for exchange in host.exchanges)
    assert "Credential=AKIAEXAMPLE/" in first["authorization"]
    assert "Credential=AKIAHOME/" in second["authorization"]
    assert [region_in(exchange) for exchange in host.exchanges] == ["us-east-1", "sa-east-1"]
    assert "x-amz-security-token" not in first | second
    with pytest.raises(ProviderError, match="AWS does not know who asks: Unable to locate credentials"):
        await collect(bedrock(host, http, {"HOME": "/nonexistent"}).stream(ask(model=CLAUDE)))


@pytest.mark.usefixtures("other_account")
async def test_an_address_that_the_workspace_names(host: FakeHost, http: ModelClient) -> None:
    host.will(hello)
    known = KEYS | {"AWS_ENDPOINT_URL_BEDROCK_RUNTIME": host.url}
    assert (await collect(bedrock(host, http, known, base_url="").stream(ask(model=CLAUDE))))[0]


@pytest.mark.usefixtures("other_account")
async def test_a_role_that_the_workspace_has_by_a_token(
    host: FakeHost, http: ModelClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", host.url)
    (tmp_path / "token").write_text("web-token")
    role = b"""<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
      <AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>AKIAROLE</AccessKeyId>
      <SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>
      <Expiration>2100-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult>
      </AssumeRoleWithWebIdentityResponse>"""
    host.will(lambda exchange: exchange.plain(200, role, Content_Type="text/xml"), hello)
    known = {
        "HOME": str(tmp_path),
        "AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "token"),
        "AWS_ROLE_ARN": "arn:aws:iam::1:role/workspace",
    }
    await collect(bedrock(host, http, known).stream(ask(model=CLAUDE)))
    asked, signed = host.exchanges
    assert b"role%2Fworkspace" in asked.raw
    assert "Credential=AKIAROLE/" in signed.headers["authorization"]


async def test_a_command_of_the_profile_is_run_as_the_workspace_would(
    host: FakeHost, http: ModelClient, tmp_path: Path
) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/config").write_text("[default]\ncredential_process = /bin/sh ./who.sh\n")
    (tmp_path / "who.sh").write_text(
        """echo "{\\"Version\\": 1, \\"AccessKeyId\\": \\"$WHO\\", \\"SecretAccessKey\\": \\"s\\"}\"\n"""
    )
    host.will(hello)
    facts = {"directory": str(tmp_path), "command_environment": {"WHO": "AKIACOMMAND"}}
    await collect(bedrock(host, http, {"HOME": str(tmp_path)}, **facts).stream(ask(model=CLAUDE)))
    assert "Credential=AKIACOMMAND/" in host.exchanges[0].headers["authorization"]


@pytest.fixture
async def tls_host(tmp_path: Path) -> AsyncIterator[tuple[FakeHost, Path]]:
    """Amazon's package sends a bearer token over TLS only."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    bundle = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(bundle)
    fake = FakeHost()
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0, ssl=context)
    fake.url = f"https://localhost:{server.sockets[0].getsockname()[1]}"
    yield fake, bundle
    server.close()
    for exchange in fake.exchanges:
        exchange.cut(reset=True)
    await server.wait_closed()


@pytest.mark.parametrize("by_variable", [False, True])
async def test_a_bearer_token(tls_host: tuple[FakeHost, Path], http: ModelClient, by_variable: bool) -> None:
    host, bundle = tls_host
    host.will(lambda exchange: exchange.plain(403, {"message": "ABSK-secret-token is not known"}))
    known = {"AWS_CA_BUNDLE": str(bundle)}
    known |= {"AWS_BEARER_TOKEN_BEDROCK": "ABSK-secret-token"} if by_variable else {}
    model = bedrock(host, http, known, api_key="" if by_variable else "ABSK-secret-token")
    with pytest.raises(ProviderError) as caught:
        await collect(model.stream(ask(model=CLAUDE)))
    assert host.exchanges[0].headers["authorization"] == "Bearer ABSK-secret-token"
    assert caught.value.details == "… is not known; check the credentials of provider 'bedrock'"


async def test_a_bearer_token_needs_tls(host: FakeHost, http: ModelClient) -> None:
    with pytest.raises(ProviderError) as caught:
        await collect(bedrock(host, http, {}, api_key="ABSK-secret-token").stream(ask(model=CLAUDE)))
    assert caught.value.details.startswith("Bedrock cannot be asked: ")
    assert "HTTPS" in caught.value.details
    assert not caught.value.retryable


async def test_what_the_host_is_sent(host: FakeHost, http: ModelClient) -> None:
    """Thinking and the config's fields beside each other; tools, system and conversation marked for the cache."""
    host.will(hello)
    model = bedrock(host, http, KEYS, extra_body={"custom": 1})
    settings = SelectedModel(reasoning_effort="low", temperature=0.5)
    await collect(
        model.stream(ask(model=CLAUDE, can_reason=True, settings=settings, tools=(TOOL,), max_tokens=9))
    )
    sent = host.exchanges[0].json
    assert sent["additionalModelRequestFields"] == {
        "custom": 1,
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "low"},
    }
    assert sent["inferenceConfig"] == {"maxTokens": 9}
    point = {"cachePoint": {"type": "default"}}
    assert sent["system"] == [{"text": "Be kind."}, point]
    assert sent["messages"][0]["content"][-1] == point
    assert sent["toolConfig"]["tools"][-1] == point


@pytest.mark.parametrize(
    "facts", [{"prompt_caching": False}, {"provider_options": {"prompt_caching": False}}]
)
async def test_caching_can_be_turned_off(host: FakeHost, http: ModelClient, facts: dict[str, Any]) -> None:
    host.will(hello)
    await collect(bedrock(host, http, KEYS, **facts).stream(ask(model=CLAUDE, tools=(TOOL,))))
    assert b"cachePoint" not in host.exchanges[0].raw


@pytest.mark.parametrize(
    ("kind", "status", "retryable"),
    [
        ("throttlingException", 429, True),
        ("internalServerException", 500, True),
        ("validationException", 400, False),
    ],
)
async def test_a_failure_in_the_middle(
    host: FakeHost, http: ModelClient, kind: str, status: int, retryable: bool
) -> None:
    pieces = [*WIRE.answer(say("hi"))[:2], WIRE.failure(kind, "it did not work")]
    host.will(lambda exchange: speak(exchange, WIRE, pieces))
    with pytest.raises(ProviderError) as caught:
        await collect(bedrock(host, http, KEYS).stream(ask(model=CLAUDE)))
    error = caught.value
    assert (error.details, error.status, error.retryable) == ("it did not work", status, retryable)


async def test_nobody_is_logged_in(host: FakeHost, http: ModelClient) -> None:
    with pytest.raises(ProviderError) as caught:
        await collect(bedrock(host, http, {}).stream(ask(model=CLAUDE)))
    assert caught.value.details.startswith("AWS does not know who asks: Unable to locate credentials; log in")
    assert (caught.value.kind, caught.value.retryable) == ("auth", False)


async def test_without_the_extra(host: FakeHost, http: ModelClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(ProviderError, match=r"not installed; run: pip install 'bullpen\[bedrock\]'"):
        await collect(bedrock(host, http, KEYS).stream(ask(model=CLAUDE)))


async def test_an_unknown_profile(host: FakeHost, http: ModelClient) -> None:
    with pytest.raises(ProviderError) as caught:
        await collect(bedrock(host, http, {"AWS_PROFILE": "gone"}).stream(ask(model=CLAUDE)))
    assert caught.value.details == "Bedrock cannot be asked: The config profile (gone) could not be found"


async def test_an_expired_login_is_renewed_once(host: FakeHost, http: ModelClient, tmp_path: Path) -> None:
    """The command writes new credentials; all who wait for it go on with them."""
    credentials, ran = tmp_path / "credentials", tmp_path / "ran"
    credentials.write_text("[default]\naws_access_key_id = AKIAOLD\naws_secret_access_key = s\n")

    async def by_key(exchange: Exchange) -> None:
        if "AKIAOLD" in exchange.headers["authorization"]:
            headers = {"x_amzn_errortype": "ExpiredTokenException"}
            await exchange.plain(403, {"message": "The security token has expired"}, **headers)
        else:
            await hello(exchange)

    host.will(by_key)
    command = f"echo x >>{shlex.quote(str(ran))}; sed -i s/AKIAOLD/AKIANEW/ {shlex.quote(str(credentials))}"
    model = bedrock(host, http, {"AWS_SHARED_CREDENTIALS_FILE": str(credentials)}, aws_auth_refresh=command)
    answers: list[str] = []

    async def one() -> None:
        answers.append(await said(model.stream(ask(model=CLAUDE))))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(one)
    assert answers == ["hi"] * 3
    assert ran.read_text() == "x\n"


async def test_the_address_of_a_login_is_told(host: FakeHost, http: ModelClient, tmp_path: Path) -> None:
    """A command that cannot open a browser prints where to confirm the login; it waits until somebody has."""
    confirmed, credentials = tmp_path / "confirmed", tmp_path / "credentials"
    os.mkfifo(confirmed)
    command = (
        'echo "open the following URL: https://device.sso.example/?user_code=AB-CD"; echo "or https://other.example";'
        "cat confirmed; printf '[default]\\naws_access_key_id = A\\naws_secret_access_key = s\\n' >credentials"
    )
    known = {"AWS_SHARED_CREDENTIALS_FILE": str(credentials)}
    model = bedrock(host, http, known, aws_auth_refresh=command, directory=str(tmp_path))
    host.will(hello)
    told: list[ModelEvent] = []
    async for event in model.stream(ask(model=CLAUDE)):
        told.append(event)
        if isinstance(event, LoginBegun) and event.url:
            async with await anyio.open_file(confirmed, "w") as pipe:
                await pipe.write("yes")
    url = "https://device.sso.example/?user_code=AB-CD"
    assert told[:3] == [LoginBegun(command), LoginBegun(command, url), LoginEnded(command)]
    assert TextDelta("hi") in told


async def test_a_title_asks_nobody_to_log_in(host: FakeHost, http: ModelClient, tmp_path: Path) -> None:
    model = bedrock(host, http, {}, aws_auth_refresh=f"touch {shlex.quote(str(tmp_path / 'ran'))}")
    with pytest.raises(ProviderError, match="log in"):
        await collect(model.stream(msgspec.structs.replace(ask(model=CLAUDE), purpose="title")))
    assert not (tmp_path / "ran").exists()


async def test_a_login_is_renewed_where_and_as_the_workspace_is(
    host: FakeHost, http: ModelClient, tmp_path: Path
) -> None:
    (tmp_path / "credentials").write_text("")
    command = (
        'printf "[$AWS_PROFILE]\\naws_access_key_id = AKIANEW\\naws_secret_access_key = s\\n" >credentials'
    )
    known = {"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials")}
    facts = {"directory": str(tmp_path), "command_environment": {"AWS_PROFILE": "default"}}
    host.will(hello)
    await collect(bedrock(host, http, known, aws_auth_refresh=command, **facts).stream(ask(model=CLAUDE)))
    assert "Credential=AKIANEW/" in host.exchanges[0].headers["authorization"]


async def test_what_was_said_already_is_not_said_twice(
    host: FakeHost, http: ModelClient, tmp_path: Path
) -> None:
    """A login that ends in the middle of an answer is a failed step; the engine knows what was seen of it."""
    expired = {":error-code": "ExpiredTokenException", ":error-message": "it has expired"}
    pieces = [*WIRE.answer(say("hi"))[:2], frame({":message-type": "error", **expired}, b"")]
    host.will(lambda exchange: speak(exchange, WIRE, pieces))
    model = bedrock(host, http, KEYS, aws_auth_refresh=f"touch {shlex.quote(str(tmp_path / 'ran'))}")
    seen: list[ModelEvent] = []
    error = await fails(model, seen)
    assert "it has expired" in error.details
    assert seen == [TextDelta("hi")]
    assert (len(host.exchanges), (tmp_path / "ran").exists()) == (1, False)


async def test_a_renewal_that_fails(host: FakeHost, http: ModelClient) -> None:
    command = "echo open https://example.com/login; echo no such person; exit 3"
    told: list[ModelEvent] = []
    error = await fails(bedrock(host, http, {}, aws_auth_refresh=command), told)
    why = "aws_auth_refresh failed with status 3: no such person"
    assert error.details == why
    assert told[-1] == LoginEnded(command, why)


async def test_more_streams_than_threads(host: FakeHost, http: ModelClient) -> None:
    """Each stream brings its own thread: none waits for another, and others' threads stay theirs."""
    count = int(anyio.to_thread.current_default_thread_limiter().total_tokens) + 10
    begun = 0
    all_here = anyio.Event()

    async def together(exchange: Exchange) -> None:
        nonlocal begun
        begun += 1
        if begun == count:
            all_here.set()
        await all_here.wait()
        await hello(exchange)

    host.will(together)
    model, answers = bedrock(host, http, KEYS), []

    async def one() -> None:
        answers.append((await collect(model.stream(ask(model=CLAUDE))))[0])

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for _ in range(count):
                tasks.start_soon(one)
    assert answers == [TextDelta("hi")] * count
    assert anyio.to_thread.current_default_thread_limiter().total_tokens == count - 10
