"""Lengths of time as people write them."""

from __future__ import annotations

import re

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s|m|h)")
_UNIT_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}

NANOSECONDS_FROM = 1_000_000
"""Older files give nanoseconds. Nobody means a limit below a millisecond, so smaller numbers are seconds."""


def seconds(value: object) -> float:
    """A span in seconds: `"1m30s"`, `10`, or the nanoseconds of older files. Raises `ValueError`."""
    if isinstance(value, str):
        text = value.strip()
        if re.fullmatch(r"\d+(\.\d+)?", text):
            return seconds(float(text))
        if not text or _DURATION.sub("", text).strip():
            raise ValueError(f'{value!r} is not a duration; write for example "10s" or "2m"')
        value = sum(float(number) * _UNIT_S[unit] for number, unit in _DURATION.findall(text))
        if value < float("inf"):
            return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise ValueError(f'{value!r} is not a duration; write for example "10s" or "2m"')
    return value / 1e9 if value >= NANOSECONDS_FROM else float(value)
