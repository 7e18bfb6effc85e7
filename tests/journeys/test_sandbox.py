"""A sandbox around the agent's commands, as clients see it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.journeys.server import Bullpen, Client, config
from tests.journeys.stream import parts_of

from bullpen.system.sandbox import no_landlock

pytestmark = pytest.mark.skipif(bool(no_landlock()), reason=no_landlock())


def options(mode: str) -> dict[str, Any]:
    return {"disable_default_providers": True, "sandbox": {"mode": mode}}


def results(client: Client, session_id: str) -> list[str]:
    return [r["content"] for m in client.messages(session_id) for r in parts_of(m, "tool_result")]


def test_everybody_sees_the_walls_and_commands_stay_within(shared: Bullpen) -> None:
    """Also Bullpen's own data are out of their sight; what a person types has no walls."""
    out = shared.home / "out"
    command = f"echo inside > in; echo outside > {out}; head -c 6 {shared.data}/bullpen.db"
    call = {"id": "c", "name": "bash", "input": {"description": "try", "command": command}}
    project = shared.project({"calls": [call]}, {"say": "done"}, options=options("landlock"))
    client = shared.attach(project)
    assert client.info["sandbox"] == {"mode": "landlock", "network": False, "why": ""}
    stream, session_id = client.stream(), client.session()
    stream.completion(client.prompt(session_id, "go", permissions="allow"))
    (told,) = results(client, session_id)
    assert ((project / "in").read_text(), out.exists(), "SQLite" in told) == ("inside\n", False, False)
    assert "It ran in a sandbox" in told
    client.ok("POST", f"/agent/sessions/{session_id}/shell", {"command": f"echo mine > {out}"})
    assert out.read_text() == "mine\n"


def test_a_change_is_shown_and_holds_for_the_next_command(shared: Bullpen) -> None:
    """Without anybody having to ask."""
    call = {
        "id": "c",
        "name": "bash",
        "input": {"description": "look", "command": "echo in ${BULLPEN_SANDBOX-none}"},
    }
    script = ({"calls": [call]}, {"say": "done"})
    client = shared.attach(shared.project(*script, options=options("off")))
    assert client.info["sandbox"]["mode"] == "off"
    stream, session_id = client.stream(), client.session()
    (client.path / "bullpen.json").write_text(json.dumps(config(script, options=options("landlock"))))
    assert stream.next("sandbox")["mode"] == "landlock"
    stream.completion(client.prompt(session_id, "go", permissions="allow"))
    assert results(client, session_id)[0].startswith("in landlock\n")
