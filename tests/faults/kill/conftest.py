"""A home of its own for each campaign."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.journeys.server import Bullpen, new_home


@pytest.fixture
def home() -> Iterator[Bullpen]:
    """A home whose server is not running yet."""
    with new_home() as bullpen:
        yield bullpen
