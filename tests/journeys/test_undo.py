"""What a turn changed, by an edit and by a command, goes and comes back by the real commands, and every client sees it."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

from tests.files.yard import tree_of
from tests.journeys.server import Bullpen, Client
from tests.journeys.stream import Stream

LINES = [f"line {n}\n" for n in range(40)]
WORK = r"""sed -i -e '2s/.*/second/' -e '38s/.*/thirty-eighth/' code.py
rm gone; mkdir made; echo by a command > made/file; chmod 755 code.py; head -c 100 /dev/zero > data.bin
mkdir node_modules; echo installed > node_modules/x; git init -q . && git add -A"""
SCRIPT = (
    {"calls": [{"id": "c1", "name": "write", "input": {"file_path": "new.txt", "content": "by an edit\n"}}]},
    {"calls": [{"id": "c2", "name": "bash", "input": {"description": "work", "command": WORK}}]},
    {"say": "Done."},
)


def prepare(bullpen: Bullpen) -> Path:
    project = bullpen.project(*SCRIPT)
    (project / "code.py").write_text("".join(LINES))
    (project / "gone").write_text("precious\n")
    return project


def play(client: Client) -> tuple[str, Stream]:
    """One turn to its end; gives back the session and the stream that saw it."""
    session, stream = client.session(), client.stream()
    stream.completion(client.prompt(session, "work", permissions="allow"))
    told = [(each["action"], each["tool_call_id"]) for each in stream.seen("turn_changes")]
    assert told == [("changed", "c1"), ("changed", "c2")]
    return session, stream


def undone(stream: Stream, action: str = "undone") -> None:
    stream.wait(lambda event: event.kind == "turn_changes" and event.has(action=action), action)


def files_of(project: Path) -> dict[str, tuple[int, bytes]]:
    """Without what is nobody's work, which an undo leaves alone."""
    left_out = (".git", "node_modules")
    return {path: what for path, what in tree_of(project).items() if path.split("/")[0] not in left_out}


def test_a_turn_is_looked_at_undone_in_parts_and_as_a_whole_and_redone(shared: Bullpen) -> None:
    project = prepare(shared)
    before = files_of(project)
    client = shared.attach(project)
    session, stream = play(client)
    after, index = files_of(project), (project / ".git/index").read_bytes()

    def say(*words: str) -> subprocess.CompletedProcess[str]:
        return shared.run_command(*words, "--in", str(project), "-H", f"unix://{shared.socket}", check=False)

    listed = say("changes")
    assert (listed.returncode, listed.stderr) == (0, "")
    turn = listed.stdout.split()[0]
    assert (
        "“work”  3 created, 1 changed, 1 deleted; code.py, data.bin, gone, made/file, new.txt"
        in listed.stdout
    )

    shown = say("undo", "--dry-run")
    assert (shown.returncode, files_of(project)) == (0, after)
    assert shown.stdout.startswith(
        f"to undo turn {turn} would\n  change  code.py  (+2 −2; permissions 755 → 644)"
    )
    assert "      -second\n      +line 1\n" in shown.stdout
    assert "  delete  data.bin  (binary)" in shown.stdout
    assert "  create  gone  (+1 −0)" in shown.stdout

    hunk = next(line.split()[1] for line in shown.stdout.splitlines() if line.startswith("    hunk"))
    assert say("undo", "--hunk", hunk).returncode == 0
    assert (project / "code.py").read_text().splitlines()[1] == "line 1"
    assert say("undo", turn, "--file", str(project / "gone")).stdout.splitlines()[1:] == ["  gone"]
    done = say("undo", "--json")
    assert json.loads(done.stdout)["turn"] == int(turn)
    assert files_of(project) == before
    assert (project / ".git/index").read_bytes() == index
    assert (project / "node_modules/x").exists()

    for _ in range(2):
        client.ok("POST", f"/sessions/{session}/changes/redo")
    assert say("redo").returncode == 0
    assert files_of(project) == after
    undone(stream, "redone")
    assert "redid what an earlier turn changed" in client.messages(session)[-1]["parts"][0]["data"]["text"]

    spent = say("redo")
    assert (spent.returncode, spent.stdout, spent.stderr) == (1, "", "bullpen: there is nothing to redo\n")


def test_talk_and_reads_cost_nothing(shared: Bullpen) -> None:
    """Nothing is looked at, and nothing kept, before a call that may change something."""
    look = {"description": "look", "command": "ls | sort"}
    client = shared.attach(shared.project({"calls": [{"name": "bash", "input": look}]}, {"say": "Done."}))
    session, stream = client.session(), client.stream()
    stream.completion(client.prompt(session, "look", permissions="allow"))
    stream.completion(client.prompt(session, "and talk", permissions="allow"))
    assert not (shared.data / "undo" / client.info["id"]).exists()
    assert client.ok("GET", f"/sessions/{session}/changes") == []


def test_a_persons_edit_is_never_overwritten(shared: Bullpen) -> None:
    project = prepare(shared)
    client = shared.attach(project)
    session, _ = play(client)
    (project / "new.txt").write_text("by an edit\nand by a person\n")
    changes = f"/sessions/{session}/changes"
    (turn,) = client.ok("GET", changes)
    found = files_of(project)
    refused = client.call("POST", f"{changes}/{turn['turn']}/undo")
    assert (refused.status_code, refused.json()["code"]) == (409, "undo_conflict")
    assert "new.txt (it was changed since, in the same place)" in refused.json()["message"]
    assert files_of(project) == found


def test_an_undo_that_the_server_did_not_survive_is_finished_when_the_workspace_is_opened(
    home: Bullpen,
) -> None:
    home.start(BULLPEN_FAILPOINTS="undo-restoring=kill@2")
    project = prepare(home)
    before = files_of(project)
    client = home.attach(project)
    _, stream = play(client)
    command = ("undo", "--in", str(project), "--host", f"unix://{home.socket}")
    done = home.run_command(*command, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert home.exited() == -signal.SIGKILL
    home.start(BULLPEN_FAILPOINTS="")
    undone(home.attach(project).stream(after=stream.last_id))
    assert files_of(project) == before
