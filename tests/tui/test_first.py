"""Sitting down: the first screen, a prompt, an answer, and leaving."""

import pytest
from tests.tui.conftest import Desks

pytestmark = pytest.mark.anyio


async def test_a_prompt_is_typed_and_answered(desks: Desks) -> None:
    project = desks.project({"when": "hello", "say": "Hello to you."})
    async with desks.sit(project) as ana:
        await ana.type("hello there\n")
        await ana.until_shown("hello there", "Hello to you.")
