"""The logins that are under way in one workspace. All who ask for one at the same server wait for the same."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from bullpen.config.shape import McpServer
from bullpen.errors import BullpenError, ConfigError, ToolServerFailed
from bullpen.mcp.login import log_in
from bullpen.mcp.logins import Login, LoginBook, login_key


class _Flow:
    def __init__(self) -> None:
        self.url = ""
        self.done = anyio.Event()
        self.failure: BullpenError | None = ToolServerFailed("the login was broken off")


class SigningIn:
    """`changed` is told when there is an address to show, and when a login is over."""

    def __init__(self, book: LoginBook, changed: Callable[[str], None]) -> None:
        self._book = book
        self._changed = changed
        self._flows: dict[str, _Flow] = {}

    def url(self, name: str) -> str:
        """Where a browser has to go for the login that is under way, if it is known by now."""
        flow = self._flows.get(name)
        return flow.url if flow else ""

    async def log_in(self, name: str, server: McpServer, tasks: TaskGroup) -> None:
        """Until the person has logged in. Raises `BadRequest`, `ToolServerFailed`, `ConfigError`.

        The login goes on when the caller does not wait any more: the person may be in the browser already.
        """
        flow = self._flows.get(name)
        if flow is None:
            flow = self._flows[name] = _Flow()
            tasks.start_soon(self._run, name, server, flow, name=f"login to the MCP server {name}")
        await flow.done.wait()
        if flow.failure is not None:
            raise flow.failure

    async def log_out(self, server: McpServer) -> bool:
        """Forget a login, and tell its host as far as that listens; whether there was one. Raises `ConfigError`."""
        was: Login | None = await anyio.to_thread.run_sync(self._book.remove, login_key(server))
        if was is not None:
            from bullpen.mcp.http import revoke

            try:
                await revoke(was)
            except ToolServerFailed:
                return True
        return was is not None

    async def _run(self, name: str, server: McpServer, flow: _Flow) -> None:
        def show(url: str) -> None:
            flow.url = url
            self._changed(name)

        try:
            login = await log_in(name, server, show)
            await anyio.to_thread.run_sync(self._book.store, login_key(server), login)
            flow.failure = None
        except BullpenError as exc:
            flow.failure = exc
        except OSError as exc:
            flow.failure = ConfigError(f"the login could not be kept: {exc}")
        finally:
            if self._flows.get(name) is flow:
                del self._flows[name]
            flow.done.set()
            self._changed(name)
