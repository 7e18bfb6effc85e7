"""The queue of a session, and standing grants, as several clients handle them over the wire."""

from __future__ import annotations

from typing import Any

import pytest
from tests.journeys.server import Bullpen, Client
from tests.journeys.stream import Stream, text_of

HANG = {"when": "hang", "say": "working", "hang": True}
ANSWERS = [{"when": f"p{n}", "say": f"a{n}"} for n in range(4)]


@pytest.fixture
def room(shared: Bullpen) -> tuple[Client, Client, Stream, str]:
    """Ana and ben in one session with a turn that hangs and four prompts behind it."""
    ana = shared.attach(shared.project(HANG, *ANSWERS))
    ben = shared.attach(ana.path)
    stream, session_id = ben.stream(), ana.session()
    ana.prompt(session_id, "hang", "r")
    stream.speaking(session_id, "working")
    for n in range(4):
        ana.prompt(session_id, f"p{n}", f"r{n}")
    return ana, ben, stream, session_id


def queue(client: Client, session_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.ok("GET", f"/agent/sessions/{session_id}/prompts")
    return found


def texts(prompts: list[dict[str, Any]]) -> list[str]:
    return [p["text"] for p in prompts]


def test_anybody_edits_and_moves_a_waiting_prompt(room: tuple[Client, Client, Stream, str]) -> None:
    """Ana wrote it, ben changes it; everybody is told, and the number stays."""
    _, ben, stream, session_id = room
    last = queue(ben, session_id)[-1]
    changed = ben.ok(
        "PATCH", f"/agent/sessions/{session_id}/prompts/{last['seq']}", {"index": 0, "prompt": "p3 first"}
    )
    assert (changed["seq"], changed["run_id"]) == (last["seq"], "r3")
    assert texts(queue(ben, session_id)) == ["p3 first", "p0", "p1", "p2"]
    stream.wait(
        lambda e: e.kind == "queue_changed" and texts(e.data["prompts"])[:1] == ["p3 first"], "the new order"
    )


def test_a_prompt_is_withdrawn_by_its_number(room: tuple[Client, Client, Stream, str]) -> None:
    """It leaves no row, and its run ends as cancelled; again it is not found."""
    ana, ben, stream, session_id = room
    seq = queue(ben, session_id)[1]["seq"]
    path = f"/agent/sessions/{session_id}/prompts/{seq}"
    ben.ok("DELETE", path)
    assert stream.completion("r1")["cancelled"] is True
    assert ben.call("DELETE", path).status_code == 404
    assert ben.call("PATCH", path, {"prompt": "x"}).status_code == 404
    assert texts(queue(ana, session_id)) == ["p0", "p2", "p3"]
    assert "p1" not in [text_of(m) for m in ana.messages(session_id)]


def test_a_cancel_gives_the_texts_back_in_their_order(room: tuple[Client, Client, Stream, str]) -> None:
    _, ben, stream, session_id = room
    assert ben.cancel(session_id) == {"dropped": ["p0", "p1", "p2", "p3"]}
    assert stream.completion("r")["cancelled"] is True
    assert queue(ben, session_id) == []


def test_an_exact_grant_is_listed_holds_in_every_session_and_can_be_taken_back(shared: Bullpen) -> None:
    """`allow_exact` lets the very same call through from then on; another one asks."""
    call = {"calls": [{"name": "bash", "input": {"command": "touch made", "description": "d"}}]}
    client = shared.attach(shared.project(call, {"say": "done"}))
    stream = client.stream()
    client.prompt(client.session(), "go", "r1")
    assert client.grant(stream.next("permission_request"), "allow_exact") is True
    stream.completion("r1")
    client.prompt(client.session(), "go", "r2")
    stream.completion("r2")
    assert len(stream.seen("permission_request")) == 1
    (grant,) = client.ok("GET", "/permissions/grants")
    assert (grant["scope"], grant["tool_name"], bool(grant["fingerprint"])) == ("exact", "bash", True)
    client.ok("DELETE", f"/permissions/grants/{grant['id']}")
    client.prompt(client.session(), "go", "r3")
    stream.wait(
        lambda e: e.kind == "permission_request" and len(stream.seen("permission_request")) == 2, "asked"
    )


def test_a_refusal_with_a_reason_goes_to_the_model(shared: Bullpen) -> None:
    """The turn goes on; without a reason it would end."""
    call = {"calls": [{"name": "bash", "input": {"command": "touch made", "description": "d"}}]}
    client = shared.attach(shared.project(call, {"say": "then not"}))
    stream, session_id = client.stream(), client.session()
    client.prompt(session_id, "go", "r1")
    asked = stream.next("permission_request")
    client.ok("POST", "/permissions/grant", {"permission": asked, "action": "deny", "reason": "use make"})
    assert stream.completion("r1")["text"] == "then not"
    results = [
        p["data"]["content"]
        for m in client.messages(session_id)
        if m["role"] == "tool"
        for p in m["parts"][:1]
    ]
    assert "use make" in results[0]
