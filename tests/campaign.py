"""How large a proof runs, and where it writes down what it found.

Every promise of docs/reliability.md is proven at a size that fits each change. `./test long` sets `BULLPEN_LONG=1` for the
large sizes, and `BULLPEN_FIGURES` to a file in which the proofs leave their figures, one JSON object per line.
"""

from __future__ import annotations

import datetime
import json
import os
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

LONG = os.environ.get("BULLPEN_LONG") == "1"


def sized(per_change: T, long: T) -> T:
    """The size for this run."""
    return long if LONG else per_change


def record(promise: str, layer: str, test: str, figure: str) -> None:
    """Note what a proof found: "R-01", "KILL", the test's name, "0 of 5,120 lost in 1,000 kills"."""
    where = os.environ.get("BULLPEN_FIGURES")
    if not where:
        return
    line = {
        "promise": promise,
        "layer": layer,
        "test": test,
        "figure": figure,
        "size": "long" if LONG else "per change",
        "at": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    # One write: processes that share the file do not tear each other's lines.
    with Path(where).open("ab", buffering=0) as file:
        file.write(json.dumps(line).encode() + b"\n")
