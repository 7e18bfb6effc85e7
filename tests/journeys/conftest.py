"""What the journeys share: a home with a server in it, started or not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.journeys.server import Bullpen, new_home
from tests.journeys.vendor import Vendor, playing_vendor


@pytest.fixture
def home() -> Iterator[Bullpen]:
    """A home whose server is not running yet."""
    with new_home() as bullpen:
        yield bullpen


@pytest.fixture
def fresh(home: Bullpen) -> Bullpen:
    """A running server in a home that nobody has used."""
    return home.start()


@pytest.fixture(scope="module")
def shared() -> Iterator[Bullpen]:
    """A server for a whole module; whatever a test does to it, it must be alive afterwards."""
    with new_home() as bullpen:
        yield bullpen.start()


@pytest.fixture
def bullpen(shared: Bullpen) -> Iterator[Bullpen]:
    """The module's server, to be killed and started again as the test likes: it lives again afterwards."""
    yield shared
    if shared.process.poll() is not None:
        shared.restart()


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    """A host that plays a model's vendor."""
    with playing_vendor() as playing:
        yield playing
