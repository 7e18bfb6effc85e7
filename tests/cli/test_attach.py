"""The line-mode client in a real terminal, against the stand-in."""

from typing import Any

import pytest
from tests.cli.conftest import Command, Open
from tests.client.standin import StandIn, message, session

pytestmark = pytest.mark.timeout(90)


def talk(server: StandIn) -> None:
    server.sessions["s1"] = session("s1", "first talk")
    server.messages["s1"] = [message("m1", "hello", role="user"), message("m2", "Hi Ana.", finish="end_turn")]


def permission(ask_id: str, command: str) -> dict[str, Any]:
    told = {"session_id": "s1", "tool_call_id": f"call-{ask_id}", "tool_name": "bash", "action": "execute"}
    return {"id": ask_id, "description": "", "params": {"command": command}, "path": "/work", **told}


async def test_a_session_is_shown_and_goes_on(server: StandIn, terminal: Open) -> None:
    """What was said, what another client says now, and the answer as it grows."""
    talk(server)
    screen = terminal("attach", "--plain", "--host", server.host, "--name", "ana")
    await screen.until("first talk", "› hello", "Hi Ana.")
    server.emit("message", message("m3", "more", role="user"))
    server.emit("message", message("m4"))
    server.delta("m4", 0, "Wai")
    await screen.until("› more", "Wai")
    screen.send("half typed")
    await screen.until("Wai\n› half typed")
    server.delta("m4", 3, "t for it")
    await screen.until("Wait for it\n› half typed")


async def test_what_is_typed_is_sent_and_shown_as_it_comes_back(server: StandIn, terminal: Open) -> None:
    talk(server)

    def accept(body: dict[str, Any]) -> None:
        server.emit("message", message("m3", body["prompt"], role="user"))
        server.emit("message", message("m4", "Yes.", finish="end_turn"))

    server.on_prompt = accept
    screen = terminal("attach", "--plain", "--host", server.host)
    await screen.until("Hi Ana.")
    screen.type("are you there?")
    await screen.until("you › are you there?", "Yes.")


async def test_a_permission_is_answered_by_number(server: StandIn, terminal: Open) -> None:
    """Another client's ask is ours to answer as well."""
    talk(server)
    screen = terminal("attach", "--plain", "--host", server.host)
    await screen.until("Hi Ana.")
    server.emit("permission_request", permission("p1", "make \x1b[2J install"))
    await screen.until("bash asks to execute in /work", "make <U+001B>[2J install", "1 allow once")
    screen.type("1")
    await server.until(lambda: server.calls("/permissions/grant"))
    assert server.calls("/permissions/grant")[0].json == {
        "permission": {"id": "p1", "tool_call_id": "call-p1"},
        "action": "allow",
    }


async def test_commands_are_seen_while_they_run(server: StandIn, terminal: Open) -> None:
    """What one prints, made inert; that a job has ended; the walls around them; and whether they are asked about."""
    talk(server)
    screen = terminal("attach", "--plain", "--host", server.host)
    await screen.until("Hi Ana.")
    shown = {"session_id": "s1", "tool_call_id": "c", "offset": 0, "text": "one\n\x1b[2Jtwo\n"}
    server.emit("command_output", shown, "updated", durable=False)
    await screen.until("│ one", "│ ␛[2Jtwo")
    job = {"id": "00A", "session_id": "s1", "command": "make", "working_dir": "/work", "started_at": 1.5}
    server.emit("job", {**job, "running": True}, "created", durable=False)
    server.emit("job", {**job, "running": False, "exit_code": 2}, "updated", durable=False)
    await screen.until("background job 00A has ended with exit code 2: make")
    server.emit("sandbox", {"mode": "landlock", "network": False, "why": ""}, "updated", durable=False)
    await screen.until("commands run in a sandbox (landlock, without network)")
    server.emit("sandbox", {"mode": "auto", "network": False, "why": "not here"}, "updated", durable=False)
    await screen.until("commands are refused: a sandbox is asked for, and there is none (not here)")
    server.emit("permissions_skip", {"skip": True, "changed_by": "b\x1b[2Jen"}, "updated", durable=False)
    await screen.until("everything is allowed from now on, says b␛[2Jen")
    server.emit("permissions_skip", {"skip": False, "changed_by": "ben"}, "updated", durable=False)
    await screen.until("it asks again from now on, says ben")


async def test_an_ask_that_somebody_else_answered_is_closed(server: StandIn, terminal: Open) -> None:
    talk(server)
    screen = terminal("attach", "--plain", "--host", server.host)
    await screen.until("Hi Ana.")
    server.emit("permission_request", permission("p1", "make"))
    await screen.until("1 allow once")
    notice = {"tool_call_id": "call-p1", "granted": True, "denied": False, "answered_by": "ben"}
    server.emit("permission_notification", notice)
    await screen.until("allowed by ben")
    screen.type("1")
    await server.until(lambda: server.calls("POST /workspaces/w1/agent"))
    assert server.calls("/permissions/grant") == []


async def test_an_address_to_log_in_at_is_shown(server: StandIn, terminal: Open) -> None:
    talk(server)
    screen = terminal("attach", "--plain", "--host", server.host)
    await screen.until("Hi Ana.")
    told = {"type": "aws_sso_auth", "message": message("", ""), "session_id": "s1"}
    server.emit(
        "agent_event", told | {"aws_sso_command": "aws sso login", "aws_sso_url": "https://x.example/?c=1"}
    )
    await screen.until("AWS asks for a login: open https://x.example/?c=1")


async def test_questions_are_answered_one_by_one(server: StandIn, terminal: Open) -> None:
    talk(server)
    questions = [
        {"id": "a", "type": "single_choice", "question": "Colour?", "choices": [_choice("r"), _choice("g")]},
        {"id": "b", "type": "free_text", "question": "Why?"},
    ]
    batch = {"id": "q1", "session_id": "s1", "tool_call_id": "c", "questions": questions}
    server.asks["questions"] = [batch]
    screen = terminal("attach", "--plain", "--host", server.host)
    await screen.until("Colour? (1 of 2)", "2 label g")
    screen.type("7")
    await screen.until("that is no answer")
    screen.type("2")
    await screen.until("Why? (2 of 2)")
    screen.type("because")
    await server.until(lambda: server.calls("/questions/answer"))
    assert server.calls("/questions/answer")[0].json["responses"] == [
        {"request_id": "a", "selected_ids": ["g"]},
        {"request_id": "b", "fill_in_text": "because"},
    ]


def _choice(choice_id: str) -> dict[str, str]:
    return {"id": choice_id, "label": f"label {choice_id}"}


async def test_ctrl_c_cancels_and_twice_leaves(server: StandIn, terminal: Open) -> None:
    talk(server)
    server.sessions["s1"]["is_busy"] = True
    screen = terminal("attach", "--plain", "--host", server.host)
    await screen.until("Hi Ana.")
    screen.send("C-c")
    await server.until(lambda: server.calls("/cancel"))
    screen.send("C-c")
    await screen.until("[status 0]")
    assert server.calls("DELETE /clients/")


async def test_ctrl_c_first_empties_the_line(server: StandIn, terminal: Open) -> None:
    talk(server)
    screen = terminal("attach", "--plain", "--host", server.host)
    await screen.until("Hi Ana.")
    screen.send("oops")
    await screen.until("› oops")
    screen.send("C-c")
    screen.type("right")
    await server.until(lambda: server.calls("POST /workspaces/w1/agent"))
    assert server.calls("POST /workspaces/w1/agent")[0].json["prompt"] == "right"


async def test_ctrl_d_leaves(server: StandIn, terminal: Open) -> None:
    screen = terminal("attach", "--plain", "--host", server.host)
    await screen.until("attached to")
    screen.send("C-d")
    await screen.until("[status 0]")


async def test_a_lost_link_is_told_and_mended(server: StandIn, terminal: Open) -> None:
    """A prompt typed meanwhile is kept; nothing that happened is missing."""
    talk(server)
    screen = terminal("attach", "--plain", "--host", server.host)
    await screen.until("Hi Ana.", "model: ")
    await server.stop(leave_socket=True)
    await screen.until("link lost", "reconnecting")
    screen.type("later")
    await screen.until("kept until the link is back")
    server.emit("message", message("m3", "missed", role="user"))
    server.answers["GET /workspaces/w1/permissions/skip"] = [(200, {"skip": True})]
    await server.start()
    await screen.until("reconnected", "› missed", "everything is allowed from now on")
    await server.until(lambda: server.calls("POST /workspaces/w1/agent"))
    assert server.calls("POST /workspaces/w1/agent")[-1].json["prompt"] == "later"


async def test_commands(server: StandIn, terminal: Open) -> None:
    talk(server)
    server.sessions["s2"] = session("s2", "other talk")
    server.messages["s2"] = [message("x1", "elsewhere", role="user", session_id="s2")]
    server.queue = [{"seq": 7, "session_id": "s1", "run_id": "r", "text": "waiting one", "created_at": 1}]
    server.clients = [{"client_id": "c9", "name": "ben", "streams": 1, "current_session": "s2"}]
    screen = terminal("attach", "--plain", "--host", server.host, rows=60)
    await screen.until("with ben", "Hi Ana.")
    screen.type("/sessions")
    await screen.until("1 first talk  s1  here", "2 other talk  s2")
    screen.type("/queue")
    await screen.until("1 waiting one")
    screen.type("/drop 1")
    await server.until(lambda: server.calls("DELETE /workspaces/w1/agent/sessions/s1/prompts/7"))
    screen.type("/switch 2")
    await screen.until("› elsewhere")
    screen.type("/who")
    await screen.until("ben  in “other talk”")
    screen.type("/nonsense")
    await screen.until("there is no /nonsense")
    screen.type("/help")
    await screen.until("Ctrl-C cancels the running turn, twice leaves.")
    screen.type("//etc is a path")
    await server.until(lambda: server.calls("POST /workspaces/w1/agent"))
    assert server.calls("POST /workspaces/w1/agent")[-1].json["prompt"] == "/etc is a path"
    screen.type("/quit")
    await screen.until("[status 0]")


async def test_without_a_model_the_first_screen_offers_some(server: StandIn, terminal: Open) -> None:
    """The demo, and hosts whose key is there; nothing else."""
    server.is_ready = False
    server.offers = [
        {"id": "demo", "name": "Tour", "type": "demo", "models": [{"id": "tour", "name": "Guided"}]},
        {"id": "here", "name": "Here", "api_key": "$HERE_KEY", "models": [{"id": "big"}]},
        {"id": "gone", "name": "Gone", "api_key": "$GONE_KEY", "models": [{"id": "huge"}]},
    ]
    screen = terminal("--plain", BULLPEN_HOST=server.host, HERE_KEY="k")
    shown = await screen.until(
        "no model is configured yet", "1 Here: big  (here/big)", "2 Tour: Guided  (demo/tour)"
    )
    assert "huge" not in shown
    screen.type("2")
    await screen.until("model: demo/tour")
    chosen = server.calls("/config/model")[0].json
    assert chosen == {"scope": 1, "model_type": "large", "model": {"provider": "demo", "model": "tour"}}


async def test_of_many_models_the_usual_ones_are_listed(server: StandIn, terminal: Open) -> None:
    """The others can be named; a provider that still needs something is not listed at all."""
    server.is_ready = False
    many = [{"id": f"m{number}"} for number in range(20)]
    server.offers = [
        {
            "id": "here",
            "name": "Here",
            "default_large_model_id": "m7",
            "default_small_model_id": "m9",
            "models": many,
        },
        {"id": "later", "name": "Later", "missing": "log in first", "models": [{"id": "x"}]},
    ]
    screen = terminal("--plain", BULLPEN_HOST=server.host)
    shown = await screen.until("1 Here: m7  (here/m7)", "2 Here: m9  (here/m9)", "18 more by name: /model")
    assert "Later" not in shown
    screen.type("/model here/m3")
    await screen.until("model: here/m3")


async def test_a_model_is_chosen_by_its_number_in_one_go(server: StandIn, terminal: Open) -> None:
    """Without looking at the list first."""
    server.is_ready = False
    server.offers = [
        {"id": "demo", "name": "Tour", "type": "demo", "models": [{"id": "tour", "name": "Guided"}]}
    ]
    screen = terminal("attach", "--plain", "--host", server.host)
    await screen.until("no model is configured")
    screen.type("/model 7")
    await screen.until("a number from 1 to 1")
    screen.type("/model 1")
    await screen.until("model: demo/tour")


async def test_recent_and_favourite_models_come_first(server: StandIn, terminal: Open) -> None:
    """Marked, also those that a long list leaves out; a number means what the list showed, whatever moved since."""
    server.is_ready = False
    server.offers = [{"id": "here", "name": "Here", "models": [{"id": f"m{number}"} for number in range(20)]}]
    server.remembered = {
        "recent": {"large": [{"provider": "here", "model": "m12"}, {"provider": "gone", "model": "x"}]},
        "favorites": [{"provider": "here", "model": "m12"}, {"provider": "here", "model": "m3"}],
    }
    screen = terminal("--plain", BULLPEN_HOST=server.host)
    shown = await screen.until(
        "1 Here: m12  (here/m12)  recent, favourite",
        "2 Here: m3  (here/m3)  favourite",
        "3 Here: m0  (here/m0)",
        "more by name: /model",
    )
    assert "gone/x" not in shown
    server.remembered = {"recent": {"large": [{"provider": "here", "model": "m9"}]}, "favorites": []}
    screen.type("/model 2")
    await screen.until("model: here/m3")


async def test_a_narrow_terminal_shows_the_end_of_a_long_line(server: StandIn, terminal: Open) -> None:
    """The input stays on one row, and text around it stays whole."""
    talk(server)
    screen = terminal("attach", "--plain", "--host", server.host, columns=30)
    await screen.until("Hi Ana.")
    screen.send("-l", "0123456789 0123456789 0123456789 end")
    await screen.until("456789 end")
    server.emit("message", message("m3", "x" * 30 + "yz"))
    server.emit("message", message("m3", "x" * 30 + "yz" + "w" * 28))
    server.emit("message", message("m3", "x" * 30 + "yz" + "w" * 28 + "end!"))
    await screen.until("x" * 30 + "\nyz" + "w" * 28 + "\nend!\n› ")


async def test_the_line_can_be_edited(server: StandIn, terminal: Open) -> None:
    """The usual keys, wide letters, what was sent before, and a paste of several lines."""
    talk(server)
    screen = terminal("attach", "--plain", "--host", server.host)
    await screen.until("Hi Ana.")
    screen.send("-l", "漢字 wrold")
    screen.send("BSpace", "BSpace", "BSpace", "BSpace")
    screen.send("-l", "orld")
    screen.send("Home")
    screen.send("-l", "hello ")
    await screen.until("› hello 漢字 world")
    screen.send("End", "C-w")
    screen.send("-l", "Ana")
    screen.send("Left", "Left", "Left", "-", "C-e", "Enter")
    await server.until(lambda: len(server.calls("POST /workspaces/w1/agent")) == 1)
    screen.send("Up", "Up", "Down", "Up")
    screen.send("-l", "!")
    screen.send("C-a", "C-k")
    screen.send("Down", "Up", "Enter")
    await server.until(lambda: len(server.calls("POST /workspaces/w1/agent")) == 2)
    screen.paste("one\n\x03two\tthree\n")
    await screen.until("› one⏎two    three⏎")
    screen.send("Enter")
    await server.until(lambda: len(server.calls("POST /workspaces/w1/agent")) == 3)
    prompts = [r.json["prompt"] for r in server.calls("POST /workspaces/w1/agent")]
    assert prompts == ["hello 漢字 -Ana", "hello 漢字 -Ana", "one\ntwo    three"]


async def test_lines_from_a_pipe_are_prompts(server: StandIn, bullpen: Command) -> None:
    """Then there is no input line, and the end of the pipe leaves."""
    talk(server)
    done = await bullpen("attach", "--host", server.host, stdin="one\n/quit\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Hi Ana." in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["attach", "nowhere"], "there is no directory nowhere"),
        (["attach", "--host", "nonsense"], "invalid host format"),
        (
            ["attach", "--session", "zz", "--host", "HERE"],
            "no session zz in this workspace; there are s1 “first talk”",
        ),
        (["attach", "--host", "tcp://127.0.0.1:1"], "no server answers at tcp://127.0.0.1:1"),
    ],
)
async def test_what_cannot_be_done_is_one_line(
    server: StandIn, bullpen: Command, arguments: list[str], said: str
) -> None:
    talk(server)
    done = await bullpen(*(server.host if word == "HERE" else word for word in arguments))
    assert done.returncode != 0
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert said in done.stderr


async def test_tool_servers_are_told_of_when_somebody_has_to_do_something(
    server: StandIn, terminal: Open
) -> None:
    """Once each, however often it is announced; nothing of it moves the cursor."""
    talk(server)
    login = {"name": "docs", "state": "needs auth", "error": "a login is needed: bullpen mcp login docs"}
    server.tool_servers = {"docs": {**login, "connected_at": "t"}}
    screen = terminal("attach", "--plain", "--host", server.host, columns=120)
    await screen.until("MCP server docs: a login is needed: bullpen mcp login docs", "Hi Ana.")
    told = {"type": "state_changed", **login}
    server.emit("mcp_event", told, "updated")
    server.emit("mcp_event", {**told, "state": "connected", "error": ""}, "updated")
    held = {"type": "tools_list_changed", "name": "do\x1b[2Jcs", "state": "connected", "held_count": 2}
    server.emit("mcp_event", held, "updated")
    server.emit(
        "mcp_event", {"type": "state_changed", "name": "x", "state": "error", "error": "gone"}, "updated"
    )
    shown = await screen.until("says something else than was accepted", "MCP server x: gone")
    assert shown.count("a login is needed") == 1
