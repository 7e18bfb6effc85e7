"""The one HTTP client that all providers of a server share."""

from __future__ import annotations

import ssl

import httpx2

CONNECT_LIMIT_S = 10.0
SEND_LIMIT_S = 60.0
"""A request may carry megabytes of pictures; a host that takes nothing for a minute is gone."""


def new_client(trust: ssl.SSLContext | None = None) -> httpx2.AsyncClient:
    """A client with no limit on streams. Proxies come from the environment, but never for this machine.

    Whoever opens it closes it. There is no read limit: providers watch over their own silence, because
    comments that a host sends to keep the line open must not count as progress. Reading the certificates that
    are trusted takes some 50 ms; whoever has a context already can hand it in.
    """
    return httpx2.AsyncClient(
        timeout=httpx2.Timeout(connect=CONNECT_LIMIT_S, write=SEND_LIMIT_S, read=None, pool=CONNECT_LIMIT_S),
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=30.0),
        verify=trust if trust is not None else True,
        follow_redirects=False,
        mounts={"all://localhost": None, "all://127.0.0.1": None, "all://[::1]": None},
    )
