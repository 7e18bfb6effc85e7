"""Amazon's session for a workspace. Its package asks the environment of the process wherever nobody tells it otherwise, and
two workspaces of one server may have different accounts: so it is told, at every place where it can be.

Imported when Bedrock is first asked: Amazon's package is slow, and an extra.
"""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path
from typing import Any

from botocore import credentials
from botocore.configprovider import (
    BOTOCORE_DEFAUT_SESSION_VARIABLES,
    ConfigChainFactory,
    ConfiguredEndpointProvider,
)
from botocore.session import Session
from botocore.tokens import FrozenAuthToken

from bullpen.config.settings import ProviderSettings

SERVICE = "bedrock-runtime"

WEB_IDENTITY = {
    "web_identity_token_file": "AWS_WEB_IDENTITY_TOKEN_FILE",
    "role_arn": "AWS_ROLE_ARN",
    "role_session_name": "AWS_ROLE_SESSION_NAME",
}
"""The fields of a profile that may also be variables."""


class WithToken(Session):  # type: ignore[misc]  # the package has no types
    """Whoever has a bearer token needs no other credentials."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def get_auth_token(self, **_: Any) -> FrozenAuthToken:
        return FrozenAuthToken(self._token)

    def get_credentials(self) -> None:
        return None


def open_session(settings: ProviderSettings, token: str, profile: str) -> Any:
    """A session that knows the workspace's variables, files and profile."""
    env = _with_files(settings.environment)
    session = WithToken(token) if token else Session()
    if profile:
        session.set_config_variable("profile", profile)
    store = session.get_component("config_store")
    chains = ConfigChainFactory(session, environ=env)
    for name, (key, variables, default, convert) in BOTOCORE_DEFAUT_SESSION_VARIABLES.items():
        store.set_config_provider(
            name,
            chains.create_config_chain(
                instance_name=name,
                env_var_names=variables,
                config_property_names=key,
                default=default,
                conversion_func=convert,
            ),
        )
    return session


def endpoint_in(session: Any, settings: ProviderSettings) -> str | None:
    """The address that the workspace's variables, or its profile, name for Bedrock."""
    if session.get_config_variable("ignore_configured_endpoint_urls"):
        return None
    configured = ConfiguredEndpointProvider(
        full_config=session.full_config,
        scoped_config=session.get_scoped_config(),
        client_name=SERVICE,
        environ=settings.environment,
    )
    found: str | None = configured.provide()
    return found


def look_for_credentials(session: Any, settings: ProviderSettings, region: str) -> None:
    """Have the session look where it always looks, with the workspace's variables in the place of the process's."""
    env = settings.environment
    profile = session.get_config_variable("profile") or "default"
    usual = credentials.create_credential_resolver(session, region_name=region)

    def create_client(service: str, **facts: Any) -> Any:
        return session.create_client(service, **({"region_name": region} | facts))

    def config() -> Any:
        return session.full_config

    def with_variables() -> Any:
        named = {field: env[name] for field, name in WEB_IDENTITY.items() if env.get(name)}
        of_profile = session.full_config.get("profiles", {}).get(profile, {})
        chosen = session.instance_variables().get("profile")
        return {"profiles": {profile: of_profile if chosen else {**of_profile, **named}}}

    variables = credentials.EnvProvider(environ=env)
    container = credentials.ContainerProvider(environ=env)
    popen = functools.partial(
        subprocess.Popen, env=settings.command_environment, cwd=settings.directory or None
    )
    sources = [variables, container, usual.get_provider("iam-role")]
    ours = (
        variables,
        container,
        credentials.OriginalEC2Provider(environ=env),
        credentials.BotoProvider(environ=env),
        credentials.ProcessProvider(profile, config, popen=popen),
        credentials.AssumeRoleWithWebIdentityProvider(
            with_variables, create_client, profile, cache={}, disable_env_vars=True
        ),
        credentials.AssumeRoleProvider(
            config,
            create_client,
            {},
            profile,
            credential_sourcer=credentials.CanonicalNameCredentialSourcer(sources),
            profile_provider_builder=credentials.ProfileProviderBuilder(
                session, cache={}, region_name=region
            ),
        ),
    )
    instead = {provider.METHOD: provider for provider in ours}
    usual.providers = [instead.get(provider.METHOD, provider) for provider in usual.providers]
    session.register_component("credential_provider", usual)


def _with_files(env: dict[str, str]) -> dict[str, str]:
    """The variables, and the usual files of the workspace's person where none are named."""
    if not env.get("HOME"):
        return env
    usual = Path(env["HOME"]) / ".aws"
    files = {"AWS_CONFIG_FILE": "config", "AWS_SHARED_CREDENTIALS_FILE": "credentials"}
    return {**{name: str(usual / file) for name, file in files.items()}, **env}
