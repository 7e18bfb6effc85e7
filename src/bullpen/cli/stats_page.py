"""What models cost and how often tools were called, as one HTML page: no script, nothing from outside, light or dark as the reader likes it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from bullpen.present.inert import inert_line
from bullpen.present.spending import took
from bullpen.schema.agent import SpentRow, ToolCallsRow

DAY_S = 86_400
MOST_DAYS = 60
MOST_ROWS = 15
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

WIDTH, HEIGHT = 900, 180
CELL = 30

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --dim: #6b7280; --paper: #fdfdfc; --line: #e2e4e8; --a: #2f6fde; --b: #8ab4f8;
  --c: #e0903a }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --dim: #9aa3af; --paper: #14171b; --line: #2b3038; --a: #6ea8ff;
  --b: #34558b; --c: #f0b060 } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 60rem; margin: 2rem auto;
  padding: 0 1rem }
h1 { font-size: 1.4rem } h2 { font-size: 1.05rem; margin: 2.2rem 0 .5rem }
p.dim, td.dim, text { color: var(--dim); fill: var(--dim) } text { font-size: 11px }
svg { width: 100%; height: auto } table { border-collapse: collapse; width: 100% }
td, th { padding: .2rem .8rem .2rem 0; text-align: right; font-variant-numeric: tabular-nums } th { font-weight: 600 }
td:first-child, th:first-child { text-align: left; word-break: break-all }
tr { border-bottom: 1px solid var(--line) } dl { display: flex; flex-wrap: wrap; gap: 1rem 2.5rem } dd { margin: 0; font-size: 1.4rem }
dt { color: var(--dim) } .a { fill: var(--a) } .b { fill: var(--b) } .c { fill: var(--c) } .n { fill: var(--line) }
"""


class Spending(NamedTuple):
    """What the page is made of. `hours` are hours since the epoch."""

    workspace: str
    days: Sequence[SpentRow]
    hours: Sequence[SpentRow]
    models: Sequence[SpentRow]
    senders: Sequence[SpentRow]
    tools: Sequence[ToolCallsRow]
    people: Sequence[SpentRow]
    sessions: int


def page(spent: Spending, now: float) -> str:
    """The whole document."""
    title = f"Bullpen: what models cost in {inert_line(spent.workspace)}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="dim">Made {time.strftime("%Y-%m-%d %H:%M", time.localtime(now))}. Days are UTC, hours are local.</p>',
        _totals(spent),
        "<h2>Dollars per day</h2>",
        _bars([(day, (row.cost,)) for day, row in _days(spent.days, now)], "${:,.4f}", ("a",)),
        "<h2>Tokens per day</h2>",
        _bars(
            [(day, _tokens(row)) for day, row in _days(spent.days, now)], "{:,.0f} tokens", ("a", "b", "c")
        ),
        '<p class="dim">From below: new input, cached input, output.</p>',
        "<h2>By hour and weekday</h2>",
        _heat(spent.hours),
        _table("By model", spent.models),
        _table("By kind of sub-agent", [row for row in spent.senders if row.key]),
        _table("By person", spent.people),
        _called(spent.tools),
    ]
    body = "\n".join(filter(None, parts))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">\n'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>\n{body}\n</body></html>\n"
    )


def _totals(spent: Spending) -> str:
    facts = {
        "dollars": f"${sum(row.cost for row in spent.models):,.2f}",
        "model calls": f"{sum(row.calls for row in spent.models):,}",
        "tokens in": f"{sum(row.input + row.cache_read + row.cache_write for row in spent.models):,}",
        "of them cached": f"{sum(row.cache_read for row in spent.models):,}",
        "tokens out": f"{sum(row.output for row in spent.models):,}",
        "tool calls": f"{sum(row.calls for row in spent.tools):,}",
        "sessions": f"{spent.sessions:,}",
    }
    return (
        "<dl>"
        + "".join(f"<div><dt>{name}</dt><dd>{fact}</dd></div>" for name, fact in facts.items())
        + "</dl>"
    )


def _days(rows: Sequence[SpentRow], now: float) -> list[tuple[str, SpentRow]]:
    """Every day from the first to today, also those on which nothing happened; of many the last."""
    known = {int(row.key): row for row in rows}
    today = int(now) // DAY_S
    first = max(min(known, default=today), today - MOST_DAYS + 1)
    nothing = SpentRow(key="", calls=0, input=0, output=0, cache_read=0, cache_write=0, cost=0, estimated=0)
    return [
        (time.strftime("%Y-%m-%d", time.gmtime(day * DAY_S)), known.get(day, nothing))
        for day in range(first, today + 1)
    ]


def _tokens(row: SpentRow) -> tuple[float, ...]:
    return (row.input + row.cache_write, row.cache_read, row.output)


def _bars(columns: Sequence[tuple[str, tuple[float, ...]]], form: str, kinds: Sequence[str]) -> str:
    """A column per day, its parts upon each other; the highest is as high as there is room."""
    highest = max((sum(values) for _, values in columns), default=0) or 1
    step = WIDTH / max(len(columns), 7)
    drawn: list[str] = []
    for n, (name, values) in enumerate(columns):
        below, told = float(HEIGHT), escape(f"{name}: {form.format(sum(values))}")
        for value, kind in zip(values, kinds, strict=True):
            tall = value / highest * (HEIGHT - 20)
            below -= tall
            drawn.append(
                f'<rect class="{kind}" x="{n * step:.1f}" y="{below:.1f}" width="{step * 0.8:.1f}" height="{tall:.1f}">'
                f"<title>{told}</title></rect>"
            )
    first, last = (columns[0][0], columns[-1][0]) if columns else ("", "")
    marks = (
        f'<text x="0" y="{HEIGHT + 16}">{first}</text><text x="{WIDTH}" y="{HEIGHT + 16}" text-anchor="end">{last}</text>'
        f'<text x="{WIDTH}" y="12" text-anchor="end">{escape(form.format(highest))}</text>'
    )
    base = f'<rect class="n" x="0" y="{HEIGHT}" width="{WIDTH}" height="1"/>'
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT + 20}" role="img">{"".join(drawn)}{base}{marks}</svg>'


def _heat(rows: Iterable[SpentRow]) -> str:
    """Model calls by local weekday and hour; the darkest cell has the most."""
    calls: dict[tuple[int, int], int] = {}
    for row in rows:
        when = time.localtime(int(row.key) * 3600)
        place = (when.tm_wday, when.tm_hour)
        calls[place] = calls.get(place, 0) + row.calls
    most = max(calls.values(), default=1)
    cells: list[str] = []
    for day, name in enumerate(WEEKDAYS):
        cells.append(f'<text x="0" y="{day * CELL + 20}">{name}</text>')
        for hour in range(24):
            count = calls.get((day, hour), 0)
            look = (
                f'class="a" opacity="{0.25 + 0.75 * count / most:.2f}"'
                if count
                else 'class="n" opacity="0.5"'
            )
            cells.append(
                f'<rect {look} x="{40 + hour * CELL}" y="{day * CELL}" width="{CELL - 3}" height="{CELL - 3}" rx="3">'
                f"<title>{name} {hour:02}:00: {count:,} calls</title></rect>"
            )
    hours = "".join(
        f'<text x="{40 + hour * CELL}" y="{7 * CELL + 14}">{hour:02}</text>' for hour in range(0, 24, 3)
    )
    return f'<svg viewBox="0 0 {40 + 24 * CELL} {7 * CELL + 20}" role="img">{"".join(cells)}{hours}</svg>'


def _table(title: str, rows: Sequence[SpentRow]) -> str:
    if not rows:
        return ""
    dearest = max(row.cost for row in rows) or 1
    lines = [
        f"<tr><td>{escape(inert_line(row.key) or '(nobody)')}</td><td>${row.cost:,.4f}</td><td>{row.calls:,}</td>"
        f"<td>{row.input + row.cache_read + row.cache_write:,}</td><td>{row.output:,}</td>"
        f'<td><svg viewBox="0 0 100 8" style="width: 8rem"><rect class="a" width="{row.cost / dearest * 100:.1f}" height="8"/></svg>'
        "</td></tr>"
        for row in rows[:MOST_ROWS]
    ]
    head = "<tr><th></th><th>dollars</th><th>calls</th><th>tokens in</th><th>out</th><th></th></tr>"
    return f"<h2>{escape(title)}</h2><table>{head}{''.join(lines)}</table>{_more(rows)}"


def _called(rows: Sequence[ToolCallsRow]) -> str:
    """A bar per tool: the calls that went well, then those that failed."""
    if not rows:
        return ""
    most = max(row.calls for row in rows)
    lines = [
        f"<tr><td>{escape(inert_line(row.key))}</td><td>{row.calls:,}</td><td>{row.failed:,}</td><td>{took(row.took_s)}</td>"
        f"<td>{_split(row.calls / most * 100, row.failed / most * 100)}</td></tr>"
        for row in rows[:MOST_ROWS]
    ]
    head = "<tr><th></th><th>calls</th><th>failed</th><th>took in all</th><th></th></tr>"
    note = '<p class="dim">Blue went well, orange failed or was refused. Waiting for somebody\'s answer takes no time here.</p>'
    return f"<h2>By tool that was called</h2><table>{head}{''.join(lines)}</table>{_more(rows)}{note}"


def _split(width: float, end: float) -> str:
    return (
        f'<svg viewBox="0 0 100 8" style="width: 16rem"><rect class="a" width="{width - end:.1f}" height="8"/>'
        f'<rect class="c" x="{width - end:.1f}" width="{end:.1f}" height="8"/></svg>'
    )


def _more(rows: Sequence[SpentRow | ToolCallsRow]) -> str:
    return f'<p class="dim">and {len(rows) - MOST_ROWS} more</p>' if len(rows) > MOST_ROWS else ""
