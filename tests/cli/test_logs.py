"""`bullpen logs`: the last entries first found, filtered, followed over a rotation; no server is needed."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import BULLPEN, Command

from bullpen.system.logfile import BLOCK_BYTES, LogFile, lines_from_the_end, log_path

SESSION = "3f2a91c0-0000-4000-8000-000000000000"


@pytest.fixture
def logger(home: Path) -> Iterator[logging.Logger]:
    """Writes what a server would."""
    handler = LogFile(log_path(home / ".local" / "share" / "bullpen"))
    found = logging.getLogger("bullpen.tried")
    found.setLevel(logging.DEBUG)
    found.addHandler(handler)
    yield found
    found.removeHandler(handler)
    handler.close()


def rotate(logger: logging.Logger) -> None:
    [handler] = logger.handlers
    assert isinstance(handler, LogFile)
    handler.doRollover()


async def test_without_a_log_there_is_nothing_to_show(bullpen: Command, home: Path) -> None:
    done = await bullpen("logs")
    assert (done.returncode, done.stdout) == (0, "")
    assert "there is no log at" in done.stderr
    assert not (home / ".local").exists()


async def test_the_last_entries_are_shown_by_level_and_session(
    bullpen: Command, logger: logging.Logger
) -> None:
    """The oldest of them first, also those of the file before; nothing in them is obeyed."""
    logger.info("first")
    rotate(logger)
    logger.warning("session %s is\x1b[2J odd", SESSION)
    logger.info("last")
    told = (await bullpen("logs", "-n", "3")).stdout.splitlines()
    assert [line[20:] for line in told] == [
        "INFO    bullpen.tried: first",
        f"WARNING bullpen.tried: session {SESSION} is\\u001b[2J odd",
        "INFO    bullpen.tried: last",
    ]
    grave = (await bullpen("logs", "--level", "warning", "--session", SESSION[:8], "--json")).stdout
    assert json.loads(grave)["message"].startswith(f"session {SESSION}")
    assert (await bullpen("logs", "-n", "1")).stdout.endswith("INFO    bullpen.tried: last\n")


async def test_a_failure_is_one_entry_with_its_traceback(bullpen: Command, logger: logging.Logger) -> None:
    try:
        raise ValueError("gone\nwrong")
    except ValueError:
        logger.exception("it broke")
    first, *trace = (await bullpen("logs")).stdout.splitlines()
    assert first.endswith("ERROR   bullpen.tried: it broke")
    assert [line.startswith("    ") for line in trace] == [True] * len(trace)
    assert "ValueError: gone" in trace[-2]


def test_the_end_of_a_long_log_is_read_from_the_end(logger: logging.Logger, home: Path) -> None:
    """Lines that lie across blocks come out whole, and in order."""
    for n in range(400):
        logger.info("%d %s", n, "ä" * 500)
    path = log_path(home / ".local" / "share" / "bullpen")
    assert path.stat().st_size > 2 * BLOCK_BYTES
    assert [int(json.loads(line)["message"].split()[0]) for line in lines_from_the_end(path)] == [
        *range(399, -1, -1)
    ]


async def test_following_goes_on_over_a_rotation(bullpen: Command, logger: logging.Logger) -> None:
    logger.info("before")
    process = subprocess.Popen(
        [*BULLPEN, "logs", "-f", "-n", "1", "--json"],
        stdout=subprocess.PIPE,
        text=True,
        env={**bullpen.env, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    seen = [json.loads(process.stdout.readline())["message"]]
    logger.info("while")
    rotate(logger)
    logger.info("after")
    seen += [json.loads(process.stdout.readline())["message"] for _ in range(2)]
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert (seen, process.returncode) == (["before", "while", "after"], 130)


def test_a_disk_that_takes_nothing_stops_nobody(tmp_path: Path) -> None:
    """The one who logs notices nothing."""
    handler = LogFile(tmp_path / "logs" / "bullpen.log")
    (tmp_path / "logs" / "bullpen.log").symlink_to("/dev/full")
    record = logging.LogRecord("bullpen", logging.INFO, "", 0, "hello", (), None)
    handler.handle(record)
    handler.close()
