"""What one session chooses changes nobody else's turns."""

from __future__ import annotations

from typing import Any

import pytest
from tests.journeys.server import Bullpen, Client, config

FAST = {"provider": "script", "model": "fast"}


def with_two_models() -> dict[str, Any]:
    settings = config([{"say": "hello"}] * 4)
    settings["providers"]["script"]["models"].append({"id": "fast", "context_window": 50_000})
    return settings


@pytest.fixture
def client(shared: Bullpen) -> Client:
    return shared.attach(shared.project(**with_two_models()))


def choose(client: Client, session: str, **said: Any) -> dict[str, Any]:
    answer: dict[str, Any] = client.ok("PUT", f"/sessions/{session}/choices", said)
    return answer


def model_of_next_answer(client: Client, session: str, run_id: str) -> str:
    stream = client.stream()
    client.prompt(session, "hi", run_id)
    done = stream.completion(run_id)
    assert not done.get("error")
    return next(str(m["model"]) for m in client.messages(session) if m["id"] == done["message_id"])


def test_a_session_has_its_own_model(client: Client) -> None:
    mine, theirs = client.session(), client.session()
    stream = client.stream()
    assert choose(client, mine, large=FAST)["large"]["model"] == "fast"
    told = stream.next("session_choices")
    assert (told["session_id"], told["large"]["model"]) == (mine, "fast")
    assert model_of_next_answer(client, mine, "r1") == "fast"
    assert model_of_next_answer(client, theirs, "r2") == "player"
    choose(client, mine, large=None)
    assert client.ok("GET", f"/sessions/{mine}/choices") == {"session_id": mine}
    assert model_of_next_answer(client, mine, "r3") == "player"


def test_a_choice_outlives_the_server(home: Bullpen) -> None:
    home.start()
    client = home.attach(home.project(**with_two_models()))
    session = client.session()
    choose(client, session, large=FAST)
    home.kill()
    home.restart()
    again = home.attach(client.path)
    assert model_of_next_answer(again, session, "r1") == "fast"


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ({"provider": "script", "model": "fsat"}, "did you mean fast"),
        ({"provider": "nobody", "model": "m"}, "provider 'nobody' cannot be used here; configured: script"),
    ],
)
def test_a_model_that_is_not_there_is_refused_with_the_next_step(
    client: Client, said: dict[str, Any], answer: str
) -> None:
    session = client.session()
    refused = client.call("PUT", f"/sessions/{session}/choices", {"large": said})
    assert refused.status_code == 400
    assert answer in refused.json()["message"]
    assert client.ok("GET", f"/sessions/{session}/choices") == {"session_id": session}


def test_an_unknown_session_is_404(client: Client) -> None:
    assert client.call("GET", "/sessions/gone/choices").status_code == 404
    assert client.call("PUT", "/sessions/gone/choices", {"large": FAST}).status_code == 404
