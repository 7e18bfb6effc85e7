"""The examples of the documentation do what they say."""

import os
import subprocess
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from tests.client.conftest import Home

EXAMPLES = Path(__file__).parent.parent.parent / "docs" / "examples"

pytestmark = pytest.mark.timeout(90)


async def test_ask_and_watch(home: Home) -> None:
    """One program asks, the other sees it happen."""
    env = {**home.env, "PYTHONUNBUFFERED": "1"}
    where = str(home.project)
    with subprocess.Popen(
        [sys.executable, EXAMPLES / "watch.py", where], env=env, stdout=subprocess.PIPE, text=True
    ) as watch:
        assert watch.stdout
        assert "0 sessions, 0 open asks" in await anyio.to_thread.run_sync(watch.stdout.readline)
        asked = await anyio.to_thread.run_sync(
            lambda: subprocess.run(
                [sys.executable, EXAMPLES / "ask.py", where, "hello"],
                env=env,
                capture_output=True,
                text=True,
                check=True,
            )
        )
        watch.send_signal(2)
        seen, _ = await anyio.to_thread.run_sync(watch.communicate)
    assert "Welcome to Bullpen" in asked.stdout
    assert asked.stdout.endswith("\n[done]\n")
    assert "prompt: 'hello'" in seen
    assert "is over" in seen
    assert os.listdir(home.project) == []
