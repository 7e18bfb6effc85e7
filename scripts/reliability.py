"""Writes what the proofs found into docs/reliability.md.

    python scripts/reliability.py build/figures.jsonl [MORE.jsonl ...]

Of two figures of the same proof the one of the longer run counts, and of equal runs the later one.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reliability.md"
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
    table = "\n".join([BEGIN, "", *_table(sorted(latest.values())), "", END])
    PAGE.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: table, page, flags=re.DOTALL))
    silent = sorted(_promised(page) - {proof.promise for proof in latest.values()})
    print(f"{len(latest)} proofs" + (f"; no figure for {', '.join(silent)}" if silent else ""))


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
