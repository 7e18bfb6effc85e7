"""Files for completion and prompts on a real server: found by a few letters, read in bounds, and never outside the workspace."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from tests.journeys.server import Bullpen, Client, until

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@pytest.fixture
def client(shared: Bullpen) -> Client:
    rule = {"effect": "deny", "tool": "view", "path": "secret/**"}
    path = shared.project({"say": "ok"}, permissions={"rules": [rule]})
    for name, content in {
        "src/main.py": "".join(f"line {n}\n" for n in range(1, 31)),
        "src/ignored.py": "",
        "src/.hidden.py": "",
        "node_modules/pkg/main.py": "",
        "secret/main.py": "key",
        "pic.png": "",
        "blob.bin": "\0\0",
        ".gitignore": "ignored.py\n",
    }.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(content)
    (path / "pic.png").write_bytes(PNG)
    (path / "way-out").symlink_to(shared.home)
    return shared.attach(path)


def found(client: Client, query: str) -> list[str]:
    return [hit["path"] for hit in client.ok("GET", f"/files?query={query}&limit=20")]


def content(client: Client, query: str) -> tuple[str, bytes]:
    read: dict[str, Any] = client.ok("GET", f"/files/content?{query}")
    return read["mime_type"], base64.b64decode(read["content"])


def test_files_are_found_without_what_is_hidden_ignored_denied_or_outside(client: Client) -> None:
    assert found(client, "main") == ["src/main.py"]
    assert found(client, "src") == ["src/", "src/main.py"]
    assert "way-out" not in " ".join(found(client, ""))
    assert found(client, "hidden") == found(client, "ignored") == found(client, "node_modules") == []
    (client.path / "src/newcomer.py").touch()
    until(lambda: found(client, "newcomer") == ["src/newcomer.py"], "the new file to be offered")
    (client.path / "src/newcomer.py").unlink()
    assert found(client, "newcomer") == [], "what is gone is not offered, also from an old list"


def test_text_lines_images_and_folders_are_read_as_attachments(client: Client) -> None:
    kind, text = content(client, "path=src/main.py")
    assert kind.startswith("text/")
    assert text.splitlines()[::29] == [b"line 1", b"line 30"]
    assert content(client, "path=src/main.py&lines=10-12")[1] == b"line 10\nline 11\nline 12"
    assert content(client, "path=src/main.py&lines=7")[1] == b"line 7"
    assert content(client, "path=pic.png") == ("image/png", PNG)
    assert content(client, "path=src/") == ("text/plain", b"src/main.py")


@pytest.mark.parametrize(
    "query",
    [
        "path=/etc/passwd",
        "path=../../config/bullpen",
        "path=way-out/data",
        "path=secret/main.py",
        "path=blob.bin",
        "path=missing.py",
        "path=src/main.py&lines=9-3",
        "path=src/main.py&lines=abc",
        "path=%00",
    ],
)
def test_what_cannot_be_read_is_refused_in_words(client: Client, query: str) -> None:
    answer = client.call("GET", f"/files/content?{query}")
    assert answer.status_code == 400
    assert answer.json()["message"]
