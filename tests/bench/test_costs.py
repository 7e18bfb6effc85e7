"""Costs are divisions: each is checked with numbers that can be done in the head."""

from __future__ import annotations

from bench import costs
from bench.results import Result
from bench.sittings import Sitting


def streamed(clients: int, cpu_s: float) -> Result:
    return {
        "tokens": 10_000,
        "rate": 1_000,
        "clients": clients,
        "best_cpu_s": cpu_s,
        "events_per_client": 1_000,
        "rss_before": 0,
        "rss_peak": 80_000,
    }


RESULT: Result = {
    "peer": "x",
    "c": {"cpu_ms_per_turn": 1.5},
    "d": {"rows": [streamed(1, 1.0), streamed(100, 2.98)]},
    "e": {"rows": [{"tokens": 1_000, "server_cpu_s": 1}, {"tokens": 8_000, "server_cpu_s": 0.4}]},
    "h2": {"best_cpu_s": 2.5},
}


def test_costs_are_derived_from_the_result() -> None:
    lines = [" ".join(line.split()) for line in costs.table({"x": RESULT}).splitlines()]
    assert lines[2:] == [
        "CPU per token, 1 client (10,000 at 1,000/s), µs 100",
        "CPU per token, 100 clients, µs 298",
        "CPU per token and further client, µs 2",
        "CPU per event and further client, µs 20",
        "CPU per token, 100 sessions at 50/s, µs 100",
        "CPU per token, 8,000 to 10 clients, µs 50",
        "CPU per turn of one token, µs 1,500",
        "memory per token at the peak, bytes 8",
    ]


def test_what_was_not_run_is_a_dash_beside_what_was(sitting: Sitting) -> None:
    """The recorded floor has no suite c."""
    table = costs.table({"deltas": sitting.deltas, "whole": None, "floor": sitting.floor})
    head, turn = (
        next(line for line in table.splitlines() if line.startswith(start))
        for start in ("cost", "CPU per turn of")
    )
    assert (head.split(), turn.split()[-1]) == (["cost", "deltas", "floor"], "–")
