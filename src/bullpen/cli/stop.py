"""`bullpen stop`: end the server, if nobody needs it or because somebody says so."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import click

from bullpen.cli.options import host_option

if TYPE_CHECKING:
    from bullpen.system.address import Address

GONE_S = 15.0
"""Ending its turns may take a server 5 s, closing its store some more."""


@click.command("stop", short_help="Stop the server.")
@host_option
@click.option(
    "--force", "-f", is_flag=True, help="Also with clients attached: running turns end as cancelled."
)
def command(host: str | None, force: bool) -> int:
    """Stop the server if nobody uses it.

    With --force it is stopped in any case: what runs is stored as cancelled, what waits is kept and runs when its
    workspace is opened again.

    \b
    Examples:
      bullpen stop
      bullpen stop --force
    """
    from bullpen.cli.calls import call
    from bullpen.client.locate import find_address
    from bullpen.errors import BullpenError, ServerUnreachable

    address = find_address(host)
    if force:
        return _terminate(address, is_named=host is not None)
    try:
        reply = call(address, "POST", "/control", {"command": "shutdown"})
    except ServerUnreachable:
        if host:
            raise
        click.echo("no server is running")
        return 0
    if reply.status == 409:
        click.echo(
            f"bullpen: the server is in use{_users(address)}; stop it anyway with 'bullpen stop --force'",
            err=True,
        )
        return 1
    if reply.status != 200:
        raise BullpenError(reply.message)
    return _wait_gone(address)


def _users(address: Address) -> str:
    """Who is attached where, for one line."""
    from bullpen.cli.calls import call
    from bullpen.present.inert import inert_line

    rows = call(address, "GET", "/workspaces").body
    told = []
    for row in rows if isinstance(rows, list) else []:
        clients = call(address, "GET", f"/workspaces/{row['id']}/clients").body
        people = [c.get("name") or c["client_id"][:8] for c in (clients if isinstance(clients, list) else [])]
        told.append(
            inert_line(
                f"{row['path']}: {', '.join(people) if people else 'nobody attached, but still at work'}"
            )
        )
    return f" ({'; '.join(told)})" if told else ""


def _terminate(address: Address, *, is_named: bool) -> int:
    from bullpen.client.process import server_pid
    from bullpen.errors import BullpenError, ServerUnreachable
    from bullpen.system.address import UnixAddress

    if not isinstance(address, UnixAddress):
        raise BullpenError(
            "a server can be forced to stop only on its own machine; use its unix:// host there"
        )
    pid = server_pid(address)
    if pid is None:
        if is_named:
            raise ServerUnreachable(f"no server answers at {address}")
        click.echo("no server is running")
        return 0
    try:
        os.kill(pid, signal.SIGTERM)
    except PermissionError as exc:
        raise BullpenError(f"the server (pid {pid}) belongs to another user") from exc
    except ProcessLookupError:
        pass
    return _wait_gone(address)


def _wait_gone(address: Address) -> int:
    from bullpen.client.process import server_pid
    from bullpen.system.address import UnixAddress

    ends = time.monotonic() + GONE_S
    while isinstance(address, UnixAddress) and (pid := server_pid(address)) is not None:
        if time.monotonic() > ends:
            click.echo(
                f"bullpen: the server (pid {pid}) is still ending its work; look again with 'bullpen ps'",
                err=True,
            )
            return 1
        time.sleep(0.05)
    click.echo("the server has stopped")
    return 0
