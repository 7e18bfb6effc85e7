"""Models, providers and logins on the command line, against real hosts."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command
from tests.journeys.model_host import ModelHost, model_host


@pytest.fixture
def host() -> Iterator[ModelHost]:
    with model_host() as running:
        yield running


@pytest.fixture
def state(home: Path) -> Path:
    return home / ".local/share/bullpen/bullpen.json"


def write(file: Path, content: Any) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content))
    return file


# Models


async def test_models_lists_what_can_be_used(bullpen: Command) -> None:
    """A found key is enough to be listed, and chooses nothing."""
    done = await bullpen("models", "--json", OPENAI_API_KEY="sk-x")
    rows = json.loads(done.stdout)
    assert {row["provider"] for row in rows} >= {"openai", "demo"}
    assert "openrouter" not in {row["provider"] for row in rows}
    sol = next(row for row in rows if row["id"] == "gpt-5.6-sol")
    assert (sol["usable"], sol["context_window"], sol["cost_per_1m_in"]) == (True, 272000, 4)
    assert "sk-x" not in done.stdout


async def test_a_text_also_finds_what_cannot_be_used_yet(bullpen: Command) -> None:
    done = await bullpen("models", "GPT-5.6-Sol", "--provider", "openai")
    assert (done.returncode, done.stderr) == (0, "")
    told = "- openai/gpt-5.6-sol 272k $4 $20 $0.4 none/low/medium/high/xhigh/max, pictures"
    assert " ".join(done.stdout.split()) == told


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nothing-like-this"], "no model matches\n"),
        (["--provider", "opnai"], "bullpen: there is no provider opnai; did you mean openai?\n"),
    ],
)
async def test_nothing_found_is_said(bullpen: Command, arguments: list[str], sentence: str) -> None:
    done = await bullpen("models", *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", sentence)


async def test_favourites_come_first(bullpen: Command) -> None:
    assert (await bullpen("models", "favorite", "openai/gpt-5.6-sol")).returncode == 0
    done = await bullpen("models", "gpt-5.6", "-P", "openai")
    assert done.stdout.startswith("* openai/gpt-5.6-sol")
    assert (await bullpen("models", "favorite")).stdout == "openai/gpt-5.6-sol\n"
    await bullpen("models", "favorite", "--remove", "openai/gpt-5.6-sol")
    assert (await bullpen("models", "favorite")).stdout == ""
    wrong = await bullpen("models", "favorite", "openai/gpt-5.6-slo")
    assert wrong.stderr == "bullpen: no model openai/gpt-5.6-slo is known; did you mean openai/gpt-5.6-sol?\n"


NEWER = {
    "generated_at": "2999-01-01T00:00:00Z",
    "providers": [
        {
            "id": "acme",
            "name": "Acme",
            "type": "openai-compat",
            "api_key": "$ACME_KEY",
            "models": [{"id": "a1"}],
        }
    ],
}


async def test_the_catalogue_is_updated_from_a_file_and_reset(bullpen: Command, home: Path) -> None:
    file = write(home / "newer.json", NEWER)
    done = await bullpen("models", "update", str(file))
    assert (done.stdout, done.stderr) == ("1 providers and 2 models of 2999-01-01\n", "")
    assert "acme/a1" in (await bullpen("models", "--all")).stdout
    assert (await bullpen("models", "update", "--reset")).returncode == 0
    assert "acme" not in (await bullpen("models", "--all")).stdout


async def test_the_catalogue_is_updated_from_an_address(bullpen: Command, host: ModelHost) -> None:
    host.answers["/catalog.json"] = NEWER
    assert (await bullpen("models", "update", f"{host.url}/catalog.json")).returncode == 0
    host.answers["/catalog.json"] = 503
    refused = await bullpen("models", "update", f"{host.url}/catalog.json")
    assert refused.stderr == f"bullpen: {host.url}/catalog.json answered 503\n"
    assert "acme/a1" in (await bullpen("models", "--all")).stdout


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"providers": []}, "its date, is missing"),
        ({**NEWER, "generated_at": "2020-01-01"}, "not newer than the one that came with this version"),
        ([], "is not a catalogue of models"),
    ],
)
async def test_a_bad_catalogue_changes_nothing(
    bullpen: Command, home: Path, content: Any, sentence: str
) -> None:
    done = await bullpen("models", "update", str(write(home / "bad.json", content)))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert sentence in done.stderr
    assert not (home / ".local/share/bullpen/catalog.json").exists()


async def test_an_address_without_encryption_is_refused(bullpen: Command) -> None:
    done = await bullpen("models", "update", "http://example.com/catalog.json")
    assert "only https addresses" in done.stderr


# Providers


async def test_providers_says_what_is_missing(bullpen: Command, home: Path, host: ModelHost) -> None:
    """And asks the hosts that list no models."""
    host.answers["/v1/models"] = {"data": [{"id": "m"}]}
    mine = {"type": "openai-compat", "base_url": f"{host.url}/v1"}
    gone = {"type": "openai-compat", "base_url": "http://127.0.0.1:1/v1"}
    write(home / ".config/bullpen/bullpen.json", {"providers": {"mine": mine, "gone": gone}})
    rows = {
        row["id"]: row
        for row in json.loads((await bullpen("providers", "--json", GROQ_API_KEY="gsk-x")).stdout)
    }
    assert (rows["mine"]["usable"], rows["mine"]["models"]) == (True, 1)
    assert (rows["groq"]["usable"], rows["groq"]["state"]) == (True, "key found")
    assert (rows["openai"]["usable"], rows["openai"]["missing"]) == (False, "set OPENAI_API_KEY")
    assert rows["copilot"]["missing"] == "log in with 'bullpen login copilot'"
    assert not rows["gone"]["usable"]
    assert "cannot be reached" in rows["gone"]["missing"]


# Logins


def openai_at(host: ModelHost) -> dict[str, str]:
    return {"OPENAI_API_ENDPOINT": f"{host.url}/v1"}


async def test_a_key_is_tested_and_kept(bullpen: Command, host: ModelHost, state: Path) -> None:
    host.answers["/v1/models"] = lambda headers, _: (
        {"data": [{"id": "gpt-5"}]} if headers["authorization"] == "Bearer sk-good$1" else 401
    )
    done = await bullpen("login", "openai", stdin="sk-good$1\n", **openai_at(host))
    assert (done.stdout, done.stderr) == ("the key of OpenAI is kept; it works\n", "")
    assert json.loads(state.read_text())["providers"]["openai"]["api_key"] == "sk-good\\$1"
    assert state.stat().st_mode & 0o777 == 0o600
    assert "  openai/gpt-5.6-sol" in (await bullpen("models", "-P", "openai")).stdout
    assert (await bullpen("logout", "openai")).stdout == "the login of openai is forgotten\n"
    assert "- openai/gpt-5.6-sol" in (await bullpen("models", "-P", "openai")).stdout


async def test_a_refused_key_is_not_kept(bullpen: Command, host: ModelHost, state: Path) -> None:
    host.answers["/v1/models"] = 401
    done = await bullpen("login", "openai", stdin="sk-bad", **openai_at(host))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "bullpen: OpenAI refused the key (401); nothing was kept\n"
    assert not state.exists()


async def test_a_key_that_cannot_be_tested_is_kept_and_said(bullpen: Command, state: Path) -> None:
    done = await bullpen("login", "openai", stdin="sk-1", OPENAI_API_ENDPOINT="http://127.0.0.1:1/v1")
    assert done.stdout.startswith(
        "the key of OpenAI is kept, untested: OpenAI at http://127.0.0.1:1/v1 cannot"
    )
    assert state.exists()


@pytest.mark.parametrize(
    ("provider", "key", "sentence"),
    [
        ("openia", "k", "did you mean openai?"),
        ("ollama", "k", "there is no provider ollama that takes a key"),
        ("openai", "", "that is no key"),
        ("openai", "two words", "that is no key"),
        ("vercel", "sk-1", "keys of Vercel AI Gateway begin with vck_; nothing was kept"),
    ],
)
async def test_what_is_no_key_is_refused_in_one_line(
    bullpen: Command, state: Path, provider: str, key: str, sentence: str
) -> None:
    done = await bullpen("login", provider, stdin=key)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert sentence in done.stderr
    assert not state.exists()


async def test_logging_in_to_copilot(bullpen: Command, host: ModelHost, state: Path) -> None:
    """The person sees a code; what is kept is the long token and the short one."""
    host.answers = {
        "/login/device/code": {
            "device_code": "d",
            "user_code": "ABCD-1234",
            "verification_uri": "https://github.com/login/device",
            "interval": 5,
            "expires_in": 900,
        },
        "/login/oauth/access_token": {"access_token": "gho_1"},
        "/copilot_internal/v2/token": {"token": "short", "expires_at": int(time.time()) + 1800},
    }
    done = await bullpen("login", "copilot", "--host", host.url)
    assert done.returncode == 0
    assert "open https://github.com/login/device and enter the code ABCD-1234\n" in done.stdout
    kept = json.loads(state.read_text())["providers"]["copilot"]["oauth"]
    assert (kept["access_token"], kept["refresh_token"], kept["client"]) == ("short", "gho_1", "copilot")
    assert "gho_1" not in done.stdout + done.stderr
    rows = json.loads((await bullpen("providers", "--json")).stdout)
    assert next(row for row in rows if row["id"] == "copilot")["state"] == "logged in"


async def test_logging_out_of_nothing_is_said(bullpen: Command) -> None:
    done = await bullpen("logout", "openai")
    assert (done.returncode, done.stderr) == (1, "bullpen: there is no login of openai to forget\n")
