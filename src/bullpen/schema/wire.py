"""How values become JSON and come back: one base type, one encoder, one forgiving decoder.

Encoding follows the wire: a field without a default is always there, a field with a default is left
out while it has that default.

Decoding is strict first, because that is fast and almost every request is well-formed. What fails
there gets one slow second chance with the wire's looser rules: only the first JSON value counts, keys
match whatever their case, null means "not given".
"""

from __future__ import annotations

import json
import re
import types
import typing
from typing import Any, TypeVar

import msgspec

from bullpen.errors import BadRequest, UndecodableBody

MAX_DEPTH = 100
"""Nesting past this is an attack or an accident; both are refused before recursion hurts."""

INT64_MAX = 2**63 - 1
Int64 = typing.Annotated[int, msgspec.Meta(ge=-INT64_MAX - 1, le=INT64_MAX)]


class Wire(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of everything that crosses the wire."""


T = TypeVar("T")

_encoder = msgspec.json.Encoder()
encode = _encoder.encode
"""Bytes of the JSON of any wire value, without a trailing newline."""


_KEY_WITH_CAPITALS = re.compile(rb'"[a-z0-9_]*[A-Z][A-Za-z0-9_]*"\s*:')
"""The strict decoder would pass such a key over as unknown; a match inside a string costs only time."""


def decode_body(raw: bytes, kind: type[T]) -> T:
    """The request body as `kind`.

    Raises `UndecodableBody` when not even the forgiving rules make sense of it.
    """
    if _KEY_WITH_CAPITALS.search(raw):
        return _decode_leniently(raw, kind)
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _decode_leniently(raw, kind)


def decode_document(raw: bytes, kind: type[T]) -> T:
    """A body that was made by a program and has to be exactly what it says. Raises `BadRequest` with the place."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise BadRequest(f"the document cannot be read: {exc}") from exc


def _decode_leniently(raw: bytes, kind: type[T]) -> T:
    try:
        text = raw.decode("utf-8", "replace").lstrip(" \t\r\n")
        value, _ = json.JSONDecoder(parse_constant=_refuse_constant).raw_decode(text)
        return msgspec.convert(_fold(value, kind, MAX_DEPTH), type=kind)
    except (ValueError, RecursionError, OverflowError) as exc:
        raise UndecodableBody(str(exc)) from exc


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _fold(value: Any, kind: Any, depth: int) -> Any:
    """The value with struct keys in the struct's own case and nulls dropped."""
    if depth == 0:
        raise ValueError("nested too deeply")
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    struct = _struct_of(kind)
    if isinstance(value, dict):
        if struct is None:
            return {str(_fold(k, Any, depth)): _fold(v, Any, depth - 1) for k, v in value.items()}
        hints = typing.get_type_hints(struct)
        fields = {f.encode_name.lower(): f for f in msgspec.structs.fields(struct)}
        known = ((fields.get(k.lower()), v) for k, v in value.items() if v is not None)
        return {f.encode_name: _fold(v, hints[f.name], depth - 1) for f, v in known if f is not None}
    if isinstance(value, list):
        item = _item_of(kind)
        return [_fold(v, item, depth - 1) for v in value]
    return {} if value is None and struct is not None else value


def _struct_of(kind: Any) -> type[msgspec.Struct] | None:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) in (typing.Union, typing.Annotated):
        return next((s for s in map(_struct_of, typing.get_args(kind)) if s), None)
    return None


def _item_of(kind: Any) -> Any:
    if typing.get_origin(kind) in (list, tuple):
        return typing.get_args(kind)[0]
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) in (typing.Union, typing.Annotated):
        return next((i for i in map(_item_of, typing.get_args(kind)) if i is not Any), Any)
    return Any
