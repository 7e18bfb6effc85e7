"""Which figures go into which chart, and the words around them. The README shows what is drawn here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.forms import Bar, Share, Trace, Words, bars, shares, traces
from bench.results import Result, date, died, fan_out, figure, rows
from bench.sittings import Sitting
from bench.targets import PASS, SHORT, Row

PEERS = Path(__file__).with_name("peers.json")

# Figures of other servers, by the names they have in peers.json.
Peer = dict[str, Any]

FLOOR = "Floor: the least a Python server can do on this wire, without storage and without an agent."

STREAMED = "d. 10,000 tok at 1,000/s to 100 clients: "
SHORT_NAMES = {
    STREAMED + "server CPU": "100 clients: server CPU",
    STREAMED + "token latency p99": "100 clients: token latency p99",
    STREAMED + "bytes per client": "100 clients: bytes per client",
    STREAMED + "lost or reloaded": "100 clients: lost or reloaded",
    STREAMED + "deltas that do not fit": "100 clients: deltas that do not fit",
    "g. others' p99, with / without a slow client": "slow client: others' p99, with / without",
    "g. sessions the slow client has not whole or not ended": "slow client: sessions it lacks",
    "g. extra peak RSS": "slow client: extra peak RSS",
    "h2. lost": "100 sessions: lost",
    "h2. server CPU": "100 sessions: server CPU",
}


def peers() -> list[Peer]:
    listed: list[Peer] = json.loads(PEERS.read_bytes())["peers"]
    return listed


def draw(sitting: Sitting, directory: Path) -> list[Path]:
    """Write every chart that there are figures for; the files written."""
    charts = {
        "cpu.svg": stream_cpu(sitting),
        "latency.svg": stream_latency(sitting),
        "growth.svg": growth(sitting),
        "turns.svg": turns(sitting),
        **{f"targets-{form}.svg": targets(sitting, form) for form in ("deltas", "whole")},
    }
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for name, chart in charts.items():
        # A chart of an earlier run would pass for one of this.
        (directory / name).unlink(missing_ok=True)
        if chart is not None:
            (directory / name).write_text(chart)
            written.append(directory / name)
    return written


def stream_cpu(sitting: Sitting) -> str | None:
    return stream(
        sitting,
        Words(
            "Server CPU: one answer of 10,000 tokens, shown live to 100 clients",
            "Seconds of CPU, less is better. The model sends 1,000 tokens a second.",
            foot(sitting, others(sitting), FLOOR),
        ),
        key="best_cpu_s",
        peer_key="stream_cpu_s",
        unit="s",
    )


def stream_latency(sitting: Sitting) -> str | None:
    return stream(
        sitting,
        Words(
            "Token latency: from the model to 100 clients, 99th percentile",
            "Milliseconds on a logarithmic scale, less is better. 10,000 tokens at 1,000 a second.",
            foot(sitting, others(sitting), FLOOR),
        ),
        key="best_lat_p99_ms",
        peer_key="stream_latency_p99_ms",
        unit="ms",
        logarithmic=True,
    )


def stream(
    sitting: Sitting, words: Words, *, key: str, peer_key: str, unit: str, logarithmic: bool = False
) -> str | None:
    """One figure of the answer that 100 clients watch, for everybody who was measured with it."""
    ours = [
        Bar("Bullpen, whole messages", fan_out(sitting.whole, key), "ours2"),
        Bar("Bullpen, deltas", fan_out(sitting.deltas, key), "ours"),
    ]
    if all(bar.value is None for bar in ours):
        return None
    base = fan_out(sitting.reference, key)
    shown = [
        *sorted(peer_bars(peer_key), key=lambda bar: -(bar.value or 0)),
        Bar(reference_name(sitting), base, "reference"),
        *ours,
        Bar("floor, whole messages", fan_out(sitting.floor_whole, key), "peer", hollow=True),
        Bar("floor, deltas", fan_out(sitting.floor, key), "peer", hollow=True),
    ]
    return bars(words, labelled(shown, unit, base), unit=unit, logarithmic=logarithmic)


def turns(sitting: Sitting) -> str | None:
    """A server that dies has no bar, and says so. The floor keeps nothing on disk: it is named below, not drawn."""
    keys = ("c2", "concurrent32_turns_per_s")
    ours = [
        Bar("Bullpen, whole messages", figure(sitting.whole, *keys), "ours2"),
        Bar("Bullpen, deltas", figure(sitting.deltas, *keys), "ours"),
    ]
    if all(bar.value is None for bar in ours):
        return None
    base = figure(sitting.reference, *keys)
    ends = "its process ends, each time" if died(sitting.reference, keys[0]) else ""
    floor = figure(sitting.floor, *keys)
    aside = [f"The floor, a bare Python server that stores nothing: {three(floor)}/s."] if floor else []
    return bars(
        Words(
            "Turns per second: 32 sessions prompted at once",
            "Turns of one token, more is better. Bullpen has each prompt on disk, synced, before it accepts it.",
            foot(sitting, others(sitting), *aside),
        ),
        labelled(
            [
                Bar(reference_name(sitting), base, "reference", words=ends),
                *sorted(peer_bars("turns_per_s"), key=lambda bar: bar.value or 0),
                *ours,
            ],
            "/s",
            base,
        ),
        unit="/s",
    )


def peer_bars(key: str) -> list[Bar]:
    return [Bar(named(peer), peer.get(key), "peer") for peer in peers()]


def labelled(shown: Sequence[Bar], unit: str, base: float | None) -> list[Bar]:
    """With figure and ratio in words. A bar that has neither figure nor words is left out."""
    return [
        replace(bar, words=f"{three(bar.value)} {unit}", ratio=ratio(bar.value, base))
        if bar.value is not None
        else bar
        for bar in shown
        if bar.value is not None or bar.words
    ]


def growth(sitting: Sitting) -> str | None:
    ours = [
        grown("Bullpen, whole messages", sitting.whole, "ours2"),
        grown("Bullpen, deltas", sitting.deltas, "ours"),
    ]
    if not any(line.points for line in ours):
        return None
    lines = [
        grown(reference_name(sitting), sitting.reference, "reference"),
        *(
            Trace(peer["name"], [(float(x), y) for x, y in peer.get("bytes_per_client", {}).items()], "peer")
            for peer in peers()
        ),
        *ours,
    ]
    return traces(
        Words(
            "What a longer answer costs each client",
            "Bytes received for one answer, less is better. n^1 grows in step with the answer, n^2 with its square.",
            foot(sitting, others(sitting)),
        ),
        [line for line in lines if line.points],
        x_name="tokens in the answer, 1,000 a second to 10 clients",
    )


def grown(name: str, result: Result | None, mark: str) -> Trace:
    points = [
        (tokens, received)
        for row in rows(result, "e")
        if (tokens := figure(row, "tokens")) and (received := figure(row, "bytes_per_client"))
    ]
    return Trace(name, points, mark, exponent=figure(result, "e", "bytes_exponent"))


def targets(sitting: Sitting, form: str) -> str | None:
    listed = sitting.targets.get(form)
    if not listed:
        return None
    met = sum(row.mark == PASS for row in listed)
    reference = sitting.reference or {}
    judged_by = " ".join(str(reference[key]) for key in ("peer", "version") if reference.get(key))
    stream_form = "deltas" if form == "deltas" else "whole messages"
    return shares(
        Words(
            f"The targets, with {stream_form}: {met} of {len(listed)} met",
            "How much of what is allowed is used, less is better. A dot: a count that has to be 0.",
            foot(sitting, f"ref.: {judged_by}."),
        ),
        [as_share(row) for row in listed],
    )


def as_share(row: Row) -> Share:
    met = {PASS: True, SHORT: False}.get(row.mark)
    goal = "must be 0" if row.target == "0" else row.target.replace("reference", "ref.")
    words = f"{row.ratio} ×" if "reference" in row.target else row.ours
    return Share(
        short_name(row.measure), row.share_of_target, words if met is not None else row.mark, goal, met
    )


def short_name(measure: str) -> str:
    """Without the letter of its suite; shorter, or longer, where it has to stand alone."""
    return SHORT_NAMES.get(measure) or measure.partition(". ")[2] or measure


def foot(sitting: Sitting, *more: str) -> list[str]:
    """Who measured what, when and where; and what else a reader of this chart has to know."""
    ours = sitting.deltas or sitting.whole or {}
    facts = ours.get("machine")
    where = [
        f"{ours.get('peer', 'Bullpen')} {str(ours.get('version', '')).partition(' ')[0]}".rstrip(),
        *([f"{facts['cores']} cores, {facts['cpu']}, Python {facts['python']}"] if facts else []),
        *([day] if (day := date(ours)) else []),
    ]
    return [f"Measured by ./bench/run: {' · '.join(where)}.", *more]


def others(sitting: Sitting) -> str:
    """Where the figures of the other servers come from."""
    if date(sitting.reference) is None:
        return "Other servers: the shared driver's baseline on 2 cores, each over its own API (bench/peers.json)."
    return (
        f"{reference_name(sitting)}: the same run. Others: the shared driver's baseline (bench/peers.json)."
    )


def reference_name(sitting: Sitting) -> str:
    name = (sitting.reference or {}).get("peer", "reference")
    return f"{name} (reference)" if name != "reference" else name


def named(peer: Peer) -> str:
    return f"{peer['name']} {peer['version']}" if len(peer["name"]) < 20 else str(peer["name"])


def three(value: float) -> str:
    """Three digits, whatever the size."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def ratio(value: float, base: float | None) -> str:
    """Over the reference's figure: "1/12" where it is half or less, "2.4 ×" otherwise."""
    if not base or value <= 0:
        return ""
    times = value / base
    return f"{two(times)} ×" if times > 0.5 else f"1/{two(1 / times)}"


def two(value: float) -> str:
    """Two digits, or all that stand before the point."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}".removesuffix(".0")
