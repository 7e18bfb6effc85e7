"""Models that a host names itself, what was picked lately, and what somebody likes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.journeys.model_host import ModelHost, model_host, says
from tests.journeys.server import Bullpen, Client, config


@pytest.fixture
def host() -> Iterator[ModelHost]:
    with model_host() as running:
        yield running


def unlisted(host: ModelHost, **more: Any) -> dict[str, Any]:
    provider = {"type": "openai-compat", "base_url": f"{host.url}/v1", "api_key": "sk-12345678"}
    return {
        "providers": {"mine": provider | more},
        "options": {"disable_default_providers": True},
        "models": {},
    }


def test_a_host_names_its_models_while_the_workspace_is_open(shared: Bullpen, host: ModelHost) -> None:
    """Opening waits for nobody; once the host has answered, the agent is ready and everybody is told."""
    host.answers = {
        "/v1/models": {"data": [{"id": "m1", "max_model_len": 9000}]},
        "/v1/chat/completions": says("hello"),
    }
    client = shared.attach(shared.project(**unlisted(host)))
    stream = client.stream()
    if not client.ok("GET", "/agent")["is_ready"]:
        stream.next("config_changed")
    agent = client.ok("GET", "/agent")
    assert (agent["is_ready"], agent["model"]["id"], agent["model"]["context_window"]) == (True, "m1", 9000)
    session = client.session()
    client.prompt(session, "hi", "r1")
    assert stream.completion("r1")["text"] == "hello"


def test_a_host_that_refuses_tools_is_asked_without_them(shared: Bullpen, host: ModelHost) -> None:
    """Found out by trying, once, with the model that is used."""
    host.answers = {
        "/v1/models": {"data": [{"id": "m1"}, {"id": "m2"}]},
        "/v1/chat/completions": lambda _headers, body: (
            (400, {"error": "no tools here"}) if body.get("tools") else says("hello")
        ),
    }
    chosen = {"provider": "mine", "model": "m1"}
    client = shared.attach(shared.project(**unlisted(host) | {"models": {"large": chosen, "small": chosen}}))
    stream = client.stream()
    if "supports_tools" not in client.ok("GET", "/agent")["model"]:
        stream.next("config_changed")
    assert client.ok("GET", "/agent")["model"]["supports_tools"] is False
    assert ask(client, "r1") == "hello"
    tried = [
        body["model"] for path, _, body in host.asked if path.endswith("completions") and body.get("tools")
    ]
    assert tried == ["m1"]


def test_a_host_that_does_not_answer_is_said(shared: Bullpen) -> None:
    gone = ModelHost()
    gone.url = "http://127.0.0.1:1"
    client = shared.attach(shared.project(**unlisted(gone)))
    stream = client.stream()
    if not any("cannot be reached" in warning for warning in warnings(client)):
        stream.next("config_changed")
    assert any("'mine' is left out" in w and "cannot be reached" in w for w in warnings(client))
    refused = client.call("POST", "/agent", {"session_id": client.session(), "prompt": "hi"})
    assert refused.status_code == 400


def test_recent_models_are_remembered_apart_from_the_config(fresh: Bullpen) -> None:
    """What was picked, for all or for one session, newest first; the config that somebody wrote still wins."""
    settings = config([{"say": "hello"}])
    settings["providers"]["script"]["models"].append({"id": "fast"})
    client = fresh.attach(fresh.project(**settings))
    chosen = {"provider": "script", "model": "player"}
    client.ok("POST", "/config/model", {"scope": 0, "model_type": "large", "model": chosen})
    client.ok("PUT", f"/sessions/{client.session()}/choices", {"large": chosen | {"model": "fast"}})
    remembered = client.ok("GET", "/models")
    assert [m["model"] for m in remembered["recent"]["large"]] == ["fast", "player"]
    state = json.loads((fresh.data / "bullpen.json").read_text())
    assert state["models"]["large"]["model"] == "player"


def test_favourites_are_kept_for_all_workspaces(fresh: Bullpen) -> None:
    client = fresh.attach(fresh.project(**config([])))
    for name in ("a", "b", "a"):
        client.ok("POST", "/models/favorite", {"provider": "p", "model": name})
    client.ok("POST", "/models/favorite", {"provider": "p", "model": "b", "favorite": False})
    fresh.kill()
    fresh.restart()
    again = fresh.attach(fresh.project(**config([])))
    assert again.ok("GET", "/models")["favorites"] == [{"provider": "p", "model": "a"}]
    assert again.call("POST", "/models/favorite", {"provider": "p"}).status_code == 400


def test_a_catalogue_is_offered(shared: Bullpen) -> None:
    """With sizes and prices, nothing chosen, and the sections the reference's client reads."""
    client = shared.attach(shared.project(options={}, providers={}, models={}))
    offers = {offer["id"]: offer for offer in client.ok("GET", "/providers")}
    assert offers["openai"]["default_large_model_id"] == "gpt-5.6-sol"
    model = next(m for m in offers["openai"]["models"] if m["id"] == "gpt-5.6-sol")
    assert (model["context_window"], model["cost_per_1m_in"]) == (272000, 4)
    assert offers["openai"]["missing"] == "set OPENAI_API_KEY"
    assert "missing" not in offers["demo"]
    assert client.ok("GET", "/agent")["is_ready"] is False


def warnings(client: Client) -> list[str]:
    found: list[str] = client.ok("GET", "").get("warnings", [])
    return found


def test_a_renewed_login_outlives_the_server(fresh: Bullpen, host: ModelHost) -> None:
    """The refresh token is good once: after a restart the newer one is used, by whoever comes."""
    spent: list[str] = []

    def rotate(_headers: dict[str, str], body: str) -> Any:
        number = len(spent)
        if f"refresh_token=r{number}" not in body:
            return 400
        spent.append(body)
        return {"access_token": f"a{number + 1}", "refresh_token": f"r{number + 1}", "expires_in": 3600}

    host.answers = {
        "/token": rotate,
        "/v1/chat/completions": lambda headers, _: (
            says("hello") if headers["authorization"] == f"Bearer a{len(spent)}" and spent else 401
        ),
    }
    login = {"access_token": "a0", "refresh_token": "r0", "token_url": f"{host.url}/token"}
    settings = unlisted(host, models=[{"id": "m"}])
    del settings["providers"]["mine"]["api_key"]
    client = fresh.attach(fresh.project(**settings))
    client.ok("POST", "/config/provider-key", {"provider_id": "mine", "kind": "oauth", "api_key": login})
    assert ask(client, "r1") == "hello"
    assert len(spent) == 1
    # Asked for, or taken from disk if the workspace had not seen yet what the turn left there.
    client.ok("POST", "/config/refresh-oauth", {"provider_id": "mine"})
    renewed = len(spent)
    fresh.kill()
    fresh.restart()
    assert ask(fresh.attach(client.path), "r2") == "hello"
    assert len(spent) == renewed
    shown = client.ok("GET", "/config")["providers"]["mine"]["oauth"]
    assert set(shown.values()) == {"********"}


def test_a_key_is_asked_about_and_not_kept(shared: Bullpen, host: ModelHost) -> None:
    """At the provider's own address, whatever else the caller says, and never with the key that is kept."""
    host.answers["/v1/models"] = lambda headers, _: (
        {"data": []} if headers["authorization"] == "Bearer sk-good" else 401
    )
    mine = {"type": "openai-compat", "base_url": f"{host.url}/v1", "models": [{"id": "m"}]}
    settings = config([]) | {"options": {}}
    settings["providers"] |= {
        "mine": mine | {"api_key": "sk-kept", "name": "Mine"},
        "bare": mine | {"api_key": "$NOBODY_HAS_SET_THIS"},
        "gone": mine | {"api_key": "x", "base_url": "http://127.0.0.1:1/v1"},
        "told": mine | {"api_key": "", "base_url": "$(echo http://127.0.0.1:1)"},
    }
    client = shared.attach(shared.project(**settings))
    before = client.ok("GET", "/config")

    def check(provider: str, key: Any, **more: Any) -> tuple[int, str, str]:
        body = {"provider_id": provider, "api_key": key, **more}
        answer = client.call("POST", "/config/check-key", body)
        return answer.status_code, answer.json().get("verdict", ""), answer.json()["message"]

    assert check("mine", "sk-good") == (200, "good", "it works")
    assert check("bare", "sk-good", base_url="http://127.0.0.1:1/v1") == (200, "good", "it works")
    assert check("mine", "sk-bad") == (200, "refused", "Mine refused the key (401)")
    assert (
        check("mine", "two words")[1] == check("mine", "sk-\nx")[1] == check("mine", "ключ")[1] == "refused"
    )
    assert check("vercel", "sk-1") == (200, "refused", "keys of Vercel AI Gateway begin with vck_")
    assert (
        check("mine", "$(touch x)")[1] == check("told", "sk-1")[1] == check("vercel", "vck_1")[1] == "unknown"
    )
    assert "cannot be reached" in check("gone", "sk-1")[2]
    assert (check("mine", "")[0], check("mine", 7)[0], check("", "k")[0]) == (400, 400, 400)
    assert "did you mean mine?" in check("mien", "k")[2]
    assert "no provider copilot that takes a key" in check("copilot", "k")[2]
    assert {h["authorization"] for _, h, _ in host.asked} == {"Bearer sk-good", "Bearer sk-bad"}
    assert client.ok("GET", "/config") == before


def test_there_is_nothing_to_refresh_without_a_login(shared: Bullpen) -> None:
    client = shared.attach(shared.project())
    refused = client.call("POST", "/config/refresh-oauth", {"provider_id": "script"})
    assert (refused.status_code, "no OAuth login" in refused.json()["message"]) == (400, True)
    assert client.ok("POST", "/config/import-copilot")["success"] is False


def ask(client: Client, run_id: str) -> str:
    stream = client.stream()
    client.prompt(client.session(), "hi", run_id)
    return str(stream.completion(run_id)["text"])


def test_a_key_that_a_command_prints_is_printed_again_when_it_is_refused(
    bullpen: Bullpen, host: ModelHost
) -> None:
    """Although commands are not run again for every look at the configuration."""
    host.answers["/v1/chat/completions"] = lambda headers, _: (
        says("hello") if headers["authorization"] == "Bearer key-2" else 401
    )
    vault = bullpen.home / "vault"
    vault.write_text("key-1\n")
    client = bullpen.attach(
        bullpen.project(**unlisted(host, api_key=f"$(cat {vault})", models=[{"id": "m"}]))
    )
    vault.write_text("key-2\n")
    assert ask(client, "r1") == "hello"
    used = [headers["authorization"] for _, headers, _ in host.asked]
    assert used[:2] == ["Bearer key-1", "Bearer key-2"]
    assert ask(client, "r2") == "hello"
    assert "Bearer key-1" not in [headers["authorization"] for _, headers, _ in host.asked[len(used) :]]
