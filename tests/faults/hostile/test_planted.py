"""Links planted where a server writes lead nowhere, and whatever it makes is for its user's eyes only (X-33)."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from tests.conftest import Figure
from tests.journeys.server import Bullpen, until

PRECIOUS = "precious"


def test_what_a_server_makes_is_private(home: Bullpen, figure: Figure) -> None:
    """With the loosest umask there is; workspaces are the user's own and not counted."""
    before = os.umask(0)
    try:
        home.start("--host", "tcp://127.0.0.1:0")
    finally:
        os.umask(before)
    client = home.attach(home.project({"calls": [bash("echo hi > made")]}, {"say": "hi"}), yolo=True)
    stream = client.stream()
    stream.completion(client.prompt(client.session(), "go"))
    client.ok("POST", "/config/set", {"scope": 1, "key": "options.tui.theme", "value": "x"})
    client.ok("POST", "/config/set", {"scope": 0, "key": "options.tui.theme", "value": "x"})
    client.ok("POST", "/project/init", {})
    made = [
        path
        for path in (*home.home.joinpath("data").rglob("*"), *home.home.joinpath("config").rglob("*"))
        if not path.is_symlink()
    ]
    assert len(made) >= 8
    loose = {str(p.relative_to(home.home)) for p in made if stat.S_IMODE(p.stat().st_mode) & 0o077}
    assert loose == set()
    assert not list(home.home.joinpath("tmp").iterdir()), "nothing is left in the temp directory"
    mode = stat.S_IMODE((client.path / "made").stat().st_mode)
    assert mode == 0o666, "the umask of what the user's own commands make is the user's"
    figure("X-33", "ATTK", f"{len(made)} files and directories made under umask 0, 0 of them open to others")


def bash(command: str) -> dict[str, object]:
    return {"id": "c1", "name": "bash", "input": {"description": "make", "command": command}}


# Planted links


def at(name: str) -> Callable[[Bullpen], Path]:
    return lambda home: home.data / name


PLACES: dict[str, Callable[[Bullpen], Path]] = {
    "token": at("token"),
    "data lock": at("server.lock"),
    "socket": lambda home: Path(home.socket),
    "socket lock": lambda home: Path(home.socket + ".lock"),
    "config": lambda home: home.config / "bullpen.json.lock",
}


def test_planted_links_lead_nowhere(home: Bullpen, figure: Figure) -> None:
    """A link in place of a file that the server makes: it refuses, or does without, and the target is as it was."""
    lock = {path.name for path in locks_of(home)}
    home.data.mkdir(parents=True, exist_ok=True)
    home.config.mkdir(parents=True, exist_ok=True)
    tried = 0
    for name, place in [*PLACES.items(), *((each, at(each)) for each in lock)]:
        for target in ("victim", "absent"):
            path, victim = place(home), home.home / target
            path.unlink(missing_ok=True)
            (home.home / "victim").write_text(PRECIOUS)
            path.symlink_to(victim)
            live_once(home)
            assert "Traceback" not in home.log, f"{name}: {home.log}"
            assert (home.home / "victim").read_text() == PRECIOUS, name
            assert not (home.home / "absent").exists(), name
            path.unlink(missing_ok=True)
            tried += 1
    figure("X-33", "ATTK", f"{tried} planted links, 0 followed")


def live_once(home: Bullpen) -> None:
    """Start a server, and end it as soon as it serves or has given up."""
    seen = len(home.log) if (home.home / "server.log").exists() else 0
    home.launch()
    until(lambda: home.process.poll() is not None or "serving on" in home.log[seen:], "a start or a refusal")
    home.process.terminate()
    home.process.wait()


def locks_of(home: Bullpen) -> list[Path]:
    """The lock files that a server makes in its data directory, found by letting one live."""
    home.arguments += ["--host", "tcp://127.0.0.1:0"]
    live_once(home)
    return [path for path in home.data.iterdir() if "lock" in path.name]
