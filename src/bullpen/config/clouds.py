"""What the types of the large vendors need beside an address and a key, and what a person is told when it is missing.

Their own tools read it from variables, so we do too, but from the environment of the workspace, not from that of the server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

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
_NAME = re.compile(r"[A-Za-z_]\w*")


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


class Lack(NamedTuple):
    """What a provider needs and has not: the next step, and the field of its entry that does as well."""

    what: str
    step: str
    field: str = ""

    def __str__(self) -> str:
        return f"{self.what}; {self.step}" + (f" or its {self.field}" if self.field else "")


def lacking(
    kind: str, entry: ProviderEntry, key: str, url: str, env: Mapping[str, str], template: str = ""
) -> Lack | None:
    """The first thing that is missing, as far as it can be seen from here. `template` is where the catalogue expects
    the provider's key."""
    match kind:
        case "copilot" if not key:
            return Lack("nobody is logged in", "log in with 'bullpen login copilot'")
        case "azure" if not url:
            return Lack("it has no address", "set AZURE_OPENAI_API_ENDPOINT", "base_url")
        case "google-vertex" if not key:
            return _vertex(entry.provider_options, env)
        case "bedrock" if not (key or entry.aws_auth_refresh or _has_aws(entry.provider_options, env)):
            return Lack(
                "it has no AWS credentials",
                "set AWS_BEARER_TOKEN_BEDROCK, AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run"
                " 'aws configure'",
            )
    variable = _NAME.search(template or cloud_of(kind).api_key)
    return Lack("it has no key", f"set {variable[0]}", "api_key") if variable and not key else None


def _vertex(options: Mapping[str, Any], env: Mapping[str, str]) -> Lack | None:
    for name in ("project", "location"):
        variables = (f"VERTEXAI_{name.upper()}", f"GOOGLE_CLOUD_{name.upper()}")
        if not options.get(name) and not any(env.get(variable) for variable in variables):
            return Lack(f"it has no {name}", f"set {variables[0]}", f"provider_options.{name}")
    return None


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
