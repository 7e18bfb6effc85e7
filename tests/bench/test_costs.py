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
    lines = [" ".join(line.split()) for line in costs.table({"x": RESULT}, {}).splitlines()]
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
    """The recorded floor has no suite c; and only the reference has b, so that is left out."""
    reference = {**(sitting.reference or {}), "b": {"rss_per_client_kib": 18.7}}
    table = costs.table(
        {"deltas": sitting.deltas, "whole": None}, {"floor": sitting.floor, "Crush": reference}
    )
    lines = {line[:15]: line.split() for line in table.splitlines()}
    assert lines["cost".ljust(15)][:15] == ["cost", "deltas", "floor", "Crush"]
    assert lines["CPU per turn of"][-3:] == ["5,322", "–", "5,690"]
    assert "memory per idle" not in lines
