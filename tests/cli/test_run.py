"""`bullpen run` as scripts and people use it, against the stand-in."""

import json
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import anyio
import anyio.to_thread
import pytest
from tests.cli.conftest import BULLPEN, Command, Open
from tests.client.standin import StandIn, message, session

pytestmark = pytest.mark.timeout(60)

TOUR = {"id": "demo", "name": "Tour", "type": "demo", "models": [{"id": "tour", "name": "Guided"}]}


def answers(server: StandIn, *texts: str, **end: Any) -> Callable[[dict[str, Any]], None]:
    """A turn with one message per text, whose last is the answer."""

    def play(body: dict[str, Any]) -> None:
        session_id = body["session_id"]
        server.emit("message", message("u", body["prompt"], role="user", session_id=session_id))
        for n, text in enumerate(texts):
            server.emit("message", message(f"a{n}", session_id=session_id))
            for at in range(0, len(text), 4):
                server.delta(f"a{n}", at, text[at : at + 4], session_id=session_id)
            server.emit(
                "message", message(f"a{n}", text, finish="end_turn", session_id=session_id), "updated"
            )
        named = {"session_id": session_id, "run_id": body["run_id"], "message_id": f"a{len(texts) - 1}"}
        server.emit("run_complete", {**named, "text": texts[-1] if texts else "", **end}, "updated")

    return play


async def test_the_answer_goes_to_stdout_and_nothing_else(server: StandIn, bullpen: Command) -> None:
    server.on_prompt = answers(server, "  Hello\nAna.")
    done = await bullpen("run", "--host", server.host, "say", "hello")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Hello\nAna.\n", "")
    sent = server.calls("POST /workspaces/w1/agent")[-1].json
    assert (sent["prompt"], sent["permissions"], sent["interactive"]) == ("say hello", "deny", False)
    assert [r.json for r in server.calls("POST /workspaces/w1/sessions")] == [{"title": "non-interactive"}]


async def test_messages_of_one_turn_are_kept_apart(server: StandIn, bullpen: Command) -> None:
    server.on_prompt = answers(server, "First.", "Second.")
    assert (await bullpen("run", "--host", server.host, "go")).stdout == "First.\n\nSecond.\n"


async def test_piped_text_comes_first(server: StandIn, bullpen: Command) -> None:
    """Then a blank line, then the words; alone it is sent exactly as it is."""
    server.on_prompt = answers(server, "ok")
    await bullpen("run", "--host", server.host, "what", "is this?", stdin="a\nb\n")
    await bullpen("run", "--host", server.host, stdin="only this\n")
    prompts = [r.json["prompt"] for r in server.calls("POST /workspaces/w1/agent")]
    assert prompts == ["a\nb\n\n\nwhat is this?", "only this\n"]


async def test_without_a_model_the_demo_answers_and_is_not_kept(server: StandIn, bullpen: Command) -> None:
    server.is_ready, server.offers = False, [TOUR]
    server.on_prompt = answers(server, "Welcome.")
    done = await bullpen("run", "--host", server.host, "hi")
    assert (done.returncode, done.stdout) == (0, "Welcome.\n")
    assert "no model is configured: using the built-in demo" in done.stderr
    # For this run's session alone, and taken back afterwards.
    chosen, taken_back = [r.json["large"] for r in server.calls("PUT ")]
    assert (chosen["provider"], chosen["model"], taken_back) == ("demo", "tour", None)
    assert server.calls("/config/model") == []


async def test_an_error_is_status_1_with_its_text(server: StandIn, bullpen: Command) -> None:
    server.on_prompt = answers(server, "Hal", error="Bad Gateway: no such host\x1b[2J")
    done = await bullpen("run", "--host", server.host, "go")
    assert (done.returncode, done.stdout) == (1, "Hal\n")
    assert done.stderr == "bullpen: Bad Gateway: no such host␛[2J\n"


async def test_a_cancel_by_somebody_else_is_no_success(server: StandIn, bullpen: Command) -> None:
    server.on_prompt = answers(server, "Hal", cancelled=True, error="context canceled")
    done = await bullpen("run", "--host", server.host, "go")
    assert (done.returncode, done.stderr) == (1, "bullpen: the turn was cancelled by another client\n")


async def test_a_stream_that_ends_early_is_opened_again(server: StandIn, bullpen: Command) -> None:
    """The end that came meanwhile is replayed, and the answer is whole."""

    def cut_then_play(body: dict[str, Any]) -> None:
        server.cut()
        answers(server, "All of it.")(body)

    server.on_prompt = cut_then_play
    done = await bullpen("run", "--host", server.host, "go")
    assert (done.returncode, done.stdout) == (0, "All of it.\n")
    assert "reconnected" in done.stderr


async def test_json_is_one_event_per_line(server: StandIn, bullpen: Command) -> None:
    server.on_prompt = answers(server, "ok")
    done = await bullpen("run", "--json", "--host", server.host, "go")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[0]["type"] == "run"
    assert [line["type"] for line in lines[-2:]] == ["run_complete", "result"]
    assert (lines[-1]["text"], lines[-1]["exit_code"]) == ("ok", 0)


async def test_the_last_session_is_continued(server: StandIn, bullpen: Command) -> None:
    """What it said before is not printed again, also when the prompt is the same."""
    server.sessions["s1"] = session("s1", "old", updated_at=9)
    server.messages["s1"] = [message("m1", "go", role="user"), message("m2", "before", finish="end_turn")]
    server.on_prompt = answers(server, "after")
    done = await bullpen("run", "-C", "--host", server.host, "go")
    assert done.stdout == "after\n"


async def test_another_clients_turn_is_not_ours(server: StandIn, bullpen: Command) -> None:
    """In a busy session only our own answer is printed."""
    server.sessions["s1"] = session("s1", "busy", is_busy=True)
    server.messages["s1"] = []

    def play(body: dict[str, Any]) -> None:
        server.emit("message", message("x", "theirs", finish="end_turn"))
        other = {"session_id": "s1", "run_id": "theirs", "message_id": "x", "text": "theirs"}
        server.emit("run_complete", other, "updated")
        answers(server, "ours")(body)

    server.on_prompt = play
    assert (await bullpen("run", "-s", "s1", "--host", server.host, "go")).stdout == "ours\n"


async def test_ctrl_c_cancels_and_is_status_130(server: StandIn, bullpen: Command) -> None:
    process = await anyio.to_thread.run_sync(
        lambda: subprocess.Popen(
            [*BULLPEN, "run", "--host", server.host, "go"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=bullpen.env,
            cwd=bullpen.cwd,
        )
    )
    await server.until(lambda: server.calls("POST /workspaces/w1/agent"))
    sent = server.calls("POST /workspaces/w1/agent")[-1].json
    process.send_signal(signal.SIGINT)
    await server.until(lambda: server.calls("/cancel"))
    answers(server, "Hal", cancelled=True, error="context canceled")(sent)
    out, err = await anyio.to_thread.run_sync(process.communicate)
    assert (process.returncode, out) == (130, "Hal\n")
    assert err == "bullpen: cancelling … (Ctrl-C again leaves at once)\n"


async def test_on_a_terminal_asks_are_answered_by_number(server: StandIn, terminal: Open) -> None:
    told = {
        "session_id": "s1",
        "tool_call_id": "c1",
        "tool_name": "bash",
        "action": "execute",
        "path": "/work",
    }
    sent: list[dict[str, Any]] = []

    def play(body: dict[str, Any]) -> None:
        sent.append(body)
        server.emit(
            "permission_request", {"id": "p1", "description": "", "params": {"command": "make"}, **told}
        )

    server.on_prompt = play
    screen = terminal("run", "--host", server.host, "build it")
    await screen.until("bash asks to execute in /work", "command: make")
    screen.type("what?")
    await screen.until("one of the numbers above, please")
    screen.type("4 not now")
    await server.until(lambda: server.calls("/permissions/grant"))
    assert server.calls("/permissions/grant")[0].json["reason"] == "not now"
    answers(server, "As you wish.")(sent[0])
    await screen.until("As you wish.\n[status 0]")
    assert "permissions" not in sent[0]  # asking is what the wire does anyway


async def test_a_closed_pipe_cancels_the_turn(server: StandIn, bullpen: Command) -> None:
    """Nobody reads on, so nobody pays on."""
    command = (
        " ".join([*BULLPEN, "run", "--host", server.host, "go"]) + " | true; echo status ${PIPESTATUS[0]}"
    )

    def play(body: dict[str, Any]) -> None:
        server.emit("message", message("u", body["prompt"], role="user"))
        server.emit("message", message("a"))

    server.on_prompt = play
    process = await anyio.to_thread.run_sync(
        lambda: subprocess.Popen(
            ["bash", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=bullpen.env,
            cwd=bullpen.cwd,
        )
    )
    await server.until(lambda: server.calls("POST /workspaces/w1/agent"))
    await anyio.sleep(0.2)
    server.delta("a", 0, "text that nobody reads")
    await server.until(lambda: server.calls("/cancel"))
    out, err = await anyio.to_thread.run_sync(process.communicate)
    assert (out, err) == ("status 141\n", "")


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["run"], 2, "there is no prompt"),
        (["run", "-C", "-s", "x", "go"], 2, "--session and --continue exclude each other"),
        (["run", "-c", "nowhere", "go"], 1, "there is no directory nowhere"),
        (["run", "-H", "HERE", "-C", "go"], 1, "there is no session to continue here"),
        (["run", "-H", "HERE", "-m", "gpt-9", "go"], 3, "there is no usable model gpt-9"),
        (["run", "-p", "maybe", "go"], 2, "'maybe' is not one of 'ask', 'allow', 'deny', 'fail', 'wait'"),
    ],
)
async def test_wrong_use_is_one_line(
    server: StandIn, bullpen: Command, arguments: list[str], status: int, said: str
) -> None:
    done = await bullpen(*(server.host if word == "HERE" else word for word in arguments))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (status, "", 1)
    assert said in done.stderr
