"""`bullpen run`: one prompt, its answer on stdout, for people in a hurry and for scripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from bullpen.cli import completing
from bullpen.cli.options import directory_of, host_option, name_option, session_option
from bullpen.cli.run_report import Report


class RunCommand(click.Command):
    """With --json even a command line that cannot be read ends with the one record that tells so."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        given = list(args)
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as exc:
            Report(as_json="--json" in given).end("usage", exc.format_message(), "usage")
            raise


@click.command("run", cls=RunCommand, short_help="Send one prompt and print the answer.")
@click.argument("prompt", nargs=-1)
@click.option("--prompt-file", metavar="PATH", help="Take the prompt from this file; words come after it.")
@click.option(
    "--file",
    "-f",
    "files",
    metavar="PATH",
    multiple=True,
    help="Attach a text, a picture or a PDF. May be repeated.",
)
@session_option
@click.option("--continue", "-C", "go_on", is_flag=True, help="Go on with the last used session.")
@click.option(
    "--model",
    "-m",
    metavar="NAME",
    default="",
    shell_complete=completing.models,
    help="Use this model: provider/model, or the model's id.",
)
@click.option(
    "--effort", "-e", metavar="LEVEL", default="", help="How hard the model thinks, such as low or high."
)
@click.option(
    "--on-ask",
    "--permissions",
    "-p",
    type=click.Choice(["ask", "allow", "deny", "fail", "wait"]),
    help="When a tool needs permission: ask you by number, allow it, deny it and let the turn go on, fail (cancel the run), "
    "wait for another client's answer. [default: ask on a terminal, else deny]",
)
@click.option("--timeout", "-t", metavar="DURATION", help="Cancel the turn after so long: 90s, 5m, 1h30m.")
@click.option(
    "--budget",
    metavar="DOLLARS",
    type=click.FloatRange(min=0, min_open=True),
    help="Spend no more than this.",
)
@click.option(
    "--allowed-tools", metavar="NAMES", help="Have only these tools, apart by commas: view,grep,mcp_git_*."
)
@click.option("--system", metavar="TEXT", help="Add this to the system prompt; @FILE takes it from a file.")
@click.option(
    "--max-steps", metavar="N", type=click.IntRange(min=1), help="Ask the model no more often than this."
)
@click.option(
    "--detach", is_flag=True, help="Print session and run id as soon as the prompt is accepted, and leave."
)
@click.option(
    "--attach", "attach_to", metavar="ID", help="Follow the run of this id, or what runs in this session."
)
@click.option(
    "--output-schema",
    metavar="PATH",
    help="The answer must be JSON that fits this JSON Schema; print that alone.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print events as lines of JSON, and one result at the end."
)
@click.option("--quiet", "-q", is_flag=True, help="Nothing on stderr but errors.")
@click.option(
    "--cwd", "-c", metavar="DIR", default=".", help="The workspace. [default: the current directory]"
)
@host_option
@name_option
def command(as_json: bool, host: str | None, name: str, cwd: str, **options: Any) -> int:
    """Send one prompt and print the answer as it comes.

    What is piped in comes first, then --prompt-file, then the words of the command line; words that begin with the name of one
    of your commands or skills, such as /review, use it. Notes go to stderr. Without a configured model the built-in demo
    answers. Ctrl-C cancels the turn, a second one leaves it alone. Who follows with --attach cancels nothing.

    \b
    Exit status:
      0    answered; with --detach: accepted
      1    failed, or cancelled by somebody else
      2    wrong usage
      3    no model, or a wrong configuration
      4    the model's provider failed
      5    not permitted: --on-ask fail, or a hook
      6    a limit was reached: budget, steps, time, context
      7    the answer does not fit --output-schema
      8    no server can be reached
      124  --timeout was over
      130, 143  interrupted by Ctrl-C, by SIGTERM
      141  nobody reads the output any more; the turn was cancelled

    \b
    Examples:
      bullpen run "what does this project do?"
      git diff | bullpen run "write a commit message for this"
      bullpen run -f screen.png "what is wrong here?"
      bullpen run -C "and now in one sentence"
      bullpen run /review src/app.py
      bullpen run --on-ask allow --timeout 10m "run the tests and mend what fails"
      bullpen run --json "hello" | jq -r 'select(.type == "result").text'
      bullpen run --output-schema todo.json "what is left to do?" | jq .items
      read session run < <(bullpen run --detach "tidy up"); bullpen run --attach $run
    """
    report = Report(as_json=as_json)
    return reported(report, lambda: _run(report, as_json=as_json, host=host, name=name, cwd=cwd, **options))


def reported(report: Report, run: Callable[[], int]) -> int:
    """Whatever goes wrong is told in one line on stderr, and in the report."""
    from bullpen.errors import BullpenError
    from bullpen.present.failure import one_line

    try:
        return run()
    except click.ClickException as exc:
        wrong = isinstance(exc, click.UsageError)
        report.end("usage" if wrong else "failed", exc.format_message(), "usage", status=exc.exit_code)
        raise
    except BullpenError as exc:
        from bullpen.cli.main import wants_traceback
        from bullpen.cli.run_report import reason_of

        status = report.end(reason_of(exc.code), exc.message, exc.code)
        if wants_traceback():
            raise
        click.echo(f"bullpen: {one_line(exc)}", err=True)
        return status
    except KeyboardInterrupt:
        return report.end("interrupted")
    except BrokenPipeError:
        raise
    except Exception as exc:
        report.end("failed", f"{type(exc).__name__}: {exc}", "internal")
        raise


def _run(report: Report, *, host: str | None, name: str, cwd: str, **options: Any) -> int:
    from bullpen.cli.one_run import one_run
    from bullpen.cli.running import run_async
    from bullpen.client.locate import find_address
    from bullpen.system.address import UnixAddress

    wish = wish_of(**options)
    path = str(directory_of(cwd)) if isinstance(find_address(host), UnixAddress) else cwd
    return run_async(lambda: one_run(path, wish, report, host=host, name=name))


def wish_of(
    *,
    prompt: tuple[str, ...],
    prompt_file: str | None,
    files: tuple[str, ...],
    session: str,
    go_on: bool,
    model: str,
    effort: str,
    on_ask: Any,
    timeout: str | None,
    budget: float | None,
    allowed_tools: str | None,
    system: str | None,
    max_steps: int | None,
    detach: bool,
    attach_to: str | None,
    output_schema: str | None,
    as_json: bool,
    quiet: bool,
) -> Any:
    """The command line as a `Wish`. Raises `click.UsageError` for what cannot be meant."""
    import sys

    from bullpen.cli.wish import Wish, gather, read_files, read_text, span_of

    if session and go_on:
        raise click.UsageError("--session and --continue exclude each other")
    timeout_s = span_of(timeout, "--timeout")
    if attach_to is not None:
        others = (prompt, prompt_file, files, session, go_on, model, effort, budget, detach, output_schema)
        own = (allowed_tools, system, max_steps)
        if not attach_to or any(others) or any(own) or on_ask in ("allow", "deny", "fail"):
            raise click.UsageError(
                "--attach follows a run as it was sent: only --on-ask ask or wait, --timeout, --json and --quiet go with it"
            )
        watched = sys.stdin.isatty() and sys.stderr.isatty()
        return Wish(
            prompt="",
            attach=attach_to,
            on_ask=on_ask or ("ask" if watched else "wait"),
            timeout_s=timeout_s,
            as_json=as_json,
            quiet=quiet,
        )
    if detach and (timeout_s or output_schema or on_ask in ("ask", "fail")):
        raise click.UsageError(
            "--detach leaves at once: --timeout, --output-schema and --on-ask ask or fail need somebody who stays"
        )
    piped = gather(sys.stdin)
    told = read_text(prompt_file, "--prompt-file") if prompt_file else ""
    words = "\n\n".join(filter(None, (told, " ".join(prompt))))
    attached = read_files(files)
    if not f"{piped or ''}{words}".strip():
        raise click.UsageError("there is no prompt: give it as words, with --prompt-file, or pipe it in")
    watched = not detach and piped is None and sys.stdin.isatty() and sys.stderr.isatty()
    return Wish(
        prompt=words,
        piped=piped or "",
        attachments=attached,
        session=session,
        go_on=go_on,
        model=model,
        effort=effort,
        budget=budget or 0,
        tools=_names(allowed_tools),
        instructions=read_text(system[1:], "--system") if system and system.startswith("@") else system or "",
        steps=max_steps or 0,
        on_ask=on_ask or ("ask" if watched else "deny"),
        timeout_s=timeout_s,
        detach=detach,
        schema=_schema(read_text(output_schema, "--output-schema")) if output_schema else None,
        as_json=as_json,
        quiet=quiet,
    )


def _names(text: str | None) -> tuple[str, ...]:
    names = tuple(filter(None, (name.strip() for name in (text or "").split(","))))
    if text is not None and not names:
        raise click.UsageError("--allowed-tools names no tool")
    return names


def _schema(text: str) -> Any:
    from bullpen.cli import answer_schema

    try:
        return answer_schema.load(text)
    except answer_schema.SchemaWrong as exc:
        raise click.BadParameter(
            str(exc), ctx=click.get_current_context(silent=True), param_hint="--output-schema"
        ) from exc
