"""Sessions are found, forked, rewound, thrown away, had back, sent and taken in, while other clients watch."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.journeys.server import Bullpen, Client, gate, open_gate
from tests.journeys.stream import Stream

SCRIPT = (
    {"calls": [{"id": "c1", "name": "write", "input": {"file_path": "a.txt", "content": "first\n"}}]},
    {"say": "One."},
    {
        "calls": [
            {
                "id": "c2",
                "name": "bash",
                "input": {"description": "x", "command": "echo second > a.txt; echo b > b.txt"},
            }
        ]
    },
    {"say": "Two."},
    {"say": "Three."},
)


def play(client: Client, *texts: str, title: str = "Chosen title") -> tuple[str, Stream]:
    """A turn for each text; gives back the session and the stream that saw it."""
    session, stream = client.session(title), client.stream()
    for text in texts:
        stream.completion(client.prompt(session, text, permissions="allow"))
    return session, stream


def ask(client: Client, session: str, stream: Stream, text: str) -> str:
    """One more turn; the script tells by its answer how much of the conversation the model saw."""
    return str(stream.completion(client.prompt(session, text, permissions="allow"))["text"])


def said(client: Client, session: str) -> list[tuple[str, str]]:
    """Who said what; calls and results are left out."""
    found = []
    for message in client.messages(session):
        text = "".join(p["data"]["text"] for p in message["parts"] if p["type"] == "text")
        if text:
            found.append((message["role"], text))
    return found


def test_a_fork_goes_on_from_where_it_was_made(shared: Bullpen) -> None:
    client = shared.attach(shared.project(*SCRIPT))
    session, stream = play(client, "write it", "change it")
    watcher = shared.attach(client.path).stream()
    first = client.messages(session)
    end_of_one = next(m for m in first if any(p["data"].get("text") == "One." for p in m["parts"]))
    fork = client.ok("POST", f"/sessions/{session}/fork", {"message_id": end_of_one["id"], "title": "A fork"})
    watcher.wait(lambda e: e.kind == "session" and e.has(id=fork["id"], message_count=4), "the fork")
    assert (fork["title"], fork["parent_session_id"], fork["cost"]) == ("A fork", "", 0)
    assert said(client, fork["id"]) == [("user", "write it"), ("assistant", "One.")]
    assert {m["id"] for m in client.messages(fork["id"])}.isdisjoint(m["id"] for m in first)
    assert client.messages(session) == first
    # The model has seen two steps there, so it goes on with the third.
    assert ask(client, fork["id"], stream, "and now?") == "Two."
    assert client.ok("GET", f"/sessions/{session}")["message_count"] == len(first)

    whole = client.ok("POST", f"/sessions/{session}/fork")
    assert whole["title"] == "Chosen title (fork)"
    assert said(client, whole["id"]) == said(client, session)
    assert ask(client, whole["id"], stream, "more") == "Three."
    # A fork's messages are found by their words like any others, and its calls come with their results.
    at_call = next(m for m in first if any(p["type"] == "tool_call" for p in m["parts"]))
    third = client.ok("POST", f"/sessions/{session}/fork", {"message_id": at_call["id"]})
    assert [m["role"] for m in client.messages(third["id"])] == ["user", "assistant", "tool"]
    found = {hit["session_id"] for hit in client.ok("GET", "/search?q=write")}
    assert found == {session, fork["id"], whole["id"], third["id"]}
    for body in ({"message_id": "nonsense"}, {"message_id": client.messages(fork["id"])[0]["id"]}):
        assert client.call("POST", f"/sessions/{session}/fork", body).status_code == 400
    assert client.call("POST", "/sessions/nonsense/fork").status_code == 404


def test_a_rewind_takes_back_words_and_files_and_keeps_them(shared: Bullpen) -> None:
    project = shared.project(*SCRIPT)
    client = shared.attach(project)
    session, stream = play(client, "write it", "change it")
    watcher = shared.attach(project).stream()
    before = said(client, session)
    second = client.messages(session)[4]
    where = f"/sessions/{session}/rewind"
    preview = client.ok("GET", f"{where}?message_id={second['id']}")
    assert preview["text"] == "change it"
    assert [m["role"] for m in preview["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert {f["path"]: f["change"] for f in preview["undo"]["files"]} == {
        "a.txt": "modified",
        "b.txt": "deleted",
    }

    outdated = client.call("POST", where, {"message_id": second["id"], "fingerprint": "0" * 32})
    assert (outdated.status_code, outdated.json()["code"]) == (409, "preview_outdated")
    assert said(client, session) == before
    wanted = {"message_id": second["id"], "files": True, "fingerprint": preview["fingerprint"]}
    done = client.ok("POST", where, wanted)
    assert (done["text"], done["removed"], sorted(done["undone"]["restored"])) == (
        "change it",
        4,
        ["a.txt", "b.txt"],
    )
    assert said(client, session) == before[:2]
    assert (project / "a.txt").read_text() == "first\n"
    assert not (project / "b.txt").exists()
    watcher.wait(
        lambda e: e.kind == "message" and e.action == "deleted" and e.has(id=second["id"]), "the cut"
    )
    watcher.wait(lambda e: e.kind == "session" and e.has(id=session, message_count=4), "the session")
    assert ask(client, session, stream, "change it otherwise") == "Two."

    # What was cut off is in the trash, whole, and can be gone on with.
    (kept,) = client.ok("GET", "/trash")
    assert kept["session"]["id"] == done["trash_id"]
    assert client.call("GET", f"/sessions/{done['trash_id']}").status_code == 404
    back = client.ok("POST", f"/trash/{done['trash_id']}/restore")
    assert back["title"] == "Chosen title (before a rewind)"
    assert said(client, back["id"]) == before
    assert ask(client, back["id"], stream, "more") == "Three."

    # To the very beginning, the files staying as they are.
    first = client.messages(session)[0]["id"]
    client.ok("POST", where, {"message_id": first})
    assert client.messages(session) == []
    assert (project / "b.txt").exists()
    assert ask(client, session, stream, "again") == "One."
    for body in ({"message_id": first}, {}, {"message_id": client.messages(session)[1]["id"]}):
        refused = client.call("POST", where, body)
        assert (refused.status_code, refused.json()["message"]) == (
            400,
            "message_id names no message of a person's in this session",
        )


def test_a_fork_undoes_what_was_changed_before_it_in_the_originals_name(shared: Bullpen) -> None:
    project = shared.project(*SCRIPT)
    client = shared.attach(project)
    session, _ = play(client, "write it", "change it")

    def turns(of: str) -> list[tuple[str, str, bool]]:
        listed = client.ok("GET", f"/sessions/{of}/changes")
        return [(t["prompt"], t["state"], t.get("inherited", False)) for t in listed]

    def fork(of: str, text: str = "") -> str:
        at = [m["id"] for m in client.messages(of) if text and m["parts"][0]["data"].get("text") == text]
        return str(client.ok("POST", f"/sessions/{of}/fork", {"message_id": at[0]} if at else {})["id"])

    one, two = (t["turn"] for t in reversed(client.ok("GET", f"/sessions/{session}/changes")))
    early, whole, half = fork(session, "One."), fork(session), fork(session, "change it")
    again = fork(whole, "One.")
    assert turns(whole) == [("change it", "changed", True), ("write it", "changed", True)]
    assert turns(early) == turns(half) == turns(again) == [("write it", "changed", True)]
    assert client.call("POST", f"/sessions/{early}/changes/{two}/undo").status_code == 404

    # The second turn wrote over the first: whoever undoes that now is told, wherever they are.
    refused = client.call("POST", f"/sessions/{early}/changes/{one}/undo")
    assert (refused.status_code, refused.json()["code"]) == (409, "undo_conflict")
    preview = client.ok("GET", f"/sessions/{whole}/changes/{two}/undo")
    done = client.ok("POST", f"/sessions/{whole}/changes/{two}/undo", {"fingerprint": preview["fingerprint"]})
    assert (done["session_id"], sorted(done["restored"])) == (whole, ["a.txt", "b.txt"])
    assert ((project / "a.txt").read_text(), (project / "b.txt").exists()) == ("first\n", False)
    assert turns(session)[0] == ("change it", "undone", False)
    assert turns(whole)[0] == ("change it", "undone", True)
    for each in (session, whole):
        assert "I undid what an earlier turn changed" in said(client, each)[-1][1]
    assert said(client, early)[-1] == ("assistant", "One.")

    # Either of the two redoes it, once; a fork that did not ask has nothing to redo.
    assert client.call("POST", f"/sessions/{half}/changes/redo").json()["code"] == "nothing_to_undo"
    client.ok("POST", f"/sessions/{session}/changes/redo")
    assert client.call("POST", f"/sessions/{whole}/changes/redo").json()["code"] == "nothing_to_undo"
    assert (turns(whole)[0][1], (project / "b.txt").exists()) == ("changed", True)

    # What is cut off, or in the trash, cannot be undone; both come back.
    second = next(m for m in client.messages(whole) if m["parts"][0]["data"].get("text") == "change it")
    cut = client.ok("POST", f"/sessions/{whole}/rewind", {"message_id": second["id"], "files": True})
    assert (turns(whole), (project / "b.txt").exists()) == ([("write it", "changed", True)], True)
    client.ok("POST", f"/trash/{cut['trash_id']}/restore")
    assert len(turns(cut["trash_id"])) == 2
    client.ok("DELETE", f"/sessions/{session}")
    assert turns(whole) == []
    client.ok("POST", f"/trash/{session}/restore")
    assert turns(whole) == [("write it", "changed", True)]
    client.ok("DELETE", f"/sessions/{early}")
    client.ok("DELETE", f"/trash/{early}")


def test_the_list_of_things_to_do_goes_back_with_the_conversation(shared: Bullpen) -> None:
    """To what the last call that is left made of it; one of a person's stays while nothing that goes has changed it."""

    def listing(*done: str) -> dict[str, Any]:
        todos = [{"content": text, "status": "completed", "active_form": text} for text in done]
        return {"calls": [{"name": "todos", "input": {"todos": todos}}]}

    client = shared.attach(
        shared.project(
            {"say": "Nothing yet."},
            *(listing("read"), {"say": "One."}),
            *(listing("read", "write"), {"say": "Two."}),
            {"calls": [{"name": "todos", "input": {"todos": [{"content": "", "status": "pending"}]}}]},
            {"say": "Three."},
        )
    )
    session, _ = play(client, "begin", "list", "more", "badly")
    watcher = shared.attach(client.path).stream()

    def todos() -> list[str]:
        return [todo["content"] for todo in client.ok("GET", f"/sessions/{session}").get("todos", [])]

    def rewind(text: str) -> None:
        found = next(m for m in client.messages(session) if m["parts"][0]["data"].get("text") == text)
        client.ok("POST", f"/sessions/{session}/rewind", {"message_id": found["id"]})

    def fork(text: str) -> list[str]:
        found = next(m for m in client.messages(session) if m["parts"][0]["data"].get("text") == text)
        made = client.ok("POST", f"/sessions/{session}/fork", {"message_id": found["id"]})
        return [todo["content"] for todo in made.get("todos", [])]

    assert (todos(), fork("Three."), fork("Two.")) == (["read", "write"],) * 3
    assert (fork("One."), fork("list"), fork("Nothing yet.")) == (["read"], [], [])
    rewind("badly")
    assert todos() == ["read", "write"]
    rewind("more")
    watcher.wait(
        lambda e: e.kind == "session" and e.has(id=session) and len(e.data["todos"]) == 1, "the shorter list"
    )
    assert todos() == ["read"]
    (kept, *_) = client.ok("GET", "/trash")
    assert len(kept["session"]["todos"]) == 2
    rewind("list")
    assert todos() == []
    mine = {"content": "mine", "status": "pending", "active_form": "mine"}
    client.ok("PUT", f"/sessions/{session}", {"todos": [mine]})
    rewind("begin")
    assert todos() == ["mine"]


def test_a_rewind_that_would_touch_somebodys_edit_does_nothing(shared: Bullpen) -> None:
    project = shared.project(*SCRIPT)
    client = shared.attach(project)
    session, _ = play(client, "write it", "change it")
    (project / "b.txt").write_text("a person's\n")
    before, second = client.messages(session), client.messages(session)[4]["id"]
    refused = client.call("POST", f"/sessions/{session}/rewind", {"message_id": second, "files": True})
    assert (refused.status_code, refused.json()["code"]) == (409, "undo_conflict")
    assert client.messages(session) == before
    assert (project / "a.txt").read_text() == "second\n"
    assert client.ok("GET", "/trash") == []


def test_a_busy_session_is_not_rewound_and_can_be_forked(shared: Bullpen, tmp_path: Path) -> None:
    client = shared.attach(
        shared.project({"say": "One."}, {"calls": [gate(tmp_path / "gate")]}, {"say": "Two."})
    )
    session, stream = play(client, "hello")
    run = client.prompt(session, "wait", permissions="allow")
    stream.wait(lambda e: e.kind == "message" and "call_gate" in json.dumps(e.data), "the call")
    first = client.messages(session)[0]["id"]
    refused = client.call("POST", f"/sessions/{session}/rewind", {"message_id": first})
    assert (refused.status_code, refused.json()["code"]) == (409, "session_busy")
    known = {k["session"]["id"]: k for k in shared.ok("GET", "/sessions?state=running")}
    assert known[session]["workspace_path"] == str(client.path)
    fork = client.ok("POST", f"/sessions/{session}/fork")
    assert said(client, fork["id"])[:2] == [("user", "hello"), ("assistant", "One.")]
    open_gate(tmp_path / "gate")
    stream.completion(run)


def test_the_trash_keeps_what_was_deleted(shared: Bullpen) -> None:
    client = shared.attach(shared.project(*SCRIPT))
    session, stream = play(client, "write the xylophone")
    watcher = shared.attach(client.path).stream()
    client.ok("POST", f"/sessions/{session}/pins", {"text": "carry me"})
    client.ok("PUT", f"/sessions/{session}/choices", {"budget": {"run": 5}})
    before, versions = client.messages(session), client.ok("GET", f"/sessions/{session}/history")
    changed = client.ok("GET", f"/sessions/{session}/changes")
    client.ok("DELETE", f"/sessions/{session}")
    watcher.wait(lambda e: e.kind == "session" and e.action == "deleted" and e.has(id=session), "the end")
    assert client.call("GET", f"/sessions/{session}").status_code == 404
    assert client.messages(session) == []
    assert client.ok("GET", "/search?q=xylophone") == shared.ok("GET", "/search?q=xylophone") == []
    assert session not in {k["session"]["id"] for k in shared.ok("GET", "/sessions?limit=200")}
    (kept,) = client.ok("GET", "/trash")
    assert (kept["session"]["title"], kept["until"] - kept["deleted_at"]) == ("Chosen title", 30 * 86_400)

    client.ok("POST", f"/trash/{session}/restore")
    watcher.wait(lambda e: e.kind == "session" and e.action == "created" and e.has(id=session), "its return")
    assert client.messages(session) == before
    assert client.ok("GET", f"/sessions/{session}/history") == versions
    assert client.ok("GET", f"/sessions/{session}/changes") == changed
    assert [p["text"] for p in client.ok("GET", f"/sessions/{session}/pins")] == ["carry me"]
    assert client.ok("GET", f"/sessions/{session}/choices")["budget"] == {"run": 5}
    assert len(client.ok("GET", "/search?q=xylophone")) == 1
    client.ok("POST", f"/sessions/{session}/changes/{changed[0]['turn']}/undo")
    assert not (client.path / "a.txt").exists()
    assert ask(client, session, stream, "go on") == "Two."

    client.ok("DELETE", f"/sessions/{session}")
    client.ok("DELETE", f"/trash/{session}")
    assert client.ok("GET", "/trash") == []
    for method, path in (("POST", f"/trash/{session}/restore"), ("DELETE", f"/trash/{session}")):
        assert client.call(method, path).status_code == 404


def test_sessions_and_words_are_found_in_workspaces_that_are_closed(shared: Bullpen) -> None:
    client = shared.attach(shared.project({"say": "The zeppelin."}))
    session, _ = play(client, "what is it?", title="Airships")
    client.leave()
    assert str(client.path) not in shared.workspaces()
    (hit,) = shared.ok("GET", "/search?q=zeppelin")
    assert (hit["workspace_path"], hit["title"], hit["hit"]["session_id"]) == (
        str(client.path),
        "Airships",
        session,
    )
    assert hit["hit"]["snippet"] == "The [zeppelin]."
    known = shared.ok("GET", "/sessions?limit=200")
    (found,) = (each for each in known if each["session"]["id"] == session)
    assert (found["state"], found["model"], found["session"]["message_count"]) == ("done", "player", 2)
    assert (found["workspace_path"], found["session"]["attached_clients"]) == (str(client.path), 0)
    pages = [shared.ok("GET", "/sessions?limit=1")]
    while page := shared.ok("GET", f"/sessions?limit=1&before={pages[-1][-1]['session']['id']}"):
        pages.append(page)
    assert [each for page in pages for each in page] == known
    assert shared.ok("GET", "/sessions?before=nonsense") == []
    for query in ("state=asleep", "limit=0", "limit=201", "limit=x"):
        assert shared.call("GET", f"/sessions?{query}").status_code == 400
    assert shared.call("GET", "/search").status_code == 400


def test_a_session_that_waits_for_an_answer_is_told_from_others(shared: Bullpen) -> None:
    client = shared.attach(shared.project(*SCRIPT))
    session, stream = client.session(), client.stream()
    client.prompt(session, "write it")
    stream.wait(lambda e: e.kind == "permission_request", "the ask")
    waiting = [k["session"]["id"] for k in shared.ok("GET", "/sessions?state=waiting")]
    assert waiting == [session]
    client.cancel(session)
    assert shared.ok("GET", "/sessions?state=waiting") == []


def test_a_document_is_taken_in_elsewhere_and_gone_on_with(shared: Bullpen) -> None:
    project = shared.project(*SCRIPT)
    client = shared.attach(project)
    session, _ = play(client, "write it with api_key=abcdef0123456789")
    client.ok("POST", f"/sessions/{session}/pins", {"text": "carry me"})
    document = client.ok("GET", f"/sessions/{session}/export")
    assert (document["format"], document["version"]) == ("bullpen-session", 1)
    assert [(f["path"], f["version"], f["content"]) for f in document["files"]] == [
        ("a.txt", 0, ""),
        ("a.txt", 1, "first\n"),
    ]
    other = shared.attach(shared.project(*SCRIPT))
    taken = other.ok("POST", "/sessions/import", document)
    assert taken["is_new"]
    made = taken["session"]["id"]
    assert said(other, made) == said(client, session)
    assert [p["text"] for p in other.ok("GET", f"/sessions/{made}/pins")] == ["carry me"]
    again = other.ok("GET", f"/sessions/{made}/export")
    assert plain(again) == plain(document)
    assert ask(other, made, other.stream(), "go on") == "Two."

    hidden = json.dumps(client.ok("GET", f"/sessions/{session}/export?redact=1"))
    assert "abcdef0123456789" not in hidden
    assert "abcdef0123456789" in json.dumps(document)
    once = document | {"origin": "elsewhere:1"}
    first, second = (other.ok("POST", "/sessions/import", once) for _ in range(2))
    assert (second["is_new"], second["session"]["id"]) == (False, first["session"]["id"])


def plain(value: Any) -> Any:
    """A document without ids and times."""
    if isinstance(value, dict):
        names = {"id", "session_id", "summary_message_id", "time", "started_at", "finished_at"}
        return {k: plain(v) for k, v in value.items() if k not in names and not k.endswith("ed_at")}
    return [plain(each) for each in value] if isinstance(value, list) else value


def test_a_document_that_cannot_be_is_refused_with_the_place(shared: Bullpen) -> None:
    client = shared.attach(shared.project(*SCRIPT))
    session, _ = play(client, "write it")
    good = client.ok("GET", f"/sessions/{session}/export")
    message = good["messages"][0]
    count = len(client.ok("GET", "/sessions"))
    for change, told in (
        ({"version": 2}, "$.version"),
        ({"format": "other"}, "$.format"),
        ({"more": 1}, "unknown field `more`"),
        ({"messages": [message | {"role": "nobody"}]}, "$.messages[0].role"),
        ({"messages": [message | {"parts": [{"type": "odd", "data": {}}]}]}, "$.messages[0].parts[0].type"),
        ({"messages": [message | {"parts": []}]}, "messages[0] has no finish part"),
        ({"messages": [message, message]}, "messages[1].id is used twice"),
        (
            {"files": [{"path": "../x", "content": "", "version": 0}]},
            "files[0].path does not lie in the workspace",
        ),
        ({"files": [{"path": "/etc/x", "content": "", "version": 0}]}, "files[0].path"),
        ({"session": good["session"] | {"summary_message_id": "x"}}, "session.summary_message_id"),
        ({"session": good["session"] | {"cost": -1}}, "$.session.cost"),
    ):
        refused = client.call("POST", "/sessions/import", good | change)
        assert refused.status_code == 400, change
        assert told in refused.json()["message"]
    assert client.call("POST", "/sessions/import", content=b"nonsense").status_code == 400
    assert len(client.ok("GET", "/sessions")) == count


def test_a_rewind_that_was_killed_is_done_when_the_workspace_opens(home: Bullpen) -> None:
    """Words and files go together: nobody sees the ones back and the others not."""
    project = home.project(*SCRIPT)
    client = home.start(BULLPEN_FAILPOINTS="undo-begun=kill").attach(project)
    session, _ = play(client, "write it", "change it")
    before, messages = said(client, session), client.messages(session)

    def rewind(to: int) -> Client:
        body, client = {"message_id": messages[to]["id"], "files": True}, home.attach(project)
        with pytest.raises(httpx.TransportError):
            client.call("POST", f"/sessions/{session}/rewind", body)
        home.exited()
        home.start(BULLPEN_FAILPOINTS="undo-restored=kill")
        return home.attach(project)

    again = rewind(4)
    assert said(again, session) == before[:2]
    assert ((project / "a.txt").read_text(), (project / "b.txt").exists()) == ("first\n", False)
    again = rewind(0)
    assert (said(again, session), (project / "a.txt").exists()) == ([], False)
    assert [each["session"]["message_count"] for each in again.ok("GET", "/trash")] in ([4, 8], [8, 4])
    assert ask(again, session, again.stream(), "once more") == "One."


_texts = st.text(st.characters(codec="utf-8"), max_size=30)
_parts = st.one_of(
    st.builds(lambda text: {"type": "text", "data": {"text": text}}, _texts),
    st.builds(lambda text: {"type": "reasoning", "data": {"thinking": text, "signature": ""}}, _texts),
    st.builds(
        lambda call, text: {
            "type": "tool_call",
            "data": {"id": call, "name": "view", "input": text, "finished": True},
        },
        _texts,
        _texts,
    ),
    st.builds(
        lambda path, data: {"type": "binary", "data": {"Path": path, "MIMEType": "image/png", "Data": data}},
        st.sampled_from(["", "a.png", "sub/b.png"]),
        st.binary(max_size=9).map(lambda raw: base64.b64encode(raw).decode()),
    ),
    st.builds(
        lambda text: {"type": "shell_command", "data": {"command": text, "output": text, "exit_code": 3}},
        _texts,
    ),
)
_END = {"type": "finish", "data": {"reason": "stop", "time": 0}}
_messages = st.lists(
    st.builds(
        lambda role, parts, model: {
            "role": role,
            "parts": [*parts, _END],
            "model": model,
            "provider": "",
            "session_id": "",
        },
        st.sampled_from(["user", "assistant", "tool"]),
        st.lists(_parts, max_size=3),
        _texts,
    ),
    max_size=5,
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    messages=_messages,
    title=_texts,
    pins=st.lists(_texts.filter(str.strip), max_size=2),
    contents=st.lists(_texts, max_size=2),
)
def test_whatever_is_exported_comes_back_the_same(
    shared: Bullpen, messages: list[Any], title: str, pins: list[str], contents: list[str]
) -> None:
    """Up to ids and times: a document is taken in, handed out, taken in and handed out."""
    client = shared.attach(shared.home / "projects" / "roundtrip")
    times = {"created_at": 5, "updated_at": 6}
    document: dict[str, Any] = {
        "format": "bullpen-session",
        "version": 1,
        "session": {
            "title": title,
            "cost": 0.5,
            "todos": [{"content": title, "status": "pending", "active_form": ""}],
            **times,
        },
        "messages": [{**message, "id": f"m{n}", **times} for n, message in enumerate(messages)],
        "pins": [{"text": text} for text in pins],
        "files": [{"path": "a/b.txt", "content": text, "version": n} for n, text in enumerate(contents)],
    }
    handed_out = []
    for _ in range(2):
        made = client.ok("POST", "/sessions/import", document)["session"]["id"]
        document = client.ok("GET", f"/sessions/{made}/export")
        # Notes of one second are told in the order of their ids.
        document["pins"] = sorted(document.get("pins", []), key=lambda pin: pin["text"])
        handed_out.append(plain(document))
    assert handed_out[0] == handed_out[1]
    assert [m["parts"] for m in document["messages"]] == [m["parts"] for m in messages]
    assert (document["session"]["title"], document["session"]["created_at"]) == (title, 5)
