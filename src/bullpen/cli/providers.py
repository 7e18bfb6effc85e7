"""`bullpen providers`: which keys and local servers were found, and what is missing to use the others."""

from __future__ import annotations

import json

import click


@click.command("providers", short_help="Show which providers can be used, and what the others need.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def command(as_json: bool) -> int:
    """Show the providers that are configured, whose key was found or that answer on this machine, then all others with
    what is missing to use them. Nothing is chosen by this.

    \b
    Examples:
      bullpen providers
      bullpen providers --json | jq '.[] | select(.usable).id'
    """
    from bullpen.cli.known import providers_here
    from bullpen.present.inert import inert_line

    known = providers_here()
    if as_json:
        rows = [
            {
                "id": p.id,
                "name": p.name,
                "usable": p.is_usable,
                "state": p.state,
                "missing": p.missing,
                "models": len(p.models),
            }
            for p in known
        ]
        click.echo(json.dumps(rows))
        return 0
    for p in known:
        models = f"{len(p.models)} model{'s' * (len(p.models) != 1)}" if p.models else ""
        mark = " " if p.is_usable else "-"
        click.echo(f"{mark} {inert_line(p.id):<20} {models:<12} {inert_line(p.state or p.missing)}")
    return 0
