"""Choosing a model from the command line: by name, from a list, or the built-in tour when there is nothing else."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

import anyio
import msgspec
from msgspec import UNSET

from bullpen.errors import BadRequest, BullpenError, NoModel
from bullpen.present.inert import inert_line
from bullpen.schema.agent import CatalogueProvider, SelectedModel
from bullpen.schema.choices import Budget, ChoicesChange

if TYPE_CHECKING:
    from bullpen.client.workspace import Room

DEMO = "demo"
"""The type of the built-in provider: it plays a guided tour and needs no key."""


FEW = 8
"""Of a provider with more models than this only the usual ones are listed; the others can be named."""


class Choice(NamedTuple):
    """A model that can be used now. One that is not `usual` is left out of lists, because its provider has so many; one that
    somebody picked lately or likes is in them, with a `mark`."""

    provider: str
    model: str
    label: str
    usual: bool = True
    mark: str = ""

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.model}"


async def choices(room: Room, env: Mapping[str, str] = os.environ) -> list[Choice]:
    """What could be used without any further setting up: configured models, found keys, local models, the tour. Those that
    were picked lately come first, then the favourites."""
    configured = (await room.config()).get("providers")
    offers = {offer.id: offer for offer in await room.providers()}
    found: dict[str, Choice] = {}
    for provider_id, provider in (configured if isinstance(configured, dict) else {}).items():
        models = provider.get("models") or () if isinstance(provider, dict) else ()
        named = [(str(m.get("id", "")), str(m.get("name") or m.get("id", ""))) for m in models]
        _add(found, provider_id, named, offers.get(provider_id))
    for offer in sorted(offers.values(), key=lambda offer: offer.type == DEMO):
        if _is_at_hand(offer, env):
            named = [(model.id, f"{offer.name}: {model.name or model.id}") for model in offer.models]
            _add(found, offer.id, named, offer)
    return [*await _remembered(room, found), *found.values()]


async def _remembered(room: Room, found: dict[str, Choice]) -> list[Choice]:
    """Takes out of `found` what somebody picked lately or likes. What cannot be used now is not missed, and a state file that
    cannot be read is no reason to offer nothing."""
    try:
        remembered = await room.remembered_models()
    except BullpenError:
        return []
    first: dict[str, Choice] = {}
    for mark, models in (("recent", remembered.recent.get("large", ())), ("favourite", remembered.favorites)):
        for model in models:
            name = f"{model.provider}/{model.model}"
            if (known := found.pop(name, None)) is not None:
                first[name] = known._replace(usual=True, mark=mark)
            elif name in first and mark not in first[name].mark:
                first[name] = first[name]._replace(mark=f"{first[name].mark}, {mark}")
    return list(first.values())


def _add(
    found: dict[str, Choice], provider: str, models: list[tuple[str, str]], known: CatalogueProvider | None
) -> None:
    """Add a provider's models, by id and label. Of many, the catalogue's defaults are usual, else the first ones."""
    usual = {known.default_large_model_id, known.default_small_model_id} if known else set()
    if len(models) <= FEW or not usual.intersection(model for model, _ in models):
        usual = {model for model, _ in models[:FEW]}
    for model, label in models:
        choice = Choice(provider, model, label, model in usual)
        found.setdefault(choice.name, choice)


def _is_at_hand(offer: CatalogueProvider, env: Mapping[str, str]) -> bool:
    """Whether the provider needs no key, or its key is in the environment."""
    variable = re.fullmatch(r"\$\{?(\w+)\}?", offer.api_key)
    return not offer.missing and (not offer.api_key or bool(variable and env.get(variable[1])))


def pick(wanted: str, among: list[Choice]) -> Choice:
    """The model a person named, as `provider/model` or by its id alone. Raises `NoModel` with advice."""
    text = wanted.strip().lower()
    found = [c for c in among if c.name.lower() == text] or [c for c in among if c.model.lower() == text]
    if len(found) == 1:
        return found[0]
    if found:
        raise NoModel(f"several providers have {wanted}: name one of {', '.join(c.name for c in found)}")
    near = difflib.get_close_matches(
        text, [c.name for c in among] + [c.model for c in among], n=3, cutoff=0.4
    )
    known = near or [c.name for c in among[:5]]
    raise NoModel(
        f"there is no usable model {inert_line(wanted)}; try {', '.join(known) or 'configuring one'}"
    )


def tour(among: list[Choice]) -> Choice | None:
    """The built-in tour, if this server offers it."""
    return next((c for c in among if c.provider == DEMO), None)


CHOSEN = ("large", "small", "budget", "tools", "instructions", "steps")
"""What a run may choose for itself, and what is taken back after it."""


class Wanted(NamedTuple):
    """What one run wants otherwise than its session. With `stays` it is not taken back: the run goes on without us."""

    model: str = ""
    effort: str = ""
    budget: float = 0
    tools: tuple[str, ...] = ()
    instructions: str = ""
    steps: int = 0
    stays: bool = False


@asynccontextmanager
async def for_one_run(
    room: Room, session: str, wanted: Wanted, say: Callable[[str], None]
) -> AsyncIterator[None]:
    """The model that is wanted, or any that is configured, or the tour, with this effort and budget, for this session and the
    length of the block: nobody else's turns are answered by it, and nothing of it stays."""
    change = await _change(room, session, wanted, say)
    if change == ChoicesChange():
        yield
        return
    before = await room.choices(session)
    back = {name: getattr(before, name) or None for name in CHOSEN}
    await room.choose(session, change)
    try:
        yield
    finally:
        if not wanted.stays:
            with anyio.CancelScope(shield=True), anyio.move_on_after(5), suppress(BullpenError):
                await room.choose(session, ChoicesChange(**back))


async def _change(room: Room, session: str, wanted: Wanted, say: Callable[[str], None]) -> ChoicesChange:
    change = ChoicesChange(
        budget=Budget(run=wanted.budget) if wanted.budget else UNSET,
        tools=wanted.tools or UNSET,
        instructions=wanted.instructions or UNSET,
        steps=wanted.steps or UNSET,
    )
    agent = await room.agent()
    if wanted.model or not agent.is_ready:
        choice = await _choice(room, wanted.model, say)
        chosen = SelectedModel(provider=choice.provider, model=choice.model)
        change = msgspec.structs.replace(change, large=chosen, small=chosen)
    if wanted.effort:
        said = change.large or (await room.choices(session)).large
        # A session may have chosen an effort alone.
        own = said if said and said.model else agent.model_cfg
        levels = await _levels(room, own)
        if levels and wanted.effort not in levels:
            raise NoModel(
                f"{own.provider}/{own.model} has no effort {inert_line(wanted.effort)}: use {', '.join(levels)}"
            )
        change = msgspec.structs.replace(
            change, large=msgspec.structs.replace(own, reasoning_effort=wanted.effort)
        )
    return change


async def _choice(room: Room, wanted: str, say: Callable[[str], None]) -> Choice:
    if not wanted and (why := await _unusable(room)):
        raise NoModel(why)
    among = await choices(room)
    choice = pick(wanted, among) if wanted else tour(among)
    if choice is None:
        raise NoModel(
            "no model is configured, and this server has no demo to offer; run 'bullpen' and choose one"
        )
    if not wanted:
        say(f"no model is configured: using the built-in {choice.provider} (choose one with 'bullpen')")
    return choice


async def _levels(room: Room, selected: SelectedModel) -> tuple[str, ...]:
    """The efforts that a model is known to have."""
    for offer in await room.providers():
        for model in offer.models:
            if (offer.id, model.id) == (selected.provider, selected.model):
                return model.reasoning_levels or ()
    return ()


async def _unusable(room: Room) -> str:
    """What is wrong with the model that the configuration names; empty when it names none. Nobody who chose a model wants the tour
    instead."""
    models = (await room.config()).get("models")
    large = models.get("large") if isinstance(models, dict) else None
    if not isinstance(large, dict) or not (large.get("model") or large.get("provider")):
        return ""
    name = f"{large.get('provider', '')}/{large.get('model', '')}".strip("/")
    about = [w for w in room.workspace.warnings if repr(large.get("provider", "")) in w]
    why = "; ".join(about or room.workspace.warnings) or "'bullpen doctor' says what is missing"
    return f"the configured model {inert_line(name)} cannot be used: {inert_line(why)}"


async def choose_for_session(room: Room, session: str, choice: Choice) -> None:
    """Select the model for one session. Raises `BadRequest` when it cannot be used."""
    selected = SelectedModel(provider=choice.provider, model=choice.model)
    await room.choose(session, ChoicesChange(large=selected, small=selected))


async def make_ready(room: Room, choice: Choice) -> None:
    """Select the model for this workspace. Raises `BadRequest` when it does not become ready."""
    agent = await room.set_model(choice.provider, choice.model)
    if not agent.is_ready:
        raise BadRequest(f"{choice.name} was chosen but is not ready; 'bullpen doctor' says what is missing")
