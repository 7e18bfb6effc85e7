"""Credentials: which one a known provider wants, whether it is there, and what a login or a key that can be renewed is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import msgspec

from bullpen.config.clouds import CLOUDS, cloud_of, lacking
from bullpen.config.expand import expand
from bullpen.config.shape import ProviderEntry
from bullpen.schema.wire import Wire

OVERRIDES = ("CRUSH_", "BULLPEN_")
"""`BULLPEN_OPENAI_API_KEY` stands in for `OPENAI_API_KEY` in the settings of providers."""


EARLY_SHARE = 0.1
EARLY_S = 30.0
"""A token is renewed a tenth of its life, and at least this long, before it ends: a request may take a while, and so may
a host that is not well. Until it ends it is good."""


class Token(Wire, frozen=True, kw_only=True):
    """`client` names the login that knows how to renew it; without one, `token_url` is asked by the rules of OAuth.

    `endpoint` is where the host wants to be talked to by the bearer of this token."""

    access_token: str
    refresh_token: str = ""
    expires_in: int = 0
    expires_at: int = 0
    client: str = ""
    token_url: str = ""
    client_id: str = ""
    endpoint: str = ""

    def __repr__(self) -> str:
        """Without what is secret."""
        return f"Token(client={self.client!r}, expires_at={self.expires_at})"

    def is_stale(self, now: float) -> bool:
        """Whether it is time to renew it. One that does not say when it ends never has to be, and one that cannot be
        renewed lasts to its end."""
        early = max(self.expires_in * EARLY_SHARE, EARLY_S) if self.can_be_renewed else 0.0
        return bool(self.expires_at) and now >= self.expires_at - early

    def has_ended(self, now: float) -> bool:
        return bool(self.expires_at) and now >= self.expires_at

    @property
    def can_be_renewed(self) -> bool:
        return bool(self.refresh_token and (self.client or self.token_url))


def token_of(record: Mapping[str, Any]) -> Token | None:
    """The record as it stands in a config; None when there is no login."""
    try:
        return msgspec.convert(record, Token) if record.get("access_token") else None
    except msgspec.ValidationError:
        return None


class KeySource:
    """A key that a command prints, so that it can be had anew. Two are the same when their templates are."""

    def __init__(self, template: str, read: Callable[[], str]) -> None:
        """`read` runs the command: it blocks, and raises `ConfigError`."""
        self._template = template
        self.read = read

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeySource) and self._template == other._template

    def __hash__(self) -> int:
        return hash(self._template)


class Known(Protocol):
    @property
    def type(self) -> str: ...
    @property
    def api_key(self) -> str: ...
    @property
    def api_endpoint(self) -> str: ...


def overridden(env: Mapping[str, str]) -> dict[str, str]:
    """The environment as the settings of providers see it."""
    seen = dict(env)
    for prefix in OVERRIDES:
        seen |= {name.removeprefix(prefix): text for name, text in env.items() if name.startswith(prefix)}
    return seen


def templates_of(known: Known | None, kind: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Where the key and the address of a provider are looked for when its entry does not say: as the catalogue has it,
    then as its vendor's own tools do."""
    cloud = cloud_of(kind)
    keys = (known.api_key if known else "", cloud.api_key)
    urls = (known.api_endpoint if known else "", cloud.base_url)
    return tuple(filter(None, keys)), tuple(filter(None, urls))


def has_key(known: Known, env: Mapping[str, str]) -> bool:
    """Whether there is any sign of a credential for the provider."""
    keys, _ = templates_of(known, known.type)
    if keys:
        return bool(_value(keys, env))
    return known.type in CLOUDS and not lacking(known.type, ProviderEntry(), "", "", env)


def advice(known: Known, env: Mapping[str, str]) -> str:
    """What has to be done before the provider can be used; empty when nothing has to."""
    keys, urls = templates_of(known, known.type)
    lack = lacking(
        known.type, ProviderEntry(), _value(keys, env), _value(urls, env), env, template=known.api_key
    )
    return lack.step if lack else ""


def _value(templates: Iterable[str], env: Mapping[str, str]) -> str:
    return next((value for each in templates if (value := expand(each, env).value)), "")
