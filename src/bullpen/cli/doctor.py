"""`bullpen doctor`: look at everything Bullpen stands on, and say what to do about what is wrong."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from bullpen.cli.options import directory_of, host_option

MARKS = {"ok": "ok  ", "warn": "warn", "fail": "FAIL"}


@click.command("doctor", short_help="Check this installation and say what to mend.")
@click.argument("path", default=".")
@host_option
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def command(path: str, host: str | None, as_json: bool) -> int:
    """Check Python, libraries, the terminal, directories, disks, the server, and the configuration for PATH (default: here) with
    its language servers and tool servers.

    Nothing is changed and no server is started. Exit status 1 when something fails.

    \b
    Examples:
      bullpen doctor
      bullpen doctor ~/project --json | jq '.[] | select(.status != "ok")'
    """
    from bullpen.cli.checks import all_checks
    from bullpen.client.locate import find_address
    from bullpen.present.inert import inert_line

    findings = all_checks(directory_of(path), find_address(host))
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings]))
    else:
        for finding in findings:
            click.echo(f"{MARKS[finding.status]}  {finding.check}: {inert_line(finding.detail)}")
            if finding.advice:
                click.echo(f"      → {inert_line(finding.advice)}")
    return 1 if any(finding.status == "fail" for finding in findings) else 0
