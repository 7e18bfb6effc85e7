"""Choosing a model from the command line: by name, from a list, or the built-in tour when there is nothing else."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import anyio

from bullpen.cli.inert import inert_line
from bullpen.client.workspace import Room
from bullpen.errors import BadRequest, BullpenError
from bullpen.schema.agent import CatalogueProvider

DEMO = "demo"
"""The type of the built-in provider: it plays a guided tour and needs no key."""


class Choice(NamedTuple):
    """A model that can be used now."""

    provider: str
    model: str
    label: str

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.model}"


async def choices(room: Room, env: Mapping[str, str] = os.environ) -> list[Choice]:
    """What could be used without any further setting up: configured models, found keys, local models, the tour."""
    configured = (await room.config()).get("providers")
    found: dict[str, Choice] = {}
    for provider_id, provider in (configured if isinstance(configured, dict) else {}).items():
        for model in provider.get("models") or () if isinstance(provider, dict) else ():
            choice = Choice(
                provider_id, str(model.get("id", "")), str(model.get("name") or model.get("id", ""))
            )
            found.setdefault(choice.name, choice)
    offers = await room.providers()
    for offer in sorted(offers, key=lambda offer: offer.type == DEMO):
        if _is_at_hand(offer, env):
            for offered in offer.models:
                choice = Choice(offer.id, offered.id, f"{offer.name}: {offered.name or offered.id}")
                found.setdefault(choice.name, choice)
    return list(found.values())


def _is_at_hand(offer: CatalogueProvider, env: Mapping[str, str]) -> bool:
    """Whether the provider needs no key, or its key is in the environment."""
    variable = re.fullmatch(r"\$\{?(\w+)\}?", offer.api_key)
    return not offer.api_key or bool(variable and env.get(variable[1]))


def pick(wanted: str, among: list[Choice]) -> Choice:
    """The model a person named, as `provider/model` or by its id alone. Raises `BadRequest` with advice."""
    text = wanted.strip().lower()
    found = [c for c in among if c.name.lower() == text] or [c for c in among if c.model.lower() == text]
    if len(found) == 1:
        return found[0]
    if found:
        raise BadRequest(f"several providers have {wanted}: name one of {', '.join(c.name for c in found)}")
    near = difflib.get_close_matches(
        text, [c.name for c in among] + [c.model for c in among], n=3, cutoff=0.4
    )
    known = near or [c.name for c in among[:5]]
    raise BadRequest(
        f"there is no usable model {inert_line(wanted)}; try {', '.join(known) or 'configuring one'}"
    )


def tour(among: list[Choice]) -> Choice | None:
    """The built-in tour, if this server offers it."""
    return next((c for c in among if c.provider == DEMO), None)


@asynccontextmanager
async def model_for_one_run(room: Room, wanted: str, say: Callable[[str], None]) -> AsyncIterator[None]:
    """The model that `wanted` names, or any that is configured, or the tour, for the length of the block.

    The wire knows a model per workspace, not per prompt. So the choice is taken back afterwards, unless
    somebody else is at work with it.
    """
    agent = await room.agent()
    if not wanted and agent.is_ready:
        yield
        return
    among = await choices(room)
    choice = pick(wanted, among) if wanted else tour(among)
    if choice is None:
        raise BadRequest(
            "no model is configured, and this server has no demo to offer; run 'bullpen' and choose one"
        )
    if not wanted:
        say(f"no model is configured: using the built-in {choice.provider} (choose one with 'bullpen')")
    before = agent.model_cfg if agent.is_ready else None
    if before and (before.provider, before.model) == (choice.provider, choice.model):
        yield
        return
    previous = _chosen_here(room, await room.config())
    await make_ready(room, choice)
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(5):
            await _take_back(room, choice, previous)


def _chosen_here(room: Room, config: dict[str, Any]) -> tuple[str, str] | None:
    large = (config.get("models") or {}).get("large") if isinstance(config.get("models"), dict) else None
    if isinstance(large, dict) and large.get("model"):
        return str(large.get("provider", "")), str(large["model"])
    return None


async def _take_back(room: Room, choice: Choice, previous: tuple[str, str] | None) -> None:
    try:
        agent = await room.agent()
        if agent.is_busy or (agent.model_cfg.provider, agent.model_cfg.model) != (
            choice.provider,
            choice.model,
        ):
            return
        await room.unset_model()
        if previous and (await room.agent()).model_cfg.model != previous[1]:
            await room.set_model(*previous)
    except BullpenError:
        return


async def make_ready(room: Room, choice: Choice) -> None:
    """Select the model for this workspace. Raises `BadRequest` when it does not become ready."""
    agent = await room.set_model(choice.provider, choice.model)
    if not agent.is_ready:
        raise BadRequest(f"{choice.name} was chosen but is not ready; 'bullpen doctor' says what is missing")
