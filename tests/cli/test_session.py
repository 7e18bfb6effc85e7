"""`bullpen session` and `bullpen import`, as a person or a script uses them, over one real server."""

from __future__ import annotations

import json
import sqlite3
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.journeys.server import Bullpen, Client, new_home

SCRIPT = (
    {"calls": [{"id": "c1", "name": "write", "input": {"file_path": "a.txt", "content": "first\n"}}]},
    {"say": "# One\n\nIt *is* \x1b[31mwritten\u202e."},
    {"say": "Two."},
)


@pytest.fixture(scope="module")
def server() -> Iterator[Bullpen]:
    with new_home() as bullpen:
        yield bullpen.start()


@pytest.fixture
def client(server: Bullpen) -> Client:
    return server.attach(server.project(*SCRIPT))


def play(client: Client, text: str = "write the quokka", title: str = "Marsupials") -> str:
    session, stream = client.session(title), client.stream()
    stream.completion(client.prompt(session, text, permissions="allow"))
    return session


class Said(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Say = Callable[..., Said]


@pytest.fixture
def say(server: Bullpen, client: Client) -> Say:
    """One command line over the real server."""

    def told(*words: str, directory: Path | None = None) -> Said:
        where = ("--in", str(directory or client.path)) if words[0] != "import" else ()
        done = server.run_command(*words, *where, "-H", f"unix://{server.socket}", check=False)
        return Said(done.returncode, done.stdout, done.stderr)

    return told


def test_sessions_are_listed_found_and_read_without_opening_anything(client: Client, say: Say) -> None:
    session = play(client)
    client.leave()
    listed = say("session", "list")
    head, row = listed.out.splitlines()
    assert head.split() == ["ID", "STATE", "AGE", "COST", "MODEL", "MESSAGES", "TITLE"]
    assert row.split() == [session[:8], "done", "now", "-", "player", "4", "Marsupials"]
    assert str(client.path) in say("s", "list", "--all", "--search", "marsu").out
    assert say("sessions", "list", "--state", "waiting").err == "no sessions; --all looks in every folder\n"
    (known,) = say("session", "list", "--json").json
    assert known["session"]["id"] == session

    shown = say("session", "show", session[:8])
    assert "→ write a.txt" in shown.out
    assert "# One\n\nIt *is* ␛[31mwritten<U+202E>.\n" in shown.out
    assert say("session", "show", "--json").json["session"]["title"] == "Marsupials"

    found = say("session", "search", "quokka")
    assert (found.status, found.out.splitlines()[1]) == (0, "    user: write the [quokka]")
    anywhere = say("session", "search", "--all", "quokka", "--json").json
    assert session in {hit["hit"]["session_id"] for hit in anywhere}
    missed = say("session", "search", "wombat")
    assert (missed.status, missed.out, missed.err) == (1, "", "nothing found; --all looks in every folder\n")
    assert str(client.path) not in client.server.workspaces()


def test_a_session_moves_through_a_file(client: Client, server: Bullpen, tmp_path: Path, say: Say) -> None:
    session, file = play(client), tmp_path / "talk.json"
    assert say("session", "export", session, "-o", str(file)).err == f"wrote {file}\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert (
        say("session", "export", session, "-o", str(file)).err
        == f"bullpen: {file} cannot be written: File exists\n"
    )
    assert say("session", "export", session).json["session"] == json.loads(file.read_text())["session"]
    page = say("session", "export", session, "--markdown", "--redact").out
    assert page.startswith("# Marsupials\n\n")
    assert '**write**\n\n```json\n{"file_path":' in page

    other = server.attach(server.project(*SCRIPT))
    made = say("session", "import", str(file), directory=other.path).out.strip()
    assert other.ok("GET", f"/sessions/{made}")["message_count"] == 4
    for content, told in (
        ("nonsense", "the document cannot be read"),
        ("{}", "missing required field `format`"),
    ):
        file.write_text(content)
        refused = say("session", "import", str(file))
        assert (refused.status, refused.out, told in refused.err, refused.err.count("\n")) == (1, "", True, 1)
    assert "cannot be read: No such file" in say("session", "import", str(tmp_path / "none")).err


def test_a_session_is_forked_renamed_deleted_restored_and_undone(client: Client, say: Say) -> None:
    session = play(client)
    fork = say("session", "fork", session[:8], "--title", "The other").out.strip()
    assert client.ok("GET", f"/sessions/{fork}")["title"] == "The other"
    assert say("session", "rename", fork, "A", "third").err == f"{fork[:8]} is now “A third”\n"

    kept = say("session", "delete", fork[:8])
    assert (kept.status, kept.err) == (1, "bullpen: nothing was deleted; --yes deletes without a question\n")
    gone = say("session", "delete", fork[:8], "--yes")
    assert (
        gone.err
        == f"deleted {fork[:8]} “A third”, 4 messages; `bullpen session restore {fork[:8]}` brings it back\n"
    )
    assert fork[:8] in say("session", "restore").out
    assert say("session", "restore", fork[:8]).err == f"{fork[:8]} “A third” is back\n"
    assert "no session in this workspace's trash" in say("session", "restore", fork[:8]).err

    assert (client.path / "a.txt").exists()
    assert say("session", "undo", session[:8]).out.startswith("undid turn 1: 1 path")
    assert not (client.path / "a.txt").exists()
    for words in (("show", "zzz"), ("fork", "zzz"), ("delete", "zzz", "-y"), ("undo", "zzz")):
        wrong = say("session", *words)
        assert (wrong.status, wrong.out, wrong.err.startswith("bullpen: no session zzz")) == (1, "", True), (
            words
        )


def test_reading_makes_nothing(server: Bullpen, say: Say) -> None:
    """A folder that was never a workspace does not become one; where there was never a server, none is started."""
    folder = server.home / "projects" / "never"
    folder.mkdir()
    for words in (("list",), ("show",), ("export",), ("search", "x"), ("restore",)):
        say("session", *words, directory=folder)
    assert list(folder.iterdir()) == []
    assert all(known["workspace_path"] != str(folder) for known in server.ok("GET", "/sessions?limit=200"))
    with new_home() as empty:
        assert empty.run_command("session", "list").stderr == "no sessions; --all looks in every folder\n"
        assert list((empty.home / "data").iterdir()) == list((empty.home / "run").iterdir()) == []


def crush(folder: Path, *, wal: bool) -> sqlite3.Connection:
    """A database as the reference leaves it, told from its description."""
    (folder / ".crush").mkdir()
    made = sqlite3.connect(folder / ".crush" / "crush.db")
    made.execute(f"PRAGMA journal_mode={'wal' if wal else 'delete'}")
    parts = [
        {"type": "text", "data": {"text": "what is an echidna?"}},
        {"type": "finish", "data": {"reason": "stop", "time": 0}},
    ]
    answer = [
        {"type": "reasoning", "data": {"thinking": "hm", "signature": ""}},
        {"type": "text", "data": {"text": "One."}},
        {"type": "hologram", "data": {}},
        {
            "type": "tool_call",
            "data": {"id": "t1", "name": "view", "input": "{}", "type": "", "finished": True},
        },
    ]
    result = [
        {
            "type": "tool_result",
            "data": {"tool_call_id": "t1", "name": "view", "content": "x", "metadata": "", "is_error": False},
        }
    ]
    made.executescript(
        """CREATE TABLE sessions (id TEXT PRIMARY KEY, parent_session_id TEXT, title TEXT NOT NULL, message_count INTEGER,
               prompt_tokens INTEGER, completion_tokens INTEGER, cost REAL, updated_at INTEGER, created_at INTEGER,
               summary_message_id TEXT, todos TEXT);
           CREATE TABLE messages (id TEXT PRIMARY KEY, session_id TEXT, role TEXT, parts TEXT, model TEXT, created_at INTEGER,
               updated_at INTEGER, finished_at INTEGER);
           CREATE TABLE files (id TEXT PRIMARY KEY, session_id TEXT, path TEXT, content TEXT, version TEXT, created_at INTEGER,
               updated_at INTEGER);
           INSERT INTO sessions VALUES ('s1', NULL, 'Monotremes', 3, 10, 5, 0.25, 1700000100, 1700000000, NULL,
               '[{"content": "dig", "status": "pending"}]');
           INSERT INTO sessions VALUES ('s2', 's1', 'sub', 0, 0, 0, 0, 1, 1, NULL, NULL)"""
    )
    for n, (role, body) in enumerate(
        (("user", parts), ("assistant", answer), ("tool", result), ("ghost", []))
    ):
        made.execute(
            "INSERT INTO messages VALUES (?, 's1', ?, ?, 'm', ?, 1, NULL)",
            (f"m{n}", role, json.dumps(body), 1700000000 + n),
        )
    for n, path in enumerate((folder / "a.txt", folder / "a.txt", "/elsewhere")):
        made.execute(
            "INSERT INTO files VALUES (?, 's1', ?, ?, ?, ?, 1)",
            (f"f{n}", str(path), f"content {n}", f"v{n}", n),
        )
    made.commit()
    return made


@pytest.mark.parametrize("wal", [False, True])
def test_a_reference_database_is_taken_in_once_and_never_written(client: Client, wal: bool, say: Say) -> None:
    """Also what is only in its write-ahead log; and the conversation goes on."""
    open_there = crush(client.path, wal=wal)
    folder = client.path / ".crush"
    before = {file.name: file.read_bytes() for file in folder.iterdir() if not file.name.endswith("-shm")}
    done = say("import", "crush", str(client.path), "--json")
    assert (done.status, done.json["imported"], done.json["known"], done.json["refused"]) == (0, 1, 0, [])
    assert done.json["skipped"] == {
        "sessions of sub-agents": 1,
        "parts of an unknown kind": 1,
        "messages of an unknown role": 1,
        "versions of files outside the folder": 1,
    }
    assert (
        say("import", "crush", str(client.path)).err.splitlines()[0]
        == "imported 0 sessions; 1 were here already"
    )
    assert before == {
        file.name: file.read_bytes() for file in folder.iterdir() if not file.name.endswith("-shm")
    }
    open_there.close()
    (session,) = client.ok("GET", "/sessions")
    assert (session["title"], session["cost"], session["todos"][0]["content"]) == ("Monotremes", 0.25, "dig")
    assert [m["role"] for m in client.messages(session["id"])] == ["user", "assistant", "tool"]
    assert [h["Version"] for h in client.ok("GET", f"/sessions/{session['id']}/history")] == [0, 1]
    answered = client.stream().completion(client.prompt(session["id"], "and now?", permissions="allow"))
    assert answered["text"].startswith("# One")
    missing = say("import", "crush", str(client.server.home))
    assert (missing.status, "there is no Crush database in" in missing.err) == (1, True)
