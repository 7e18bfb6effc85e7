"""What the project's files want beyond the harmless: item by item, given and taken back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from bullpen.errors import BadRequest
from bullpen.present.inert import inert_line
from bullpen.present.trust import VERBS
from bullpen.schema.api import Trust, TrustEffect
from bullpen.tui.dialogs.keyed import Confirm
from bullpen.tui.dialogs.picker import Picker
from bullpen.tui.dialogs.rows import Option

if TYPE_CHECKING:
    from bullpen.client.workspace import Room

STATES = {"trusted": "trusted", "changed": "CHANGED since", "new": "new"}


class Trusting(Picker):
    """Nothing is trusted but what was shown here: the fingerprint goes along."""

    DEFAULT_CSS = "Trusting #box { width: 100; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+t", "all", "trust all of it", priority=True),
        Binding("ctrl+x", "revoke", "trust it no more", priority=True),
    ]
    place = "Trust"

    def __init__(self, room: Room) -> None:
        super().__init__(
            "What this project wants",
            hint="enter trust that item  ctrl+t all of it  ctrl+x no more  esc close",
            empty="nothing in this project waits for trust",
        )
        self._room = room
        self._shown: Trust | None = None

    async def options(self) -> Sequence[Option]:
        self._shown = await self._room.trust()
        return [_row(number, effect) for number, effect in enumerate(self._shown.effects)]

    async def pick(self, option: Option) -> None:
        effect = self._effect(option)
        await self._give([effect.item], f"{VERBS.get(effect.kind, effect.kind)} {effect.detail}")

    def action_all(self) -> None:
        self.attempt(self._give([], "all that is listed here"))

    async def _give(self, items: list[str], text: str) -> None:
        if self._shown is None or not self._shown.effects:
            raise BadRequest("there is nothing to trust")
        if await self.also(Confirm("Trust this?", text, yes="yes, until it changes")):
            await self._room.give_trust(self._shown.fingerprint, items=items)
            self.reload()

    def action_revoke(self) -> None:
        if self.chosen is not None:
            self.attempt(self._revoke(self._effect(self.chosen).item))

    async def _revoke(self, item: str) -> None:
        await self._room.revoke_trust(item)
        self.reload()

    def _effect(self, option: Option) -> TrustEffect:
        assert self._shown is not None
        return self._shown.effects[int(option.key)]


def _row(number: int, effect: TrustEffect) -> Option:
    verb = VERBS.get(effect.kind, effect.kind)
    mark = {"trusted": "✓", "changed": "!"}.get(effect.state, " ")
    return Option(
        str(number),
        f"{verb} {inert_line(effect.detail)}  ({inert_line(effect.setting)})",
        right=STATES.get(effect.state, effect.state),
        group=inert_line(effect.file),
        mark=mark,
        also=f"{effect.item} {effect.setting}",
    )
