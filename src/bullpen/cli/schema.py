"""`bullpen schema`: what a config file may hold, for editors, and what `bullpen run --json` prints, for scripts."""

from __future__ import annotations

import json

import click


@click.command("schema", short_help="Print the JSON Schema of the config file, or of run --json.")
@click.argument("which", type=click.Choice(["config", "run"]), default="config")
def command(which: str) -> int:
    """Print a JSON Schema (draft 2020-12): of bullpen.json, with a description of every setting, or of the lines of
    'bullpen run --json'.

    \b
    Examples:
      bullpen schema > ~/.config/bullpen/bullpen.schema.json
      bullpen schema | jq '.["$defs"].Options.properties | keys'
      bullpen schema run | jq '.["$defs"].RunResult'

    With "$schema": "./bullpen.schema.json" as its first key, an editor checks and completes the file.
    """
    if which == "run":
        from bullpen.cli.run_schema import run_schema

        found = run_schema()
    else:
        from bullpen.config.json_schema import schema
        from bullpen.providers.registry import known_types

        found = schema(known_types())
    click.echo(json.dumps(found, indent=2, ensure_ascii=False))
    return 0
