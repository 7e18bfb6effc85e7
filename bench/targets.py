"""Our figures beside the reference's, the floor's and the targets, as the shared compare.py judges them.

The targets stand in compare.py and nowhere else: it is run, and its Markdown table is read.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bench.driver import Driver
from bench.errors import BenchError
from bench.results import Result, save

NUMBER = re.compile(r"-?[\d,]*\.?\d+")
NOTHING = "–"
PASS, SHORT, NOT_RUN = "pass", "SHORT", "not run"
"""The marks of compare.py."""


@dataclass(frozen=True)
class Row:
    """One measure, in the words of compare.py."""

    measure: str
    ours: str
    reference: str
    ratio: str
    target: str
    mark: str
    floor: str = NOTHING
    floor_ratio: str = NOTHING
    earlier_ratio: str = NOTHING

    @property
    def share_of_target(self) -> float | None:
        """1.0 is the target and less is better; None where there is nothing to divide: not run, failed, or must be 0."""
        bound = number(self.target)
        value = number(self.ratio if "reference" in self.target else self.ours)
        if value is None or not bound:
            return None
        if self.target.startswith("≥"):
            return bound / value if value else None
        return value / bound

    def kept(self) -> dict[str, str]:
        """As it lies in the results; the earlier result belongs to one run alone."""
        row = asdict(self)
        del row["earlier_ratio"]
        return row


def number(text: str) -> float | None:
    found = NUMBER.search(text)
    return float(found[0].replace(",", "")) if found else None


def judge(
    driver: Driver,
    ours: Result,
    reference: Result,
    *,
    floor: Result | None = None,
    earlier: Result | None = None,
) -> list[Row]:
    rows = compare(driver, ours, reference)
    if floor is not None:
        beside = compare(driver, ours, floor)
        rows = [
            replace(row, floor=other.reference, floor_ratio=other.ratio)
            for row, other in zip(rows, beside, strict=True)
        ]
    if earlier is not None:
        beside = compare(driver, ours, earlier)
        rows = [replace(row, earlier_ratio=other.ratio) for row, other in zip(rows, beside, strict=True)]
    return rows


def compare(driver: Driver, ours: Result, other: Result) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        files = [Path(directory) / "ours.json", Path(directory) / "other.json"]
        for file, result in zip(files, (ours, other), strict=True):
            save(file, result)
        done = subprocess.run(
            [sys.executable, driver.compare, *files], capture_output=True, text=True, check=False
        )
    # Status 1 says that a target was missed: that is a result, not a failure.
    rows = read_table(done.stdout)
    if not rows:
        last = (done.stderr.strip().splitlines() or ["no table"])[-1]
        raise BenchError(f"compare.py could not judge the results: {last}")
    return rows


def read_table(markdown: str) -> list[Row]:
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    return [Row(*(cell.strip() for cell in line.strip("|").split("|"))) for line in lines[2:]]


def table(rows: Sequence[Row], *, reference: str, earlier: bool = False) -> str:
    """What was run, as text for a terminal, with the sums below."""
    heads = [
        *("measure", "ours", reference, "ratio", "floor", "ratio"),
        *(["earlier"] if earlier else []),
        *("target", ""),
    ]
    cells = [
        [
            *(row.measure, row.ours, row.reference, row.ratio, row.floor, row.floor_ratio),
            *([row.earlier_ratio] if earlier else []),
            *(row.target, row.mark),
        ]
        for row in rows
        if row.mark != NOT_RUN
    ]
    return aligned([heads, *cells]) + "\n\n" + summary(rows)


def summary(rows: Sequence[Row]) -> str:
    marks = [row.mark for row in rows]
    return f"{marks.count(PASS)} pass, {marks.count(SHORT)} short, {marks.count(NOT_RUN)} not run"


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Columns of equal width below a head, the first to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    shown = [
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    return "\n".join([shown[0], "─" * max(map(len, shown)), *shown[1:]])
