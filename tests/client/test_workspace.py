"""A room through good and bad luck, against the stand-in."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from tests.client.standin import StandIn, message, session

from bullpen.client.updates import BUFFERED_UPDATES, LinkChanged, Update, Updates
from bullpen.client.workspace import Room, attach
from bullpen.errors import (
    BadHost,
    ClientRetired,
    ServerUnreachable,
    SessionNotFound,
    Unauthorized,
)
from bullpen.schema.asks import PermissionRequest, QuestionBatch, QuestionResponse
from bullpen.schema.events import ConfigChanged, Event, RunComplete

ENV = {"HOME": "/nonexistent", "SECRET": "s3"}


@asynccontextmanager
async def enter(server: StandIn, **options: Any) -> AsyncIterator[Room]:
    with anyio.fail_after(20):
        async with attach(
            "/work", host=server.host, name="ana", start_server=False, env=ENV, **options
        ) as room:
            yield room


async def until(updates: Updates, match: Callable[[Update], Any]) -> Update:
    with anyio.fail_after(10):
        async for update in updates:
            if match(update):
                return update
    raise AssertionError


def is_kind(kind: str) -> Callable[[Update], bool]:
    return lambda update: isinstance(update, Event) and update.kind == kind


def is_link(state: str) -> Callable[[Update], bool]:
    return lambda update: isinstance(update, LinkChanged) and update.state == state


def talk(server: StandIn) -> None:
    server.sessions["s1"] = session("s1", "first")
    server.messages["s1"] = [message("m1", "hello", role="user"), message("m2", "Hel")]


async def test_attaching_is_a_create_a_snapshot_and_a_stream_from_there(server: StandIn) -> None:
    """The stream goes on behind the snapshot's cursor, with growing text in pieces."""
    talk(server)
    server.emit("session", session("s1", "first"))
    async with enter(server) as room:
        create, stream = server.requests[0], server.calls("/events")[0]
        assert [s.title for s in room.sessions] == ["first"]
        assert stream.headers["last-event-id"] == "e1-1"
    assert create.json == {
        "path": "/work",
        "client_id": room.client_id,
        "env": ["HOME=/nonexistent", "SECRET=s3"],
        "version": "0.1.0",
        "outlive": True,
        "client_name": "ana",
    }
    assert stream.query == {"client_id": room.client_id, "deltas": "1"}
    assert create.headers["host"] == "bullpen"


async def test_leaving_closes_the_stream_and_retires_the_client(server: StandIn) -> None:
    """The claim ends at once, not when a timer finds out."""
    async with enter(server) as room:
        pass
    assert repr(server.requests[-1]) == f"DELETE /clients/{room.client_id}"
    await server.until(lambda: True) if server.streams else None
    assert server.streams == 0


async def test_a_server_that_cannot_retire_is_given_the_claim_back(server: StandIn) -> None:
    server.answers["DELETE /clients…"] = [(404, None)]
    async with enter(server):
        pass
    assert repr(server.requests[-1]) == "DELETE /workspaces/w1"


async def test_an_error_in_the_block_comes_out_as_it_is(server: StandIn) -> None:
    """No group of exceptions around it."""
    with pytest.raises(SessionNotFound):
        async with enter(server):
            raise SessionNotFound("s9")


async def test_text_grows_in_the_mirror(server: StandIn) -> None:
    """The room shows an open message as far as it has come."""
    talk(server)
    async with enter(server) as room:
        updates = room.updates()
        await room.open("s1")
        server.delta("m2", 3, "lo ")
        server.delta("m2", 6, "Ana")
        await until(updates, is_kind("message_delta"))
        await until(updates, is_kind("message_delta"))
        assert [m.text for m in room.messages("s1")] == ["hello", "Hello Ana"]


async def test_a_delta_that_does_not_fit_has_the_message_read_again(server: StandIn) -> None:
    talk(server)
    async with enter(server) as room:
        updates = room.updates()
        await room.open("s1")
        server.messages["s1"][1] = message("m2", "Hello Ana!")
        server.delta("m2", 9, "!")
        await until(updates, is_kind("message_delta"))
        assert room.messages("s1")[1].text == "Hello Ana!"


async def test_a_message_that_never_fits_is_not_asked_for_again_and_again(server: StandIn) -> None:
    talk(server)
    async with enter(server) as room:
        updates = room.updates()
        await room.open("s1")
        for n in range(5):
            server.delta("ghost", n, "x")
        server.emit("config_changed", {"workspace_id": "w1"}, "updated")
        await until(updates, is_kind("config_changed"))
        assert len(server.calls("GET /workspaces/w1/sessions/s1/messages")) == 2


async def test_a_cut_stream_goes_on_behind_the_last_durable_event(server: StandIn) -> None:
    """What happened meanwhile arrives once, and the others see us in our session again."""
    talk(server)
    async with enter(server) as room:
        updates = room.updates()
        await room.open("s1")
        server.emit("message", message("m3", "one", role="user"))
        await until(updates, is_kind("message"))
        server.delta("m2", 3, "p")
        await until(updates, is_kind("message_delta"))
        server.cut()
        server.emit("message", message("m4", "two", role="user"))
        await until(updates, is_link("reconnecting"))
        assert not room.is_connected
        again = await until(updates, is_kind("message"))
        assert isinstance(again, Event)
        assert (again.id, [m.id for m in room.messages("s1")]) == ("e1-2", ["m1", "m2", "m3", "m4"])
        assert server.calls("/events")[-1].headers["last-event-id"] == "e1-1"
        assert [r.json for r in server.calls("/current-session")] == [{"session_id": "s1"}] * 2
        assert len(server.calls("POST /workspaces")) == 3  # one create, two current sessions


async def test_a_closed_workspace_is_created_again(server: StandIn) -> None:
    """With the same client id, since it was never retired."""
    async with enter(server) as room:
        updates = room.updates()
        server.forget()
        found = await until(updates, is_link("connected"))
        creates = [r.json["client_id"] for r in server.requests if repr(r) == "POST /workspaces"]
    assert found == LinkChanged(state="connected", recreated=True)
    assert creates == [room.client_id] * 2


async def test_a_server_that_was_gone_is_found_again(server: StandIn) -> None:
    """Nothing is missing although the process is another one."""
    talk(server)
    async with enter(server) as room:
        updates = room.updates()
        await room.open("s1")
        await server.stop(leave_socket=True)
        server.emit("message", message("m3", "late", role="user"))
        await until(updates, is_link("reconnecting"))
        await server.start()
        await until(updates, is_kind("message"))
        assert [m.id for m in room.messages("s1")] == ["m1", "m2", "m3"]


async def test_a_silent_stream_is_taken_for_dead(server: StandIn) -> None:
    """Comments keep it alive; silence does not."""
    async with enter(server, silence_s=0.4) as room:
        updates = room.updates()
        for _ in range(4):
            await asyncio.sleep(0.2)
            server.raw(b": alive\n\n")
        assert len(server.calls("/events")) == 1
        await until(updates, is_link("reconnecting"))
        await until(updates, is_link("connected"))
        assert len(server.calls("/events")) == 2


async def test_a_lost_log_has_everything_read_again(server: StandIn) -> None:
    """Sessions, loaded messages and asks are those of the server, and the stream goes on from its head."""
    talk(server)
    async with enter(server) as room:
        updates = room.updates()
        await room.open("s1")
        server.cut()
        server.sessions["s2"] = session("s2", "second")
        server.messages["s1"].append(message("m3", "missed", role="user"))
        server.asks["permissions"] = [ask("p1")]
        server.seq = 40
        server.lose_log()
        await until(updates, is_kind("resync"))
        assert {s.id for s in room.sessions} == {"s1", "s2"}
        assert room.messages("s1")[-1].text == "missed"
        assert [a.id for a in room.asks] == ["p1"]
        server.cut()
        await until(updates, is_link("connected"))
        assert server.calls("/events")[-1].headers["last-event-id"] == "e1-40"


async def test_the_ends_of_runs_that_fell_into_a_gap_are_found_in_the_store(server: StandIn) -> None:
    """Nobody waits for ever for an event that no longer exists; what still waits or works goes on."""
    talk(server)
    server.sessions["s1"]["is_busy"] = True
    async with enter(server) as room:
        runs = [await room.prompt(text, session="s1", run_id=text) for text in ("go", "fail", "work", "wait")]
        server.cut()
        server.queue = [{"seq": 4, "session_id": "s1", "run_id": "wait", "text": "wait", "created_at": 1}]
        server.messages["s1"] += [
            message("m3", "go", role="user"),
            message("m4", "calling", finish="tool_use"),
            message("m5", "done", finish="end_turn"),
            message("m6", "fail", role="user"),
            message("m7", "half", finish="error"),
            message("m8", "work", role="user"),
            message("m9", "so far"),
        ]
        server.seq = 40
        server.lose_log()
        ends = [await room.wait_for(run) for run in runs[:2]]
        assert (room.end_of("work"), room.end_of("wait")) == (None, None)
    assert ends == [
        RunComplete(session_id="s1", run_id="go", message_id="m5", text="done"),
        RunComplete(session_id="s1", run_id="fail", message_id="m7", text="half"),
    ]


async def test_a_run_of_which_nothing_is_left_was_dropped(server: StandIn) -> None:
    talk(server)
    async with enter(server) as room:
        run = await room.prompt("go", session="s1")
        server.cut()
        server.seq = 40
        server.lose_log()
        assert (await room.wait_for(run)).cancelled


async def test_a_prompt_whose_answer_was_lost_runs_once(server: StandIn) -> None:
    """It is sent again under the same key."""
    ran: list[str] = []
    server.on_prompt = lambda body: ran.append(body["prompt"])
    server.swallowed.add("/agent")
    async with enter(server) as room:
        await room.prompt("go", session="s1")
        sent = server.calls("POST /workspaces/w1/agent")
    assert ran == ["go"]
    assert len(sent) == 2
    assert len({r.headers["idempotency-key"] for r in sent}) == 1
    assert {r.headers["bullpen-author"] for r in sent} == {"ana"}


async def test_a_prompt_waits_for_a_server_that_is_away(server: StandIn) -> None:
    async with enter(server) as room:
        await server.stop(leave_socket=True)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: room.prompt("go", session="s1"))
            await asyncio.sleep(0.5)
            await server.start()
        assert [r.json["prompt"] for r in server.calls("POST /workspaces/w1/agent")] == ["go"]


async def test_a_prompt_without_a_session_opens_one(server: StandIn) -> None:
    async with enter(server) as room:
        await room.prompt("go")
        assert (room.current_session, server.calls("POST /workspaces/w1/agent")[0].json["session_id"]) == (
            "s1",
            "s1",
        )


async def test_waiting_for_a_run_ends_with_its_event(server: StandIn) -> None:
    """Also when the end came before the wait."""

    def finish(body: dict[str, Any]) -> None:
        end = {"session_id": "s1", "run_id": body["run_id"], "message_id": "m", "text": "ok"}
        server.emit("run_complete", end, "updated")

    server.on_prompt = finish
    async with enter(server) as room:
        run = await room.prompt("go", session="s1", run_id="mine")
        assert (await room.wait_for(run)).text == "ok"
        assert (await room.wait_for("mine")).text == "ok"


def ask(ask_id: str) -> dict[str, Any]:
    told = {"session_id": "s1", "tool_call_id": "c1", "tool_name": "bash", "action": "execute", "path": "/"}
    return {"id": ask_id, "description": "", "params": {"command": "ls"}, **told}


async def test_open_asks_are_known_on_arrival_and_answered_by_id(server: StandIn) -> None:
    server.asks["permissions"] = [ask("p1")]
    server.asks["questions"] = [{"id": "q1", "session_id": "s1", "tool_call_id": "c2", "questions": []}]
    async with enter(server) as room:
        permission, question = room.asks
        assert isinstance(permission, PermissionRequest)
        assert isinstance(question, QuestionBatch)
        assert await room.grant(permission, "deny", reason="not now")
        assert await room.answer(question, [QuestionResponse(request_id="a", yes=True)])
        assert room.asks == []
    sent = [r.json for r in (*server.calls("/grant"), *server.calls("/answer"))]
    assert sent == [
        {"permission": {"id": "p1", "tool_call_id": "c1"}, "action": "deny", "reason": "not now"},
        {"batch_request_id": "q1", "responses": [{"request_id": "a", "yes": True}]},
    ]


async def test_a_cancel_names_what_was_waiting(server: StandIn) -> None:
    waiting = {"seq": 7, "session_id": "s1", "run_id": "r", "text": "later", "created_at": 1}
    server.queue = [waiting]
    async with enter(server) as room:
        await room.open("s1")
        assert [p.text for p in await room.queue()] == ["later"]
        await room.edit(7, text="sooner", index=0)
        await room.withdraw(7)
        assert await room.cancel() == ("later",)
    assert [repr(r) for r in server.requests if "/prompts/7" in r.path] == [
        "PATCH /workspaces/w1/agent/sessions/s1/prompts/7",
        "DELETE /workspaces/w1/agent/sessions/s1/prompts/7",
    ]


async def test_a_refusal_that_will_not_change_ends_the_room(server: StandIn) -> None:
    """Readers, waiters and callers all learn why."""
    async with enter(server) as room:
        updates = room.updates()
        server.answers["GET /workspaces/w1/events"] = [(409, {"message": "client has been retired"})]
        server.cut()
        with pytest.raises(ClientRetired):
            await until(updates, lambda _: False)
        with pytest.raises(ClientRetired):
            await room.wait_for("r")
        with pytest.raises(ClientRetired):
            await room.agent()


async def test_a_refused_attach_says_why(server: StandIn) -> None:
    server.answers["POST /workspaces"] = [
        (401, {"message": "a valid token is required", "code": "unauthorized"})
    ]
    with pytest.raises(Unauthorized):
        async with enter(server):
            pass
    assert repr(server.requests[-1]).startswith("DELETE /clients/")


async def test_passing_trouble_is_sat_out(server: StandIn) -> None:
    """A server error on the stream is tried again."""
    async with enter(server) as room:
        updates = room.updates()
        server.answers["GET /workspaces/w1/events"] = [(500, {"message": "internal server error"})] * 2
        server.cut()
        await until(updates, is_link("connected"))
        assert len(server.calls("/events")) == 4


async def test_nobody_there_is_one_clear_error() -> None:
    with pytest.raises(ServerUnreachable, match=r"no server answers at unix:///nonexistent\.sock"):
        async with attach("/work", host="unix:///nonexistent.sock", start_server=False):
            pass


async def test_a_bad_host_is_refused_before_anything_else() -> None:
    with pytest.raises(BadHost):
        async with attach("/work", host="nonsense"):
            pass


async def test_a_slow_reader_is_told_that_it_missed_something() -> None:
    """What it did not take in time is gone; it looks at the room again."""
    updates = Updates(lambda: None)
    lost = Event(id="e-1", kind="config_changed", action="updated", payload=ConfigChanged(workspace_id="w1"))
    for _ in range(BUFFERED_UPDATES + 1):
        updates.put(lost)
    updates.put(lost)
    kinds = [getattr(await anext(updates), "kind", "") for _ in range(2)]
    assert kinds == ["resync", "config_changed"]


async def test_a_session_read_while_it_moves_misses_nothing(server: StandIn) -> None:
    """What the stream tells while the answer is under way belongs to it."""
    talk(server)
    async with enter(server) as room:
        updates = room.updates()
        server.delays["/sessions/s1/messages"] = go_on = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(room.load, "s1")
            await server.until(lambda: server.calls("/sessions/s1/messages"))
            server.emit("message", message("m3", "meanwhile", role="user"))
            await until(updates, is_kind("message"))
            go_on.set()
        assert [m.id for m in room.messages("s1")] == ["m1", "m2", "m3"]
