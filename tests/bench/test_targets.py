"""What compare.py says, read and set side by side."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import targets
from bench.driver import Driver
from bench.errors import BenchError
from bench.sittings import Sitting
from bench.targets import Row

MARKDOWN = """\
| measure (deltas) | Bullpen | Crush | ratio | target | |
|---|---|---|---|---|---|
| a. cold start | 644 ms | 43.7 ms | 14.8 | ≤ 300 ms | SHORT |
| c2. turns, 32 sessions at once | 1,230 /s | failed | – | ≥ 150 /s | pass |

1 pass, 1 short, 0 not run
"""

COMPARE = """
import json, sys
ours, other = (json.load(open(name)) for name in sys.argv[1:])
print("| m | a | b | ratio | target | |")
print("|---|---|---|---|---|---|")
print(f"| x | {ours['x']} s | {other['x']} s | {ours['x'] / other['x']} | ≤ 1 s | SHORT |")
sys.exit(1)
"""


def row(ours: str, target: str, ratio: str = "–") -> Row:
    return Row("x", ours, "–", ratio, target, "pass")


def test_the_table_is_read_row_by_row() -> None:
    assert targets.read_table(MARKDOWN) == [
        Row("a. cold start", "644 ms", "43.7 ms", "14.8", "≤ 300 ms", "SHORT"),
        Row("c2. turns, 32 sessions at once", "1,230 /s", "failed", "–", "≥ 150 /s", "pass"),
    ]


@pytest.mark.parametrize(
    ("judged", "share"),
    [
        (row("150 ms", "≤ 300 ms"), 0.5),
        (row("1,200 /s", "≥ 150 /s"), 0.125),
        (row("2 s", "≤ 0.125 × reference", ratio="0.25"), 2.0),
        (row("0.52", "≤ 1.04 ×"), 0.5),
        (row("0", "0"), None),
        (row("not run", "≤ 3 ms"), None),
        (row("failed", "≤ 0.125 × reference"), None),
        (row("0 /s", "≥ 150 /s"), None),
    ],
)
def test_a_share_of_one_is_the_target(judged: Row, share: float | None) -> None:
    """Where more is better it is turned round, so that less is always better."""
    assert judged.share_of_target == share


def test_ours_stands_beside_reference_floor_and_an_earlier_result(tmp_path: Path) -> None:
    """A target that is missed makes compare.py fail; the figures count all the same."""
    (tmp_path / "compare.py").write_text(COMPARE)
    rows = targets.judge(Driver(tmp_path), {"x": 4}, {"x": 8}, floor={"x": 2}, earlier={"x": 5})
    assert rows == [
        Row("x", "4 s", "8 s", "0.5", "≤ 1 s", "SHORT", floor="2 s", floor_ratio="2.0", earlier_ratio="0.8")
    ]


def test_a_compare_that_fails_is_said_with_its_last_words(tmp_path: Path) -> None:
    (tmp_path / "compare.py").write_text("raise SystemExit('no such thing')")
    with pytest.raises(BenchError, match="no such thing"):
        targets.compare(Driver(tmp_path), {"x": 4}, {"x": 8})


def test_the_printed_table_lines_up_and_sums_up(sitting: Sitting) -> None:
    lines = targets.table(sitting.targets["deltas"], reference="Crush").splitlines()
    assert lines[0].split() == ["measure", "ours", "Crush", "ratio", "floor", "ratio", "target"]
    assert lines[-1] == "6 pass, 2 short, 1 not run"
    shown = lines[2:-2]
    assert {len(line) for line in shown} == {len(lines[1])}
    assert [line for line in shown if "not run" in line.split("  ")[-1]] == []


def test_an_earlier_result_gets_a_column(sitting: Sitting) -> None:
    head, *_ = targets.table(sitting.targets["deltas"], reference="Crush", earlier=True).splitlines()
    assert "earlier" in head.split()
