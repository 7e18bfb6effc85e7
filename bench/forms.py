"""The three forms of chart: bars for one figure of many servers, traces for growth, shares for targets.

A form knows nothing of where its figures come from: charts.py hands them over with their words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bench.svg import Aside, Sheet

WIDTH = 820
EDGE = 24
TOP = 74
"""Where the drawing begins, below title and subtitle."""
FOOT_LINE = 17


@dataclass(frozen=True)
class Words:
    """What is written around a chart."""

    title: str
    subtitle: str
    foot: Sequence[str]
    """Who was measured when and with what; a line each."""


@dataclass(frozen=True)
class Bar:
    """One server. Without a value its words stand where the bar would be."""

    label: str
    value: float | None
    mark: str
    words: str = ""
    ratio: str = ""
    hollow: bool = False


@dataclass(frozen=True)
class Trace:
    label: str
    points: Sequence[tuple[float, float]]
    mark: str
    exponent: float | None = None


@dataclass(frozen=True)
class Share:
    """One target: 1.0 is just met and less is better. Without a share there is nothing to divide."""

    label: str
    share: float | None
    words: str
    goal: str
    met: bool | None
    """None: not measured."""


def bars(words: Words, rows: Sequence[Bar], *, unit: str, logarithmic: bool = False) -> str:
    """Horizontal bars; on a logarithmic scale dots, since the length of a bar would mean nothing there."""
    step, thickness, left, right = 34, 18, 214, 190
    bottom = TOP + step * len(rows) - 4
    sheet = begin(
        words,
        bottom + (36 if logarithmic else 18),
        summary=[f"{row.label}: {row.words} {row.ratio}".rstrip() for row in rows],
    )
    values = [row.value for row in rows if row.value]
    width = WIDTH - left - right
    low = 10 ** math.floor(math.log10(min(values, default=1))) if logarithmic else 0
    high = max(values, default=1)

    def reach(value: float) -> float:
        if not logarithmic:
            return width * value / high
        return width * math.log10(max(value, low) / low) / max(math.log10(high / low), 1e-9)

    for power in powers(low, high) if logarithmic else []:
        x = left + reach(power)
        sheet.line(x, TOP - 4, x, bottom, "grid")
        sheet.text(x, bottom + 16, f"{power:,g} {unit}", "small", "quiet", anchor="middle")
    sheet.line(left, TOP - 4, left, bottom, "axis")
    for place, row in enumerate(rows):
        y = TOP + step * place + step / 2 - 4
        ours = row.mark.startswith("ours")
        weight = ["bold"] if ours else []
        sheet.text(left - 12, y, row.label, *weight, anchor="end", middle=True)
        if row.value is None:
            sheet.text(left + 10, y, row.words, "quiet", middle=True)
            continue
        end = reach(row.value)
        classes = [row.mark, *(["hollow"] if row.hollow else [])]
        if logarithmic:
            sheet.trace([(left, y), (left + end - 6, y)], *classes)
            sheet.dot(left + end, y, 6, *classes)
        else:
            sheet.bar(left, y - thickness / 2, end, thickness, *classes)
        beside = Aside(row.ratio, "ours" if ours else "quiet") if row.ratio else None
        sheet.text(left + end + 14, y, row.words, *weight, middle=True, aside=beside)
    return finish(sheet, words)


def traces(words: Words, lines: Sequence[Trace], *, x_name: str) -> str:
    """Growth on two logarithmic scales: a straight line of slope 1 is growth in step. Labels stand at the ends."""
    left, right, height = 84, 345, 290
    sheet = begin(words, TOP + height + 52, summary=[line.label for line in lines])
    xs = sorted({x for line in lines for x, _ in line.points}) or [1.0, 10.0]
    ys = [y for line in lines for _, y in line.points] or [1.0, 10.0]
    low, high = min(ys) / 1.7, max(ys) * 1.25
    width, bottom = WIDTH - left - right, TOP + height

    def at(x: float, y: float) -> tuple[float, float]:
        across = math.log(x / xs[0]) / max(math.log(xs[-1] / xs[0]), 1e-9)
        up = math.log(y / low) / math.log(high / low)
        return left + width * across, bottom - height * up

    for power in powers(low, high):
        _, y = at(xs[0], power)
        sheet.line(left, y, left + width, y, "grid")
        sheet.text(left - 10, y, size(power), "small", "quiet", anchor="end", middle=True)
    sheet.line(left, bottom, left + width, bottom, "axis")
    for x in xs:
        across, _ = at(x, low)
        sheet.line(across, bottom, across, bottom + 4, "axis")
        sheet.text(across, bottom + 18, f"{x:,.0f}", "small", "quiet", anchor="middle")
    sheet.text(left + width / 2, bottom + 36, x_name, "small", "quiet", anchor="middle")
    ends = spread([at(*line.points[-1])[1] for line in lines], gap=19)
    for line, label_y in zip(lines, ends, strict=True):
        drawn = [at(x, y) for x, y in line.points]
        sheet.trace(drawn, line.mark)
        for x, y in drawn:
            sheet.dot(x, y, 3.2, line.mark)
        ours = line.mark.startswith("ours")
        grows = f", n^{line.exponent:.2f}" if line.exponent is not None else ""
        beside = Aside(size(line.points[-1][1]) + grows, "ours" if ours else "quiet")
        sheet.text(
            drawn[-1][0] + 14, label_y, line.label, *(["bold"] if ours else []), middle=True, aside=beside
        )
    return finish(sheet, words)


def shares(words: Words, rows: Sequence[Share], *, most: float = 1.2) -> str:
    """How much of each target is used up: bars up to the line are met. Longer ones are cut at `most`."""
    step, thickness, left, right = 25, 11, 306, 226
    width, bottom = WIDTH - left - right, TOP + step * len(rows)
    sheet = begin(words, bottom + 40, summary=[f"{row.label}: {row.words} {row.goal}" for row in rows])
    for part in (0.25, 0.5, 0.75):
        sheet.line(left + width * part / most, TOP - 4, left + width * part / most, bottom, "grid")
    for place, row in enumerate(rows):
        y = TOP + step * place + step / 2
        sheet.text(left - 12, y, row.label, anchor="end", middle=True)
        mark = "short" if row.met is False else "ours"
        if row.share is not None:
            sheet.bar(left, y - thickness / 2, width * min(row.share, most) / most, thickness, mark)
        elif row.met is not None:
            sheet.dot(left + 6, y, 4.5, mark)
        sheet.text(left + width + 16, y, row.words, *verdict(row), middle=True)
        sheet.text(left + width + 106, y, row.goal, "quiet", middle=True)
    sheet.line(left, TOP - 4, left, bottom, "axis")
    goal = left + width / most
    sheet.line(goal, TOP - 4, goal, bottom + 6, "axis")
    for part in (0.25, 0.5, 0.75):
        sheet.text(left + width * part / most, bottom + 20, f"{part:.0%}", "small", "quiet", anchor="middle")
    sheet.text(goal, bottom + 20, "target", "small", "bold", anchor="middle")
    return finish(sheet, words)


def verdict(row: Share) -> list[str]:
    if row.met is None:
        return ["quiet"]
    return [] if row.met else ["bold", "short"]


def begin(words: Words, bottom: float, *, summary: Sequence[str]) -> Sheet:
    height = bottom + FOOT_LINE * len(words.foot) + 14
    sheet = Sheet(WIDTH, height, words.title, ". ".join([words.subtitle, *summary]))
    sheet.text(EDGE, 34, words.title, "title")
    sheet.text(EDGE, 55, words.subtitle, "quiet")
    return sheet


def finish(sheet: Sheet, words: Words) -> str:
    for place, line in enumerate(reversed(words.foot)):
        sheet.text(EDGE, sheet.height - 16 - FOOT_LINE * place, line, "small", "quiet")
    return sheet.render()


def powers(low: float, high: float) -> list[float]:
    """The powers of ten from low to high."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    return [10.0**power for power in range(first, last + 1)]


def spread(places: Sequence[float], *, gap: float) -> list[float]:
    """The places, moved apart as little as needed for a line of text each; the order stays."""
    order = sorted(range(len(places)), key=places.__getitem__)
    moved = [places[index] for index in order]
    for _ in range(200):
        for upper in range(len(moved) - 1):
            lack = gap - (moved[upper + 1] - moved[upper])
            if lack > 1e-6:
                moved[upper] -= lack / 2
                moved[upper + 1] += lack / 2
    result = [0.0] * len(places)
    for index, place in zip(order, moved, strict=True):
        result[index] = place
    return result


def size(count: float) -> str:
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count:.3g} B"
