"""Config files that change under a running server, and trust given while it runs."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from tests.journeys.server import Bullpen, Client, config, gate, open_gate, until
from tests.journeys.stream import Stream


def rewrite(path: Path, **more: Any) -> None:
    """As an editor saves: a new file over the old one."""
    draft = path / "draft"
    draft.write_text(json.dumps(config([{"say": "after"}], **more)))
    draft.replace(path / "bullpen.json")


def changes(stream: Stream, count: int) -> list[dict[str, Any]]:
    """The first so many announcements, as soon as they are there."""
    stream.wait(lambda _: len(stream.seen("config_changed")) >= count, f"{count} config_changed")
    return stream.seen("config_changed")[:count]


def answer(client: Client, stream: Stream, session: str, run_id: str) -> str:
    client.prompt(session, "hello", run_id)
    return str(stream.completion(run_id).get("text", ""))


def test_a_changed_file_is_taken_up_and_everybody_is_told(shared: Bullpen) -> None:
    path = shared.project({"say": "before"})
    ana, ben = shared.attach(path), shared.attach(path)
    streams = [ana.stream(), ben.stream()]
    rewrite(path, options={"disable_default_providers": True, "progres": True})
    for stream in streams:
        changed = stream.next("config_changed")
        assert changed["reason"] == "files"
        assert "did you mean 'options.progress'?" in changed["warnings"][0]
    assert answer(ana, streams[0], ana.session(), "r1") == "after"


def test_a_turn_under_way_keeps_what_it_began_with(shared: Bullpen, tmp_path: Path) -> None:
    path = shared.project({"calls": [gate(tmp_path / "gate")]}, {"say": "before"})
    client = shared.attach(path)
    stream = client.stream()
    client.prompt(client.session(), "go", "r1", permissions="allow")
    stream.next("message", role="assistant")
    rewrite(path)
    stream.next("config_changed")
    open_gate(tmp_path / "gate")
    assert stream.completion("r1")["text"] == "before"
    assert answer(client, stream, client.session(), "r2") == "after"


def test_a_broken_file_goes_on_saying_what_it_said(shared: Bullpen) -> None:
    """Everybody is told where it is broken; what other files say is still taken up."""
    path = shared.project({"say": "before"})
    client = shared.attach(path)
    stream = client.stream()
    good = (path / "bullpen.json").read_text()
    (path / "bullpen.json").write_text(good + "oops")
    assert "bullpen.json, line 1, column" in stream.next("config_changed")["error"]
    assert "what it said before holds" in client.ok("GET", "")["warnings"][0]
    client.ok("POST", "/config/set", {"scope": 0, "key": "options.progress", "value": False})
    assert changes(stream, 2)[1]["error"]
    assert client.ok("GET", "/config")["options"]["progress"] is False
    assert answer(client, stream, client.session(), "r1") == "before"
    (path / "bullpen.json").write_text(good)
    assert "error" not in changes(stream, 3)[2]


def test_files_that_come_later_are_noticed(fresh: Bullpen) -> None:
    """In a directory that is not there yet either."""
    path = fresh.home / "projects" / "empty"
    path.mkdir()
    client = fresh.attach(path)
    stream = client.stream()
    fresh.config.mkdir(parents=True)
    (fresh.config / "bullpen.json").write_text(json.dumps(config([{"say": "yours"}])))
    stream.next("config_changed")
    assert answer(client, stream, client.session(), "r1") == "yours"
    folder = path / ".agents" / "skills" / "knit"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: knit\ndescription: d\n---\n")
    until(lambda: "knit" in {s["name"] for s in client.ok("GET", "")["skills"]}, "the skill")


def test_a_file_is_followed_to_where_it_really_lies(shared: Bullpen, tmp_path: Path) -> None:
    """People keep such files elsewhere and link to them."""
    path = shared.project({"say": "before"})
    (path / "bullpen.json").rename(tmp_path / "bullpen.json")
    (path / "bullpen.json").symlink_to(tmp_path / "bullpen.json")
    client = shared.attach(path)
    stream = client.stream()
    rewrite(tmp_path)
    stream.next("config_changed")
    assert answer(client, stream, client.session(), "r1") == "after"


def test_what_a_client_changes_is_told_once(shared: Bullpen) -> None:
    """The watcher sees our own writes too, and finds nothing new in them; other workspaces take them up."""
    here, there = (shared.attach(shared.project({"say": "x"})) for _ in range(2))
    streams = [here.stream(), there.stream()]
    here.ok("POST", "/config/set", {"scope": 0, "key": "options.initialize_as", "value": "ME.md"})
    assert streams[1].next("config_changed")["reason"] == "files"
    assert there.ok("GET", "/config")["options"]["initialize_as"] == "ME.md"
    rewrite(here.path)
    assert [change.get("reason", "") for change in changes(streams[0], 2)] == ["", "files"]


def test_a_server_that_did_not_change_is_not_restarted(shared: Bullpen, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    server = {"command": "sh", "args": ["-c", f"echo >> {starts}; exec sleep 600"], "timeout": 60}
    path = shared.project({"say": "before"}, mcp={"slow": server})
    client = shared.attach(path)
    stream = client.stream()
    until(starts.exists, "the server's first start")
    rewrite(path, mcp={"slow": server, "other": {"command": "true", "disabled": True}})
    stream.next("config_changed")
    assert set(client.ok("GET", "/mcp/states")) == {"slow", "other"}
    assert starts.read_text() == "\n"


def test_nothing_is_watched_once_the_last_workspace_is_closed(home: Bullpen) -> None:
    bullpen = home.start(BULLPEN_SERVER_DETACH_GRACE="0")
    tasks = Path(f"/proc/{bullpen.process.pid}/task")

    def watches() -> bool:
        """By the name that the library gives its thread."""
        return any((task / "comm").read_text().startswith("notify-rs") for task in tasks.iterdir())

    client = bullpen.attach(bullpen.project({"say": "x"}))
    until(watches, "the watcher")
    client.leave()
    until(lambda: not watches(), "the end of the watcher")


# Trust


def untrusted(home: Bullpen) -> Client:
    home.start(BULLPEN_TRUST="")
    return home.attach(home.project({"say": "trusted now"}))


def test_trust_is_given_to_what_was_shown_and_everybody_sees_it(home: Bullpen) -> None:
    client = untrusted(home)
    other = home.attach(client.path).stream()
    shown = client.ok("GET", "/trust")
    assert (shown["trusted"], shown["by_server"]) == (False, False)
    assert "providers.script" in shown["settings"]
    assert {"kind", "setting", "detail", "file", "line", "item", "state"} == set(shown["effects"][0])
    assert client.ok("POST", "/trust", {"fingerprint": shown["fingerprint"]})["trusted"] is True
    assert other.next("config_changed")["reason"] == "trust"
    assert client.ok("GET", "")["trusted"] is True
    assert answer(client, client.stream(), client.session(), "r1") == "trusted now"


def test_trust_outlives_the_server_and_ends_with_the_content(home: Bullpen) -> None:
    client = untrusted(home)
    client.ok("POST", "/trust", {"fingerprint": client.ok("GET", "/trust")["fingerprint"]})
    home.terminate()
    home.restart()
    client = home.attach(client.path)
    assert client.info["trusted"] is True
    stream = client.stream()
    rewrite(client.path)
    stream.next("config_changed")
    assert client.ok("GET", "/trust")["trusted"] is False
    assert client.call("POST", "/agent", {"session_id": "s", "prompt": "x"}).status_code == 400


def test_what_changed_after_it_was_shown_is_not_trusted(home: Bullpen) -> None:
    client = untrusted(home)
    fingerprint = client.ok("GET", "/trust")["fingerprint"]
    rewrite(client.path)
    refused = client.call("POST", "/trust", {"fingerprint": fingerprint})
    assert (refused.status_code, refused.json()["code"]) == (409, "content_changed")
    assert client.call("POST", "/trust", {}).status_code == 409
    assert client.ok("GET", "/trust")["trusted"] is False


def test_trust_is_taken_back(home: Bullpen) -> None:
    client = untrusted(home)
    client.ok("POST", "/trust", {"fingerprint": client.ok("GET", "/trust")["fingerprint"]})
    assert client.ok("DELETE", "/trust")["trusted"] is False
    assert client.ok("GET", "")["untrusted_settings"]
    assert client.ok("GET", "/agent")["is_ready"] is False


def test_trust_given_at_another_terminal_is_followed(home: Bullpen) -> None:
    """The command writes a file; a running server hears of it."""
    client = untrusted(home)
    stream = client.stream()
    book = home.data / "trust.json"
    thread = threading.Thread(
        target=lambda: home.run_command("trust", "--yes", str(client.path)),
    )
    thread.start()
    stream.next("config_changed")
    thread.join()
    trusted = json.loads(book.read_text())["projects"][str(client.path)]
    assert set(trusted[str(client.path / "bullpen.json")]) >= {"providers.script", "models.large"}
    assert client.ok("GET", "")["trusted"] is True
