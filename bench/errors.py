"""The one error of the bench: what is wrong and what the person can do, in one line."""

from __future__ import annotations


class BenchError(Exception):
    """Nothing more can be measured; the message names the next step."""
