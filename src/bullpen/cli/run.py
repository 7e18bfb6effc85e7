"""`bullpen run`: one prompt, its answer on stdout, for people in a hurry and for scripts."""

from __future__ import annotations

import click

from bullpen.cli.options import directory_of, host_option, name_option, session_option


@click.command("run", short_help="Send one prompt and print the answer.")
@click.argument("prompt", nargs=-1)
@session_option
@click.option("--continue", "-C", "go_on", is_flag=True, help="Go on with the last used session.")
@click.option(
    "--model", "-m", metavar="NAME", default="", help="Use this model: provider/model, or the model's id."
)
@click.option(
    "--permissions",
    "-p",
    type=click.Choice(["ask", "allow", "deny"]),
    help="How asks of tools are answered: ask you by number, allow all, deny all. [default: ask on a terminal, else deny]",
)
@click.option("--json", "as_json", is_flag=True, help="Print every event of the turn as a line of JSON.")
@click.option("--quiet", "-q", is_flag=True, help="Nothing on stderr but errors.")
@click.option(
    "--cwd", "-c", metavar="DIR", default=".", help="The workspace. [default: the current directory]"
)
@host_option
@name_option
def command(
    prompt: tuple[str, ...],
    session: str,
    go_on: bool,
    model: str,
    permissions: str | None,
    as_json: bool,
    quiet: bool,
    cwd: str,
    host: str | None,
    name: str,
) -> int:
    """Send one prompt and print the answer as it comes.

    What is piped in comes first, then the words of the command line; words that begin with the name of one of your commands or
    skills, such as /review, use it. Notes go to stderr. Without a configured model
    the built-in demo answers. Ctrl-C cancels the turn, a second one leaves it alone.

    Exit status: 0 answered, 1 failed, 2 wrong usage, 130 interrupted.

    \b
    Examples:
      bullpen run "what does this project do?"
      git diff | bullpen run "write a commit message for this"
      bullpen run -C "and now in one sentence"
      bullpen run /review src/app.py
      bullpen run --permissions allow "run the tests and mend what fails"
      bullpen run --json "hello" | jq -r 'select(.type == "run_complete").payload.payload.text'
    """
    import sys

    from bullpen.cli.one_run import Wish, gather, one_run
    from bullpen.cli.running import run_async
    from bullpen.client.locate import find_address
    from bullpen.system.address import UnixAddress

    if session and go_on:
        raise click.UsageError("--session and --continue exclude each other")
    piped = gather(sys.stdin)
    words = " ".join(prompt)
    if not f"{piped or ''}{words}".strip():
        raise click.UsageError("there is no prompt: give it as words, or pipe it in")
    path = str(directory_of(cwd)) if isinstance(find_address(host), UnixAddress) else cwd
    is_watched = piped is None and sys.stdin.isatty() and sys.stderr.isatty()
    wish = Wish(
        prompt=words,
        piped=piped or "",
        session=session,
        go_on=go_on,
        model=model,
        permissions=permissions or ("ask" if is_watched else "deny"),
        as_json=as_json,
        quiet=quiet,
    )
    return run_async(lambda: one_run(path, wish, host=host, name=name))
