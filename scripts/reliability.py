"""Writes what the proofs found into docs/reliability.md.

    python scripts/reliability.py build/figures.jsonl [MORE.jsonl ...]

Of two figures of the same proof the one of the longer run counts, and of equal runs the later one. The parts of a proof that
was shared among processes become one line: counts are added up, of times and sizes the largest is told.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reliability.md"
NUMBER = re.compile(r"(?<![\w.])(?!202 p)\d+(?:,\d{3})*(?:\.\d+)?")
"""Not `p99`, not the status 202."""

MEASURED = re.compile(r"\s?(?:ms|s|h|MiB|KiB|×|%)\b|\s?[×%]")
"""What follows a number that is not a count."""

BEGIN, END = "<!-- figures: written by scripts/reliability.py -->", "<!-- end of figures -->"


class Proof(NamedTuple):
    promise: str
    layer: str
    test: str
    figure: str
    size: str
    at: str


def main(files: list[str]) -> None:
    if not files:
        sys.exit(__doc__)
    latest: dict[tuple[str, str, str], Proof] = {}
    for file in files:
        for line in Path(file).read_text().splitlines():
            proof = Proof(**json.loads(line))
            key = (proof.promise, proof.layer, proof.test)
            if key not in latest or proof.size == "long" or latest[key].size != "long":
                latest[key] = proof
    page = PAGE.read_text()
    table = "\n".join([BEGIN, "", *_table(_joined(sorted(latest.values()))), "", END])
    PAGE.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: table, page, flags=re.DOTALL))
    silent = sorted(_promised(page) - {proof.promise for proof in latest.values()})
    print(f"{len(latest)} figures" + (f"; no figure for {', '.join(silent)}" if silent else ""))


def _joined(proofs: list[Proof]) -> list[Proof]:
    """One proof for all parts of a test that found the same kind of thing."""
    parts: dict[tuple[str, ...], list[Proof]] = {}
    for proof in proofs:
        name = proof.test.partition("[")[0]
        key = (proof.promise, proof.layer, name, NUMBER.sub("#", proof.figure), proof.size)
        parts.setdefault(key, []).append(proof)
    return [
        part[0]._replace(test=key[2], figure=_added([proof.figure for proof in part]))
        for key, part in parts.items()
    ]


def _added(figures: list[str]) -> str:
    numbers = [[_number(found[0]) for found in NUMBER.finditer(figure)] for figure in figures]
    first = figures[0]
    pieces, at = [], 0
    for found, column in zip(NUMBER.finditer(first), zip(*numbers, strict=True), strict=True):
        is_measured = MEASURED.match(first, found.end()) or "." in found[0]
        pieces += [first[at : found.start()], f"{max(column) if is_measured else sum(column):,}"]
        at = found.end()
    return "".join([*pieces, first[at:]])


def _number(text: str) -> float | int:
    plain = text.replace(",", "")
    return float(plain) if "." in plain else int(plain)


def _table(proofs: list[Proof]) -> list[str]:
    rows = ["| promise | layer | found | size | date | proof |", "|---|---|---|---|---|---|"]
    for proof in proofs:
        test = proof.test.removeprefix("tests/")
        rows.append(
            f"| {proof.promise} | {proof.layer} | {proof.figure} | {proof.size} | {proof.at} | `{test}` |"
        )
    return rows


def _promised(page: str) -> set[str]:
    """The promises that the page makes in its own words."""
    return set(re.findall(r"^\| ([RX]-\d\d) \|", page.partition(BEGIN)[0], flags=re.MULTILINE))


if __name__ == "__main__":
    main(sys.argv[1:])
