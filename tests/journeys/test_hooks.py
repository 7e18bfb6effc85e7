"""A person's hooks on a real server: prompts that they refuse or change, and what they get to see."""

from __future__ import annotations

import json

from tests.journeys.server import Bullpen, Client, until

HOOKS = {
    "PrePrompt": [
        {
            "name": "manners",
            "command": """
                read -r told
                case $told in
                    *'"prompt":"rude'*) echo be kind >&2; exit 2;;
                    *'"prompt":"hi'*) echo '{"updated_input": {"prompt": "hello"}, "context": "It is late."}';;
                esac
                echo x >> pre-runs; env > env.new; mv env.new env
            """,
        }
    ],
    "PostPrompt": [{"command": "cat > post.new; mv post.new post"}],
}


def opened(shared: Bullpen) -> Client:
    key = {"type": "openai-compat", "base_url": "http://127.0.0.1:9", "api_key": "$SECRET_KEY"}
    path = shared.project({"say": "ok"}, hooks=HOOKS, env={"MINE": "set"})
    settings = json.loads((path / "bullpen.json").read_text())
    settings["providers"]["other"] = key
    (path / "bullpen.json").write_text(json.dumps(settings))
    return shared.attach(path, env=[f"PATH={shared.env['PATH']}", "SECRET_KEY=hunter2"])


def test_a_refused_prompt_leaves_nothing_but_the_reason(shared: Bullpen) -> None:
    """The sender gets it as an error with a code of its own, everybody else as an event."""
    client = opened(shared)
    stream = client.stream()
    session = client.session()
    answer = client.call("POST", "/agent", {"session_id": session, "prompt": "rude words"})
    assert (answer.status_code, answer.json()["code"]) == (403, "hook_refused")
    assert answer.json()["message"] == "a hook refused this prompt: be kind"
    assert stream.next("hook_decided")["hooks"] == [
        {"name": "manners", "decision": "deny", "reason": "be kind"}
    ]
    assert client.messages(session) == []


def test_a_changed_prompt_is_told_to_its_sender(shared: Bullpen) -> None:
    """Also when it is sent again; the hook is not asked twice for one prompt."""
    client = opened(shared)
    stream = client.stream()
    session = client.session()
    body = {"session_id": session, "prompt": "hi", "run_id": "r1"}
    for _ in range(2):
        answer = client.call("POST", "/agent", body, headers={"Idempotency-Key": "k1"})
        assert answer.json() == {"run_id": "r1", "prompt": "hello"}
    stream.completion("r1")
    said = client.messages(session)[0]["parts"]
    assert said[0]["data"]["text"] == "hello"
    assert said[1]["data"]["Path"] == "hook context"
    assert (client.path / "pre-runs").read_text() == "x\n"
    until((client.path / "post").exists, "the hook")
    assert json.loads((client.path / "post").read_text())["run_id"] == "r1"


def test_a_hook_sees_what_commands_see(shared: Bullpen) -> None:
    """The project's variables, and no key of a provider."""
    client = opened(shared)
    stream = client.stream()
    stream.completion(client.prompt(client.session(), "good day", "r2"))
    lines = (client.path / "env").read_text().splitlines()
    assert {"MINE=set", "BULLPEN_EVENT=PrePrompt", "CRUSH_EVENT=PrePrompt"} <= set(lines)
    assert "hunter2" not in "\n".join(lines)


def test_the_command_line_shows_what_hooks_did(shared: Bullpen) -> None:
    """`bullpen run` prints the answer to a prompt that a hook changed, and says that one did."""
    client = opened(shared)
    done = shared.run_command("run", "-c", str(client.path), "-H", f"unix://{shared.socket}", "hi")
    assert done.stdout == "ok\n"
    assert "PrePrompt: ⚑ hook manners: changed it" in done.stderr
    refused = shared.run_command(
        "run", "-c", str(client.path), "-H", f"unix://{shared.socket}", "rude", check=False
    )
    assert (refused.returncode, "be kind" in refused.stderr) == (5, True)
