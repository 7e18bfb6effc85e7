"""Installs the packages before the tests, whose time is limited."""

from __future__ import annotations

import pytest
from tests.node import installed

try:
    installed()
except pytest.skip.Exception as exc:
    print(exc)
