"""One `bullpen` command carried to its end, in this process where nothing but its words and its status is asked for.

An interpreter and its imports take half a second, the command itself some milliseconds. Commands that listen for
signals or read from a descriptor of their own get a process all the same.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TextIO

from tests.warm import run_warm

from bullpen.cli.main import main

BULLPEN = [sys.executable, "-P", "-m", "bullpen.cli.main"]

PROCESSES = {"attach", "run", "server"}

_alone = threading.Lock()
"""Environment, directory and streams belong to the whole process."""


def carry_out(
    arguments: Sequence[str], *, env: Mapping[str, str], cwd: Path, stdin: str = "", limit_s: float = 40
) -> subprocess.CompletedProcess[str]:
    """Run it as the user of `env` would in `cwd`, and wait for its end."""
    if PROCESSES.isdisjoint(arguments) or "--help" in arguments:
        # In a thread of its own: what a test's loop left in this one, a command would take for a loop that runs.
        with _alone, ThreadPoolExecutor(1) as thread:
            return thread.submit(_here, arguments, env, cwd, stdin).result()
    done = run_warm(arguments, env=env, cwd=cwd, stdin=stdin.encode(), limit_s=limit_s)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def _here(
    arguments: Sequence[str], env: Mapping[str, str], cwd: Path, stdin: str
) -> subprocess.CompletedProcess[str]:
    ours = dict(os.environ), Path.cwd(), sys.argv, (sys.stdin, sys.stdout, sys.stderr)
    out, err = io.BytesIO(), io.BytesIO()
    streams = [io.TextIOWrapper(bare, "utf-8") for bare in (io.BytesIO(stdin.encode()), out, err)]
    status: object = None
    try:
        _become(env, cwd, ["bullpen", *arguments], streams)
        main()
    except SystemExit as exc:
        status = exc.code
    except Exception:
        # As an interpreter ends.
        traceback.print_exc()
        status = 1
    finally:
        _become(*ours)
    assert isinstance(status, int)
    for stream in streams[1:]:
        stream.flush()
    return subprocess.CompletedProcess(
        [*BULLPEN, *arguments], status, out.getvalue().decode(), err.getvalue().decode()
    )


def _become(env: Mapping[str, str], cwd: Path, argv: list[str], streams: Sequence[TextIO]) -> None:
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv = argv
    sys.stdin, sys.stdout, sys.stderr = streams
