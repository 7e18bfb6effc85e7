"""`bullpen config`: what is configured, where it was said, and changing it. Needs no server."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from bullpen.cli.options import directory_of

directory_option = click.option(
    "--directory", "-c", metavar="DIR", default=".", help="The workspace. [default: here]"
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
scope_option = click.option(
    "--scope",
    type=click.Choice(["global", "workspace"]),
    default="global",
    show_default=True,
    help="For all workspaces, or for this one.",
)


@click.group("config", short_help="Show, change and check the configuration.")
def command() -> None:
    """Show, change and check the configuration. It works without a server, also when a file is broken.

    Changes go to files of Bullpen's own; what you wrote by hand is never touched, and outranks them. A running
    server takes changes up by itself.

    \b
    Examples:
      bullpen config show
      bullpen config get models.large --json
      bullpen config set options.disabled_tools '["bash"]' --scope workspace
      bullpen config unset options.disabled_tools --scope workspace
      bullpen config check && echo fine
    """


@command.command("show", short_help="Show every setting and where it was said.")
@directory_option
@json_option
def show(directory: str, as_json: bool) -> int:
    """Show every setting that is in force, with file and line, without secrets.

    \b
    Examples:
      bullpen config show
      bullpen config show --json | jq '.settings[] | select(.key | startswith("mcp."))'
    """
    from bullpen.cli import effective
    from bullpen.present.inert import inert_line

    found = effective.read(directory_of(directory))
    if as_json:
        click.echo(json.dumps(effective.as_json(found)))
        return 0
    rows = effective.rows(found)
    if not rows:
        click.echo(f"nothing is configured (your file would be {found.places.user_file})")
    for key, value, origins in rows:
        click.echo(f"{inert_line(key)} = {inert_line(json.dumps(value, ensure_ascii=False))}")
        click.echo(f"    {inert_line(', '.join(origins))}")
    effective.tell(found)
    return 0


@command.command("get", short_help="Print one setting.")
@click.argument("key")
@directory_option
@json_option
def get(key: str, directory: str, as_json: bool) -> int:
    """Print the value of KEY, a dotted path, or its default. Exit status 1 when it has neither.

    \b
    Examples:
      bullpen config get options.initialize_as
      bullpen config get providers.openai.base_url --json
    """
    from bullpen.cli import effective

    found = effective.read(directory_of(directory))
    value, origins = effective.look_up(found, key)
    if as_json:
        click.echo(json.dumps({"key": key, "value": value, "origins": origins}))
    elif value is not None:
        click.echo(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    if value is None:
        click.echo(f"bullpen: {key} is not set", err=True)
        return 1
    return 0


@command.command("set", short_help="Set one setting.")
@click.argument("key")
@click.argument("value")
@scope_option
@directory_option
def set_(key: str, value: str, scope: str, directory: str) -> int:
    """Set KEY to VALUE: JSON, or else the text itself; '-' reads it from stdin, which keeps keys out of `ps`.

    \b
    Examples:
      bullpen config set options.tui.compact_mode true
      bullpen config set providers.openai.api_key - < key.txt
      bullpen config set tools.grep.timeout 10s --scope workspace
    """
    from bullpen.cli import effective

    root = directory_of(directory)
    text = sys.stdin.read().rstrip("\n") if value == "-" else value
    file = effective.change(root, scope, key, _parsed(text))
    click.echo(f"set in {file}")
    return 0


@command.command("unset", short_help="Take a setting back.")
@click.argument("key")
@scope_option
@directory_option
def unset(key: str, scope: str, directory: str) -> int:
    """Take back what was set for KEY. One that is not set is fine.

    \b
    Examples:
      bullpen config unset models.large
    """
    from bullpen.cli import effective

    file = effective.change(directory_of(directory), scope, key, None)
    click.echo(f"no longer set in {file}")
    return 0


@command.command("check", short_help="Say what is wrong with the configuration.")
@directory_option
@json_option
def check(directory: str, as_json: bool) -> int:
    """Say what is wrong, with file, line and column. Your own commands in values are run, as by a server.

    Exit status 1 when something keeps prompts from being answered; mere warnings leave it 0.

    \b
    Examples:
      bullpen config check
      bullpen config check --json | jq -r '.problems[]'
    """
    from bullpen.cli import effective
    from bullpen.present.inert import inert_line

    found = effective.checked(directory_of(directory))
    if as_json:
        click.echo(json.dumps(found))
        return 1 if found["problems"] else 0
    for problem in found["problems"]:
        click.echo(f"FAIL  {inert_line(problem)}")
    for warning in found["warnings"]:
        click.echo(f"warn  {inert_line(warning)}")
    if found["untrusted"]:
        click.echo(
            f"warn  not in force: {inert_line(', '.join(found['untrusted']))} ('bullpen trust' shows it)"
        )
    if not found["problems"] and not found["warnings"]:
        click.echo(f"ok    {inert_line(', '.join(found['files'])) or 'no config file'}")
    return 1 if found["problems"] else 0


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
