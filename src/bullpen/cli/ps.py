"""`bullpen ps`: what the server is doing, and for whom."""

from __future__ import annotations

import json
from typing import Any

import click

from bullpen.cli.options import host_option


@click.command("ps", short_help="Show the server's workspaces, clients and sessions.")
@host_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(host: str | None, as_json: bool) -> int:
    """Show which workspaces are open, who is attached and which sessions are busy.

    \b
    Examples:
      bullpen ps
      bullpen ps --json | jq '.workspaces[].path'
    """
    from bullpen.cli.calls import get
    from bullpen.client.locate import find_address
    from bullpen.client.process import server_pid
    from bullpen.errors import ServerUnreachable
    from bullpen.system.address import UnixAddress

    address = find_address(host)
    try:
        version = get(address, "/version")["version"]
    except ServerUnreachable:
        if host:
            raise
        return _nobody(as_json)
    state = {
        "server": {
            "host": str(address),
            "version": version,
            "pid": server_pid(address) if isinstance(address, UnixAddress) else None,
        },
        "workspaces": [_workspace(address, row) for row in get(address, "/workspaces")],
    }
    click.echo(json.dumps(state) if as_json else "\n".join(lines(state)))
    return 0


def lines(state: dict[str, Any]) -> list[str]:
    """The same for people."""
    from bullpen.present.inert import inert_line

    server = state["server"]
    pid = f", pid {server['pid']}" if server["pid"] else ""
    told = [f"server {server['version']} at {server['host']}{pid}"]
    if not state["workspaces"]:
        told.append("  no workspace is open")
    for workspace in state["workspaces"]:
        busy = [s for s in workspace["sessions"] if s["is_busy"]]
        counts = [
            _count(len(workspace["clients"]), "client"),
            _count(len(workspace["sessions"]), "session"),
            f"{len(busy)} busy",
        ]
        told.append(f"  {inert_line(workspace['path'])}  ({', '.join(counts)})")
        titles = {s["id"]: s["title"] for s in workspace["sessions"]}
        for client in workspace["clients"]:
            where = titles.get(client["current_session"], "")
            told.append(
                inert_line(f"client  {client['name'] or client['id']}" + (f"  in “{where}”" if where else ""))
            )
            told[-1] = f"    {told[-1]}"
        told.extend(f"    busy    “{inert_line(s['title'])}”  {s['id'][:8]}" for s in busy)
    return told


def _workspace(address: Any, row: dict[str, Any]) -> dict[str, Any]:
    from bullpen.cli.calls import call

    base = f"/workspaces/{row['id']}"
    clients, sessions = (call(address, "GET", f"{base}/{what}").body for what in ("clients", "sessions"))
    return {
        "id": row["id"],
        "path": row["path"],
        "clients": [
            {
                "id": client["client_id"],
                "name": client.get("name", ""),
                "current_session": client.get("current_session", ""),
                "streams": client["streams"],
            }
            # A workspace may close between two calls; then there is nobody in it.
            for client in (clients if isinstance(clients, list) else [])
        ],
        "sessions": [
            {"id": session["id"], "title": session["title"], "is_busy": session["is_busy"]}
            for session in (sessions if isinstance(sessions, list) else [])
        ],
    }


def _nobody(as_json: bool) -> int:
    if as_json:
        click.echo(json.dumps({"server": None, "workspaces": []}))
    else:
        click.echo("no server is running; it starts by itself when a client needs it")
    return 0


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
