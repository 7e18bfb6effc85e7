"""What hosts answer when they are asked for their models, as our models. Pure: answers go in, models come out.

Hosts are taken at their word where they say what runs now, and only then at what a model was trained for. Whatever is not
of the expected shape is passed over: a list is worth something without its ornaments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from bullpen.schema.agent import Model

Json = Mapping[str, Any]

NOT_TALKING = re.compile(r"embed|rerank|whisper|tts|moderation|dall-e|transcribe", re.IGNORECASE)
"""Models that answer no conversation, by the names that they are given."""


def plain(answer: Any) -> tuple[Model, ...]:
    """`GET /models` of an OpenAI-compatible host, with what vLLM, llama.cpp and gateways add to it, or Google's form."""
    listed = _objects(answer, "data") or _objects(answer, "models")
    return _unique(_plain(item) for item in listed)


def _plain(item: Json) -> Model:
    meta = _object(item.get("meta"))
    name = _text(item.get("id")) or _text(item.get("name")).removeprefix("models/")
    return Model(
        id=name,
        name=_text(item.get("display_name")) or _text(item.get("displayName")) or name,
        context_window=_first(
            item.get("max_model_len"),
            meta.get("n_ctx"),
            item.get("context_length"),
            item.get("context_window"),
            item.get("inputTokenLimit"),
            item.get("max_input_tokens"),
            meta.get("n_ctx_train"),
        ),
        max_output_tokens=_or_unset(_first(item.get("outputTokenLimit"), item.get("max_output_tokens"))),
    )


def ollama(tags: Any, shown: Mapping[str, Any], running: Any) -> tuple[Model, ...]:
    """`/api/tags`, `/api/show` by model, and `/api/ps`, which alone knows the context that a loaded model really has."""
    loaded = {_text(m.get("name")): _number(m.get("context_length")) for m in _objects(running, "models")}
    return _unique(
        _ollama(_text(item.get("name")), _object(shown.get(_text(item.get("name")))), loaded)
        for item in _objects(tags, "models")
    )


def _ollama(name: str, details: Json, loaded: Mapping[str, int]) -> Model:
    able = details.get("capabilities")
    can = {each for each in able if isinstance(each, str)} if isinstance(able, list) else None
    if can is not None and "completion" not in can:
        return Model()
    info = _object(details.get("model_info"))
    trained = next((_number(v) for k, v in info.items() if k.endswith(".context_length")), 0)
    chosen = re.search(r"^num_ctx\s+(\d{1,12})\b", _text(details.get("parameters")), re.MULTILINE)
    return Model(
        id=name,
        name=name,
        context_window=loaded.get(name) or (int(chosen[1]) if chosen else trained),
        can_reason=bool(can and "thinking" in can),
        supports_attachments=bool(can and "vision" in can),
        supports_tools=UNSET if can is None else "tools" in can,
    )


def lmstudio(answer: Any) -> tuple[Model, ...]:
    """`/api/v1/models`, or `/api/v0/models` of older ones. A loaded instance says how much context it really has."""
    if _objects(answer, "data"):
        return _unique(_lmstudio_v0(item) for item in _objects(answer, "data"))
    return _unique(_lmstudio(item) for item in _objects(answer, "models"))


def _lmstudio(item: Json) -> Model:
    if item.get("type") == "embedding":
        return Model()
    instances = _objects(item, "loaded_instances")
    loaded = (_object(instance.get("config")).get("context_length") for instance in instances)
    can = _object(item.get("capabilities"))
    tools = can.get("trained_for_tool_use")
    return Model(
        id=_text(item.get("key")),
        name=_text(item.get("display_name")),
        context_window=_first(*loaded, item.get("max_context_length")),
        can_reason=bool(can.get("reasoning")),
        supports_attachments=can.get("vision") is True,
        supports_tools=tools if isinstance(tools, bool) else UNSET,
    )


def _lmstudio_v0(item: Json) -> Model:
    if item.get("type") == "embeddings":
        return Model()
    can = item.get("capabilities")
    return Model(
        id=_text(item.get("id")),
        name=_text(item.get("id")),
        context_window=_first(item.get("loaded_context_length"), item.get("max_context_length")),
        supports_attachments=item.get("type") == "vlm",
        supports_tools="tool_use" in can if isinstance(can, list) else UNSET,
    )


def llamacpp(answer: Any, props: Any) -> tuple[Model, ...]:
    """`/v1/models` and `/props`. A server has one model, and its properties are that model's."""
    models = plain(answer)
    said = _object(props)
    context = _number(_object(said.get("default_generation_settings")).get("n_ctx"))
    sees = _object(said.get("modalities")).get("vision") is True
    able = _object(said.get("chat_template_caps")).get("supports_tools")
    template = _text(said.get("chat_template"))
    tools: bool | UnsetType = able if isinstance(able, bool) else ("tools" in template if template else UNSET)
    if len(models) != 1:
        return models
    return (
        msgspec.structs.replace(
            models[0],
            context_window=context or models[0].context_window,
            supports_attachments=sees,
            supports_tools=tools,
        ),
    )


def litellm(answer: Any) -> tuple[Model, ...]:
    """`/model/info`: the one gateway that also knows prices."""
    return _unique(_litellm(item) for item in _objects(answer, "data"))


def _litellm(item: Json) -> Model:
    info = _object(item.get("model_info"))
    price = _per_million(info.get("input_cost_per_token"))
    longest = _first(info.get("max_output_tokens"), info.get("max_tokens"))
    tools = info.get("supports_function_calling")
    return Model(
        id=_text(item.get("model_name")),
        name=_text(item.get("model_name")),
        context_window=_first(info.get("max_input_tokens"), info.get("max_tokens")),
        default_max_tokens=min(longest, 32_000),
        max_output_tokens=_or_unset(longest),
        cost_per_1m_in=price,
        cost_per_1m_out=_per_million(info.get("output_cost_per_token")),
        cost_per_1m_in_cached=_per_million(info.get("cache_creation_input_token_cost")) or price,
        cost_per_1m_out_cached=_per_million(info.get("cache_read_input_token_cost")) or price,
        can_reason=info.get("supports_reasoning") is True,
        supports_attachments=info.get("supports_vision") is True,
        supports_tools=tools if isinstance(tools, bool) else UNSET,
    )


def omlx(answer: Any) -> tuple[Model, ...]:
    """`/models/status`."""
    return _unique(
        Model(
            id=_text(item.get("id")),
            name=_text(item.get("id")),
            context_window=_first(
                item.get("max_context_window"), item.get("context_length"), item.get("context_window")
            ),
            default_max_tokens=_number(item.get("max_tokens")),
        )
        for item in _objects(answer, "models") or _objects(answer, "data")
    )


def _unique(models: Iterable[Model]) -> tuple[Model, ...]:
    """Those that have an id and can talk, each once."""
    return tuple({m.id: m for m in models if m.id and not NOT_TALKING.search(m.id)}.values())


def _objects(value: Any, name: str) -> list[Json]:
    inner = value.get(name) if isinstance(value, Mapping) else None
    return list(_only_objects(inner)) if isinstance(inner, list) else []


def _only_objects(values: list[Any]) -> Iterator[Json]:
    yield from (value for value in values if isinstance(value, Mapping))


def _object(value: Any) -> Json:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> int:
    """A count that makes sense, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 40 else 0


def _first(*values: Any) -> int:
    return next((number for value in values if (number := _number(value))), 0)


def _or_unset(number: int) -> int | UnsetType:
    return number or UNSET


def _per_million(value: Any) -> float:
    return round(value * 1_000_000, 6) if isinstance(value, int | float) and 0 < value < 1 else 0.0
