"""Who keeps a workspace open.

Per client: how many streams it has, at most one hold timer, what it looks at, and whether it said goodbye.

    absent ──create──▶ create hold (30 s) ──stream──▶ attached ──last stream ends──▶ detach hold (10 s) ──▶ absent

A client that released its claim while a stream is open goes without the detach hold. A timer acts only on
the hold that armed it. When the last claim is gone, `on_empty` is called; it is called from the event loop
and finds `is_empty` true.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from bullpen.errors import ClientNotAttached
from bullpen.schema.agent import ClientInfo

CREATE_HOLD_S = 30.0
"""How long a client may take from creating a workspace to opening its stream."""

DETACH_GRACE_S = 10.0
"""How long a claim outlives its client's last stream: long enough to change networks, short enough that a
crashed client does not hold a workspace open."""


class Claim:
    """One client's claim. `streams` and `timer` are never both set."""

    def __init__(self) -> None:
        self.streams = 0
        self.timer: asyncio.TimerHandle | None = None
        self.current_session = ""
        self.released = False
        self.name = ""
        self.attached_at = 0

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class Claims:
    """The claims on one workspace. All methods run on the event loop and never wait; only `attached_to` is also
    called by the threads of the store."""

    def __init__(
        self, *, detach_grace_s: float, on_empty: Callable[[], None], on_look: Callable[[str], None]
    ) -> None:
        self._grace_s = detach_grace_s
        self._on_empty = on_empty
        self._on_look = on_look
        self._claims: dict[str, Claim] = {}

    @property
    def is_empty(self) -> bool:
        return not self._claims

    def clients(self) -> list[ClientInfo]:
        return [
            ClientInfo(
                client_id=client_id,
                name=claim.name,
                streams=claim.streams,
                current_session=claim.current_session,
                attached_at=claim.attached_at,
            )
            for client_id, claim in self._claims.items()
        ]

    def attached_to(self, session_id: str) -> int:
        """How many clients with a live stream look at the session."""
        return sum(1 for c in tuple(self._claims.values()) if c.streams and c.current_session == session_id)

    def hold(self, client_id: str, name: str = "") -> None:
        """The client has created or joined; it has some time to open a stream."""
        claim = self._claims.setdefault(client_id, Claim())
        claim.released = False
        claim.name = name or claim.name
        if not claim.streams:
            self._arm(client_id, claim, CREATE_HOLD_S)

    def attach(self, client_id: str, *, name: str, now: int) -> None:
        claim = self._claims.setdefault(client_id, Claim())
        claim.stop_timer()
        claim.streams += 1
        claim.name = name or claim.name
        claim.attached_at = claim.attached_at or now
        self._looked_away(claim.current_session if claim.streams == 1 else "")

    def detach(self, client_id: str) -> None:
        """One stream of the client has ended. Its claim may have been given up before."""
        claim = self._claims.get(client_id)
        if claim is None or not claim.streams:
            return
        claim.streams -= 1
        if claim.streams:
            return
        claim.attached_at = 0
        self._looked_away(claim.current_session)
        if claim.released or not self._grace_s:
            self._drop(client_id)
        else:
            self._arm(client_id, claim, self._grace_s)

    def release(self, client_id: str) -> None:
        """The client says goodbye: at once, or when its open streams end."""
        claim = self._claims.get(client_id)
        if claim is None:
            return
        if claim.streams:
            claim.released = True
        else:
            self._drop(client_id)

    def retire(self, client_id: str) -> None:
        """Give the claim up whatever its state."""
        if client_id in self._claims:
            self._drop(client_id)

    def look_at(self, client_id: str, session_id: str) -> None:
        """Raises `ClientNotAttached` for a client without a live stream."""
        claim = self._claims.get(client_id)
        if claim is None or not claim.streams:
            raise ClientNotAttached(client_id)
        before, claim.current_session = claim.current_session, session_id
        if before != session_id:
            self._looked_away(before)
            self._looked_away(session_id)

    def close(self) -> None:
        """Stop all timers; nobody will be told."""
        for claim in self._claims.values():
            claim.stop_timer()
        self._claims.clear()

    def _arm(self, client_id: str, claim: Claim, seconds: float) -> None:
        claim.stop_timer()
        claim.timer = asyncio.get_running_loop().call_later(seconds, self._drop, client_id)

    def _drop(self, client_id: str) -> None:
        claim = self._claims.pop(client_id)
        claim.stop_timer()
        if claim.streams:
            self._looked_away(claim.current_session)
        if not self._claims:
            self._on_empty()

    def _looked_away(self, session_id: str) -> None:
        if session_id:
            self._on_look(session_id)
