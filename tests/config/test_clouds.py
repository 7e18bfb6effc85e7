from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bullpen.config import catalogue, keys
from bullpen.config.expand import Remembering
from bullpen.config.usable import Usable, usable


def prepared(kind: str, env: dict[str, str], name: str = "x", **facts: Any) -> Usable:
    configured = {name: {"type": kind, "models": [{"id": "m"}], **facts}}
    known = catalogue.load()
    return usable(
        configured,
        (),
        env,
        run=Remembering(lambda command: "", {}),
        known=known,
        discovered={},
        named={},
        types=None,
        token_file=Path("/nonexistent"),
        root=Path("/project"),
    )


@pytest.mark.parametrize(
    ("kind", "env", "facts", "sentence"),
    [
        ("google", {}, {}, "it has no key; set GEMINI_API_KEY or its api_key"),
        ("azure", {}, {}, "it has no address; set AZURE_OPENAI_API_ENDPOINT or its base_url"),
        (
            "azure",
            {"AZURE_OPENAI_API_ENDPOINT": "https://x.openai.azure.com"},
            {},
            "it has no key; set AZURE_OPENAI_API_KEY or its api_key",
        ),
        (
            "google-vertex",
            {"VERTEXAI_LOCATION": "global"},
            {},
            "it has no project; set VERTEXAI_PROJECT or its provider_options.project",
        ),
        (
            "google-vertex",
            {"VERTEXAI_PROJECT": "p"},
            {},
            "it has no location; set VERTEXAI_LOCATION or its provider_options.location",
        ),
        ("bedrock", {}, {}, "it has no AWS credentials; set AWS_BEARER_TOKEN_BEDROCK, AWS_PROFILE or"),
        ("bedrock", {"AWS_ACCESS_KEY_ID": "A"}, {}, "it has no AWS credentials"),
    ],
)
def test_what_is_missing_is_said_with_the_next_step(
    tmp_path: Path, kind: str, env: dict[str, str], facts: dict[str, Any], sentence: str
) -> None:
    found = prepared(kind, {"HOME": str(tmp_path), **env}, **facts)
    assert found.providers == {}
    assert found.warnings[0].startswith(f"provider 'x' is left out: {sentence}")


@pytest.mark.parametrize(
    ("kind", "env", "facts", "expected"),
    [
        ("google", {"GEMINI_API_KEY": "k"}, {}, ("k", "", {})),
        ("google", {"GOOGLE_API_KEY": "k"}, {}, ("k", "", {})),
        ("openai", {}, {"api_key": "k"}, ("k", "https://api.openai.com/v1", {})),
        (
            "azure",
            {
                "AZURE_OPENAI_API_KEY": "k",
                "AZURE_OPENAI_ENDPOINT": "https://x",
                "OPENAI_API_VERSION": "2025-01-01",
            },
            {},
            ("k", "https://x", {"OPENAI_API_VERSION": "2025-01-01"}),
        ),
        (
            "google-vertex",
            {"VERTEXAI_PROJECT": "p", "OTHER": "o"},
            {"provider_options": {"location": "global"}},
            ("", "", {"VERTEXAI_PROJECT": "p"}),
        ),
        ("bedrock", {"AWS_REGION": "eu-north-1"}, {}, ("", "", {"AWS_REGION": "eu-north-1"})),
        (
            "bedrock",
            {"BULLPEN_AWS_PROFILE": "work", "AWS_PROFILE": "home"},
            {},
            ("", "", {"AWS_PROFILE": "work"}),
        ),
        ("bedrock", {}, {"api_key": "ABSKx"}, ("ABSKx", "", {})),
        ("bedrock", {}, {"aws_auth_refresh": "aws sso login"}, ("", "", {})),
    ],
)
def test_a_provider_is_given_what_its_vendor_looks_at_and_nothing_else(
    tmp_path: Path,
    kind: str,
    env: dict[str, str],
    facts: dict[str, Any],
    expected: tuple[str, str, dict[str, str]],
) -> None:
    found = prepared(kind, {"HOME": str(tmp_path), **env}, **facts)
    assert found.warnings == ()
    settings = found.providers["x"]
    seen = {name: text for name, text in settings.environment.items() if name != "HOME"}
    assert (settings.api_key, settings.base_url, seen) == expected
    assert settings.aws_auth_refresh == facts.get("aws_auth_refresh", "")


@pytest.mark.parametrize(
    ("provider", "env", "expected"),
    [
        ("gemini", {"GOOGLE_API_KEY": "k"}, ("k", "https://generativelanguage.googleapis.com")),
        (
            "azure",
            {"AZURE_OPENAI_API_KEY": "k", "AZURE_OPENAI_ENDPOINT": "https://x.openai.azure.com"},
            ("k", "https://x.openai.azure.com"),
        ),
        ("cortecs", {"CORTECS_API_KEY": "k"}, ("k", "https://api.cortecs.ai/v1")),
    ],
)
def test_the_catalogue_leaves_no_variable_of_a_vendor_out(
    tmp_path: Path, provider: str, env: dict[str, str], expected: tuple[str, str]
) -> None:
    """Neither where providers are used nor where they are offered; what the catalogue names counts first."""
    env = {"HOME": str(tmp_path), **env}
    found = prepared("", env, name=provider).providers[provider]
    assert (found.api_key, found.base_url) == expected
    known = catalogue.load().known(provider)
    assert known is not None
    assert (keys.has_key(known, env), keys.advice(known, env)) == (True, "")


@pytest.mark.parametrize(
    "provider", ["openai", "gemini", "azure", "vertexai", "bedrock", "copilot", "anthropic"]
)
def test_an_offer_and_a_warning_name_the_same_next_step(tmp_path: Path, provider: str) -> None:
    env = {"HOME": str(tmp_path)}
    known = catalogue.load().known(provider)
    assert known is not None
    advice = keys.advice(known, env)
    assert advice
    assert f"; {advice}" in prepared("", env, name=provider).warnings[0]


@pytest.mark.parametrize(
    "url", ["http://h:65536/v1", "https://u:secret-word@h:99999", "h:70000", "http://h:x"]
)
def test_a_port_that_is_none_is_said(tmp_path: Path, url: str) -> None:
    found = prepared("azure", {"HOME": str(tmp_path)}, base_url=url, api_key="k")
    assert found.warnings == (
        "provider 'x' is left out: its base_url is no address; look at its host and its port, a number up to 65535",
    )


def test_commands_of_a_login_are_run_as_the_workspace_would(tmp_path: Path) -> None:
    """Only where there are any."""
    env = {"HOME": str(tmp_path), "PATH": "/bin", "BULLPEN_AWS_PROFILE": "work", "GEMINI_API_KEY": "k"}
    bedrock = prepared("bedrock", env).providers["x"]
    assert (bedrock.directory, bedrock.command_environment) == ("/project", env | {"AWS_PROFILE": "work"})
    gemini = prepared("google", env).providers["x"]
    assert (gemini.directory, gemini.command_environment) == ("", {})


def test_a_file_of_aws_is_a_sign_of_credentials(tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/credentials").write_text("[default]\n")
    assert list(prepared("bedrock", {"HOME": str(tmp_path)}).providers) == ["x"]


KEYS = {"AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t"}


@pytest.mark.parametrize(
    ("kind", "env", "facts", "hidden"),
    [
        ("bedrock", KEYS, {}, {"AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"}),
        ("bedrock", KEYS, {"disable": True}, set()),
        ("bedrock", KEYS, {"api_key": "ABSKx"}, set()),
        ("bedrock", KEYS | {"AWS_BEARER_TOKEN_BEDROCK": "b"}, {}, {"AWS_BEARER_TOKEN_BEDROCK"}),
        ("bedrock", {"AWS_SESSION_TOKEN": "t", "AWS_PROFILE": "work"}, {}, set()),
        ("openai", KEYS, {"api_key": "k"}, set()),
        (
            "openai",
            {"CRUSH_AWS_BEARER_TOKEN_BEDROCK": "b"},
            {"api_key": "k"},
            {"AWS_BEARER_TOKEN_BEDROCK", "CRUSH_AWS_BEARER_TOKEN_BEDROCK"},
        ),
    ],
)
def test_tools_do_not_see_what_models_are_asked_with(
    tmp_path: Path, kind: str, env: dict[str, str], facts: dict[str, Any], hidden: set[str]
) -> None:
    """Bedrock's token never. The keys of AWS only where they are Bedrock's: a person's `aws` needs them too."""
    assert prepared(kind, {"HOME": str(tmp_path), **env}, **facts).secret_names == hidden
