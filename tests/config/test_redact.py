from __future__ import annotations

import msgspec
import pytest
from tests.config.conftest import FAKE, World

from bullpen.config.redact import MASK, redacted, secrets_of, text_without


def test_no_secret_is_shown(world: World) -> None:
    """X-22: thirty hiding places, written or expanded, and none is found in the answer."""
    world.env |= {"KEY": "canary-expanded", "VIA": "canary-via"}
    provider = FAKE | {
        "api_key": "canary-1",
        "oauth": {"access_token": "canary-2", "refresh_token": "canary-3", "client": {"secret": "canary-4"}},
        "extra_headers": {"Authorization": "canary-5", "X-Plain": "canary-6"},
        "extra_body": {"user_token": "canary-7", "deep": [{"password": "canary-8"}]},
        "provider_options": {"apiKey": "canary-9"},
        "base_url": "https://user:canary-10@host/v1?api_key=canary-11&x=1",
    }
    mcp = {
        "command": "x",
        "args": ["--token", "canary-12", "--api-key=canary-13", "https://u:canary-14@h/", "plain"],
        "env": {"A": "canary-15"},
        "headers": {"H": "canary-16"},
        "url": "https://u:canary-17@h/?token=canary-18",
        "oauth_client_secret": "canary-19",
        "oauth_token": {"access_token": "canary-20"},
    }
    templates = FAKE | {"api_key": "$KEY", "extra_headers": {"X": "$VIA"}}
    world.user(
        {
            "providers": {"fake": provider, "other": templates},
            "mcp": {"m": mcp},
            "lsp": {"l": {"command": "x", "env": {"B": "canary-21"}}},
            "env": {"C": "canary-22"},
            "models": {
                "large": {"provider": "fake", "model": "big", "provider_options": {"key": "canary-23"}}
            },
        }
    )
    shown = msgspec.json.encode(redacted(world.load())).decode()
    assert "canary" not in shown
    assert world.load().providers["other"].api_key == "canary-expanded"


def test_what_is_no_secret_is_shown(world: World) -> None:
    world.user(
        {
            "providers": {"fake": FAKE | {"extra_body": {"max_tokens": 5, "tokens": "7"}}},
            "models": {"large": {"provider": "fake", "model": "big", "max_tokens": 9}},
            "mcp": {"m": {"command": "run", "args": ["-v", "plain"], "url": "https://h/p?x=1"}},
        }
    )
    shown = redacted(world.load())
    fake = shown["providers"]["fake"]
    assert (fake["id"], fake["name"], fake["type"], fake["base_url"]) == (
        "fake",
        "fake",
        "openai-compat",
        FAKE["base_url"],
    )
    assert fake["models"][0]["context_window"] == 1000
    assert fake["api_key"] == MASK
    assert fake["extra_body"] == {"max_tokens": 5, "tokens": "7"}
    assert shown["models"]["large"]["max_tokens"] == 9
    assert shown["mcp"]["m"] == {"command": "run", "args": ["-v", "plain"], "url": "https://h/p?x=1"}


def test_the_sections_clients_insist_on(world: World) -> None:
    shown = redacted(world.load())
    assert shown["options"]["tui"] == {}
    assert shown["options"]["data_directory"] == str(world.places.data)
    assert (shown["providers"], shown["models"]) == ({}, {})


def test_a_missing_key_is_not_shown_as_one(world: World) -> None:
    world.user({"providers": {"fake": FAKE | {"api_key": ""}}})
    assert redacted(world.load())["providers"]["fake"]["api_key"] == ""


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("the model answered in 3 s", "the model answered in 3 s"),
        ("asked with canary-known twice", f"asked with {MASK} twice"),
        ("api_key=canary-1 and rest", f"api_key={MASK} and rest"),
        ('{"a": {"b": [{"access_token": "canary-2 \\" x"}]}, "n": 1}', f'{{"a": {{"b": [{{"access_token": "{MASK}"}}]}}, "n": 1}}'),
        ("{'deep': {'client_secret': 'canary-3'}}", f"{{'deep': {{'client_secret': '{MASK}'}}}}"),
        ("Authorization: Bearer canary-4", f"Authorization: {MASK}"),
        ("sent Bearer canary-5-long", f"sent Bearer {MASK}"),
        ("GET https://u:canary-6@h/x?token=canary-7&a=1", f"GET https://h/x?token={MASK}&a=1"),
        ("message=password=canary-8", f"message=password={MASK}"),
        ('password: "canary-9', f'password: "{MASK}"'),
        ("api_key=$OPENAI_API_KEY", "api_key=$OPENAI_API_KEY"),
        ("max_tokens=4096", "max_tokens=4096"),
    ],
)  # fmt: skip
def test_a_text_that_anybody_wrote_shows_no_secret(said: str, shown: str) -> None:
    """Nested ones neither."""
    assert text_without(said, {"canary-known"}) == shown


def test_the_values_in_clear_are_known(world: World) -> None:
    world.env |= {"KEY": "canary-expanded"}
    world.user(
        {
            "providers": {
                "fake": FAKE | {"api_key": "$KEY", "extra_headers": {"X": "canary-header"}},
            },
            "mcp": {"m": {"command": "x", "env": {"A": "canary-mcp"}}},
            "env": {"C": "canary-env"},
        }
    )
    assert {"canary-expanded", "canary-header", "canary-mcp", "canary-env"} <= secrets_of(world.load())


def test_the_key_of_the_search_engine_is_expanded_and_never_shown(world: World) -> None:
    """Neither written nor expanded; tools see neither the variable nor the section that it stands in."""
    world.env |= {"SEARCH_KEY": "canary-expanded"}
    world.user(
        {"tools": {"web_search": {"provider": "brave", "api_key": "$SEARCH_KEY"}, "ls": {"max_items": 5}}}
    )
    settings = world.load()
    assert (settings.web_search.provider, settings.web_search.api_key) == ("brave", "canary-expanded")
    assert "SEARCH_KEY" in settings.secret_names
    assert settings.tool_limits == {"ls": {"max_items": 5}}
    assert "canary-expanded" in secrets_of(settings)
    assert "canary" not in repr(settings.web_search)
    world.user({"tools": {"web_search": {"provider": "brave", "api_key": "canary-written"}}})
    settings = world.load()
    assert redacted(settings)["tools"] == {"web_search": {"provider": "brave", "api_key": MASK}}
    world.user({"tools": {"web_search": {"provider": "brave", "api_key": "$(exit 3)"}}})
    settings = world.load()
    assert settings.web_search.api_key == ""
    assert any("tools.web_search cannot be expanded" in warning for warning in settings.warnings)
