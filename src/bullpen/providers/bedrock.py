"""Models on Amazon's Bedrock, through its Converse interface.

Amazon's package blocks, so each open answer waits in a thread. It brings that thread along, and a cancel shuts its
connection at once, also before the host has answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import AsyncGenerator, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from bullpen.config.settings import ProviderSettings
from bullpen.errors import ProviderError
from bullpen.providers import aws_login
from bullpen.providers.base import LoginBegun, LoginEnded, ModelEvent, ModelRequest
from bullpen.providers.http import CONNECT_LIMIT_S, ModelClient
from bullpen.providers.library import LibraryProvider, Options, thinking
from bullpen.providers.streaming import Limits

if TYPE_CHECKING:
    from pydantic_ai.models import Model

DEFAULT_REGION = "us-east-1"
EUROPE = "eu-west-1"

READ_LIMIT_S = 3600
"""Never reached: silence is watched by us."""

CONNECTIONS = 256

_LOGIN = re.compile(r"NoCredentials|Expired|SSO|TokenRetrieval|UnrecognizedClient|InvalidClientTokenId|Login")
"""Names of errors that a new login mends."""

_asking: ContextVar[list[Any]] = ContextVar("bedrock_asking")
"""The connections on which this step, or the thread that works for it, waits for the head of an answer."""


class LoginNeeded(ProviderError):
    """The AWS credentials are missing or have expired."""


class Bedrock(LibraryProvider):
    interface = "bedrock"
    package = "bullpen[bedrock]"
    own_options = frozenset({"region", "profile"})

    def __init__(
        self, settings: ProviderSettings, http: ModelClient, *, limits: Limits | None = None
    ) -> None:
        super().__init__(settings, http, limits=limits)
        self._login = asyncio.Lock()
        self._logins = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """One step, after a new login if the old one has expired. Raises `ProviderError`."""
        logins, has_begun = self._logins, False
        try:
            async with contextlib.aclosing(super().stream(request)) as events:
                async for event in events:
                    has_begun = True
                    yield event
            return
        except LoginNeeded:
            # A title is not worth a person's trouble, and nobody would hear of the login.
            if has_begun or request.purpose == "title" or not self.settings.aws_auth_refresh:
                raise
        async with contextlib.aclosing(self._log_in(logins)) as steps:
            async for step in steps:
                yield step
        async with contextlib.aclosing(super().stream(request)) as events:
            async for event in events:
                yield event

    @contextlib.contextmanager
    def line(self) -> Iterator[None]:
        threads = anyio.to_thread.current_default_thread_limiter()
        threads.total_tokens += 1
        asking: list[Any] = []
        _asking.set(asking)
        try:
            yield
        finally:
            threads.total_tokens -= 1
            for connection in asking:
                with contextlib.suppress(OSError, AttributeError):
                    connection.sock.shutdown(socket.SHUT_RDWR)

    def make_model(self, request: ModelRequest, body: Options) -> Model:
        from pydantic_ai.models.bedrock import BedrockConverseModel
        from pydantic_ai.providers.bedrock import BedrockProvider

        return BedrockConverseModel(
            request.model, provider=BedrockProvider(bedrock_client=self._client(request))
        )

    def samples(self, request: ModelRequest) -> bool:
        return not thinking(request, by_itself=False)

    def tuning(self, request: ModelRequest, body: Options) -> dict[str, Any]:
        wanted = thinking(request, by_itself=False)
        tuning: dict[str, Any] = {"cache": self.caches(request)}
        if body:
            tuning["bedrock_additional_model_requests_fields"] = body
        return tuning if wanted is None else tuning | {"thinking": wanted}

    def explain(self, exc: Exception) -> ProviderError | None:
        from botocore.exceptions import BotoCoreError
        from pydantic_ai.exceptions import ModelHTTPError

        cause: BaseException | None = exc
        while cause is not None and not isinstance(cause, BotoCoreError):
            cause = cause.__cause__ or cause.__context__
        code = exc.provider_error_code if isinstance(exc, ModelHTTPError) else type(cause).__name__
        if not code or not _LOGIN.search(code):
            return (
                ProviderError(f"Bedrock cannot be asked: {self.hide(str(cause))}") if cause is exc else None
            )
        said = self._parts.errors.error_of(exc, self.settings, self.hide).details if cause is None else cause
        self.forget_models()
        return LoginNeeded(
            f"AWS does not know who asks: {self.hide(str(said)).rstrip('. ')}; log in ('aws sso login'), "
            "or set AWS_BEARER_TOKEN_BEDROCK, AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            title="Unauthorized",
            status=401,
            kind="auth",
        )

    def _client(self, request: ModelRequest) -> Any:
        import boto3
        from botocore.config import Config

        from bullpen.providers import aws_session

        token = self.settings.api_key or self.settings.environment.get("AWS_BEARER_TOKEN_BEDROCK", "")
        profile = self.option(request, "profile")
        session = aws_session.open_session(self.settings, token, profile)
        region = self._region(request, session.get_config_variable("region"))
        if not token:
            aws_session.look_for_credentials(session, self.settings, region)
        endpoint = self.settings.base_url or aws_session.endpoint_in(session, self.settings)
        client = boto3.Session(botocore_session=session).client(
            aws_session.SERVICE,
            region_name=region,
            endpoint_url=endpoint,
            config=Config(
                connect_timeout=CONNECT_LIMIT_S,
                read_timeout=READ_LIMIT_S,
                max_pool_connections=CONNECTIONS,
                retries={"total_max_attempts": 1},
                # Both are said, or the process's own variables would decide.
                signature_version="bearer" if token else "v4",
                ignore_configured_endpoint_urls=True,
            ),
        )
        _watch(client)
        return client

    def _region(self, request: ModelRequest, of_profile: str | None) -> str:
        known = self.settings.environment
        chosen = self.option(request, "region") or known.get("AWS_REGION") or known.get("AWS_DEFAULT_REGION")
        by_model = EUROPE if request.model.startswith("eu.") else DEFAULT_REGION
        return chosen or of_profile or by_model

    async def _log_in(self, logins: int) -> AsyncGenerator[LoginBegun | LoginEnded, None]:
        """Run the command that renews the login, once for all who wait for it. Raises `ProviderError`."""
        async with self._login:
            if self._logins != logins:
                return
            command = self.settings.aws_auth_refresh
            try:
                async with contextlib.aclosing(aws_login.renew(self.settings)) as steps:
                    async for step in steps:
                        yield step
            except ProviderError as exc:
                yield LoginEnded(command, exc.details)
                raise
            self._logins += 1
            self.forget_models()
            yield LoginEnded(command)


def _watch(client: Any) -> None:
    """Have each connection of the client enter itself in `_asking` while it waits for an answer's head."""
    from botocore.awsrequest import AWSHTTPConnectionPool, AWSHTTPSConnectionPool

    def watched(pool: Any) -> Any:
        class Watched(pool.ConnectionCls):  # type: ignore[misc]  # the package has no types
            def request(self, *args: Any, **kwargs: Any) -> Any:
                _asking.get([]).append(self)
                return super().request(*args, **kwargs)

            def getresponse(self, *args: Any, **kwargs: Any) -> Any:
                try:
                    return super().getresponse(*args, **kwargs)
                finally:
                    with contextlib.suppress(ValueError):
                        _asking.get([]).remove(self)

        return type(pool.__name__, (pool,), {"ConnectionCls": Watched})

    # There is no public way to say which connections the package uses; a test shows that this one works.
    client._endpoint.http_session._pool_classes_by_scheme.update(
        http=watched(AWSHTTPConnectionPool), https=watched(AWSHTTPSConnectionPool)
    )
