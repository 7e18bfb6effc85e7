"""From error to status: the one table, and the answer that every error becomes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from bullpen.errors import (
    BadRequest,
    BudgetSpent,
    BullpenError,
    ConfigError,
    Conflict,
    ContextFull,
    Forbidden,
    NotFound,
    ProviderError,
    ShuttingDown,
    StoreBusy,
    StoreError,
    StoreFailing,
    StoreFull,
    TooLarge,
    ToolFailed,
    ToolServerFailed,
    TooSlow,
    TurnCancelled,
    TurnStuck,
    TurnTooLong,
    Unauthorized,
)
from bullpen.schema.api import ErrorBody
from bullpen.schema.wire import encode
from bullpen.server.exchange import JSON_TYPE, Reply

STATUSES: Mapping[type[BullpenError], int] = MappingProxyType(
    {
        BadRequest: 400,
        Unauthorized: 401,
        Forbidden: 403,
        NotFound: 404,
        Conflict: 409,
        TooSlow: 408,
        TooLarge: 413,
        ShuttingDown: 503,
        StoreFull: 507,
        StoreBusy: 503,
        StoreFailing: 503,
        StoreError: 500,
        # What stands in a config file, or would stand there, is the person's to mend.
        ConfigError: 400,
        # The server did its part; what is behind it did not.
        ProviderError: 502,
        ToolServerFailed: 502,
        TurnStuck: 502,
        TurnTooLong: 502,
        ContextFull: 502,
        BudgetSpent: 402,
        ToolFailed: 400,
        TurnCancelled: 409,
        BullpenError: 500,
    }
)
"""The nearest class in an error's ancestry decides."""

_HEADERS: Mapping[type[BullpenError], tuple[tuple[bytes, bytes], ...]] = MappingProxyType(
    {
        Unauthorized: ((b"www-authenticate", b"Bearer"),),
        # What is left of the body may still come, and would be taken for the next request.
        TooSlow: ((b"connection", b"close"),),
        # A lock is held for the length of a transaction.
        StoreBusy: ((b"retry-after", b"1"),),
        # A file is opened anew and checked in less, unless it is huge or the disk goes on failing.
        StoreFailing: ((b"retry-after", b"1"),),
    }
)

_NO_OVERRIDES: Mapping[type[BullpenError], int] = MappingProxyType({})

INTERNAL_ERROR = Reply(
    500, encode(ErrorBody(message="internal server error", code="internal")) + b"\n", JSON_TYPE
)
"""For what nobody foresaw. The log has the rest; the caller learns nothing of our insides."""


def reply_to(error: BullpenError, overrides: Mapping[type[BullpenError], int] = _NO_OVERRIDES) -> Reply:
    """The answer for an error that was raised on purpose."""
    # A message may quote a file name, and those need not be text.
    message = error.message.encode("utf-8", "replace").decode()
    body = encode(ErrorBody(message=message, code=error.code)) + b"\n"
    return Reply(status_of(error, overrides), body, JSON_TYPE, _HEADERS.get(type(error), ()))


def status_of(error: BullpenError, overrides: Mapping[type[BullpenError], int] = _NO_OVERRIDES) -> int:
    """The status of an error; `overrides` of the endpoint go before the table."""
    ancestry = type(error).__mro__
    for table in (overrides, STATUSES):
        for cls in ancestry:
            if cls in table:
                return table[cls]
    return 500


def unwrapped(error: BaseException) -> BaseException:
    """The one error inside a group of one, however deep: task groups wrap what their tasks raise."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
