"""Secrets of every kind go into a server that is used in every way; none of them comes out anywhere (X-22)."""

from __future__ import annotations

import json
import socket
import stat
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.conftest import Figure
from tests.faults.soak.model import Model, config, running_model
from tests.journeys.server import Bullpen

TOKEN_FILE = "token"


class Canaries:
    """Secrets that nobody would say by chance. Each has a name that tells where it was put."""

    def __init__(self) -> None:
        self.by_name: dict[str, str] = {}

    def __call__(self, name: str) -> str:
        return self.by_name.setdefault(name, f"canary{len(self.by_name):02d}zq{name.replace(' ', '')}")

    def in_text(self, text: str) -> set[str]:
        return {name for name, value in self.by_name.items() if value in text}


def settings_with(secret: Canaries, model: Model, files: Path) -> dict[str, Any]:
    """A user's config with a secret in every place that may hold one, rightly or wrongly."""
    key_file = files / "key"
    key_file.write_text(secret("key from a command") + "\n")
    used = config(
        model,
        api_key=secret("literal key"),
        extra_headers={
            "X-Literal": secret("literal header"),
            "X-Env": "$HEADER_SECRET",
            "X-Command": f"$(printf %s {secret('header from a command line')})",
        },
    )
    providers: dict[str, Any] = {
        "env": {"api_key": "$ENV_KEY", "base_url": "http://127.0.0.1:1/v1"},
        "command": {"api_key": f"$(cat {key_file})", "base_url": "http://127.0.0.1:1/v1"},
        "client": {"api_key": "$CLIENT_KEY", "base_url": "http://127.0.0.1:1/v1"},
        "braces": {"api_key": "${BRACED_KEY}", "base_url": "http://127.0.0.1:1/v1"},
        "password": {"api_key": "x", "base_url": f"http://u:{secret('password in a url')}@127.0.0.1:1/v1"},
        "query": {"api_key": "x", "base_url": f"http://127.0.0.1:1/v1?api_key={secret('key in a query')}"},
        "broken command": {"api_key": f"$(false {secret('key in a command that fails')})"},
        "oauth": {
            "oauth": {"access_token": secret("access token"), "refresh_token": secret("refresh token")},
            "base_url": "http://127.0.0.1:1/v1",
        },
        "options": {
            "api_key": "x",
            "base_url": "http://127.0.0.1:1/v1",
            "provider_options": {"client_secret": secret("provider option")},
        },
        "body": {
            "api_key": "x",
            "base_url": "http://127.0.0.1:1/v1",
            "extra_body": {"auth_token": secret("extra body")},
        },
    }
    for entry in providers.values():
        entry |= {"type": "openai-compat", "models": used["providers"]["soak"]["models"]}
    used["providers"] |= providers
    used["mcp"] = {
        "stdio": {
            "type": "stdio",
            "command": "/bin/false",
            "args": [f"--token={secret('argument')}", "--password", secret("next argument")],
            "env": {"MCP_TOKEN": secret("mcp environment")},
        },
        "http": {
            "type": "http",
            "url": f"http://u:{secret('mcp password')}@127.0.0.1:1/x?token={secret('mcp query')}",
            "headers": {"Authorization": f"Bearer {secret('mcp header')}"},
            "oauth_client_secret": secret("mcp client secret"),
        },
        "gone": {
            "type": "stdio",
            "command": f"/nowhere/{secret('mcp command')[:0]}x",
            "env": {"A": "$(exit 3)"},
        },
    }
    used["lsp"] = {"l": {"command": "/bin/false", "env": {"T": secret("lsp environment")}}}
    return used


@pytest.mark.timeout(120)
def test_no_secret_comes_out(home: Bullpen, figure: Figure) -> None:
    """Not in an answer, an event, a log, the database, a child's environment or what the commands print."""
    secret = Canaries()
    said: dict[str, str] = {}
    with running_model() as model:
        home.config.mkdir(parents=True)
        (home.config / "bullpen.json").write_text(json.dumps(settings_with(secret, model, home.config)))
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        home.start(
            *("--host", f"tcp://127.0.0.1:{port}", "--debug"),
            ENV_KEY=secret("key in the environment"),
            BRACED_KEY=secret("key in braces"),
            HEADER_SECRET=secret("header in the environment"),
            BULLPEN_SECRET=secret("our own variable"),
        )
        secret.by_name["token"] = (home.data / TOKEN_FILE).read_text().strip()
        use(home, secret, said)
        said["http"] = http_with_wrong_tokens(port, secret)
        model_heads = "\n".join(model.heads)
    for command in ("doctor", "ps"):
        for options in ((), ("--json",)):
            done = home.run_command(command, *options, "--host", f"unix://{home.socket}", check=False)
            said[f"{command} {options}"] = done.stdout + done.stderr
    assert home.terminate() == 0
    said["log"] = home.log
    said |= {f"file {path}": path.read_text("latin-1") for path in written(home)}
    used = {"literal key", "literal header", "header in the environment", "header from a command line"}
    assert secret.in_text(model_heads) >= used, "the secrets were really used"
    assert len(secret.by_name) >= 30
    leaks = {where: found for where, text in said.items() if (found := secret.in_text(text))}
    assert not leaks, "\n".join(f"{where[:60]}: {sorted(found)}" for where, found in leaks.items())
    keepers = [home.data / TOKEN_FILE, *home.data.glob("workspaces/*/bullpen.json")]
    assert len(keepers) > 1
    assert {stat.S_IMODE(path.stat().st_mode) & 0o077 for path in keepers} == {0}
    total = sum(map(len, said.values()))
    figure(
        "X-22",
        "ATTK",
        f"{len(secret.by_name)} canaries, 0 found in {total / 1e6:.1f} MB from {len(said)} places",
    )


def broken_project(home: Bullpen, secret: Canaries) -> Path:
    """A config that is wrong in every secret it holds: what is said about it must not repeat them."""
    path = home.home / "broken"
    path.mkdir()
    wrong = {"api_key": [secret("key of a wrong type")], "base_url": {secret("key as a name"): 1}}
    text = json.dumps({"providers": {"wrong": wrong, "text": secret("secret in place of a section")}})
    (home.config / "broken.json").write_text(text)
    (path / "bullpen.json").symlink_to(home.config / "broken.json")
    (path / ".bullpen.json").symlink_to(home.config / "unreadable.json")
    (home.config / "unreadable.json").write_text(
        '{"providers": {"x": {"api_key": "' + secret("key in no JSON")
    )
    return path


def use(home: Bullpen, secret: Canaries, said: dict[str, str]) -> None:
    """Everything a client can do that may touch a secret; what is answered is kept."""
    project = home.home / "projects" / "p"
    project.mkdir()
    env = [f"CLIENT_KEY={secret('key of the client')}", f"HOME={home.home}", "PATH=/usr/bin:/bin"]
    env += [f"{name}={value}" for name, value in home.env.items() if name.startswith("XDG_")]
    env += [f"{name}={home.env[name]}" for name in ("ENV_KEY", "BRACED_KEY", "HEADER_SECRET")]
    client = home.attach(project, env=env, yolo=True)
    stream, session_id = client.stream(), client.session()

    def call(method: str, path: str, body: Any = None) -> None:
        said[f"{method} {path} {len(said)}"] = client.call(method, path, body).text

    keys = {"scope": 1, "provider_id": "soak", "kind": "", "api_key": secret("key set by a client")}
    said["create"] = json.dumps(client.info)
    for path in (
        "",
        "/config",
        "/providers",
        "/mcp/states",
        "/lsps",
        "/agent",
        "/clients",
        "/skills",
        "/asks",
    ):
        call("GET", path)
    wishes = ("echo", "say 3", "run env", "run printenv", "run cat /proc/$PPID/environ", "reset")
    for wish in (*wishes, "use bullpen_info", "use bullpen_logs"):
        done = stream.completion(client.prompt(session_id, wish))
        said[f"run {wish}"] = json.dumps(done)
    call("POST", "/config/provider-key", {**keys, "provider_id": "other"})
    call("POST", "/config/provider-key", {**keys, "api_key": [secret("bad key set by a client")]})
    # Asked about and not kept: at a host that answers, at one that does not, nowhere, and in forms that are no key.
    for provider in ("soak", "env", "password", "nobody"):
        call("POST", "/config/check-key", {"provider_id": provider, "api_key": secret(f"checked {provider}")})
    for key in (
        [secret("checked list")],
        f"two {secret('checked words')}",
        f"$({secret('checked command')})",
    ):
        call("POST", "/config/check-key", {"provider_id": "soak", "api_key": key})
    call(
        "POST",
        "/config/set",
        {"scope": 1, "key": "providers.set.api_key", "value": secret("key set as a field")},
    )
    call("POST", "/config/set", {"scope": 1, "key": "models", "value": secret("secret in a wrong field")})
    for path in ("/config", "", "/providers", f"/sessions/{session_id}/messages"):
        call("GET", path)
    told = client.call("GET", f"/sessions/{session_id}/messages").text
    missing = [words for words in ("[providers]", "serving on") if words not in told]
    assert not missing, "the agent was told of the configuration and the log"
    call(
        "POST",
        f"/agent/sessions/{session_id}/shell",
        {"command": "env; cat /proc/$PPID/environ | tr '\\0' '\\n'"},
    )
    call("POST", "/agent/init", {})
    call("POST", "/mcp/refresh-tools", {"name": "http"})
    said["all"] = home.call("GET", "/workspaces").text + home.call("GET", "/stats").text
    said["broken"] = json.dumps(home.attach(broken_project(home, secret)).info)
    said["stream"] = b"\n".join(stream.lines).decode()


def http_with_wrong_tokens(port: int, secret: Canaries) -> str:
    """Secrets where they do not belong: in queries, in wrong headers, in paths of a refused request."""
    heard = ""
    wrong = secret("wrong token")
    with httpx.Client(base_url=f"http://127.0.0.1:{port}/v1", verify=False) as http:
        for request in (
            {"url": f"/workspaces?token={wrong}"},
            {"url": "/workspaces", "headers": {"Authorization": f"Bearer {wrong}"}},
            {
                "url": "/workspaces",
                "headers": {"Authorization": f"Basic {wrong}", "Cookie": f"token={wrong}"},
            },
            {"url": f"/health?token={secret('secret in a query')}"},
        ):
            answer = http.get(**request)
            heard += f"{answer.status_code} {dict(answer.headers)} {answer.text}\n"
    return heard


def written(home: Bullpen) -> list[Path]:
    """Every file in the home but those that are there to hold secrets: the config files and the token."""
    files = [path for path in home.home.rglob("*") if path.is_file() and not path.is_symlink()]
    keepers = {TOKEN_FILE, "bullpen.json"}
    return [path for path in files if not path.is_relative_to(home.config) and path.name not in keepers]
