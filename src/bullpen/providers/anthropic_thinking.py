"""How a Claude, or a model served like one, is told to think: each generation takes another form and refuses the others."""

from __future__ import annotations

import re

from msgspec import UNSET

from bullpen.providers.base import AssistantTurn, ModelRequest, UserTurn
from bullpen.providers.options import Json

INTERLEAVED = "interleaved-thinking-2025-05-14"
"""Lets models with a budget think between their calls; those that adapt do so anyway."""

BUDGETS = {"minimal": 1024, "low": 4_000, "medium": 10_000, "high": 24_000, "xhigh": 32_000, "max": 32_000}
DEFAULT_BUDGET = BUDGETS["medium"]
SMALLEST_BUDGET = 1024

_END = r"(?:$|[-@:]\d{8}|-v\d|-latest|[^-.\d])"
_WITH_BUDGET = re.compile(rf"claude-(?:3[-.]7|(?:opus|sonnet|haiku)-4(?:[-.][015])?{_END})")
"""Claude 3.7 up to 4.5: thinking has a budget. Later ones adapt by themselves and are told an effort."""

_SAMPLES = re.compile(rf"claude-(?:3|2|instant|(?:opus|sonnet|haiku)-4(?:[-.][0156])?{_END})")
"""Claude up to 4.6. Later ones refuse sampling parameters, and do not show their thoughts unless they are asked to."""


def is_adaptive(model: str) -> bool:
    return "claude" in model and not _WITH_BUDGET.search(model)


def samples(model: str) -> bool:
    return "claude" not in model or bool(_SAMPLES.search(model))


def thinking_of(request: ModelRequest, max_tokens: int, form: str) -> Json:
    """The fields that say whether, and how hard, to think; none where nobody chose anything."""
    if not request.can_reason:
        return {}
    chosen, think = request.settings.reasoning_effort, request.settings.think
    effort = "" if chosen is UNSET else chosen
    adapts = is_adaptive(request.model)
    told = {"output_config": {"effort": effort}} if effort not in ("", "none") else {}
    if think is False or effort == "none":
        return {"thinking": {"type": "disabled"}, **(told if adapts else {})}
    if not effort and think is UNSET:
        return {}
    if adapts:
        shown = {} if samples(request.model) else {"display": "summarized"}
        return {"thinking": {"type": "adaptive", **shown}, **told}
    budget = min(BUDGETS.get(effort, DEFAULT_BUDGET), max_tokens // 2)
    if budget < SMALLEST_BUDGET or not _may_begin(request, form):
        return {}
    thinking = {"thinking": {"type": "enabled", "budget_tokens": budget}}
    return thinking if "claude" in request.model else thinking | told


def beta_of(body: Json) -> str:
    """The header that a body needs, or nothing."""
    return INTERLEAVED if body.get("thinking", {}).get("type") == "enabled" else ""


def _may_begin(request: ModelRequest, form: str) -> bool:
    """With a budget, an answer that is under way must have begun with a thought. One that another model began, or that
    thought nothing, has not."""
    for turn in reversed(request.turns):
        if isinstance(turn, UserTurn):
            return True
        if isinstance(turn, AssistantTurn):
            return not turn.tool_calls or (turn.native is not None and turn.native.form == form)
    return True
