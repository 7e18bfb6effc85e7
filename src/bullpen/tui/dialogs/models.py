"""The models: which can be used now, what they cost and can, for this session or for all; and those that lack a key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from textual.binding import Binding, BindingType

from bullpen.errors import BadRequest
from bullpen.present.choosing import Choice, choices
from bullpen.present.inert import inert_line
from bullpen.present.keys import logs_in
from bullpen.schema.agent import CatalogueProvider, Model, SelectedModel
from bullpen.schema.api import AgentInit, ConfigModel, FavoriteModel
from bullpen.schema.choices import ChoicesChange
from bullpen.tui.dialogs.device_login import DeviceLogin
from bullpen.tui.dialogs.keys import enter_key
from bullpen.tui.dialogs.picker import Choices, Twofold
from bullpen.tui.dialogs.rows import Option

if TYPE_CHECKING:
    from bullpen.client.workspace import Room

WORKSPACE = 1
"""The scope of a config change that holds for this workspace alone."""

Role = Literal["large", "small"]
ROLES: tuple[Role, Role] = ("large", "small")


class Models(Twofold):
    """Dismissed with what was chosen, in words."""

    DEFAULT_CSS = "Models #box { width: 96; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "turn", "model for the work, or for titles", priority=True),
        Binding("ctrl+d", "default", "for every session that chose none", priority=True),
        Binding("ctrl+e", "effort", "how hard it thinks", priority=True),
        Binding("ctrl+t", "favourite", "a favourite, or no more", priority=True),
        Binding("ctrl+k", "key", "the provider's key", priority=True),
    ]
    place = "Models"
    headings = ("Models · for the work", "Models · for titles and summaries")

    def __init__(self, room: Room) -> None:
        super().__init__(
            self.headings[0],
            hint="enter choose  ctrl+d default  ctrl+e effort  tab role  ctrl+t ♥  ctrl+k key",
            empty="no model can be used yet: ctrl+k enters a provider's key",
        )
        self._room = room
        self._usable: dict[str, Choice] = {}
        self._offers: dict[str, CatalogueProvider] = {}
        self._current = ""
        self._is_ready = False

    # What there is

    async def options(self) -> Sequence[Option]:
        self._usable = {choice.name: choice for choice in await choices(self._room)}
        self._offers = {offer.id: offer for offer in await self._room.providers()}
        self._current = self._wanted = await self._in_force()
        usable = [self._row(choice) for choice in self._usable.values()]
        known = {choice.provider for choice in self._usable.values()}
        lacking = [offer for offer in self._offers.values() if offer.id not in known]
        return [*usable, *(_lacking(offer) for offer in lacking)]

    @property
    def _role(self) -> Role:
        return ROLES[self.is_turned]

    async def _in_force(self) -> str:
        """The model that answers now, as `provider/model`."""
        agent = await self._room.agent()
        self._is_ready = agent.is_ready
        session = self._room.current_session
        chosen = getattr(await self._room.choices(session), self._role) if session else None
        selected = chosen if isinstance(chosen, SelectedModel) else agent.model_cfg
        return f"{selected.provider}/{selected.model}" if selected.model else ""

    def _row(self, choice: Choice) -> Option:
        model = self._model(choice.name)
        group = "Recent and favourite" if choice.mark else inert_line(self._provider_name(choice.provider))
        heart = "♥" if "favourite" in choice.mark else " "
        return Option(
            choice.name,
            inert_line(choice.label),
            right=_facts(model) if model else "",
            group=group,
            mark="●" if choice.name == self._current else heart,
            also=choice.name,
        )

    def _provider_name(self, provider: str) -> str:
        offer = self._offers.get(provider)
        return offer.name if offer else provider

    def _model(self, name: str) -> Model | None:
        provider, _, model = name.partition("/")
        offer = self._offers.get(provider)
        return next((each for each in offer.models if each.id == model), None) if offer else None

    # What is done with it

    @property
    def _choice(self) -> Choice:
        choice = self._usable.get(self.chosen.key) if self.chosen else None
        if choice is None:
            raise BadRequest("choose a model that can be used first")
        return choice

    async def pick(self, option: Option) -> None:
        if option.key.startswith("key:"):
            await self._enter_key(option.key.removeprefix("key:"))
        elif self._room.current_session and self._is_ready:
            await self._choose(SelectedModel(provider=self._choice.provider, model=self._choice.model))
            self.decide(f"this session: {inert_line(option.key)}")
        else:
            await self._make_default()

    async def _choose(self, selected: SelectedModel) -> None:
        change = ChoicesChange(large=selected) if self._role == "large" else ChoicesChange(small=selected)
        await self._room.choose(self._room.current_session, change)

    def action_default(self) -> None:
        self.attempt(self._make_default())

    async def _make_default(self) -> None:
        """For the workspace. The first model takes both roles, so that nothing is missing."""
        choice = self._choice
        selected = SelectedModel(provider=choice.provider, model=choice.model)
        for role in ROLES if not self._is_ready else (self._role,):
            body = ConfigModel(scope=WORKSPACE, model_type=role, model=selected)
            await self._room.call("POST", "/config/model", body)
        await self._room.call("POST", "/agent/init", AgentInit(interactive=True))
        self.decide(f"every session that chose none: {inert_line(choice.name)}")

    def action_effort(self) -> None:
        self.attempt(self._set_effort())

    async def _set_effort(self) -> None:
        choice = self._choice
        model = self._model(choice.name)
        levels = (model.reasoning_levels if model else ()) or ()
        if not levels:
            raise BadRequest("this model knows no levels")
        if not self._room.current_session:
            raise BadRequest("effort is a session's: the first prompt starts one")
        usual = model.default_reasoning_effort if model else ""
        rows = [Option(level, level, right="usual" if level == usual else "") for level in levels]
        if level := await self.also(Choices("How hard it thinks", rows)):
            await self._choose(
                SelectedModel(provider=choice.provider, model=choice.model, reasoning_effort=level)
            )
            self.decide(f"this session: {inert_line(choice.name)}, {level}")

    def action_favourite(self) -> None:
        self.attempt(self._toggle_favourite())

    async def _toggle_favourite(self) -> None:
        choice = self._choice
        body = FavoriteModel(
            provider=choice.provider, model=choice.model, favorite="favourite" not in choice.mark
        )
        await self._room.call("POST", "/models/favorite", body)
        self.reload()

    def action_key(self) -> None:
        if self.chosen is not None:
            provider = self.chosen.key.removeprefix("key:").partition("/")[0]
            self.attempt(self._enter_key(provider))

    async def _enter_key(self, provider: str) -> None:
        offer = self._offers.get(provider)
        if offer is None:
            raise BadRequest(f"{inert_line(provider)} is not in the catalogue: its key stands in the config")
        if logs_in(offer):
            said = await self.also(DeviceLogin(self._room))
        else:
            said = await enter_key(self, self._room, offer)
        if said:
            self.hint(said)
            self.chat.notice(said)
            # What the provider has is to be seen now, with the model that answers.
            self.start_over()


def _lacking(offer: CatalogueProvider) -> Option:
    why = "enter logs in" if logs_in(offer) else offer.missing or "needs a key"
    return Option(
        f"key:{offer.id}",
        f"{inert_line(offer.name)}  {len(offer.models)} models",
        right=inert_line(why)[:30],
        group="Not set up yet: enter gives a key",
        mark="…",
    )


def _facts(model: Model) -> str:
    """Prices per million in and out, the window, and whether it thinks."""
    free = not model.cost_per_1m_in and not model.cost_per_1m_out
    price = "no price" if free else f"${model.cost_per_1m_in:.2f}/${model.cost_per_1m_out:.2f}"
    window = f"{model.context_window // 1000}K" if model.context_window else ""
    return " ".join(filter(None, (price, window, "thinks" if model.can_reason else "")))
