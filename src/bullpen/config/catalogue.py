"""The providers that can be offered without any config: hosts that speak chat completions, and the built-in tour.

Nothing here is ever chosen by itself: a provider becomes usable when a config names it or a person selects one
of its models. Model ids, sizes and prices change faster than releases, so only the defaults are listed, with a
cautious context size and without prices; a config file can say more.
"""

from __future__ import annotations

from collections.abc import Mapping

from bullpen.config.expand import expand
from bullpen.schema.agent import CatalogueProvider, Model

DEMO = "demo"
TOUR = "tour"

CONTEXT_FLOOR = 128_000
"""No listed model has a smaller context. Too small a number only means that a summary comes early."""


def _model(model_id: str, *, reasons: bool = True, sees: bool = False) -> Model:
    name = model_id.rpartition("/")[2]
    return Model(
        id=model_id, name=name, context_window=CONTEXT_FLOOR, can_reason=reasons, supports_attachments=sees
    )


def _host(
    provider_id: str,
    name: str,
    url: str,
    variable: str,
    large: Model,
    small: Model,
    kind: str = "openai-compat",
) -> CatalogueProvider:
    return CatalogueProvider(
        id=provider_id,
        name=name,
        type=kind,
        api_endpoint=url,
        api_key=f"${variable}",
        default_large_model_id=large.id,
        default_small_model_id=small.id,
        models=(large,) if large.id == small.id else (large, small),
    )


CATALOGUE: tuple[CatalogueProvider, ...] = (
    CatalogueProvider(
        id=DEMO,
        name="Bullpen tour (built in, no network)",
        type="demo",
        default_large_model_id=TOUR,
        default_small_model_id=TOUR,
        models=(Model(id=TOUR, name="Guided tour", context_window=1_000_000),),
    ),
    _host(
        "openai",
        "OpenAI",
        "${OPENAI_API_ENDPOINT:-https://api.openai.com/v1}",
        "OPENAI_API_KEY",
        _model("gpt-5.6-sol", sees=True),
        _model("gpt-5.6-luna", sees=True),
        "openai",
    ),
    _host(
        "openrouter",
        "OpenRouter",
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
        _model("anthropic/claude-sonnet-4.6", sees=True),
        _model("anthropic/claude-haiku-4.5", sees=True),
        "openrouter",
    ),
    _host("xai", "xAI", "https://api.x.ai/v1", "XAI_API_KEY", _model("grok-4.5"), _model("grok-4.5")),
    _host(
        "deepseek",
        "DeepSeek",
        "https://api.deepseek.com/v1",
        "DEEPSEEK_API_KEY",
        _model("deepseek-v4-pro"),
        _model("deepseek-v4-flash"),
    ),
    _host(
        "groq",
        "Groq",
        "https://api.groq.com/openai/v1",
        "GROQ_API_KEY",
        _model("moonshotai/kimi-k2-instruct-0905", reasons=False),
        _model("qwen/qwen3-32b"),
    ),
    _host(
        "cerebras",
        "Cerebras",
        "https://api.cerebras.ai/v1",
        "CEREBRAS_API_KEY",
        _model("gpt-oss-120b"),
        _model("gemma-4-31b", reasons=False),
    ),
    _host(
        "mistral",
        "Mistral",
        "https://api.mistral.ai/v1",
        "MISTRAL_API_KEY",
        _model("mistral-large-latest", reasons=False),
        _model("mistral-small-latest", reasons=False),
    ),
    _host(
        "moonshot",
        "Moonshot",
        "https://api.moonshot.ai/v1",
        "MOONSHOT_API_KEY",
        _model("kimi-k3"),
        _model("kimi-k2.7-code", reasons=False),
    ),
    _host(
        "zai", "Z.AI", "https://api.z.ai/api/paas/v4", "ZAI_API_KEY", _model("glm-5.2"), _model("glm-5-turbo")
    ),
)
"""In the order in which they are offered and, once configured, preferred."""

_BY_ID = {entry.id: entry for entry in CATALOGUE}


def known(provider_id: str) -> CatalogueProvider | None:
    return _BY_ID.get(provider_id)


def rank(provider_id: str) -> int:
    """The place in the catalogue; what is not in it comes last."""
    return next((i for i, entry in enumerate(CATALOGUE) if entry.id == provider_id), len(CATALOGUE))


def with_key(env: Mapping[str, str]) -> tuple[str, ...]:
    """The ids of the providers whose key is in the environment."""
    return tuple(e.id for e in CATALOGUE if e.api_key and expand(e.api_key, env).value)
