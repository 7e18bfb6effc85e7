"""`bullpen schema`: what a config file may hold, for editors."""

from __future__ import annotations

import json

import click


@click.command("schema", short_help="Print the JSON Schema of the config file.")
def command() -> int:
    """Print the JSON Schema (draft 2020-12) of bullpen.json, with a description of every setting.

    \b
    Examples:
      bullpen schema > ~/.config/bullpen/bullpen.schema.json
      bullpen schema | jq '.["$defs"].Options.properties | keys'

    With "$schema": "./bullpen.schema.json" as its first key, an editor checks and completes the file.
    """
    from bullpen.config.json_schema import schema
    from bullpen.providers.registry import known_types

    click.echo(json.dumps(schema(known_types()), indent=2, ensure_ascii=False))
    return 0
