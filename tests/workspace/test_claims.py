"""The states of a claim: every row of the table, on a clock that the test puts forward."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest
from tests.engine.timeloop import TimeLoop, advance

from bullpen.errors import ClientNotAttached
from bullpen.workspace.claims import CREATE_HOLD_S, Claims

GRACE_S = 10.0


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return ("asyncio", {"loop_factory": TimeLoop})


class Desk:
    """Claims, and what they reported."""

    def __init__(self, grace_s: float = GRACE_S) -> None:
        self.emptied = 0
        self.looked: list[str] = []
        self.claims = Claims(detach_grace_s=grace_s, on_empty=self._on_empty, on_look=self.looked.append)

    def _on_empty(self) -> None:
        assert self.claims.is_empty
        self.emptied += 1

    def attach(self, client: str = "ana") -> None:
        self.claims.attach(client, name="", now=1)


@pytest.fixture
async def desk() -> Desk:
    return Desk()


async def test_a_create_holds_for_thirty_seconds(desk: Desk) -> None:
    desk.claims.hold("ana")
    await advance(CREATE_HOLD_S - 1)
    assert desk.emptied == 0
    await advance(1.1)
    assert (desk.emptied, desk.claims.is_empty) == (1, True)


async def test_a_create_in_a_hold_begins_it_anew(desk: Desk) -> None:
    """The old timer can no longer act."""
    desk.claims.hold("ana")
    await advance(CREATE_HOLD_S - 1)
    desk.claims.hold("ana")
    await advance(CREATE_HOLD_S - 1)
    assert desk.emptied == 0
    await advance(1.1)
    assert desk.emptied == 1


async def test_a_create_in_a_detach_hold_keeps_the_session_and_gets_the_full_time(desk: Desk) -> None:
    desk.attach()
    desk.claims.look_at("ana", "s1")
    desk.claims.release("ana")
    desk.claims.hold("ana")
    desk.claims.detach("ana")
    desk.claims.hold("ana")
    await advance(GRACE_S + 1)
    assert desk.emptied == 0
    assert desk.claims.clients()[0].current_session == "s1"


async def test_a_create_by_an_attached_client_takes_its_goodbye_back(desk: Desk) -> None:
    desk.attach()
    desk.claims.release("ana")
    desk.claims.hold("ana")
    desk.claims.detach("ana")
    assert desk.emptied == 0
    await advance(GRACE_S + 0.1)
    assert desk.emptied == 1


async def test_a_stream_needs_no_create(desk: Desk) -> None:
    desk.attach()
    await advance(1000)
    assert desk.emptied == 0
    assert desk.claims.clients()[0].streams == 1


async def test_a_stream_stops_the_hold(desk: Desk) -> None:
    desk.claims.hold("ana")
    desk.attach()
    await advance(1000)
    assert desk.emptied == 0


async def test_only_the_last_stream_counts(desk: Desk) -> None:
    desk.attach()
    desk.attach()
    desk.claims.detach("ana")
    await advance(1000)
    assert desk.emptied == 0
    desk.claims.detach("ana")
    await advance(GRACE_S + 0.1)
    assert desk.emptied == 1


async def test_a_client_that_comes_back_within_the_grace_stays(desk: Desk) -> None:
    desk.attach()
    desk.claims.detach("ana")
    await advance(GRACE_S - 1)
    desk.attach()
    await advance(1000)
    assert desk.emptied == 0


async def test_without_grace_the_last_stream_takes_the_claim_with_it() -> None:
    desk = Desk(grace_s=0)
    desk.attach()
    desk.claims.detach("ana")
    assert desk.emptied == 1


async def test_goodbye_in_a_hold_is_at_once(desk: Desk) -> None:
    desk.claims.hold("ana")
    desk.claims.release("ana")
    assert desk.emptied == 1
    await advance(1000)
    assert desk.emptied == 1


async def test_goodbye_with_a_stream_open_skips_the_grace_later(desk: Desk) -> None:
    desk.attach()
    desk.claims.release("ana")
    assert desk.emptied == 0
    desk.claims.detach("ana")
    assert desk.emptied == 1


async def test_goodbye_of_somebody_unknown_is_nothing(desk: Desk) -> None:
    desk.claims.release("ana")
    desk.claims.detach("ana")
    desk.claims.retire("ana")
    assert desk.emptied == 0


@pytest.mark.parametrize("state", ["create hold", "attached", "released", "detach hold"])
async def test_retiring_ends_the_claim_in_every_state(desk: Desk, state: str) -> None:
    desk.claims.hold("ana")
    if state != "create hold":
        desk.attach()
    if state == "released":
        desk.claims.release("ana")
    if state == "detach hold":
        desk.claims.detach("ana")
    desk.claims.retire("ana")
    assert desk.emptied == 1
    desk.claims.detach("ana")
    await advance(1000)
    assert desk.emptied == 1


async def test_the_workspace_stays_for_the_last_of_several(desk: Desk) -> None:
    desk.attach("ana")
    desk.claims.hold("ben")
    desk.claims.retire("ana")
    assert desk.emptied == 0
    desk.claims.release("ben")
    assert desk.emptied == 1


# Presence


async def test_only_a_client_with_a_stream_may_look_at_a_session(desk: Desk) -> None:
    with pytest.raises(ClientNotAttached):
        desk.claims.look_at("ana", "s1")
    desk.claims.hold("ana")
    with pytest.raises(ClientNotAttached):
        desk.claims.look_at("ana", "s1")
    desk.attach()
    desk.claims.look_at("ana", "s1")
    desk.claims.detach("ana")
    with pytest.raises(ClientNotAttached):
        desk.claims.look_at("ana", "s2")


async def test_presence_counts_clients_with_a_stream(desk: Desk) -> None:
    for client in ("ana", "ben"):
        desk.attach(client)
        desk.claims.look_at(client, "s1")
    desk.attach("ana")
    assert desk.claims.attached_to("s1") == 2
    desk.claims.detach("ben")
    assert desk.claims.attached_to("s1") == 1
    desk.attach("ben")
    assert desk.claims.attached_to("s1") == 2


async def test_moving_on_is_told_for_both_sessions(desk: Desk) -> None:
    desk.attach()
    desk.claims.look_at("ana", "s1")
    desk.claims.look_at("ana", "s1")
    desk.claims.look_at("ana", "s2")
    assert desk.looked == ["s1", "s1", "s2"]


@pytest.mark.parametrize("how", ["grace", "released", "no grace", "retired"])
async def test_leaving_is_told_whichever_way_a_client_leaves(how: str) -> None:
    desk = Desk(grace_s=0 if how == "no grace" else GRACE_S)
    desk.attach("ben")
    desk.attach()
    desk.claims.look_at("ana", "s1")
    desk.looked.clear()
    if how == "released":
        desk.claims.release("ana")
    if how == "retired":
        desk.claims.retire("ana")
    desk.claims.detach("ana")
    assert desk.looked == ["s1"]
    assert desk.claims.attached_to("s1") == 0
    await advance(GRACE_S + 1)
    assert desk.looked == ["s1"]


async def test_presence_can_be_counted_from_the_writers_thread_while_clients_come_and_go(desk: Desk) -> None:
    """Every transaction that shows a session asks how many look at it."""
    errors: list[BaseException] = []
    done = threading.Event()

    def count() -> None:
        try:
            while not done.is_set():
                desk.claims.attached_to("s1")
        except BaseException as exc:
            errors.append(exc)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=count)
    thread.start()
    try:
        for n in range(3_000):
            desk.attach(f"c{n % 50}")
            desk.claims.retire(f"c{(n + 25) % 50}")
    finally:
        done.set()
        thread.join()
        sys.setswitchinterval(interval)
    assert errors == []
