"""The command: `./bench/run` measures, judges, draws and keeps; `./bench/run profile` shows where the CPU goes."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import click

from bench import (
    charts,
    conversation,
    costs,
    driver,
    engine,
    profile,
    results,
    sittings,
    targets,
    terminal,
    tools,
)
from bench.errors import BenchError
from bench.progress import Progress
from bench.sittings import Sitting

HERE = Path(__file__).resolve().parent

T = TypeVar("T")

QUICK = ("a", "c", "c2", "e", "f", "h2", "i")
"""The suites that together take less than a minute."""

EXAMPLES = """\b
Examples:
  ./bench/run                                     everything, about 13 minutes; replaces bench/results and bench/charts
  ./bench/run --quick                             a first look in three minutes; goes to build/bench
  ./bench/run --suites c,d --repeat 1             only these measures
  ./bench/run --against old/deltas.json           with a column of ratios to an earlier result
  ./bench/run --charts-only                       tables and charts from the kept results, nothing is measured
  BULLPEN_BENCH_PEER=/usr/bin/crush ./bench/run   the peer is measured too, instead of taking its kept figures
  ./bench/run profile                             where the CPU goes while an answer streams
  ./bench/run engine                              one turn by itself: per token, per call, memory, start
  ./bench/run tools                               fifty calls of each tool, and a tree of 100,000 files beside ripgrep
  ./bench/run terminal                            the screen: start, keys, a fast answer, a long session, beside Textual alone

\b
Suites:
""" + "\n".join(f"  {suite:<4}{meaning}" for suite, meaning in driver.MEANINGS.items())


class Suites(click.ParamType[tuple[str, ...]]):
    name = "a,c,d"

    def convert(
        self, value: str | tuple[str, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        asked = {name.strip() for name in value.split(",")}
        if unknown := sorted(asked.difference(driver.SUITES)):
            self.fail(f"no suite {', '.join(unknown)}; there are {', '.join(driver.SUITES)}", param, ctx)
        return tuple(suite for suite in driver.SUITES if suite in asked)


@click.group(
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog=EXAMPLES,
)
@click.option("--quick", is_flag=True, help=f"Only the suites {','.join(QUICK)}, each once.")
@click.option("--suites", type=Suites(), default=None, help="Only these suites.")
@click.option(
    "--repeat", type=click.IntRange(1), default=None, help="Runs of each short measure; the best counts. [3]"
)
@click.option(
    "--against", type=click.Path(path_type=Path), help="An earlier result of ours: adds the ratios to it."
)
@click.option("--charts-only", is_flag=True, help="Measure nothing: tables and charts from the kept results.")
@click.option("--out", type=click.Path(path_type=Path), help="Where results/ and charts/ go.")
@click.pass_context
def bench(
    ctx: click.Context,
    quick: bool,
    suites: tuple[str, ...] | None,
    repeat: int | None,
    against: Path | None,
    charts_only: bool,
    out: Path | None,
) -> None:
    """Measure this checkout's server with the shared load driver, beside a floor and the reference.

    Only a run of all suites replaces the kept results in bench/; others go to build/bench. A target that is
    missed is shown, not an error: nothing here decides a test.
    """
    if ctx.invoked_subcommand is not None:
        return
    chosen = suites or (QUICK if quick else driver.SUITES)
    place = out or (HERE if charts_only or chosen == driver.SUITES else driver.BUILD)
    earlier = results.load(against) if against else None
    if charts_only:
        sitting = sittings.load(place / "results")
        if sitting.deltas is None and sitting.whole is None:
            raise BenchError(
                f"no results in {driver.relative(place / 'results')}; measure first: ./bench/run"
            )
    else:
        sitting = measured(chosen, repeat or (1 if quick else 3), place / "results")
    if earlier is not None:
        sitting = sittings.judged(sitting, driver.ready(), earlier)
    show(sitting, earlier=earlier is not None)
    drawn = charts.draw(sitting, place / "charts")
    click.echo("\ncharts: " + " ".join(driver.relative(file) for file in drawn))


@bench.command("profile")
@click.option("--suites", type=Suites(), default="e", show_default=True, help="The load.")
@click.option("--whole", is_flag=True, help="Clients get whole messages instead of deltas.")
@click.option(
    "--top", type=click.IntRange(1), default=30, show_default=True, help="How many functions are shown."
)
def profile_command(suites: tuple[str, ...], whole: bool, top: int) -> None:
    """Show where the server's CPU time goes, function by function, and what a token or a turn costs.

    Sampling costs a little itself: take the shares from here and the costs from a run without it.
    """
    load = profile.measurement(suites, deltas=not whole)
    progress = Progress(sys.stderr, load.expected_s)
    progress.step("building the driver")
    try:
        result, stacks = profile.run(driver.ready(), load, progress)
    finally:
        progress.end()
    click.echo(
        f"\n{profile.table(profile.by_function(stacks), top)}\n\n{costs.table({'profiled': result}, {})}"
    )
    click.echo(f"\nstacks for a flame graph: {driver.relative(profile.FOLDED)}")


@bench.command("engine")
def engine_command() -> None:
    """Show what one turn costs by itself: per token, per tool call, in memory, and what a start takes."""
    click.echo(f"\n{engine.table(_followed(40, engine.measure))}")


@bench.command("tools")
def tools_command() -> None:
    """Show what a call of each tool takes, and how long searches of a large tree take beside ripgrep alone."""
    click.echo(f"\n{tools.table(_followed(60, tools.measure))}")


@bench.command("terminal")
def terminal_command() -> None:
    """Show what the screen costs: start, keys, an answer that streams, a long session; beside Textual's own."""
    warn_if_busy()
    whole = _followed(150, terminal.measure)
    progress = Progress(sys.stderr, 20)
    try:
        alone = conversation.measure(progress)
    finally:
        progress.end()
    click.echo(f"\n{terminal.table(whole)}\n\n{conversation.table(alone)}")


def _followed(expected_s: float, measure: Callable[[driver.Driver, Progress], T]) -> T:
    """What is measured with a driver that is built first, while somebody watches."""
    progress = Progress(sys.stderr, expected_s)
    progress.step("building the driver")
    try:
        return measure(driver.ready(), progress)
    finally:
        progress.end()


def measured(suites: Sequence[str], repeat: int, directory: Path) -> Sitting:
    """What is kept in `directory` is replaced only when all has been measured."""
    warn_if_busy()
    measurements = sittings.plan(suites, repeat, os.environ)
    progress = Progress(sys.stderr, sum(measurement.expected_s for measurement in measurements.values()))
    progress.step("building the driver")
    fresh = driver.BUILD / "results"
    try:
        sitting = sittings.measure(driver.ready(), measurements, fresh, progress)
    finally:
        progress.end()
    if directory != fresh:
        shutil.copytree(fresh, directory, dirs_exist_ok=True)
    return sitting


def warn_if_busy() -> None:
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > cores / 2:
        click.echo(
            f"bench: this machine is busy (load {load:.1f} on {cores} cores): believe the CPU seconds, not the milliseconds",
            err=True,
        )


def show(sitting: Sitting, *, earlier: bool) -> None:
    reference = (sitting.reference or {}).get("peer", "reference")
    for form, rows in sitting.targets.items():
        heading = "deltas" if form == "deltas" else "whole messages"
        click.echo(f"\nBullpen, {heading}\n")
        for line in targets.table(rows, reference=reference, earlier=earlier).splitlines():
            click.echo(click.style(line, fg="red") if line.endswith(targets.SHORT) else line)
    ours = {"deltas": sitting.deltas, "whole": sitting.whole}
    click.echo(f"\n{costs.table(ours, {'floor': sitting.floor, reference: sitting.reference})}")


def main() -> None:
    """Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted, 143 ended by a signal."""
    # So that the driver is ended as well, and with it what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        bench(prog_name="./bench/run", standalone_mode=False)
    except BenchError as error:
        click.echo(f"bench: {error}", err=True)
        sys.exit(1)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)


if __name__ == "__main__":
    main()
