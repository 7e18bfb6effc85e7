"""The project's metadata, its lock file and what a start imports."""

import importlib.metadata
import importlib.util
import pkgutil
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import bullpen

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCK = (ROOT / "requirements.lock").read_text()
PINS = {
    canonicalize_name(name): version
    for name, version in re.findall(r"^([\w.-]+)==([^\s;]+)", LOCK, re.MULTILINE)
}
RUNTIME = [Requirement(line) for line in PROJECT["project"]["dependencies"]]
OPTIONAL = [
    Requirement(line) for lines in PROJECT["project"]["optional-dependencies"].values() for line in lines
]
DEVELOPMENT = [Requirement(line) for line in PROJECT["dependency-groups"]["dev"]]

STARTS = [room for room in ("cli", "client", "server") if importlib.util.find_spec(f"bullpen.{room}")]
"""The rooms that a one-shot command or a starting server loads."""

SLOW = {"mcp", "pydantic", "pydantic_ai", "textual"}
"""Libraries that take 0.2 to 2 seconds to import: they wait until they are needed."""


def test_the_lock_names_no_host() -> None:
    """The packages come from wherever the reader's pip is told to look."""
    options = [line for line in LOCK.splitlines() if line.startswith("-")]
    assert ("://" in LOCK, " @ " in LOCK, options) == (False, False, [])


def test_every_pin_has_a_hash() -> None:
    """pip refuses the whole lock otherwise."""
    entries = re.split(r"^(?=\S)", LOCK, flags=re.MULTILINE)
    assert [entry for entry in entries if entry.strip() and "--hash=sha256:" not in entry] == []


@pytest.mark.parametrize("requirement", RUNTIME + OPTIONAL + DEVELOPMENT, ids=str)
def test_the_lock_satisfies_the_requirement(requirement: Requirement) -> None:
    """A range that was changed without a new lock is noticed here."""
    assert PINS[canonicalize_name(requirement.name)] in requirement.specifier


def test_the_installed_version_is_the_one_in_the_source() -> None:
    """`bullpen --version` and the server's answer tell the same."""
    assert importlib.metadata.version("bullpen") == bullpen.__version__


def test_the_manual_page_and_the_completions_are_what_the_commands_print() -> None:
    """Whoever changes a command writes them anew."""
    done = subprocess.run(
        [sys.executable, "scripts/share.py", "--check"],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_wheel_brings_the_manual_page_and_the_completions_where_they_are_looked_for(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    [wheel] = tmp_path.iterdir()
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition(".data/data/")[2] for name in names} == {
        "",
        "share/man/man1/bullpen.1",
        "share/bash-completion/completions/bullpen",
        "share/zsh/site-functions/_bullpen",
        "share/fish/vendor_completions.d/bullpen.fish",
    }


def test_the_package_tells_type_checkers_that_it_is_typed() -> None:
    """Without the marker file a user's mypy ignores our annotations."""
    assert (Path(bullpen.__file__).parent / "py.typed").is_file()


@pytest.mark.parametrize("room", STARTS)
def test_a_start_loads_no_slow_library(room: str) -> None:
    """Every module of the room is imported, as a command or a server would, in a fresh interpreter."""
    directory = Path(bullpen.__file__).parent / room
    found = pkgutil.walk_packages([str(directory)], prefix=f"bullpen.{room}.")
    script = "\n".join([*(f"import {module.name}" for module in found), "import sys", "print(*sys.modules)"])
    child = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True)
    assert SLOW.intersection(child.stdout.split()) == set()


def test_a_screen_is_painted_before_anything_speaks_http() -> None:
    """The first frame waits for Textual alone."""
    script = "import sys, bullpen.tui.app; print(*sys.modules)"
    child = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True)
    assert {"httpx2", "httpcore2", "bullpen.client.workspace"}.intersection(child.stdout.split()) == set()
