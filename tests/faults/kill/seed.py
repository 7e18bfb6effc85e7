"""Where a campaign's choices come from."""

from __future__ import annotations

import os


def new_seed() -> str:
    """`BULLPEN_SEED` of the environment, or one of its own; every failure names it."""
    return os.environ.get("BULLPEN_SEED") or os.urandom(4).hex()
