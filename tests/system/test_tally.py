"""Counts, gauges and peaks."""

from __future__ import annotations

from bullpen.system.tally import Tally


def test_counts_gauges_and_peaks_are_shown_together() -> None:
    tally = Tally()
    tally["resyncs"] += 2
    tally.gauges["streams"] = lambda: 7
    tally.reach("unsent", 5)
    tally.reach("unsent", 3)
    assert tally.shown() == ({"resyncs": 2}, {"streams": 7, "unsent": 5})
    assert str(tally) == "resyncs 2, streams 7, unsent 5"
