"""Failpoints end the process where they are told to, and do nothing where they are not."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.journeys.server import new_home

from bullpen.errors import ConfigError
from bullpen.system import failpoints

CHILD = """
import os
from bullpen.system import failpoints
failpoints.arm(os.environ)
for n in range(3):
    failpoints.hit("turn-begun")
    print(n, flush=True)
"""


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoints.arm({})


def run(order: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        env={failpoints.VARIABLE: order},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_without_the_variable_nothing_happens() -> None:
    assert run("") == (0, "0\n1\n2\n")


def test_the_process_ends_at_the_named_moment() -> None:
    """The second time it comes."""
    assert run("turn-begun=kill@2") == (-signal.SIGKILL, "0\n")
    assert run("turn-ended=kill,turn-begun=kill@3") == (-signal.SIGKILL, "0\n1\n")


@pytest.mark.parametrize(
    "order", ["no-such-moment=kill", "turn-begun", "turn-begun=sleep", "turn-begun=kill@x"]
)
def test_what_is_not_understood_is_refused(order: str) -> None:
    with pytest.raises(ConfigError, match="BULLPEN_FAILPOINTS"):
        failpoints.arm({failpoints.VARIABLE: order})


def test_a_server_does_not_start_with_an_unknown_failpoint() -> None:
    with new_home() as home:
        home.env[failpoints.VARIABLE] = "no-such-moment=kill"
        done = home.run_to_end(*home.arguments)
    assert done.returncode == 1
    assert "no-such-moment" in done.stderr
