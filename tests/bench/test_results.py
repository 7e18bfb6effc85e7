"""Finding a figure, or finding that there is none; and what is kept of a result."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import results
from bench.errors import BenchError
from bench.sittings import Sitting

RESULT = {
    "peer": "x",
    "c": {"sequential": {"p50_ms": 2}},
    "c2": {"error": "the server process ended", "crashes": ["panic"], "tries": 4},
    "d": {
        "rows": [{"tokens": 10_000, "rate": 1_000, "clients": 100, "best_cpu_s": 1.5}, {"error": "refused"}]
    },
}


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        (("c", "sequential", "p50_ms"), 2.0),
        (("c", "sequential", "p99_ms"), None),
        (("c", "sequential"), None),
        (("c2", "concurrent32_turns_per_s"), None),
        (("j", "get", "p50_ms"), None),
    ],
)
def test_a_figure_is_found_or_none(keys: tuple[str, ...], found: float | None) -> None:
    """A suite that was not run, or failed, has no figures."""
    assert results.figure(RESULT, *keys) == found


def test_a_fan_out_is_found_by_its_size() -> None:
    assert (
        results.fan_out(RESULT, "best_cpu_s"),
        results.fan_out(RESULT, "best_cpu_s", clients=10),
        results.fan_out(None, "best_cpu_s"),
    ) == (1.5, None, None)


def test_only_a_server_that_ended_has_died(sitting: Sitting) -> None:
    assert [
        results.died(sitting.reference, "c2"),
        results.died(sitting.deltas, "c2"),
        results.died(sitting.deltas, "k"),
        results.died(None, "c2"),
    ] == [True, False, False, False]


def test_what_is_kept_names_the_machine_and_no_path() -> None:
    """A dying server's last words may hold paths of the machine they were said on."""
    died = {"peer": "x", "g": {"crashes": ["panic at /home/ana/src/x.py:3: 1/2 full"]}}
    kept = results.to_keep(died, results.machine())
    assert kept["g"] == {"crashes": ["panic at …:3: 1/2 full"]}
    assert sorted(kept["machine"]) == ["cores", "cpu", "load_before", "memory_gib", "python", "system"]


def test_the_kept_results_hold_no_path() -> None:
    """They are part of the project, and the project names nobody's machine."""
    kept = Path(results.__file__).parent / "results"
    assert [file.name for file in kept.glob("*.json") if results.PATH.search(file.read_text())] == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        ("{", "is not JSON"),
        ("[]", "not a result file"),
        ('{"a": {}}', "it names no peer"),
    ],
)
def test_a_file_that_is_no_result_is_said_so(tmp_path: Path, content: str | None, said: str) -> None:
    file = tmp_path / "result.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(BenchError, match=said):
        results.load(file)
