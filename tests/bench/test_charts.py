"""Charts: valid, labelled, honest about what is missing, and readable by day and by night."""

from __future__ import annotations

import itertools
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from bench import charts, forms, svg
from bench.forms import Bar, Words
from bench.sittings import Sitting

WORDS = Words("Title", "Subtitle", ["Foot"])
SVG = "{http://www.w3.org/2000/svg}"


def texts(chart: str) -> list[str]:
    return ["".join(node.itertext()) for node in ET.fromstring(chart).iter(f"{SVG}text")]


def bar_lengths(chart: str) -> list[float]:
    return [
        float(node.attrib["width"])
        for node in ET.fromstring(chart).iter(f"{SVG}rect")
        if node.attrib["class"] != "ground"
    ]


def test_every_chart_is_valid_and_says_what_it_shows(sitting: Sitting, tmp_path: Path) -> None:
    drawn = charts.draw(sitting, tmp_path)
    assert [file.name for file in drawn] == [
        "cpu.svg",
        "latency.svg",
        "growth.svg",
        "turns.svg",
        "targets-deltas.svg",
    ]
    for file in drawn:
        said = texts(file.read_text())
        title, subtitle, foot = said[0], said[1], " ".join(said[-3:])
        assert title
        assert "is better" in subtitle
        assert "./bench/run: Bullpen 0.1.0 · 2 cores" in foot
        assert "2026-11-15" in foot


def test_nothing_measured_draws_nothing(tmp_path: Path) -> None:
    assert charts.draw(Sitting(), tmp_path) == []


def test_a_chart_without_our_suite_is_left_out(sitting: Sitting, tmp_path: Path) -> None:
    """Peers alone would say nothing about this checkout."""
    only = Sitting(deltas={"peer": "Bullpen"}, reference=sitting.reference)
    assert charts.draw(only, tmp_path) == []


def test_servers_are_labelled_with_figure_and_ratio(sitting: Sitting) -> None:
    chart = charts.stream_cpu(sitting)
    assert chart is not None
    said = texts(chart)
    assert [said[place : place + 2] for place in range(2, 14, 2)] == [
        ["Codex app-server 0.166.0", "39.1 s2.4 ×"],
        ["opencode serve 1.18.33", "16.8 s1 ×"],
        ["Crush (reference)", "16.0 s1 ×"],
        ["Bullpen, whole messages", "3.99 s1/4"],
        ["Bullpen, deltas", "5.37 s1/3"],
        ["floor, deltas", "0.74 s1/22"],
    ]


def test_a_server_that_died_has_words_instead_of_a_bar(sitting: Sitting) -> None:
    chart = charts.turns(sitting)
    assert chart is not None
    assert texts(chart)[2:4] == ["Crush (reference)", "its process ends, each time"]


def test_a_target_shows_its_figure_its_bound_and_what_was_missed(sitting: Sitting) -> None:
    chart = charts.targets(sitting, "deltas")
    assert chart is not None
    said = texts(chart)
    assert said[0] == "The targets, with deltas: 6 of 9 met"
    assert said[2:5] == ["cold start", "644 ms", "≤ 300 ms"]
    assert said[11:14] == ["accept, p99", "not run", "≤ 25 ms"]
    missed = [node for node in ET.fromstring(chart).iter(f"{SVG}rect") if node.attrib["class"] == "short"]
    assert len(missed) == 2


def test_bars_are_as_long_as_their_figures() -> None:
    chart = forms.bars(
        WORDS, [Bar("a", 10.0, "peer"), Bar("b", 5.0, "ours"), Bar("c", None, "peer")], unit="s"
    )
    longest, half = bar_lengths(chart)
    assert half == pytest.approx(longest / 2, abs=0.1)


def test_a_logarithmic_chart_has_equal_steps_for_equal_ratios() -> None:
    rows = [Bar(str(value), value, "peer") for value in (1.0, 10.0, 100.0)]
    chart = forms.bars(WORDS, rows, unit="ms", logarithmic=True)
    first, second, third = (float(node.attrib["cx"]) for node in ET.fromstring(chart).iter(f"{SVG}circle"))
    assert third - second == pytest.approx(second - first, abs=0.2)


@pytest.mark.parametrize(
    ("value", "base", "said"),
    [
        (1.3, 16.0, "1/12"),
        (4.0, 16.0, "1/4"),
        (2.2, 16.0, "1/7.3"),
        (12.0, 16.0, "0.8 ×"),
        (39.1, 16.0, "2.4 ×"),
        (480.0, 16.0, "30 ×"),
        (1.0, None, ""),
        (0.0, 16.0, ""),
    ],
)
def test_a_ratio_reads_like_one(value: float, base: float | None, said: str) -> None:
    assert charts.ratio(value, base) == said


def test_labels_keep_their_distance_and_order() -> None:
    moved = forms.spread([100.0, 10.0, 101.0, 102.0], gap=19)
    order = sorted(moved)
    assert [moved.index(place) for place in order] == [1, 0, 2, 3]
    assert min(low - high for high, low in itertools.pairwise(order)) == pytest.approx(19, abs=0.01)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_inks_are_readable(scheme: str) -> None:
    """WCAG: 4.5 for text, 3 for shapes. Our ink and the red are also used for text."""
    ground = luminance(getattr(svg.GROUND, scheme))
    contrast = {
        name: ratio_of(luminance(getattr(ink, scheme)), ground)
        for name, ink in (svg.TEXTS | svg.MARKS).items()
    }
    too_faint = {
        name: round(value, 2)
        for name, value in contrast.items()
        if value < (4.5 if name in {*svg.TEXTS, "ours", "short"} else 3)
    }
    assert too_faint == {}


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def ratio_of(one: float, other: float) -> float:
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)
