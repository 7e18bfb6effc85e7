"""The server process: puts the rooms together, runs them, and ends with one clear sentence if it cannot.

The data directory's lock and the sockets come first, so that a second server fails at once. Then it listens:
`/health` answers while the store is still being checked and migrated.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bullpen.config.discovered import Found
from bullpen.config.keys import Token
from bullpen.config.places import Places
from bullpen.config.settings import ProviderSettings
from bullpen.errors import BullpenError
from bullpen.providers.base import Provider
from bullpen.schema.agent import CatalogueProvider
from bullpen.schema.api import KeyChecked
from bullpen.server.app import build_app
from bullpen.server.auth import load_or_create_token
from bullpen.server.link import Limits
from bullpen.server.listen import bind_tcp, bind_unix
from bullpen.server.serve import HttpServer, run, stop_signals
from bullpen.store.lock import DataLock
from bullpen.system import failpoints
from bullpen.system.address import TcpAddress, UnixAddress, default_socket_path, parse_host
from bullpen.system.clock import SystemClock
from bullpen.system.journal import Journal, one_line
from bullpen.system.logfile import LogFile, log_path
from bullpen.system.memory import keep_large_apart
from bullpen.system.processes import Processes
from bullpen.system.tally import Tally
from bullpen.system.watch import Watcher
from bullpen.system.watchdog import Watchdog
from bullpen.tools.base import Tool
from bullpen.workspace.claims import DETACH_GRACE_S
from bullpen.workspace.device_login import Show
from bullpen.workspace.host import Host
from bullpen.workspace.models import Hosts
from bullpen.workspace.opening import Surroundings

if TYPE_CHECKING:
    from bullpen.providers.http import ModelClient

log = logging.getLogger("bullpen")

KEEPALIVE_S = 15.0
"""Three of these missed tell a client that the server is gone."""

STOP_GRACE_S = 5.0
"""How long answers under way may take after everything else has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """What a person, or a client that starts a server, may say about it.

    No `hosts` means the default socket, no `data_dir` the user's own, no `idle_exit_s` what the
    environment says and else: stay.
    """

    hosts: tuple[str, ...] = ()
    data_dir: Path | None = None
    trust: bool = False
    idle_exit_s: float | None = None
    debug: bool = False
    store: str | None = None


def run_server(options: ServerOptions) -> int:
    """Serve until told to stop; gives back the exit status."""
    keep_large_apart()
    journal = Journal()
    _log_to_stderr(journal, debug=options.debug)
    env = dict(os.environ)
    try:
        failpoints.arm(env)
        run(lambda: _main(options, env, journal))
    except BullpenError as exc:
        print(f"bullpen server: {exc}", file=sys.stderr)
        return 1
    return 0


async def _main(options: ServerOptions, env: Mapping[str, str], journal: Journal) -> None:
    data_dir = (options.data_dir or Places.of(env).data).expanduser().absolute()
    async with AsyncExitStack() as stack:
        sockets = _bind(options, env, stack)
        lock = DataLock(data_dir)
        stack.callback(lock.release)
        _log_to_file(data_dir)
        has_tcp = any(s.family != socket.AF_UNIX for s in sockets)
        token = load_or_create_token(data_dir / "token") if has_tcp else None
        tally = Tally()
        processes = await stack.enter_async_context(Processes(tally))
        stop = asyncio.Event()
        network = _Network(env)
        host = Host(
            surroundings=Surroundings(
                clock=SystemClock(),
                processes=processes,
                tools=_tools,
                make_provider=network.make,
                hosts=network,
                trusted=options.trust or env.get("BULLPEN_TRUST") == "1",
                detach_grace_s=_seconds(env, "DETACH_GRACE", DETACH_GRACE_S),
                tally=tally,
                journal=journal,
                trust_file=Places.of(env).trust_file,
                watcher=Watcher(),
                own_places=(data_dir, *Places.of(env).own),
            ),
            data_dir=data_dir,
            lock=lock,
            env=env,
            idle_exit_s=_idle_exit(options, env),
            keepalive_s=_seconds(env, "KEEPALIVE", KEEPALIVE_S),
            on_exit=stop.set,
        )
        limits = Limits(stall_s=_seconds(env, "STALL", Limits().stall_s))
        server = HttpServer(build_app(host, token=token), sockets, limits=limits, tally=tally)
        with Watchdog(tally), stop_signals(stop.set):
            await server.start()
            try:
                await host.serve(lambda: log.info("serving on %s", ", ".join(map(_shown, sockets))), stop)
            finally:
                await server.stop(STOP_GRACE_S)
            log.info("stopped: %s", tally)


def _bind(options: ServerOptions, env: Mapping[str, str], stack: AsyncExitStack) -> list[socket.socket]:
    """Every address asked for. A TCP server also opens the default socket, unless another server has it."""
    addresses = [parse_host(text) for text in options.hosts]
    default = UnixAddress(default_socket_path(env))
    if not addresses:
        addresses = [default]
    sockets: list[socket.socket] = []
    for address in addresses:
        sockets.append(_bind_one(address, is_default=address == default))
        stack.callback(sockets[-1].close)
    if all(isinstance(a, TcpAddress) for a in addresses):
        try:
            sockets.append(_bind_one(default, is_default=True))
            stack.callback(sockets[-1].close)
        except BullpenError as exc:
            log.warning("not listening on the default socket: %s", exc)
    return sockets


def _bind_one(address: UnixAddress | TcpAddress, *, is_default: bool) -> socket.socket:
    if isinstance(address, UnixAddress):
        return bind_unix(address.path, make_directory=is_default)
    return bind_tcp(address.host, address.port)


class _Network(Hosts):
    """Makes providers when a turn first needs one, and asks hosts for their models; the HTTP client behind both is shared."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._http: ModelClient | None = None
        self._copilot_host = env.get("BULLPEN_COPILOT_HOST") or "github.com"

    def make(self, settings: ProviderSettings) -> Provider:
        from bullpen.providers import registry

        return registry.build(settings, None if settings.type in registry.OFFLINE else self._client())

    async def ask(self, providers: Sequence[ProviderSettings]) -> dict[str, Found]:
        http = await asyncio.to_thread(self._client)
        from bullpen.providers import discover

        return await discover.ask_all(providers, http)

    async def on_this_machine(self) -> list[CatalogueProvider]:
        http = await asyncio.to_thread(self._client)
        from bullpen.providers import discover

        return await discover.on_this_machine(http)

    async def knows_tools(self, settings: ProviderSettings, model_id: str) -> bool | None:
        http = await asyncio.to_thread(self._client)
        from bullpen.providers import discover

        return await discover.knows_tools(settings, model_id, http)

    async def renew(self, settings: ProviderSettings) -> ProviderSettings | None:
        http = await asyncio.to_thread(self._client)
        from bullpen.providers import credentials

        return await credentials.renew(settings, http)

    async def check_key(self, settings: ProviderSettings, key: str) -> KeyChecked:
        http = await asyncio.to_thread(self._client)
        from bullpen.providers import key_check

        return await key_check.check_key(settings, key, http)

    async def copilot_token(self, github_token: str) -> Token:
        http = await asyncio.to_thread(self._client)
        from bullpen.providers import copilot_login

        return await copilot_login.log_in(github_token, copilot_login.Hosts.of(), http)

    async def log_in_to_copilot(self, show: Show) -> Token:
        http = await asyncio.to_thread(self._client)
        from bullpen.providers import copilot_login

        return await copilot_login.log_in_with_code(copilot_login.Hosts.of(self._copilot_host), http, show)

    def _client(self) -> ModelClient:
        """Importing what it needs takes a while, so not on the loop."""
        from bullpen.providers import http

        if self._http is None:
            self._http = http.ModelClient()
        return self._http


def _tools() -> Mapping[str, Tool]:
    from bullpen.tools.registry import builtin_tools

    return builtin_tools()


def _idle_exit(options: ServerOptions, env: Mapping[str, str]) -> float | None:
    """By itself a server leaves only when a client started it so, or when the variable says when."""
    variable = _seconds(env, "IDLE_TIMEOUT", -1.0)
    return variable if variable >= 0 else options.idle_exit_s


def _seconds(env: Mapping[str, str], name: str, default: float) -> float:
    """`BULLPEN_SERVER_<name>` or the reference's `CRUSH_SERVER_<name>`; what is no number counts as unset."""
    for prefix in ("BULLPEN_SERVER_", "CRUSH_SERVER_"):
        value = env.get(prefix + name, "")
        if value.replace(".", "", 1).isdecimal():
            return float(value)
    return default


def _shown(sock: socket.socket) -> str:
    name = sock.getsockname()
    return f"unix://{name}" if isinstance(name, str) else f"tcp://{name[0]}:{name[1]}"


def _log_to_stderr(journal: Journal, *, debug: bool) -> None:
    """Our own words, and the warnings of libraries: what those say besides may hold a whole address, password included."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler, journal], level=logging.WARNING)
    logging.getLogger("bullpen").setLevel(logging.DEBUG if debug else logging.INFO)


def _log_to_file(data_dir: Path) -> None:
    """For whoever looks later; only the server that owns the directory writes there."""
    try:
        logging.getLogger().addHandler(LogFile(log_path(data_dir)))
    except OSError as exc:
        log.warning("there is no log on disk: %s", exc)


class OneLine(logging.Formatter):
    """A message is one line, whatever names are in it: nobody can write a second one with a name of theirs."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # the library's name
        record.message = one_line(record.message)
        return super().formatMessage(record)
