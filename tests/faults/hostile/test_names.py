"""Names are only names: whatever they spell, nothing runs, nothing breaks, and they come back as they went in (X-28)."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw
import pytest
from tests.conftest import Figure
from tests.journeys.server import Bullpen, Client, config

NAMES = [
    re.sub(
        r"\\(x[0-9a-f]{2}|u[0-9a-f]{4}|[nr\\])",
        lambda found: {"n": "\n", "r": "\r", "\\": "\\"}.get(found[1]) or chr(int(found[1][1:], 16)),
        line,
    )
    for line in Path(__file__).with_name("names.txt").read_text().split("\n")
    if line
] + ["long " * 20_000]

LOG_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (DEBUG|INFO|WARNING|ERROR) [a-z0-9_.]+: ")
CANARY = "CANARY"


def is_text(name: str) -> bool:
    """Whether it can be sent at all: half of a surrogate pair is no text, and JSON has no other word for it."""
    return not any(0xD800 <= ord(c) < 0xE000 for c in name)


def send(client: Client, method: str, path: str, body: Any = None) -> Any:
    """The answer to a request whose body may hold what no text can; it never is a 5xx."""
    answer = client.call(method, path, content=json.dumps(body) if body is not None else None)
    assert answer.status_code < 500, f"{method} {path} {body!r}: {answer.text}"
    return answer


@pytest.fixture
def client(home: Bullpen) -> Client:
    """A project whose branch, files, models and servers have bad names too."""
    home.start()
    path = home.home / "projects" / "p"
    path.mkdir()
    for number, name in enumerate(n for n in NAMES if usable_as_file(n)):
        (path / name).write_text(f"{number}\n")
    settings = config([{"say": "hi"}, {"say": "hi"}])
    settings["mcp"] = {n: {"type": "stdio", "command": "/bin/false"} for n in NAMES[:20]}
    models = [
        {"id": n, "name": n, "context_window": 1000, "default_max_tokens": 10} for n in NAMES if is_text(n)
    ]
    settings["providers"]["script"]["models"] += models[:-1]
    (path / "bullpen.json").write_text(json.dumps(settings))
    subprocess.run(["git", "init", "-q", "-b", "$(touch${IFS}CANARY)"], cwd=path, check=True)
    return home.attach(path, client_name=NAMES[0])


def usable_as_file(name: str) -> bool:
    return (
        is_text(name) and "/" not in name and "\0" not in name and name not in {".", ".."} and len(name) < 200
    )


def test_hostile_names_are_only_names(home: Bullpen, client: Client, figure: Figure) -> None:
    stream, session_id = client.stream(), client.session()
    stored: dict[str, str] = {}
    for name in NAMES:
        made = send(client, "POST", "/sessions", {"title": name})
        if is_text(name):
            stored[made.json()["id"]] = name
        for method, path, body in everywhere(name, session_id):
            send(client, method, path, body)
    for session, title in stored.items():
        assert send(client, "GET", f"/sessions/{session}").json()["title"] == title
    for name in (n for n in NAMES if is_text(n) and n.strip() and len(n) < 1_000):
        stream.completion(client.prompt(client.session(name), name))
    listing = client.ok("POST", f"/agent/sessions/{session_id}/shell", {"command": "ls | wc -l"})
    assert int(listing["output"]) > len(NAMES) / 2
    assert not list(home.home.rglob(CANARY)), "something ran"
    check_log(home.log)
    assert home.terminate() == 0
    tables = check_database(home.data / "bullpen.db", stored)
    figure(
        "X-28",
        "ATTK",
        f"{len(NAMES)} hostile names as titles, files, models, servers, clients, queries and prompts: 0 effects, "
        f"{tables} tables intact, every title as it was sent",
    )


def everywhere(name: str, session_id: str) -> list[tuple[str, str, Any]]:
    """Requests with the name in every place that takes one."""
    encoded = quote(name, safe="", errors="surrogatepass")[:8_000]
    sessions = f"/agent/sessions/{encoded}"
    return [
        ("GET", f"/sessions/{encoded}", None),
        ("DELETE", f"/sessions/{encoded}", None),
        ("GET", f"/sessions/{encoded}/messages", None),
        ("GET", f"/search?q={encoded}", None),
        ("GET", f"{sessions}/prompts", None),
        ("POST", f"{sessions}/cancel", None),
        ("GET", f"/filetracker/lastread?session_id={session_id}&path={encoded}", None),
        ("POST", "/filetracker/read", {"session_id": session_id, "path": name}),
        ("GET", f"/lsps/{encoded}/diagnostics", None),
        ("GET", f"/mcp/auth-url?name={encoded}", None),
        ("POST", "/mcp/refresh-tools", {"name": name}),
        ("POST", "/mcp/get-prompt", {"client_id": name, "prompt_id": name, "args": {name: name}}),
        ("GET", f"/agent/default-small-model?provider_id={encoded}", None),
        ("POST", "/skills/read", {"skill_id": name}),
        ("DELETE", f"/permissions/grants/{encoded}", None),
        ("POST", "/questions/cancel", {"batch_request_id": name}),
        ("PUT", f"/sessions/{session_id}", {"title": name, "todos": [{"content": name, "status": name}]}),
        ("POST", "/agent", {"session_id": name, "prompt": "x", "run_id": name, "permissions": name}),
        ("GET", f"/events?client_id={encoded}", None),
    ]


def check_log(text: str) -> None:
    """Each line begins like one of ours, and none of them is one that a name wrote."""
    lines = text.splitlines()
    assert all(LOG_LINE.match(line) for line in lines), [line for line in lines if not LOG_LINE.match(line)][
        :5
    ]
    assert not any(line.split(": ", 1)[-1].startswith("forged") for line in lines)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", text)
    assert "Traceback" not in text


def check_database(path: Path, stored: dict[str, str]) -> int:
    """Nothing is missing, and what is in it is what was sent."""
    with apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        titles = {str(row[0]): row[1] for row in connection.execute("SELECT id, title FROM sessions")}
        assert {session: titles[session] for session in stored} == stored
        tables = connection.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'").fetchall()
    connection.close()
    return int(str(tables[0][0]))
