"""What hosts of chat completions want that the interface does not know: above all, ways to be told to think."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from msgspec import UNSET

from bullpen.config.settings import ProviderSettings
from bullpen.providers.base import ModelRequest
from bullpen.providers.options import Json, host_of, is_cached

GATEWAYS = frozenset({"openrouter", "vercel"})


class Wish(NamedTuple):
    """What a person chose: `on` is None when that is nothing. `effort` is never `none`; `chosen` may be."""

    on: bool | None
    effort: str
    chosen: str
    model: str

    @property
    def as_effort(self) -> Json:
        return {"reasoning_effort": self.effort} if self.effort else {}


def own_fields(request: ModelRequest, settings: ProviderSettings) -> Json:
    """The fields that this host wants; none about thinking where nobody chose anything."""
    family = _family(settings)
    thinking = family.thinking(_wish(request)) if request.can_reason else {}
    return thinking | ({"tool_stream": True} if family.streams_calls_if_told and request.tools else {})


def wants_marks(request: ModelRequest, settings: ProviderSettings) -> bool:
    """Whether what is to be cached has to be marked: the gateways pass that on to Anthropic."""
    by_gateway = settings.type in GATEWAYS and "claude" in request.model
    return by_gateway and settings.prompt_caching and is_cached(request)


def _family(settings: ProviderSettings) -> Family:
    if settings.type in GATEWAYS:
        return GATEWAY
    host = f".{host_of(settings)}"
    known = (f for f in FAMILIES if settings.id.startswith(f.ids) or host.endswith(f.hosts))
    return next(known, ANYBODY)


def _wish(request: ModelRequest) -> Wish:
    said, think = request.settings.reasoning_effort, request.settings.think
    chosen = "" if said is UNSET else said
    effort = "" if chosen == "none" else chosen
    on: bool | None = None
    if think is False or chosen == "none":
        on = False
    elif think is True or effort:
        on = True
    return Wish(on, effort, chosen, request.model)


def _gateway(wish: Wish) -> Json:
    """OpenRouter and Vercel: one object for the models of all vendors."""
    if wish.on is None:
        return {}
    effort = {"effort": wish.effort} if wish.effort and wish.on else {}
    return {"reasoning": {"enabled": wish.on, **effort}}


def _switched(wish: Wish) -> Json:
    """Z.AI and DeepSeek: a switch, and how hard where the model knows that."""
    return {} if wish.on is None else {"thinking": _switch(wish)} | (wish.as_effort if wish.on else {})


def _switched_or_effort(wish: Wish) -> Json:
    """Fireworks: one or the other."""
    return wish.as_effort or ({} if wish.on is None else {"thinking": _switch(wish)})


def _template(wish: Wish) -> Json:
    """Baseten: an argument of the model's chat template."""
    return {} if wish.on is None else {"chat_template_args": {"enable_thinking": wish.on}} | wish.as_effort


def _flag(wish: Wish) -> Json:
    """Alibaba."""
    return {} if wish.on is None else {"enable_thinking": wish.on}


def _effort_only(wish: Wish) -> Json:
    """io.net: off is an effort too."""
    return (
        {} if wish.on is None else {"reasoning": {"effort": wish.effort or ("medium" if wish.on else "none")}}
    )


def _opencode(wish: Wish) -> Json:
    """MiniMax there puts its thoughts among its words unless it is told not to; the others are like anybody's."""
    if "minimax" not in wish.model.lower():
        return wish.as_effort
    switch = {} if wish.on is None else {"thinking": {"type": "adaptive" if wish.on else "disabled"}}
    return {"reasoning_split": True} | switch


def _switch(wish: Wish) -> Json:
    return {"type": "enabled" if wish.on else "disabled"}


def _interface(wish: Wish) -> Json:
    """The interface's own field, in which off is an effort too."""
    return {"reasoning_effort": wish.chosen} if wish.chosen else {}


class Family(NamedTuple):
    """Hosts with ways of their own, known by the beginning of their id or the end of their name."""

    ids: tuple[str, ...]
    hosts: tuple[str, ...]
    thinking: Callable[[Wish], Json]
    streams_calls_if_told: bool = False


FAMILIES = (
    Family(("zai", "zhipu"), (".z.ai", ".bigmodel.cn"), _switched, streams_calls_if_told=True),
    Family(("deepseek",), (".deepseek.com",), _switched),
    Family(("fireworks",), (".fireworks.ai",), _switched_or_effort),
    Family(("baseten",), (".baseten.co",), _template),
    Family(("alibaba",), (".aliyuncs.com",), _flag),
    Family(("ionet", "io.net"), (".io.net", ".io.solutions"), _effort_only),
    Family(("opencode",), (".opencode.ai",), _opencode),
)
GATEWAY = Family((), (), _gateway)
ANYBODY = Family((), (), _interface)
