"""The driver: how it is found and followed, and what is said when it is not there. A script plays its part."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from bench import driver, sittings
from bench.driver import Driver, Measurement
from bench.errors import BenchError
from bench.progress import CLEAR, Progress

PLAYED = f"""#!{sys.executable}
import json, sys
out = sys.argv[sys.argv.index("-out") + 1]
say = lambda line: print(line, file=sys.stderr, flush=True)
say("a: map[cold_start_ms:1]")
say("c2: the server ended: panic")
say("c2: {{}}")
say("  d T=2000 rate=0 C=1: wall 0.1s")
say("d: {{}}")
json.dump({{"peer": "played", "arguments": sys.argv[1:]}}, open(out, "w"))
"""

FAILING = f"""#!{sys.executable}
import sys
sys.exit("driver: the fake model did not start")
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def played(home: Path, script: str) -> Driver:
    built = Driver(home)
    built.binary.parent.mkdir()
    built.binary.write_text(script)
    built.binary.chmod(0o755)
    built.compare.touch()
    return built


def test_the_steps_of_a_measurement_are_told_as_it_runs(tmp_path: Path) -> None:
    """A suite whose server died goes on; the plain lines say where the driver is."""
    out = io.StringIO()
    progress = Progress(out, 90, clock=lambda: 0.0)
    load = Measurement("Bullpen", ("a", "c2", "d"), 2, deltas=True, command="x server")
    result = driver.measure(played(tmp_path, PLAYED), load, progress, "[1/2] Bullpen")
    assert out.getvalue().splitlines() == [
        "0:00 of about 1:30  [1/2] Bullpen: a (cold start and idle memory)",
        "0:00 of about 1:30  [1/2] Bullpen: c2 (32 sessions at once)",
        "0:00 of about 1:30  [1/2] Bullpen: d (one answer to many clients)",
        "0:00 of about 1:30  [1/2] Bullpen: d (one answer to many clients): d T=2000 rate=0 C=1: wall 0.1s",
        "0:00 of about 1:30  [1/2] Bullpen: ending",
    ]
    assert result["peer"] == "played"
    asked = [argument for argument in result["arguments"] if not argument.endswith("result.json")]
    assert asked == [
        *("-peer", "v1", "-label", "Bullpen", "-suites", "a,c2,d", "-repeat", "2", "-out"),
        *("-deltas", "-cmd", "x server"),
    ]


def test_a_driver_that_fails_is_heard(tmp_path: Path) -> None:
    built = played(tmp_path, FAILING)
    with pytest.raises(BenchError, match="the fake model did not start"):
        driver.measure(built, Measurement("x", ("a",), 1), Progress(io.StringIO(), 1), "x")


def test_a_terminal_gets_one_line_that_is_written_over() -> None:
    out = Terminal()
    progress = Progress(out, 60, clock=iter([0.0, 5.0, 6.0]).__next__)
    progress.step("first")
    progress.tick()
    progress.end()
    assert out.getvalue() == f"{CLEAR}0:05 of about 1:00  first{CLEAR}0:06 of about 1:00  first{CLEAR}"


def test_the_driver_that_the_environment_names_is_used(tmp_path: Path) -> None:
    built = played(tmp_path, PLAYED)
    assert driver.ready({"BULLPEN_BENCH_DRIVER": str(built.binary)}, tmp_path / "none") == built


def test_a_missing_directory_is_said_with_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"the load driver is missing.*BULLPEN_BENCH_DRIVER"):
        driver.ready({}, tmp_path / "none")


def test_missing_go_is_said_with_the_next_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "go.mod").touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BenchError, match="apt-get install golang-go"):
        driver.ready({}, tmp_path)


def test_a_copy_can_be_written_to(tmp_path: Path) -> None:
    """The shared directory is read-only, files and folders."""
    source, target = tmp_path / "shared", tmp_path / "copy"
    (source / "limits").mkdir(parents=True)
    (source / "limits" / "floor.py").write_text("pass")
    (source / "limits" / "floor.py").chmod(0o444)
    (source / "limits").chmod(0o555)
    driver.copy(source, target)
    (source / "limits").chmod(0o755)
    modes = [path.stat().st_mode & 0o200 for path in (target / "limits", target / "limits" / "floor.py")]
    assert modes == [0o200, 0o200]


def test_a_sitting_measures_both_forms_of_both_servers() -> None:
    """The floor has no tools, and its whole messages matter only where text is streamed."""
    plan = sittings.plan(driver.SUITES, 3, {})
    assert {name: (",".join(load.suites), load.deltas, load.peer) for name, load in plan.items()} == {
        "deltas": ("a,b,c,c2,d,e,f,g,h,h2,i,j,k", True, "v1"),
        "whole": ("a,b,c,c2,d,e,f,g,h,h2,i,j,k", False, "v1"),
        "floor": ("a,b,c,c2,d,e,f,g,h,h2,j,k", True, "floor"),
        "floor_whole": ("d,e,h2", False, "floor"),
    }


def test_a_measurement_without_suites_is_left_out() -> None:
    assert list(sittings.plan(["i"], 1, {})) == ["deltas", "whole"]


@pytest.mark.parametrize(
    ("environment", "load"),
    [
        ({"CRUSH_BIN": "/opt/crush"}, ("crush", None, {"CRUSH_BIN": "/opt/crush"})),
        ({"BULLPEN_BENCH_PEER": "/opt/crush"}, ("crush", None, {"CRUSH_BIN": "/opt/crush"})),
        (
            {"BULLPEN_BENCH_PEER": "'/my old/bullpen' server --host unix://{socket}"},
            ("bullpen", "'/my old/bullpen' server --host unix://{socket}", {}),
        ),
    ],
)
def test_a_peer_is_a_binary_or_a_command_line(environment: dict[str, str], load: tuple[object, ...]) -> None:
    peer = sittings.plan(["c"], 1, environment)["reference"]
    assert (peer.name, peer.command, peer.environment) == load
