"""What the tests of the bench share: a sitting recorded from real runs, cut down to a few suites."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import sittings
from bench.sittings import Sitting

SAMPLE = Path(__file__).parent / "sample"


@pytest.fixture
def sitting() -> Sitting:
    return sittings.load(SAMPLE)
