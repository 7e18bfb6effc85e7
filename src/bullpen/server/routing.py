"""What an endpoint is: one plain function, and a head that says path, access and status.

A decorator turns the function into an `Endpoint` value; nothing is registered by being imported. What a
parameter is follows from its name and type, once, when the module is loaded:

* ``host``, ``workspace``, ``endpoints``, ``connection`` are handed in as they are;
* ``body`` is the decoded request body; with a default, an empty body is allowed; `Exact` reads it without leniency;
* a name that stands in the path is a path segment;
* ``Annotated[str, Header(…)]`` is a header, `ClientId` the checked ``client_id`` of the query;
* everything else is a query parameter.

Checks have an order that clients see: first the workspace, then path, query and headers, then the body.
"""

from __future__ import annotations

import inspect
import re
import typing
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple
from urllib.parse import unquote

import msgspec
from starlette.types import Scope

from bullpen.errors import BadRequest, BullpenError, WorkspaceNotFound
from bullpen.schema.wire import decode_body, decode_document, encode
from bullpen.server.exchange import JSON_TYPE, Connection, Reply

if TYPE_CHECKING:
    from bullpen.workspace.host import Host
    from bullpen.workspace.workspace import Workspace

Access = Literal["open", "watch", "prompt", "approve", "admin"]
"""The right a caller needs. Only ``open`` works without one."""

Handler = Callable[..., Awaitable[Any]]

MAX_BODY_BYTES = 1024 * 1024
"""Enough for any request without attachments; what is longer is an accident or an attack."""

MAX_ATTACHED_BODY_BYTES = 64 * 1024 * 1024
"""For prompts: some 48 MiB of files, which base64 makes a third longer."""

MAX_HEADER_LENGTH = 255
"""Of the headers that end up in the store: names, ids and keys."""

CURSOR_HEADER = b"bullpen-cursor"


class Request:
    """One request on its way to an endpoint. Nothing is parsed before somebody asks for it."""

    __slots__ = ("_query", "connection", "endpoints", "host", "segments", "workspace")

    def __init__(
        self,
        host: Host,
        endpoints: tuple[Endpoint, ...],
        connection: Connection,
        segments: Mapping[str, str],
    ) -> None:
        self.host = host
        self.endpoints = endpoints
        self.connection = connection
        self.segments = segments
        self.workspace: Workspace | None = None
        self._query: dict[str, str] | None = None

    def query(self, name: str) -> str | None:
        if self._query is None:
            self._query = self.connection.parse_query()
        return self._query.get(name)

    def find_workspace(self) -> Workspace:
        self.workspace = self.host.find(self.segments["workspace_id"])
        return self.workspace

    def find_workspace_if_any(self) -> Workspace | None:
        try:
            return self.find_workspace()
        except WorkspaceNotFound:
            return None


class Header:
    """Marks a parameter that comes from a header: the first of `names` that is there and not empty."""

    def __init__(self, *names: str) -> None:
        self.names = names


class Exact:
    """Marks a body that is a document of its own: it is read as it stands, without the wire's looser rules."""


class Uuid:
    """Marks a query parameter that has to be a UUID."""


ClientId = Annotated[str, Uuid(), msgspec.Meta(extra_json_schema={"format": "uuid"})]
Author = Annotated[str, Header("Bullpen-Author", "Bullpen-Client-Id")]
"""Who is said to have done it: a name, else a client id, else nothing."""

Source = Literal["given", "path", "query", "header", "body"]


@dataclass(frozen=True, slots=True)
class Input:
    """One parameter of an endpoint: where it comes from, and how it is read."""

    name: str
    source: Source
    kind: Any
    required: bool
    default: Any
    headers: tuple[str, ...] = ()
    read: Callable[[Request], Any] = field(default=lambda _: None, compare=False)
    decode: Callable[[bytes, Any], Any] = field(default=decode_body, compare=False)


@dataclass(frozen=True, slots=True, eq=False)
class Endpoint:
    """A function with its head. `access` may be missing here; building an application refuses that."""

    method: str
    path: str
    function: Handler
    access: Access | None
    status: int
    answer: Any
    inputs: tuple[Input, ...]
    body: Input | None
    max_body_bytes: int
    media: str
    """The content type of a successful answer."""
    streams: bool
    """The function sends its own answer."""
    needs_store: bool
    """Whether a request waits until the store is open."""
    statuses: Mapping[type[BullpenError], int]
    """Where this endpoint differs from the common table of errors."""

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", "endpoint")

    @property
    def has_workspace(self) -> bool:
        """Whether an unknown workspace is an error here."""
        return any(i.name == "workspace" and i.required for i in self.inputs)

    async def reply(self, request: Request) -> Reply | None:
        """Check, call and encode. `None` when the function has answered by itself."""
        arguments = {i.name: i.read(request) for i in self.inputs}
        if self.body is not None:
            arguments["body"] = await self._decode(request, self.body)
        cursor = _cursor(request) if self.method == "GET" else ()
        if self.streams and request.connection.scope["method"] == "HEAD":
            return Reply(self.status, content_type=self.media.encode(), headers=cursor)
        value = await self.function(**arguments)
        if self.streams:
            return None
        if isinstance(value, Reply):
            return value
        if self.answer is NoneType:
            return Reply(self.status, headers=cursor)
        return Reply(self.status, _json(value), JSON_TYPE, cursor)

    async def _decode(self, request: Request, body: Input) -> Any:
        raw = await request.connection.body(self.max_body_bytes)
        if not raw and not body.required:
            return body.default
        return body.decode(raw, body.kind)


def _cursor(request: Request) -> tuple[tuple[bytes, bytes], ...]:
    """Up to where the answer will hold everything; taken before the answer is made."""
    if request.workspace is None:
        return ()
    return ((CURSOR_HEADER, request.workspace.cursor.encode()),)


def _json(value: Any) -> bytes:
    """One JSON value and a newline; bytes are JSON already."""
    if isinstance(value, bytes):
        return value if value.endswith(b"\n") else value + b"\n"
    return encode(value) + b"\n"


# Heads

_FROM_FUNCTION: Any = object()


def _endpoint(
    method: str,
    path: str,
    *,
    access: Access | None = None,
    status: int = 200,
    answer: Any = _FROM_FUNCTION,
    max_body_bytes: int = MAX_BODY_BYTES,
    media: str = "application/json",
    streams: bool = False,
    needs_store: bool = True,
    statuses: Mapping[type[BullpenError], int] | None = None,
) -> Callable[[Handler], Endpoint]:
    def decorate(function: Handler) -> Endpoint:
        hints = typing.get_type_hints(function, localns=_PLACEHOLDERS, include_extras=True)
        inputs = [
            _input(parameter, hints[parameter.name], path)
            for parameter in inspect.signature(function).parameters.values()
        ]
        others = [i for i in inputs if i.source != "body"]
        return Endpoint(
            method=method,
            path=path,
            function=function,
            access=access,
            status=status,
            answer=hints.get("return", Any) if answer is _FROM_FUNCTION else answer,
            inputs=tuple(sorted(others, key=lambda i: i.source != "given")),
            body=next((i for i in inputs if i.source == "body"), None),
            max_body_bytes=max_body_bytes,
            media=media,
            streams=streams,
            needs_store=needs_store,
            statuses=statuses or {},
        )

    return decorate


def get(
    path: str,
    *,
    access: Access | None = None,
    answer: Any = _FROM_FUNCTION,
    media: str = "application/json",
    needs_store: bool = True,
) -> Callable[[Handler], Endpoint]:
    """An endpoint that reads. `answer` names the type of an answer that comes as ready bytes."""
    return _endpoint("GET", path, access=access, answer=answer, media=media, needs_store=needs_store)


def stream(path: str, *, access: Access | None = None, media: str) -> Callable[[Handler], Endpoint]:
    """An endpoint that sends its own answer over the `connection` it is given, after all checks."""
    return _endpoint("GET", path, access=access, media=media, streams=True)


def post(
    path: str,
    *,
    access: Access | None = None,
    status: int = 200,
    max_body_bytes: int = MAX_BODY_BYTES,
    statuses: Mapping[type[BullpenError], int] | None = None,
) -> Callable[[Handler], Endpoint]:
    return _endpoint(
        "POST", path, access=access, status=status, max_body_bytes=max_body_bytes, statuses=statuses
    )


def put(path: str, *, access: Access | None = None) -> Callable[[Handler], Endpoint]:
    return _endpoint("PUT", path, access=access)


def patch(path: str, *, access: Access | None = None) -> Callable[[Handler], Endpoint]:
    return _endpoint("PATCH", path, access=access)


def delete(path: str, *, access: Access | None = None) -> Callable[[Handler], Endpoint]:
    return _endpoint("DELETE", path, access=access)


# Parameters


class _Placeholder:
    """Stands in for the types that are imported for the type checker only."""


_PLACEHOLDERS: dict[str, Any] = {"Host": _Placeholder, "Workspace": _Placeholder}

_GIVEN: dict[str, Callable[[Request], Any]] = {
    "host": lambda request: request.host,
    "endpoints": lambda request: request.endpoints,
    "connection": lambda request: request.connection,
}


def _input(parameter: inspect.Parameter, hint: Any, path: str) -> Input:
    name = parameter.name
    required = parameter.default is parameter.empty
    default = None if required else parameter.default
    if name == "workspace":
        known = NoneType not in typing.get_args(hint)
        read = Request.find_workspace if known else Request.find_workspace_if_any
        return Input(name, "given", Any, known, None, read=read)
    if name in _GIVEN:
        return Input(name, "given", Any, True, None, read=_GIVEN[name])
    if name == "body":
        kind, *marks = typing.get_args(hint) if typing.get_origin(hint) is Annotated else (hint,)
        decode = decode_document if any(isinstance(m, Exact) for m in marks) else decode_body
        return Input(name, "body", kind, required, default, decode=decode)
    kind, *marks = typing.get_args(hint) if typing.get_origin(hint) is Annotated else (hint,)
    convert = _number_reader(name, hint) if kind is int else _same
    if "{" + name + "}" in path:
        return Input(name, "path", hint, True, None, read=lambda r: convert(r.segments[name]))
    if mark := next((m for m in marks if isinstance(m, Header)), None):
        return Input(name, "header", str, False, default, mark.names, read=_header_reader(mark, default))
    if any(isinstance(m, Uuid) for m in marks):
        return Input(name, "query", ClientId, True, None, read=lambda r: _client_id(r, name))

    def read_query(request: Request) -> Any:
        text = request.query(name)
        if not text:
            if required:
                raise BadRequest(f"{name} is required")
            return default
        return convert(text)

    return Input(name, "query", hint, required, default, read=read_query)


def _same(text: str) -> Any:
    return text


def _number_reader(name: str, hint: Any) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            return msgspec.convert(text, hint, strict=False)
        except msgspec.ValidationError as exc:
            raise BadRequest(f"{name}: {exc}") from None

    return read


def _header_reader(mark: Header, default: Any) -> Callable[[Request], Any]:
    names = [name.lower().encode() for name in mark.names]

    def read(request: Request) -> Any:
        for name, shown in zip(names, mark.names, strict=True):
            if text := request.connection.header(name):
                if len(text) > MAX_HEADER_LENGTH:
                    raise BadRequest(f"{shown} is longer than {MAX_HEADER_LENGTH} characters")
                return text
        return default

    return read


def _client_id(request: Request, name: str) -> str:
    text = request.query(name)
    if not text:
        raise BadRequest(f"{name} is required")
    try:
        return parse_uuid(text)
    except ValueError:
        raise BadRequest(f"{name} is not a valid UUID") from None


_UUID = re.compile(
    r"(?:urn:uuid:)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|\{[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\}"
    r"|[0-9a-f]{32}",
    re.IGNORECASE | re.ASCII,
)
_UUID_LENGTHS = {32, 36, 38, 45}


def parse_uuid(text: str) -> str:
    """The usual spelling of a UUID that was given in any of its four.

    Raises `ValueError`, worded as the reference words it.
    """
    length = len(text.encode("utf-8", "surrogatepass"))
    if length not in _UUID_LENGTHS:
        raise ValueError(f"invalid UUID length: {length}")
    if not _UUID.fullmatch(text):
        raise ValueError("invalid UUID format")
    return str(uuid.UUID(text))


# Finding the endpoint


class Match(NamedTuple):
    """What a path leads to: the endpoints by method, and the segments that filled its gaps."""

    methods: Mapping[str, Endpoint]
    segments: Mapping[str, str]

    @property
    def allow(self) -> bytes:
        """The value of an `Allow` header."""
        names = {*self.methods, "HEAD"} if "GET" in self.methods else self.methods
        return ", ".join(sorted(names)).encode()


class _Node:
    """A place in the tree of paths. Literal segments are tried before the gap."""

    __slots__ = ("gap", "gap_names", "literals", "methods")

    def __init__(self) -> None:
        self.literals: dict[str, _Node] = {}
        self.gap: _Node | None = None
        self.gap_names: list[str] = []
        self.methods: dict[str, Endpoint] = {}


class Router:
    """All endpoints, found segment by segment."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        """Raises `ValueError` for an endpoint without an access rule, and for two that get in each other's way."""
        self.endpoints = tuple(endpoints)
        self._root = _Node()
        for endpoint in self.endpoints:
            self._add(endpoint)

    def _add(self, endpoint: Endpoint) -> None:
        head = f"{endpoint.method} {endpoint.path}"
        if endpoint.access is None:
            raise ValueError(f"{head} has no access rule")
        node = self._root
        gap_names: list[str] = []
        for segment in endpoint.path.split("/")[1:]:
            if segment.startswith("{"):
                gap_names.append(segment[1:-1])
                node.gap = node.gap or _Node()
                node = node.gap
            else:
                node = node.literals.setdefault(segment, _Node())
        if endpoint.method in node.methods or (node.methods and node.gap_names != gap_names):
            raise ValueError(f"{head} stands where another endpoint is")
        node.gap_names = gap_names
        node.methods[endpoint.method] = endpoint

    def match(self, segments: list[str]) -> Match | None:
        """The endpoints at a path of these decoded segments."""
        node, filled = self._root, []
        for segment in segments:
            following = node.literals.get(segment)
            if following is None:
                following = node.gap
                # A trailing slash leaves an empty segment, which fills no gap.
                if following is None or not segment:
                    return None
                filled.append(segment)
            node = following
        if not node.methods:
            return None
        return Match(node.methods, dict(zip(node.gap_names, filled, strict=True)))


def split_path(scope: Scope) -> list[str]:
    """The decoded segments of the path. A slash that came encoded does not split."""
    raw: bytes = scope.get("raw_path") or b""
    if not raw:
        path: str = scope["path"]
        return path.split("/")[1:]
    return [unquote(s) if "%" in s else s for s in raw.decode("utf-8", "replace").split("/")[1:]]
