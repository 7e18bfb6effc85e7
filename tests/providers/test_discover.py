"""Hosts are asked for their models over real HTTP, each by its own endpoints."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from msgspec import UNSET

from bullpen.config.settings import ProviderSettings
from bullpen.providers.discover import ask, ask_all, knows_tools, list_models, on_this_machine
from bullpen.providers.http import ModelClient
from bullpen.schema.agent import CatalogueProvider, Model

Answers = dict[str, Any]


class Server:
    """Answers paths from a table: a value as JSON, bytes as they are, a number as a status,
    a pair as both; what is missing is 404."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.url = ""
        self.silent = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                target, *lines = head.split("\r\n")
                fields = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines if line)}
                body = await reader.readexactly(int(fields.get("content-length", "0")))
                path = target.split()[1]
                if body:
                    path += " " + json.loads(body)["model"]
                self.asked.append(path)
                self.headers.append(fields)
                if self.silent:
                    await reader.read()
                    return
                answer = self.answers.get(path, 404)
                status = answer if isinstance(answer, int) else 200
                if isinstance(answer, tuple):
                    status, answer = answer
                content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                writer.write(
                    f"HTTP/1.1 {status} X\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(answers: Answers) -> AsyncIterator[Server]:
    server = Server(answers)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    async with listener:
        yield server


Listed = Callable[[str, Answers], Awaitable[tuple[Model, ...]]]


@pytest.fixture
def listed(http: ModelClient) -> Listed:
    async def models(kind: str, answers: Answers, suffix: str = "/v1") -> tuple[Model, ...]:
        async with serving(answers) as server:
            return await list_models(ProviderSettings(id="p", type=kind, base_url=server.url + suffix), http)

    return models


OLLAMA: Answers = {
    "/api/tags": {
        "models": [{"name": "qwen3:8b"}, {"name": "llava"}, {"name": "nomic-embed-text"}, {"name": "old"}]
    },
    "/api/show qwen3:8b": {
        "capabilities": ["completion", "tools", "thinking"],
        "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40960},
        "parameters": "stop x\nnum_ctx                        16384",
    },
    "/api/show llava": {
        "capabilities": ["completion", "vision"],
        "model_info": {"llama.context_length": 32768},
    },
    "/api/show old": 500,
    "/api/ps": {"models": [{"name": "llava", "context_length": 4096}]},
}


async def test_ollama_says_what_a_model_can_and_how_much_it_was_loaded_with(listed: Listed) -> None:
    """What runs now counts before what somebody set, and that before what the model was trained for."""
    qwen, llava, old = await listed("ollama", OLLAMA)
    assert (qwen.id, qwen.context_window, qwen.can_reason, qwen.supports_tools) == (
        "qwen3:8b",
        16384,
        True,
        True,
    )
    assert (llava.context_window, llava.supports_attachments, llava.supports_tools) == (4096, True, False)
    assert (old.id, old.context_window, old.supports_tools) == ("old", 0, UNSET)


async def test_lm_studio_counts_the_loaded_instance(listed: Listed) -> None:
    loaded = {
        "type": "llm",
        "key": "openai/gpt-oss-20b",
        "display_name": "GPT OSS 20B",
        "max_context_length": 131072,
        "loaded_instances": [{"id": "x", "config": {"context_length": 8192}}],
        "capabilities": {"vision": False, "trained_for_tool_use": True},
    }
    idle = {"type": "llm", "key": "qwen-vl", "max_context_length": 32768, "capabilities": {"vision": True}}
    first, second = await listed(
        "lmstudio", {"/api/v1/models": {"models": [loaded, idle, {"type": "embedding", "key": "e"}]}}
    )
    assert (first.name, first.context_window, first.supports_tools) == ("GPT OSS 20B", 8192, True)
    assert (second.context_window, second.supports_attachments, second.supports_tools) == (32768, True, UNSET)


async def test_an_older_lm_studio_is_understood_too(listed: Listed) -> None:
    model = {
        "id": "q",
        "type": "vlm",
        "max_context_length": 9,
        "loaded_context_length": 7,
        "capabilities": ["tool_use"],
    }
    (found,) = await listed("lmstudio", {"/api/v0/models": {"data": [model]}})
    assert (found.context_window, found.supports_attachments, found.supports_tools) == (7, True, True)


LLAMA: Answers = {
    "/v1/models": {"object": "list", "data": [{"id": "gemma", "meta": {"n_ctx_train": 131072}}]},
    "/props": {
        "default_generation_settings": {"n_ctx": 16384},
        "chat_template": "{% if tools %}",
        "modalities": {"vision": True},
    },
}


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
async def test_llama_cpp_is_asked_at_the_right_place(http: ModelClient, suffix: str) -> None:
    """Defect 8: an address that ended in /v1 was asked for /v1/v1/models."""
    async with serving(LLAMA) as server:
        settings = ProviderSettings(id="p", type="llamacpp", base_url=server.url + suffix)
        (model,) = await list_models(settings, http)
        assert server.asked == ["/v1/models", "/props"]
    assert (model.id, model.context_window, model.supports_tools, model.supports_attachments) == (
        "gemma",
        16384,
        True,
        True,
    )


async def test_vllm_says_its_longest_context(listed: Listed) -> None:
    (model,) = await listed(
        "openai-compat", {"/v1/models": {"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 8192}]}}
    )
    assert (model.context_window, model.supports_tools) == (8192, UNSET)


async def test_litellm_knows_prices(listed: Listed) -> None:
    info = {
        "max_input_tokens": 200000,
        "max_output_tokens": 64000,
        "input_cost_per_token": 3e-06,
        "output_cost_per_token": 1.5e-05,
        "cache_creation_input_token_cost": 3.75e-06,
        "cache_read_input_token_cost": 3e-07,
        "supports_vision": True,
        "supports_function_calling": True,
    }
    (model,) = await listed(
        "litellm", {"/model/info": {"data": [{"model_name": "sonnet", "model_info": info}]}}
    )
    assert (model.cost_per_1m_in, model.cost_per_1m_out) == (3, 15)
    assert (model.cost_per_1m_in_cached, model.cost_per_1m_out_cached) == (3.75, 0.3)
    assert (model.context_window, model.max_output_tokens, model.supports_tools) == (200000, 64000, True)


async def test_litellm_without_that_page_still_lists_its_models(listed: Listed) -> None:
    assert [m.id for m in await listed("litellm", {"/v1/models": {"data": [{"id": "m"}]}})] == ["m"]


async def test_omlx_says_its_sizes(listed: Listed) -> None:
    status = {"models": [{"id": "m", "max_context_window": 8192, "max_tokens": 1024}]}
    (model,) = await listed("omlx", {"/v1/models/status": status})
    assert (model.context_window, model.default_max_tokens) == (8192, 1024)


async def test_the_key_goes_along_in_the_form_of_the_type(http: ModelClient) -> None:
    answers: Answers = {"/v1/models?limit=1000": {"data": [{"id": "claude", "display_name": "Claude"}]}}
    async with serving(answers) as server:
        settings = ProviderSettings(id="p", type="anthropic", base_url=server.url, api_key="sk-1")
        (model,) = await list_models(settings, http)
        assert (model.name, server.headers[0]["x-api-key"]) == ("Claude", "sk-1")


@pytest.mark.parametrize(
    ("facts", "beta"),
    [
        ({"api_key": "sk-ant-oat01-token"}, "oauth-2025-04-20"),
        (
            {"api_key": "sk-ant-oat01-token", "extra_headers": {"Anthropic-Beta": "mine"}},
            "mine,oauth-2025-04-20",
        ),
        ({"api_key": "k", "id": "minimax"}, None),
        ({"api_key": "Bearer k"}, None),
    ],
)
async def test_a_host_of_messages_is_asked_for_its_models_as_it_is_asked_for_answers(
    http: ModelClient, facts: dict[str, Any], beta: str | None
) -> None:
    """Tokens of a login, and MiniMax's keys, are no keys of Anthropic's."""
    async with serving({"/v1/models?limit=1000": {"data": [{"id": "claude"}]}}) as server:
        plain = {"id": "p", "type": "anthropic", "base_url": server.url}
        await list_models(ProviderSettings(**(plain | facts)), http)
        (sent,) = server.headers
    assert sent["authorization"] == "Bearer " + facts["api_key"].removeprefix("Bearer ")
    assert (sent.get("x-api-key"), sent.get("anthropic-beta")) == (None, beta)
    assert sent["anthropic-version"]


REFUSALS = [
    (401, "refused the key (401); set another with 'bullpen login p'"),
    (404, "answered 404 when it was asked for its models; is its base_url right?"),
    (b"<html>", "did not answer with a list of models; is its base_url right?"),
    ({"data": []}, "has no models to talk to"),
]


@pytest.mark.parametrize(("answer", "sentence"), REFUSALS)
async def test_a_failure_is_a_sentence_without_the_key(http: ModelClient, answer: Any, sentence: str) -> None:
    async with serving({"/v1/models": answer}) as server:
        url = server.url.replace("//", "//user:secret@") + "/v1"
        found = await ask(ProviderSettings(id="p", name="Mine", base_url=url, api_key="sk-12345678"), http)
    assert sentence in found.error
    assert found.error.startswith("Mine at http://127.0.0.1:")
    assert "secret" not in found.error
    assert "sk-1" not in found.error


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/v1", "ftp://x", "nonsense"])
async def test_a_host_that_is_not_there_is_a_sentence(http: ModelClient, url: str) -> None:
    found = await ask(ProviderSettings(id="p", base_url=url), http)
    assert "cannot be reached" in found.error or "is not valid" in found.error


async def test_a_silent_host_holds_up_nobody(http: ModelClient) -> None:
    """All are asked at once, and each has a limit of its own."""
    async with serving({}) as silent, serving({"/v1/models": {"data": [{"id": "m"}]}}) as quick:
        silent.silent = True
        asked = [
            ProviderSettings(id="silent", base_url=silent.url + "/v1"),
            ProviderSettings(id="quick", base_url=quick.url + "/v1"),
        ]
        found = await ask_all(asked, http, limit_s=0.3)
    assert [m.id for m in found["quick"].models] == ["m"]
    assert "did not answer within 0.3 s" in found["silent"].error


async def test_servers_of_this_machine_are_offered_with_their_models(http: ModelClient) -> None:
    async with serving(OLLAMA) as server, serving({"/v1/models": b"something else lives here"}) as other:
        places = [
            CatalogueProvider(id="ollama", name="Ollama", type="ollama", api_endpoint=server.url + "/v1"),
            CatalogueProvider(id="vllm", name="vLLM", type="openai-compat", api_endpoint=other.url + "/v1"),
            CatalogueProvider(id="llamacpp", name="x", type="llamacpp", api_endpoint="http://127.0.0.1:1/v1"),
        ]
        (found,) = await on_this_machine(http, places)
    assert (found.id, found.default_large_model_id) == ("ollama", "qwen3:8b")
    assert [m.id for m in found.models] == ["qwen3:8b", "llava", "old"]


async def test_whoever_leaves_closes_the_connection(http: ModelClient) -> None:
    async with serving({}) as server:
        server.silent = True
        with anyio.move_on_after(0.1):
            await list_models(ProviderSettings(id="p", base_url=server.url + "/v1"), http, limit_s=30)
        assert server.asked == ["/v1/models"]


@pytest.mark.parametrize(
    ("answer", "knows"),
    [
        ({"choices": []}, True),
        ((400, {"error": "m does not support Tools"}), False),
        ((500, {"error": "tools param requires --jinja flag"}), False),
        ((400, {"error": "no such model"}), None),
        (503, None),
    ],
)
async def test_whether_a_model_knows_tools_is_tried(
    http: ModelClient, answer: Any, knows: bool | None
) -> None:
    async with serving({"/v1/chat/completions m": answer}) as server:
        assert await knows_tools(ProviderSettings(id="p", base_url=server.url + "/v1"), "m", http) is knows


async def test_another_machine_is_not_tried(http: ModelClient) -> None:
    """It may cost something."""
    assert await knows_tools(ProviderSettings(id="p", base_url="https://example.com/v1"), "m", http) is None
