"""Language servers on a real server: seen by every client, told to the model, ended with the workspace."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.conftest import Figure
from tests.journeys.server import Bullpen, config, until
from tests.journeys.stream import parts_of

SCRIPTED = Path(__file__).parents[1] / "lsp/scripted.py"


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"id": f"call_{name}", "name": name, "input": arguments}


def server(place: Path, **words: Any) -> dict[str, Any]:
    """The settings of a language server for text files, which writes down in `place` what it heard and started."""
    told = {"log": str(place / "heard.jsonl"), "child": str(place / "child"), **words}
    (place / "words.json").write_text(json.dumps(told))
    return {
        "command": sys.executable,
        "args": ["-S", str(SCRIPTED), str(place / "words.json")],
        "filetypes": ["txt"],
        "env": {"SECRET": "s3cr3t-of-mine"},
    }


def project_with(lsp: dict[str, Any], bullpen: Bullpen, *script: dict[str, Any]) -> Path:
    path = bullpen.project(*script, lsp={"words": lsp})
    (path / "a.txt").write_text("fine\n")
    return path


def test_a_turn_is_told_what_its_edit_broke(home: Bullpen) -> None:
    """The language server is of the person's own config, so nobody has to be trusted."""
    project = home.home / "projects" / "words"
    project.mkdir()
    (project / "a.txt").write_text("fine\n")
    script: list[dict[str, Any]] = [
        {"when": "break", "calls": [call("view", file_path="a.txt")]},
        {"when": "break", "calls": [call("lsp_diagnostics", file_path="a.txt")]},
        {"when": "break", "calls": [call("edit", file_path="a.txt", old_string="fine", new_string="BAD")]},
        {"say": "broken"},
    ]
    home.config.mkdir()
    (home.config / "bullpen.json").write_text(json.dumps(config(script, lsp={"words": server(home.home)})))
    home.start(BULLPEN_TRUST="")
    client = home.attach(project)
    stream = client.stream()
    assert client.ok("GET", "/lsps")["words"] == {
        "name": "words",
        "state": 0,
        "connected_at": "0001-01-01T00:00:00Z",
    }
    assert client.call("GET", "/lsps/words/diagnostics").status_code == 404
    session = client.session()
    stream.completion(client.prompt(session, "break", permissions="allow"))
    results = {r["name"]: r for m in client.messages(session) for r in parts_of(m, "tool_result")}
    assert results["view"]["content"].startswith("<file>")
    assert results["edit"]["content"].endswith(
        "<file_diagnostics>\n"
        "Error: a.txt:1:1 [words script] [BAD] BAD is not nice\n"
        "</file_diagnostics>\n"
        "<diagnostic_summary>\n"
        "By this change: 1 new, 0 fixed. Now in this file: 1 error, 0 warnings.\n"
        "</diagnostic_summary>"
    )
    stream.next("lsp_event", "updated", type="diagnostics_changed", name="words", diagnostic_count=1)
    changes = stream.seen("lsp_event", type="state_changed", name="words")
    assert [change["state"] for change in changes] == [1, 2]
    shown = client.ok("GET", "/lsps")["words"]
    assert (shown["state"], shown["diagnostic_count"]) == (2, 1)
    found = client.ok("GET", "/lsps/words/diagnostics")
    assert [each["message"] for each in found[(project / "a.txt").as_uri()]] == ["BAD is not nice"]
    client.ok("POST", "/lsps/stop")
    assert client.ok("GET", "/lsps")["words"]["state"] == 4
    client.ok("POST", "/lsps/start", {"path": "a.txt"})
    stream.next("lsp_event", state=2, since=stream.mark() - 1)
    child = int((home.home / "child").read_text())
    os.kill(child, 0)
    assert home.terminate() == 0
    until(lambda: not Path(f"/proc/{child}").exists(), "what the language server started to end")


def test_a_rename_is_asked_about_with_its_call_and_its_diff(shared: Bullpen, tmp_path: Path) -> None:
    edits = [
        {
            "range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 4}},
            "newText": "good",
        }
    ]
    rename = {"when": "rename", "calls": [call("lsp_rename", symbol="fine", new_name="good")]}
    project = project_with(server(tmp_path), shared, rename, {"say": "renamed"})
    server(tmp_path, rename={"changes": {(project / "a.txt").as_uri(): edits}})
    client = shared.attach(project)
    stream = client.stream()
    run = client.prompt(client.session(), "rename")
    asked = stream.next("permission_request")
    assert (asked["tool_name"], asked["tool_call_id"], asked["action"]) == (
        "lsp_rename",
        "call_lsp_rename",
        "write",
    )
    assert asked["params"]["files"] == ["a.txt"]
    assert "-fine\n+good\n" in asked["params"]["diff"]
    assert (project / "a.txt").read_text() == "fine\n"
    assert client.grant(asked)
    stream.completion(run)
    assert (project / "a.txt").read_text() == "good\n"


def test_the_command_line_shows_starts_and_stops_them(shared: Bullpen, tmp_path: Path) -> None:
    project = project_with(server(tmp_path), shared, {"say": "hello"})

    def say(*words: str) -> list[str]:
        host = () if words[0] == "known" else ("-H", f"unix://{shared.socket}")
        return shared.run_command("lsp", *words, "--in", str(project), *host).stdout.splitlines()

    def state() -> str:
        return " ".join(say("list")[0].split())

    client = shared.attach(project)
    stream = client.stream()
    assert state() == "words not started"
    assert len(say("start", str(project / "a.txt"))) == 1
    stream.next("lsp_event", state=2)
    assert json.loads(say("list", "--json")[0])["words"]["state"] == 2
    assert [" ".join(line.split()) for line in say("stop")] == ["words stopped"]
    known = {row["name"]: row for row in json.loads(say("known", "--json")[0])}
    assert known["gopls"]["starts"] == "by itself"
    # A dash before it says that it is not installed, which depends on the machine.
    assert any(line.removeprefix("- ").split()[:2] == ["basedpyright", "python"] for line in say("known"))


def test_one_that_is_given_up_is_told_with_its_reason(
    shared: Bullpen, tmp_path: Path, figure: Figure
) -> None:
    project = project_with(server(tmp_path, die=["initialized"]), shared, {"say": "hello"})
    client = shared.attach(project)
    stream = client.stream()
    client.ok("POST", "/lsps/start", {"path": "a.txt"})
    told = stream.next("lsp_event", type="state_changed", state=3)
    assert "stopped after 5 restarts in 3 minutes" in told["error"]
    figure(
        "R-32", "KILL", "a language server that always dies: 5 restarts, then it is left alone and says so"
    )
    assert "the scripted server falls over" in told["error"]
    assert client.ok("GET", "/lsps")["words"]["error"] == told["error"]
    # Nobody else is held up by it.
    session = client.session()
    stream.completion(client.prompt(session, "hello"))


def test_without_language_servers_there_are_no_tools_for_them(shared: Bullpen) -> None:
    options = {"disable_default_providers": True, "auto_lsp": False}
    script: list[dict[str, Any]] = [
        {"when": "look", "calls": [call("lsp_symbols", file_path="a.txt")]},
        {"say": "none"},
    ]
    client = shared.attach(shared.project(*script, options=options))
    stream = client.stream()
    session = client.session()
    stream.completion(client.prompt(session, "look"))
    (result,) = [r for m in client.messages(session) for r in parts_of(m, "tool_result")]
    assert result["content"].startswith("There is no tool 'lsp_symbols'. Available: agent, ")
    assert "lsp_" not in result["content"].partition("Available")[2]
