"""`bullpen run` as a script relies on it: every ending with its status and its one record, against one real server."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tests.cli.conftest import BULLPEN
from tests.warm import run_warm

from bullpen.cli.calls import call, get
from bullpen.cli.run_schema import run_schema
from bullpen.client.locate import find_address
from bullpen.client.process import server_pid
from bullpen.system.address import UnixAddress

pytestmark = pytest.mark.timeout(60)

LINE = jsonschema.Draft202012Validator(run_schema())
BUILD = {"name": "bash", "input": {"command": "touch made", "description": "build it"}}
LOOK = {"name": "ls", "input": {}}
SCRIPT = [
    {"when": "hello", "say": "Hello to you.", "usage": {"input": 1000, "output": 100}},
    {"when": "build", "say": "I will.", "calls": [BUILD], "usage": {"input": 1000, "output": 100}},
    {"when": "build", "say": "I did what I could.", "usage": {"input": 1000, "output": 100}},
    {"when": "make it", "calls": [BUILD]},
    {"when": "make it", "say": "Made."},
    {"when": "break", "fail": {"message": "no such model", "status": 400}},
    {"when": "hang", "say": "So", "hang": True},
    {"when": "shape", "say": "I would say seven."},
    {"when": "does not fit", "say": '```json\n{"n": 7}\n```'},
    {"when": "never", "say": "no"},
    {"when": "look at", "say": "I see it."},
]


class Place:
    """A home with a project, in which commands start one server for all of these tests."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.project = home / "project"
        kept = {key: os.environ[key] for key in ("PATH", "PYTHONPATH") if key in os.environ}
        self.env = {**kept, "HOME": str(home), "TMPDIR": str(home), "LANG": "C.UTF-8"}
        self.env |= {"BULLPEN_SERVER_READY_TIMEOUT": "40s", "BULLPEN_SERVER_IDLE_TIMEOUT": "60"}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*BULLPEN, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.env,
            cwd=self.project,
        )

    def run(self, *arguments: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        return run_warm(["run", *arguments], env=self.env, cwd=self.project, stdin=stdin)

    def result(self, *arguments: str) -> dict[str, Any]:
        """The record of a run with --json. Every line is as published, and only the last is a result."""
        done = self.run("--json", *arguments)
        assert b"Traceback" not in done.stderr
        return self.checked(done.stdout.decode(), done.returncode)

    def checked(self, out: str, status: int) -> dict[str, Any]:
        lines = [json.loads(line) for line in out.splitlines()]
        for line in lines:
            LINE.validate(line)
        assert [line["type"] == "result" for line in lines] == [False] * (len(lines) - 1) + [True]
        found: dict[str, Any] = lines[-1]
        assert found["exit_code"] == status
        return found

    def file(self, name: str, content: bytes | str) -> str:
        path = self.project / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return name


class Page(HTMLParser):
    """Which elements a page has."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="bp") as directory:
        found = Place(Path(directory))
        found.project.mkdir()
        prices = {"cost_per_1m_in": 10, "cost_per_1m_out": 100}
        provider = {
            "type": "scripted",
            "models": [{"id": "m", "name": "M", "context_window": 100_000, **prices}],
            "provider_options": {"script": SCRIPT},
        }
        chosen = {"provider": "play", "model": "m"}
        config = {"providers": {"play": provider}, "models": {"large": chosen, "small": chosen}}
        found.file("task.md", "look at ")
        where = found.home / ".config" / "bullpen"
        where.mkdir(parents=True)
        (where / "bullpen.json").write_text(json.dumps(config))
        yield found
        address = find_address(None, found.env)
        assert isinstance(address, UnixAddress)
        if pid := server_pid(address):
            os.kill(pid, signal.SIGTERM)


def test_the_record_says_what_a_run_was_and_cost(place: Place) -> None:
    found = place.result("hello")
    assert found == found | {
        "reason": "ok",
        "exit_code": 0,
        "text": "Hello to you.",
        "model": "play/m",
        "error": "",
        "tool_calls": 0,
        "denied_tools": [],
    }
    assert all((found["session_id"], found["run_id"]))
    spent = found["usage"]
    assert (spent["calls"], spent["input"], spent["output"], spent["cost"]) == (1, 1000, 100, 0.02)


def test_what_is_denied_is_told_to_the_model_and_the_turn_goes_on(place: Place) -> None:
    found = place.result("build")
    assert (found["reason"], found["text"], found["tool_calls"]) == ("ok", "I did what I could.", 1)
    [denied] = found["denied_tools"]
    assert denied["tool"] == "bash"
    assert "nobody is there to be asked" in denied["reason"]
    assert not (place.project / "made").exists()


def test_a_run_may_have_few_tools_and_leaves_the_session_as_it_was(place: Place) -> None:
    found = place.result("--on-ask", "allow", "--allowed-tools", "view,gr*", "build")
    assert (found["reason"], found["tool_calls"], found["denied_tools"]) == ("ok", 1, [])
    assert not (place.project / "made").exists()
    again = place.result("--on-ask", "allow", "-s", found["session_id"], "make it")
    assert again["text"] == "Made."
    assert (place.project / "made").exists()
    (place.project / "made").unlink()


def test_a_run_may_wait_for_another_client(place: Place) -> None:
    process = place.start("run", "--json", "--on-ask", "wait", "build")
    assert process.stdout is not None
    lines: list[str] = []
    while not lines or json.loads(lines[-1])["type"] != "permission_request":
        lines.append(process.stdout.readline())
    address = find_address(None, place.env)
    [workspace] = get(address, "/workspaces")
    answer = {
        "permission": json.loads(lines[-1])["payload"]["payload"],
        "action": "deny",
        "reason": "not now",
    }
    assert call(address, "POST", f"/workspaces/{workspace['id']}/permissions/grant", answer).status == 200
    rest, told = process.communicate(timeout=20)
    found = place.checked("".join(lines) + rest, process.returncode)
    assert (found["reason"], found["text"]) == ("ok", "I did what I could.")
    assert "not now" in found["denied_tools"][0]["reason"]
    assert "waiting for somebody to answer bash" in told


def test_a_run_may_fail_at_the_first_ask(place: Place) -> None:
    found = place.result("--on-ask", "fail", "build")
    assert (found["reason"], found["exit_code"]) == ("permission", 5)
    assert [denied["tool"] for denied in found["denied_tools"]] == ["bash"]
    assert "bash needs a permission to execute" in found["error"]


@pytest.mark.parametrize(
    ("arguments", "reason", "status"),
    [
        (["break"], "provider", 4),
        (["--budget", "0.01", "build"], "limit", 6),
        (["--max-steps", "1", "--system", "@task.md", "build"], "limit", 6),
        (["--timeout", "1s", "hang"], "timeout", 124),
        (["-m", "nothing", "hello"], "config", 3),
        (["--effort"], "usage", 2),
        (["--timeout", "soon", "hello"], "usage", 2),
        (["-f", "nowhere.png", "hello"], "usage", 2),
        (["-H", "tcp://127.0.0.1:1", "hello"], "unreachable", 8),
        (["--attach", "nothing"], "failed", 1),
        (["--detach", "--on-ask", "fail", "hello"], "usage", 2),
    ],
)
def test_every_ending_has_its_status(place: Place, arguments: list[str], reason: str, status: int) -> None:
    found = place.result(*arguments)
    assert (found["reason"], found["exit_code"], bool(found["error"])) == (reason, status, True)


def test_an_answer_of_another_shape_is_asked_for_again(place: Place) -> None:
    """And stdout has the value alone. What never fits is a status of its own."""
    schema = place.file(
        "n.json", '{"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}'
    )
    done = place.run("--output-schema", schema, "shape")
    assert (done.returncode, json.loads(done.stdout)) == (0, {"n": 7})
    assert b"asking again: it is no JSON" in done.stderr
    never = place.file("s.json", '{"type": "string", "minLength": 5000}')
    found = place.result("--output-schema", never, "never")
    assert (found["reason"], found["exit_code"], found["usage"]["calls"]) == ("schema", 7, 3)
    broken = place.file("b.json", '{"type": 5}')
    refused = place.run("--output-schema", broken, "hello")
    assert (refused.returncode, refused.stderr.count(b"\n")) == (2, 1)
    assert b"no JSON Schema" in refused.stderr


def test_files_and_what_is_piped_in_arrive_as_they_are(place: Place) -> None:
    picture = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
    names = [
        place.file("notes.txt", "Ä\r\n"),
        place.file("a.dat", picture),
        "task.md",
    ]
    done = place.run("-f", names[0], "-f", names[1], "--prompt-file", names[2], "--json", stdin=b"one\r\ntwo")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    said = next(m for m in lines if m["type"] == "message" and m["payload"]["payload"]["role"] == "user")
    text, *files, _ = said["payload"]["payload"]["parts"]
    assert text["data"]["text"] == "one\r\ntwo\n\nlook at "
    assert [(f["data"]["MIMEType"], Path(f["data"]["Path"]).name) for f in files] == [
        ("text/plain", "notes.txt"),
        ("image/png", "a.dat"),
    ]
    odd = place.run("look at", stdin=b"caf\xe9")
    assert (odd.stdout, b"not all that was piped in is UTF-8" in odd.stderr) == (b"I see it.\n", True)
    binary = place.run("-f", place.file("x.bin", b"\0\1"), "look at")
    assert (binary.returncode, binary.stdout) == (2, b"")
    assert b"neither text in UTF-8 nor a picture" in binary.stderr


def test_a_run_is_left_alone_and_found_again(place: Place) -> None:
    """Also after its end, and without cancelling what was only followed."""
    session, run = place.run("--detach", "hang").stdout.decode().split()
    follower = place.start("run", "--json", "--attach", session)
    assert follower.stdout is not None
    first = json.loads(follower.stdout.readline())
    assert first["payload"]["payload"] == {"session_id": session, "run_id": run}
    follower.send_signal(signal.SIGINT)
    rest, _ = follower.communicate(timeout=20)
    assert place.checked(rest, follower.returncode)["reason"] == "interrupted"
    still = place.result("--timeout", "1s", "--attach", run[:8])
    assert (still["reason"], still["run_id"]) == ("timeout", run)
    ended = place.run("--detach", "hello").stdout.decode().split()[1]
    assert place.run("--attach", ended).stdout == b"Hello to you.\n"


def test_what_was_spent_is_shown_on_a_page_of_its_own(place: Place) -> None:
    """Nothing of it comes from elsewhere, and no name in it is markup. Refused calls of tools have failed."""

    def stats(*arguments: str) -> str:
        command = [*BULLPEN, "stats", *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, env=place.env, cwd=place.project, check=True
        )
        return done.stdout

    place.result("--on-ask", "fail", "build")
    [row] = json.loads(stats("--by", "tool", "--json"))
    assert (row["key"], row["calls"] >= row["failed"] >= 1) == ("bash", True)
    assert re.search(
        rf"^bash +{row['calls']} calls?  {row['failed']} failed  .*s$", stats("--by", "tool"), re.MULTILINE
    )
    page = stats("--html", "-")
    seen = Page()
    seen.feed(page)
    assert {"svg", "rect", "table"} <= seen.tags
    assert not {"script", "link", "img", "iframe"} & seen.tags
    assert "http" not in page
    assert "play/m" in page
    assert f"<td>bash</td><td>{row['calls']}</td><td>{row['failed']}</td>" in page


def test_sigterm_cancels_like_ctrl_c(place: Place) -> None:
    process = place.start("run", "--json", "hang")
    assert process.stdout is not None
    first = process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    rest, _ = process.communicate(timeout=20)
    found = place.checked(first + rest, process.returncode)
    assert (found["reason"], found["exit_code"]) == ("terminated", 143)
    again = place.result("--attach", found["run_id"])
    assert again["reason"] == "cancelled"
