"""What all tests share."""

from __future__ import annotations

from typing import Protocol

import hypothesis
import pytest
from tests.campaign import record, sized

hypothesis.settings.register_profile("sized", max_examples=sized(40, 1_000), deadline=None)
hypothesis.settings.load_profile("sized")


class Figure(Protocol):
    def __call__(self, promise: str, layer: str, figure: str) -> None: ...


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Figure:
    """Note under this test's name what was found: `figure("R-01", "KILL", "0 of 5,120 lost in 1,000 kills")`."""
    test = f"{request.path.relative_to(request.config.rootpath)}::{request.node.name}"

    def note(promise: str, layer: str, figure: str) -> None:
        record(promise, layer, test, figure)

    return note
