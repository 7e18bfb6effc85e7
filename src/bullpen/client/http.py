"""Single calls to a server: one connection pool, typed answers, errors as the classes they were raised as.

A `Connection` knows where the server is and how to show a token; it knows nothing of workspaces. It
repeats nothing by itself: whether a call may be sent twice is known to whoever makes it.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import Any, TypeVar

import httpx2
import msgspec

from bullpen import errors
from bullpen.client.locate import HOST_NAME
from bullpen.client.unix import UnixTransport
from bullpen.errors import BullpenError, ServerUnreachable
from bullpen.schema.api import ErrorBody
from bullpen.schema.wire import encode
from bullpen.system.address import Address, TcpAddress, UnixAddress

T = TypeVar("T")

CURSOR_HEADER = "Bullpen-Cursor"
"""Says up to which event an answer holds everything."""

LIMITS = httpx2.Limits(keepalive_expiry=2.0)
"""Given up well before the server gives it up (5 s), so that no call meets a connection that is just closing."""

CALL_TIMEOUT = httpx2.Timeout(60.0, connect=5.0)
"""A store that checks itself after a crash may take long for the first answer; a connect never does."""


class Answer:
    """What came back: status, headers and the undecoded body."""

    def __init__(self, response: httpx2.Response) -> None:
        self.status = response.status_code
        self.cursor: str = response.headers.get(CURSOR_HEADER, "")
        self.body: bytes = response.content

    def read(self, kind: type[T]) -> T:
        """The body as `kind`. Raises `BullpenError` when the server speaks another language."""
        try:
            return msgspec.json.decode(self.body, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
            raise BullpenError(f"the server's answer makes no sense to this client: {exc}") from exc


class Connection:
    """Calls to one server. Use it as `async with Connection(address) as server:`.

    Every call raises `ServerUnreachable` when no answer came, else the error that the server named.
    """

    def __init__(
        self,
        address: Address,
        *,
        token: str = "",
        client_id: str = "",
        name: str = "",
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """`client_id` and `name` tell the server, and through it the others, who does what. `transport` is how
        requests travel, where that is not to follow from the address."""
        self.address = address
        self._http = httpx2.AsyncClient(
            transport=transport or _transport(address),
            base_url=_base_url(address),
            headers=_headers(token, client_id, name),
            timeout=CALL_TIMEOUT,
            # No proxy stands between us and our own server, whatever the environment says.
            trust_env=False,
        )

    async def __aenter__(self) -> Connection:
        await self._http.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.__aexit__(kind, exc, trace)

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> Answer:
        """Make one call to `path` below `/v1` and hand back a successful answer."""
        content = None if body is None else encode(body)
        kinds = {"Content-Type": "application/json"} if content is not None else {}
        limit = CALL_TIMEOUT if timeout_s is None else httpx2.Timeout(timeout_s)
        with self._translated():
            response = await self._http.request(
                method,
                path,
                content=content,
                params=params,
                headers={**kinds, **(headers or {})},
                timeout=limit,
            )
        if response.status_code >= 300:
            raise error_of(response.status_code, response.content, path)
        return Answer(response)

    async def get(self, path: str, kind: type[T], *, params: Mapping[str, str] | None = None) -> T:
        """Read `path` as `kind`."""
        return (await self.call("GET", path, params=params)).read(kind)

    async def post(self, path: str, body: object, kind: type[T]) -> T:
        """Send `body` to `path` and read the answer as `kind`."""
        return (await self.call("POST", path, body)).read(kind)

    @asynccontextmanager
    async def stream(
        self, path: str, *, params: Mapping[str, str], headers: Mapping[str, str], silence_s: float
    ) -> AsyncIterator[httpx2.Response]:
        """Open an endless answer; reading it fails after `silence_s` without a byte."""
        limit = httpx2.Timeout(silence_s, connect=5.0)
        request = self._http.build_request("GET", path, params=params, headers=dict(headers), timeout=limit)
        with self._translated():
            response = await self._http.send(request, stream=True)
        try:
            if response.status_code >= 300:
                with self._translated():
                    content = await response.aread()
                raise error_of(response.status_code, content, path)
            yield response
        finally:
            await response.aclose()

    async def is_answering(self, timeout_s: float) -> bool:
        """Whether a server answers its health call within `timeout_s`."""
        try:
            await self.call("GET", "/health", timeout_s=timeout_s)
        except BullpenError:
            return False
        return True

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (httpx2.RequestError, OSError) as exc:
            why = str(exc) or type(exc).__name__
            raise ServerUnreachable(f"no server answers at {self.address}: {why}") from exc


def _transport(address: Address) -> httpx2.AsyncBaseTransport:
    match address:
        case UnixAddress(path=path):
            return UnixTransport(str(path), LIMITS)
        case TcpAddress():
            return httpx2.AsyncHTTPTransport(trust_env=False, limits=LIMITS)


def _base_url(address: Address) -> str:
    match address:
        case TcpAddress():
            return str(address).replace("tcp://", "http://", 1) + "/v1"
        case UnixAddress():
            return f"http://{HOST_NAME}/v1"


def _headers(token: str, client_id: str, name: str) -> list[tuple[bytes, bytes]]:
    """As bytes, since a name may hold more than the library's ASCII."""
    headers = {
        b"Authorization": f"Bearer {token}" if token else "",
        b"Bullpen-Client-Id": client_id,
        b"Bullpen-Author": "".join(c for c in name if c.isprintable()).strip(),
    }
    return [(key, value.encode("utf-8", "replace")) for key, value in headers.items() if value]


def _all_errors(root: type[BullpenError]) -> Iterator[type[BullpenError]]:
    yield root
    for child in root.__subclasses__():
        yield from _all_errors(child)


_BY_CODE = {kind.code: kind for kind in _all_errors(BullpenError)}

_BY_MESSAGE: dict[str, type[BullpenError]] = {
    "workspace not found": errors.WorkspaceNotFound,
    "session not found": errors.SessionNotFound,
    "client not attached": errors.ClientNotAttached,
    "client has been retired": errors.ClientRetired,
    "server is hosting live workspaces": errors.HostingWorkspaces,
    "workspace closing": errors.WorkspaceClosing,
    "server is shutting down": errors.ShuttingDown,
    "agent coordinator not initialized": errors.AgentNotReady,
    "failed to decode request": errors.UndecodableBody,
}
"""For servers that send no code: the fixed texts of the wire."""

_BY_STATUS: dict[int, type[BullpenError]] = {
    400: errors.BadRequest,
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    409: errors.Conflict,
    413: errors.TooLarge,
    503: errors.ShuttingDown,
}


def error_of(status: int, body: bytes, path: str = "") -> BullpenError:
    """The error behind a refusal: by its code, by the wire's fixed texts, else by its status."""
    try:
        told = msgspec.json.decode(body, type=ErrorBody)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        text = body.decode("utf-8", "replace").strip()[:200]
        told = ErrorBody(message=text or f"the server answered {status} without a reason")
    kind = _BY_CODE.get(told.code) or _BY_MESSAGE.get(told.message) or _BY_STATUS.get(status, BullpenError)
    # The constructors take the facts, not the text, and the text is all that crossed the wire.
    error = kind.__new__(kind, told.message)
    Exception.__init__(error, told.message)
    for name, value in _facts(kind, told.message, path).items():
        setattr(error, name, value)
    return error


_IDS = re.compile(r"/(workspaces|sessions|clients)/([^/?]+)")
_OWNER = re.compile(r"in use by another \w+ process: (?P<directory>.*) \(owner pid=(?P<pid>\d+)")


def _facts(kind: type[BullpenError], message: str, path: str) -> dict[str, Any]:
    """The attributes of `kind` as far as the call and the text tell them."""
    named = dict(_IDS.findall(path))
    match kind.code:
        case errors.WorkspaceNotFound.code:
            return {"workspace_id": named.get("workspaces", "")}
        case errors.SessionNotFound.code | errors.SessionBusy.code:
            return {"session_id": named.get("sessions", "")}
        case errors.ClientNotAttached.code | errors.ClientRetired.code:
            return {"client_id": named.get("clients", "")}
        case errors.DataDirectoryInUse.code:
            owner = _OWNER.search(message)
            return {
                "directory": owner["directory"] if owner else "",
                "pid": int(owner["pid"]) if owner else 0,
            }
        case _:
            return {}
