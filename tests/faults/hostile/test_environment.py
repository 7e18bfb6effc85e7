"""Variables that run code, sent by everybody who could: no command of the agent ever sees them (X-23)."""

from __future__ import annotations

import json
import os

from tests.conftest import Figure
from tests.journeys.server import Bullpen
from tests.journeys.stream import parts_of
from tests.system.test_environment import HOSTILE

EVIL = "evil-value"

LOOK = "env; export -p; declare -F"
WAYS = ("{}=x ls", "export {}=x; ls", "env {}=x ls", "declare -x {}=x && ls", "{}=x; ls")


def test_no_variable_that_runs_code_reaches_a_command(home: Bullpen, figure: Figure) -> None:
    """Not from a client, not from a trusted project's config and `.env`, not from the model's arguments; and a command that
    sets one itself is never taken for a plain read."""
    call = {"description": "look", "command": LOOK, "env": dict.fromkeys(HOSTILE, EVIL)}
    script = ({"calls": [{"id": "c", "name": "bash", "input": call}]}, {"say": "done"})
    project = home.project(*script, env=dict.fromkeys(HOSTILE, EVIL))
    (project / ".env").write_text("".join(f"{name}={EVIL}\n" for name in HOSTILE))
    server = home.start()
    sent = [*(f"{name}={EVIL}" for name in HOSTILE), f"PATH=.:{os.environ['PATH']}", "KEPT=kept"]
    client = server.attach(project, env=sent)
    stream, session_id = client.stream(), client.session()
    stream.completion(client.prompt(session_id, "look", permissions="allow"))
    (told,) = [r for m in client.messages(session_id) for r in parts_of(m, "tool_result")]
    seen = json.loads(told["metadata"])["output"]
    assert ("KEPT=kept" in seen, "\nPATH=.:" in seen, EVIL in seen) == (True, False, False)
    explained = [
        client.ok("POST", "/permissions/explain", {"tool": "bash", "command": way.format(name)})["outcome"]
        for name in HOSTILE
        for way in WAYS
    ]
    assert set(explained) == {"asked"}
    figure(
        "X-23",
        "ATTK",
        f"{len(HOSTILE)} variables from client, project and model: 0 reached a command; 0 of {len(explained)} commands that set "
        "one ran unasked",
    )
