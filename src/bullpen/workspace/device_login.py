"""A login that a person ends elsewhere: they are shown a code and an address, and the server waits until it was entered there.

All who ask while one is under way share it, and any of them may cancel it. It belongs to no client: whoever leaves may come
back and find it done.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup

from bullpen.config.keys import Token
from bullpen.errors import BullpenError, NotFound, ProviderError
from bullpen.schema.api import LoginCode, LoginState

log = logging.getLogger(__name__)

Show = Callable[[LoginCode], None]
LogIn = Callable[[Show], Awaitable[Token]]
"""Shows the code once, and gives back the token when the person is done. Raises `ProviderError`."""


class DeviceLogin:
    def __init__(self, log_in: LogIn, keep: Callable[[Token], Awaitable[None]], tasks: TaskGroup) -> None:
        self._log_in = log_in
        self._keep = keep
        self._tasks = tasks
        self._current: _Attempt | None = None

    async def begin_login(self) -> LoginCode:
        """What the person has to do; that of the login under way, if there is one. Raises `ProviderError`."""
        attempt = self._current
        if attempt is None or attempt.state.state != "waiting":
            attempt = self._current = _Attempt()
            self._tasks.start_soon(self._carry_through, attempt)
        await attempt.shown.wait()
        if attempt.code is None:
            raise ProviderError(attempt.state.message)
        return attempt.code

    async def login_state(self, wait_s: float) -> LoginState:
        """How far it is; as soon as it has ended, at the latest after so long. Raises `NotFound` when there is none."""
        attempt = self._current
        if attempt is None:
            raise NotFound("no login is under way; begin one first")
        with anyio.move_on_after(wait_s):
            await attempt.ended.wait()
        return attempt.state

    def cancel_login(self) -> None:
        """Wait no longer, if somebody does."""
        if self._current is not None:
            self._current.scope.cancel()

    async def _carry_through(self, attempt: _Attempt) -> None:
        try:
            with attempt.scope:
                await self._keep(await self._log_in(attempt.show))
                attempt.state = LoginState(state="done", message="logged in")
            if attempt.scope.cancelled_caught:
                attempt.state = LoginState(state="cancelled", message="the login was cancelled")
        except BullpenError as exc:
            attempt.state = LoginState(state="failed", message=exc.message)
        except Exception as exc:
            # Nobody need be there to hear of it, and the workspace must not end with it.
            log.warning("a login is lost: %s", exc)
            attempt.state = LoginState(state="failed", message="it failed; 'bullpen logs' says why")
        finally:
            attempt.shown.set()
            attempt.ended.set()


class _Attempt:
    def __init__(self) -> None:
        self.scope = anyio.CancelScope()
        self.shown = anyio.Event()
        self.ended = anyio.Event()
        self.code: LoginCode | None = None
        self.state = LoginState(state="waiting", message="the code has to be entered")

    def show(self, code: LoginCode) -> None:
        self.code = code
        self.shown.set()
