"""What the fuzzers share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.faults.fuzz.target import Target, new_target


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    """One for a whole module; whatever a test does to it, it must be alive afterwards."""
    with new_target() as target:
        yield target
