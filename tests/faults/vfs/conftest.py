"""What the tests with a failing disk share."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from tests.faults.vfs.disk import Disk


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def disk() -> Iterator[Disk]:
    made = Disk(f"faults-{uuid.uuid4()}")
    yield made
    made.unregister()
