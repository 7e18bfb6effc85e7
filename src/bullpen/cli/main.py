"""The entry point: finds the sub-command, runs it, turns every error into one line and an exit status.

Only click is loaded here. Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted, 141 nobody reads
the output; `run` has more.
"""

from __future__ import annotations

import importlib
import os
import sys

import click

from bullpen import __version__, errors
from bullpen.cli.options import WORKSPACE_HELP, host_option, plain_option, session_option

COMMANDS = {
    "attach": "Join a workspace in this terminal.",
    "backup": "Copy the database, also while the server runs.",
    "changes": "List the turns that changed files.",
    "completion": "Print the completion script of a shell.",
    "config": "Show, change and check the configuration.",
    "doctor": "Check this installation and say what to mend.",
    "import": "Take in the sessions of another tool.",
    "jobs": "List, follow and end the agents' background jobs.",
    "login": "Keep a provider's key, or log in to GitHub Copilot.",
    "logout": "Forget a provider's key or login.",
    "logs": "Show and follow the server's log.",
    "lsp": "Show, start and stop language servers; list those that are known.",
    "man": "Print the manual page.",
    "mcp": "Show tool servers (MCP), log in to them, accept what they changed.",
    "models": "List models, prices and favourites; update the catalogue.",
    "permissions": "List, make and take back permission rules; explain a command.",
    "providers": "Show which providers can be used, and what the others need.",
    "ps": "Show the server's workspaces, clients and sessions.",
    "redo": "Take the last undo back.",
    "run": "Send one prompt and print the answer.",
    "schema": "Print the JSON Schema of the config file, or of run --json.",
    "session": "List, read, search, fork, move and delete sessions.",
    "server": "Run the server in the foreground.",
    "stats": "Show what models cost, and how often tools were called.",
    "stop": "Stop the server.",
    "trust": "Show what a project's config would do, and trust it.",
    "undo": "Take back what a turn changed in the files.",
}
"""Every sub-command with its line in the help, so that the help needs to import none of them."""

ALIASES = {"sessions": "session", "s": "session"}

MODULES = {"import": "importing"}
"""Where a command's module has another name than the command."""


CLOSED_PIPE = 128 + 13
"""As if the signal had ended us that tells a program that nobody reads on; what it had to leave in order is."""


class NobodyReads(Exception):
    """Our output goes to a pipe whose other end is closed."""


class LazyGroup(click.Group):
    """Imports a command's module when the command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = ALIASES.get(cmd_name, cmd_name)
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"bullpen.cli.{MODULES.get(name, name)}")
        command: click.Command = module.command
        return command

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as exc:
            # click would make of it a failure like any other.
            raise NobodyReads from exc

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=WORKSPACE_HELP,
)
@click.version_option(__version__, "-v", "--version", prog_name="bullpen", message="%(prog)s %(version)s")
@session_option
@click.option("--continue", "-C", "newest", is_flag=True, help="Go on with the session used last.")
@plain_option
@host_option
@click.pass_context
def cli(ctx: click.Context, session: str, newest: bool, plain: bool, host: str | None) -> None:
    """One coding agent that any number of clients share.

    Without a command: join the workspace of the current directory, and choose a model first when none is
    configured. The server starts by itself when it is needed.

    \b
    Examples:
      bullpen                       talk to the agent in this directory
      bullpen -C                    go on where you were
      bullpen run "what is this?"   one answer, for scripts
      bullpen attach ~/project      join from a second terminal
      bullpen ps                    who is where
    """
    if ctx.invoked_subcommand is None:
        from bullpen.cli.attach import start

        if session and newest:
            raise click.UsageError("--session and --continue exclude each other", ctx)
        ctx.exit(start(".", host=host, session=session, newest=newest, name="", plain=plain))
    elif host is not None:
        # Given before the command, it holds for the command.
        os.environ["BULLPEN_HOST"] = host


def main() -> None:
    """What `bullpen` on the command line calls."""
    _ready_streams()
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line; the answer is the exit status. Errors are said in one line on stderr."""
    try:
        status = cli.main(args=arguments, prog_name="bullpen", standalone_mode=False)
    except click.ClickException as exc:
        return _refuse(exc)
    except errors.BullpenError as exc:
        if wants_traceback():
            raise
        from bullpen.present.failure import one_line

        click.echo(f"bullpen: {one_line(exc)}", err=True)
        return 1
    except (KeyboardInterrupt, click.Abort):
        return 130
    except NobodyReads:
        # Nobody reads what we print any more; what is still buffered must not complain at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    except Exception as exc:
        if wants_traceback():
            raise
        text = " ".join(str(exc).split()) or "no details"
        click.echo(
            f"bullpen: {type(exc).__name__}: {text} (this is a defect; BULLPEN_DEBUG=1 shows where)", err=True
        )
        return 1
    return status if isinstance(status, int) else 0


def _ready_streams() -> None:
    """A stream that was closed by whoever started us becomes an empty one; no character is too much for the others."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 (for as long as we run)
        elif mode == "w" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _refuse(exc: click.ClickException) -> int:
    if isinstance(exc, click.exceptions.NoArgsIsHelpError):
        # A group without a command: its help is the answer.
        click.echo(exc.format_message(), err=True)
        return exc.exit_code
    hint = ""
    if isinstance(exc, click.UsageError) and exc.ctx is not None:
        hint = f" – '{exc.ctx.command_path} --help' shows how"
    click.echo(f"bullpen: {exc.format_message().rstrip('.')}{hint}", err=True)
    return exc.exit_code


def wants_traceback() -> bool:
    """Whether the person asked to see where errors come from."""
    return os.environ.get("BULLPEN_DEBUG", "") not in {"", "0"}


if __name__ == "__main__":
    main()
