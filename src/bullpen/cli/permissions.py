"""`bullpen permissions`: what may run without asking, what may never run, and why something would be asked."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal

import click

from bullpen.cli.options import directory_of, host_option

if TYPE_CHECKING:
    from bullpen.client.workspace import Room
    from bullpen.schema.asks import Explanation, Grant, Rule

SCOPES = ("workspace", "person", "session")
_directory = click.option(
    "--in", "directory", metavar="DIR", default=".", help="The workspace. [default: here]"
)


@click.group("permissions", short_help="List, make and take back permission rules; explain a command.")
def command() -> None:
    """See and change what the agent may do without asking.

    A rule allows, asks about or denies calls by command, path or host. Deny wins over everything. Rules are kept outside the
    project, and those that allow something end after 30 days.

    \b
    Examples:
      bullpen permissions list
      bullpen permissions explain "git push origin main"
      bullpen permissions deny "git push *" --scope person
      bullpen permissions allow "npm run test"
      bullpen permissions allow --path "src/**" --tool write
      bullpen permissions revoke 3f2a
    """


@command.command("list")
@_directory
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@host_option
def list_(directory: str, as_json: bool, host: str | None) -> int:
    """List rules and grants with what they cover, who made them and when they end.

    \b
    Examples:
      bullpen permissions list
      bullpen permissions list --in ~/project --json
    """

    async def main(room: Room) -> int:
        from bullpen.schema.wire import encode

        rules, grants = await room.rules(), await room.grants()
        if as_json:
            click.echo(encode({"rules": rules, "grants": grants}).decode())
        else:
            click.echo("\n".join(table(rules, grants)))
        return 0

    return _in(directory, host, main)


def _rule_options(days: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """What `allow` and `deny` have in common; `days` is when the rule ends unless it is said."""
    options = (
        click.argument("pattern", metavar="[COMMAND]", default=""),
        click.option("--tool", default="", help="Only this tool, as name or name:action."),
        click.option("--path", default="", help="A glob; relative ones begin at the workspace."),
        click.option(
            "--at", "name", metavar="HOST", default="", help="A host: example.com or *.example.com."
        ),
        click.option("--scope", type=click.Choice(SCOPES), default="workspace", show_default=True),
        click.option("--session", default="", help="The session that --scope session means."),
        click.option(
            "--days", type=click.IntRange(0, 3650), help=f"When it ends; 0 is never. [default: {days}]"
        ),
        _directory,
        host_option,
    )

    def add(function: Callable[..., int]) -> Callable[..., int]:
        for option in reversed(options):
            function = option(function)
        return function

    return add


@command.command("allow")
@_rule_options(days="30")
def allow(**said: Any) -> int:
    """Let calls through without asking. COMMAND is a pattern of words; a * at its end stands for any further words.

    \b
    Examples:
      bullpen permissions allow "npm run test"
      bullpen permissions allow "git commit *" --days 7
      bullpen permissions allow --tool fetch --at docs.python.org --scope person
    """
    return _make("allow", **said)


@command.command("deny")
@_rule_options(days="never")
@click.option("--ask", "only_ask", is_flag=True, help="Always ask, instead of denying.")
def deny(only_ask: bool, **said: Any) -> int:
    """Refuse calls, whatever else allows them, also behind wrappers such as sudo or sh -c.

    \b
    Examples:
      bullpen permissions deny "git push *"
      bullpen permissions deny --path "secrets/**" --scope person
      bullpen permissions deny "npm publish *" --ask
    """
    return _make("ask" if only_ask else "deny", **said)


@command.command("revoke")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@_directory
@host_option
def revoke(ids: tuple[str, ...], directory: str, host: str | None) -> int:
    """Take rules and grants back. ID is what `list` shows, or the beginning of it.

    \b
    Examples:
      bullpen permissions revoke 3f2a
      bullpen permissions revoke 3f2a 91bc
    """

    async def main(room: Room) -> int:
        rules, grants = await room.rules(), await room.grants()
        known = [*((rule.id, room.remove_rule) for rule in rules), *((g.id, room.revoke) for g in grants)]
        for wanted in ids:
            found = [(key, take_back) for key, take_back in known if key.startswith(wanted)]
            if len(found) != 1:
                raise click.ClickException(f"{len(found) or 'no'} rules or grants begin with {wanted!r}")
            key, take_back = found[0]
            if key.startswith("config-"):
                raise click.ClickException(
                    f"{key} stands in a config file; `bullpen config show` says in which"
                )
            await take_back(key)
            click.echo(f"taken back: {key[:8]}")
        return 0

    return _in(directory, host, main)


@command.command("explain")
@click.argument("text", metavar="COMMAND", default="")
@click.option("--tool", default="", help="The tool. [default: bash for a command, write for a path]")
@click.option("--path", default="", help="A file that would be written.")
@click.option("--at", "name", metavar="HOST", default="", help="A host that would be asked.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@_directory
@host_option
def explain(
    text: str, tool: str, path: str, name: str, as_json: bool, directory: str, host: str | None
) -> int:
    """Say what would become of a command, a write or a fetch, and why. Nothing is run.

    Exit status 0 when it would be let through, 1 when somebody would be asked, 3 when it would be refused.

    \b
    Examples:
      bullpen permissions explain "rm -rf build"
      bullpen permissions explain --path .git/hooks/pre-commit
    """
    if not (text or path or name):
        raise click.UsageError("name a command, --path or --at")

    async def main(room: Room) -> int:
        from bullpen.schema.api import ExplainCall
        from bullpen.schema.wire import encode

        call = ExplainCall(
            tool=tool or ("bash" if text else "write" if path else "fetch"),
            command=text,
            path=path,
            host=name,
        )
        found = await room.explain(call)
        click.echo(encode(found).decode() if as_json else "\n".join(explained(found)))
        return {"allowed": 0, "asked": 1, "refused": 3}[found.outcome]

    return _in(directory, host, main)


def table(rules: list[Rule], grants: list[Grant]) -> list[str]:
    """For people: one line each."""
    from bullpen.present.inert import inert_line

    lines = [
        f"{rule.id[:8]:<8}  {rule.effect:<5}  {inert_line(rule_text(rule))}  ({_about(rule.scope, rule.created_by, rule.expires_at)})"
        for rule in rules
    ]
    lines += [
        f"{g.id[:8]:<8}  allow  {inert_line(g.covers) or inert_line(f'{g.tool_name} to {g.action} in {g.path}')}"
        f"  ({_about(g.scope, g.granted_by, g.expires_at)})"
        for g in grants
    ]
    return lines or ["nothing is allowed or denied beforehand; every call that is not a plain read asks"]


def rule_text(rule: Rule) -> str:
    """What a rule is about."""
    said = [f"`{rule.command}`" if rule.command else "", rule.path and f"path {rule.path}"]
    said += [rule.host and f"host {rule.host}", rule.tool and f"tool {rule.tool}"]
    return ", ".join(filter(None, said)) or "everything"


def explained(found: Explanation) -> list[str]:
    from bullpen.present.inert import inert_line

    lines = [f"{found.outcome}: {inert_line(found.why)}"]
    return lines + [f"  {rule.id[:8]}  {rule.effect}  {inert_line(rule_text(rule))}" for rule in found.rules]


def _about(scope: str, by: str, expires_at: int) -> str:
    from bullpen.present.inert import inert_line

    until = time.strftime("until %Y-%m-%d", time.localtime(expires_at)) if expires_at else ""
    return ", ".join(filter(None, (scope, by and f"by {inert_line(by)}", until)))


def _make(
    effect: Literal["allow", "ask", "deny"],
    *,
    pattern: str,
    tool: str,
    path: str,
    name: str,
    scope: Literal["workspace", "person", "session"],
    session: str,
    days: int | None,
    directory: str,
    host: str | None,
) -> int:
    if not (pattern or tool or path or name):
        raise click.UsageError("name a command, --tool, --path or --at")

    async def main(room: Room) -> int:
        from bullpen.schema.api import NewRule

        rule = NewRule(
            effect=effect,
            tool=tool,
            command=pattern,
            path=path,
            host=name,
            scope=scope,
            session_id=session,
            days=-1 if days is None else days,
        )
        click.echo(table([await room.add_rule(rule)], [])[0])
        return 0

    return _in(directory, host, main)


def _in(directory: str, host: str | None, main: Callable[[Room], Awaitable[int]]) -> int:
    from bullpen.cli.running import run_async
    from bullpen.client.workspace import attach

    async def run() -> int:
        async with attach(str(directory_of(directory)), host=host) as room:
            return await main(room)

    return run_async(run)
