"""What the types of the large vendors need beside an address and a key, and what a person is told when it is missing.

Their own tools read it from variables, so we do too, but from the environment of the workspace, not from that of the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from bullpen.config.shape import ProviderEntry

AWS_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
AWS_SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
AWS_TOKEN = "AWS_BEARER_TOKEN_BEDROCK"
AWS_SIGNS = (
    AWS_TOKEN,
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
)
"""Any of these means that somebody prepared the workspace for AWS; on Amazon's machines a region is all there is."""


class Cloud(msgspec.Struct, frozen=True, kw_only=True):
    """Templates for what the config does not say, and the variables that the type's provider looks at."""

    api_key: str = ""
    base_url: str = ""
    needs_address: bool = False
    variables: tuple[str, ...] = ()
    prefix: str = ""
    """Every variable that begins with this counts as well."""
    runs_commands: bool = False
    """Whether its login may need commands of the person's."""


CLOUDS = {
    "openai": Cloud(base_url="https://api.openai.com/v1"),
    "google": Cloud(api_key="${GEMINI_API_KEY:-$GOOGLE_API_KEY}"),
    "google-vertex": Cloud(
        variables=(
            "VERTEXAI_PROJECT",
            "VERTEXAI_LOCATION",
            "GOOGLE_CLOUD_PROJECT",
            "GOOGLE_CLOUD_LOCATION",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "CLOUDSDK_CONFIG",
            "NO_GCE_CHECK",
            "HOME",
        )
    ),
    "bedrock": Cloud(variables=("HOME",), prefix="AWS_", runs_commands=True),
    "azure": Cloud(
        api_key="$AZURE_OPENAI_API_KEY",
        base_url="${AZURE_OPENAI_API_ENDPOINT:-$AZURE_OPENAI_ENDPOINT}",
        needs_address=True,
        variables=("AZURE_OPENAI_API_VERSION", "OPENAI_API_VERSION"),
    ),
}

_NONE = Cloud(needs_address=True)


def cloud_of(kind: str) -> Cloud:
    return CLOUDS.get(kind, _NONE)


def seen_by(kind: str, env: Mapping[str, str]) -> dict[str, str]:
    """The part of the environment that a provider of the type is given."""
    cloud = cloud_of(kind)
    return {
        name: text
        for name, text in env.items()
        if text and (name in cloud.variables or (cloud.prefix and name.startswith(cloud.prefix)))
    }


def secrets_in(kind: str, key: str, env: Mapping[str, str]) -> set[str]:
    """The variables that a provider of the type has its credential from without a template that names them.

    Those of AWS are also what a person's own `aws` needs, so they count only where a model is asked with them."""
    if kind != "bedrock" or key or env.get(AWS_TOKEN) or not all(env.get(name) for name in AWS_KEYS):
        return set()
    return set(AWS_SECRETS)


def missing(kind: str, entry: ProviderEntry, key: str, url: str, env: Mapping[str, str]) -> str:
    """One sentence with the next step; "" when nothing is missing that can be seen from here."""
    match kind:
        case "google" if not key:
            return "it has no key; set GEMINI_API_KEY or its api_key"
        case "azure" if not url:
            return "it has no address; set AZURE_OPENAI_API_ENDPOINT or its base_url"
        case "azure" if not key:
            return "it has no key; set AZURE_OPENAI_API_KEY or its api_key"
        case "google-vertex" if not key:
            return _vertex(entry.provider_options, env)
        case "bedrock" if not (key or entry.aws_auth_refresh or _has_aws(entry.provider_options, env)):
            return (
                "it has no AWS credentials; set AWS_BEARER_TOKEN_BEDROCK, AWS_PROFILE or AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY, or run 'aws configure'"
            )
    return ""


def _vertex(options: Mapping[str, Any], env: Mapping[str, str]) -> str:
    for name in ("project", "location"):
        variables = (f"VERTEXAI_{name.upper()}", f"GOOGLE_CLOUD_{name.upper()}")
        if not options.get(name) and not any(env.get(variable) for variable in variables):
            return f"it has no {name}; set {variables[0]} or its provider_options.{name}"
    return ""


def _has_aws(options: Mapping[str, Any], env: Mapping[str, str]) -> bool:
    """Any sign; whether it works is seen when a model is asked."""
    home = Path(env.get("HOME", "/")) / ".aws"
    files = (
        Path(env.get("AWS_SHARED_CREDENTIALS_FILE") or home / "credentials"),
        Path(env.get("AWS_CONFIG_FILE") or home / "config"),
        home / "login",
    )
    return (
        any(options.get(name) for name in ("profile", "region"))
        or any(env.get(name) for name in AWS_SIGNS)
        or all(env.get(name) for name in AWS_KEYS)
        or any(file.exists() for file in files)
    )
