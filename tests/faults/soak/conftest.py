"""What the fault campaigns share: homes with real servers in them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.journeys.server import Bullpen, new_home


@pytest.fixture
def home() -> Iterator[Bullpen]:
    """A home whose server is not running yet. It is started in earnest, as what is there from the start is looked at."""
    with new_home() as bullpen:
        bullpen.warm = False
        yield bullpen


@pytest.fixture
def bullpen(home: Bullpen) -> Bullpen:
    """A running server of the test's own."""
    return home.start()
