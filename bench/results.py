"""Result files of the driver: how they are read, what is added before they are kept, and how a figure is found.

A suite may be missing (not run) or hold an `error`; either way its figures are None, and whoever shows them says so.
"""

from __future__ import annotations

import json
import os
import platform
import re
from pathlib import Path
from typing import Any

from bench.errors import BenchError

# The driver's JSON differs from suite to suite; `figure` is the one place that looks into it.
Result = dict[str, Any]
Machine = dict[str, str | float]

PATH = re.compile(r"(?<![\w.])/[\w.+-]+/[\w./+-]*\w")
"""An absolute path, as it stands in the last words of a server that died."""


def load(path: Path) -> Result:
    """Raises BenchError for a file that is missing or is no result of the driver."""
    try:
        result = json.loads(path.read_bytes())
    except OSError as error:
        raise BenchError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise BenchError(f"{path} is not JSON: {error}") from error
    if not isinstance(result, dict) or "peer" not in result:
        raise BenchError(f"{path} is not a result file of the driver: it names no peer")
    return result


def load_if_there(path: Path) -> Result | None:
    return load(path) if path.exists() else None


def save(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def figure(result: Result | None, *keys: str) -> float | None:
    """The number at `keys`, the first of which is the suite."""
    value: object = result
    for key in keys:
        if not isinstance(value, dict) or "error" in value:
            return None
        value = value.get(key)
    return float(value) if isinstance(value, int | float) else None


def fan_out(
    result: Result | None, key: str, *, tokens: int = 10_000, rate: int = 1_000, clients: int = 100
) -> float | None:
    """A figure of suite d: one answer of `tokens` at `rate` per second, shown to `clients`."""
    for row in rows(result, "d"):
        if (row.get("tokens"), row.get("rate"), row.get("clients")) == (tokens, rate, clients):
            return figure(row, key)
    return None


def rows(result: Result | None, suite: str) -> list[Result]:
    """The rows of a suite that measures the same thing at several sizes."""
    found = (result or {}).get(suite)
    listed = found.get("rows") if isinstance(found, dict) else None
    return listed if isinstance(listed, list) else []


def died(result: Result | None, suite: str) -> bool:
    """Whether the server's process ended in this suite, however often it was started again."""
    found = (result or {}).get(suite)
    return isinstance(found, dict) and "error" in found and bool(found.get("crashes"))


def date(result: Result | None) -> str | None:
    when = (result or {}).get("when")
    return when[:10] if isinstance(when, str) else None


def to_keep(result: Result, facts: Machine) -> Result:
    """The result with the machine's facts, and without the paths that a server may have mentioned as it died."""
    return {**without_paths(result), "machine": facts}


def machine() -> Machine:
    """What the figures depend on; nothing that says whose machine it is."""
    return {
        "cores": os.cpu_count() or 1,
        "cpu": cpu_model(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 1),
    }


def cpu_model() -> str:
    try:
        facts = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.machine()
    named = re.search(r"^model name\s*:\s*(.+)$", facts, re.MULTILINE)
    return re.sub(r"\((R|TM)\)", "", named[1]) if named else platform.machine()


def without_paths(value: Any) -> Any:
    match value:
        case str():
            return PATH.sub("…", value)
        case list():
            return [without_paths(item) for item in value]
        case dict():
            return {key: without_paths(item) for key, item in value.items()}
        case _:
            return value
