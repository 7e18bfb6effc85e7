"""The choices of a workspace's sessions, at hand for every turn that begins."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from bullpen.schema.agent import SelectedModel
from bullpen.schema.choices import ChoicesChange, Policy, SessionChoices
from bullpen.store import choices, sessions
from bullpen.store.store import Store
from bullpen.store.tx import Tx


class Choices:
    """Read once when the workspace opens; the store is told of every change before it counts here."""

    def __init__(self, store: Store, workspace: str) -> None:
        self._store = store
        self._workspace = workspace
        self._of: dict[str, SessionChoices] = {}

    async def load(self) -> None:
        found = await self._store.read(lambda tx: choices.all_of(tx, self._workspace))
        self._of = {choice.session_id: choice for choice in found}

    def of(self, session: str) -> SessionChoices:
        return self._of.get(session) or SessionChoices(session_id=session)

    def providers(self) -> set[str]:
        """Those whose models some session uses or may come to use."""
        return {m.provider for said in self._of.values() for m in models_in(said) if m.provider}

    async def change(self, session: str, change: ChoicesChange) -> SessionChoices:
        """Raises `SessionNotFound`."""

        async def work(tx: Tx) -> SessionChoices:
            await sessions.get(tx, self._workspace, session)
            said = {name: getattr(change, name) for name in change.__struct_fields__}
            new: dict[str, Any] = {
                name: UNSET if value is None else value for name, value in said.items() if value is not UNSET
            }
            known = await choices.get(tx, self._workspace, session)
            changed = msgspec.structs.replace(known or SessionChoices(session_id=session), **new)
            await choices.put(tx, self._workspace, changed)
            return changed

        return await self._store.write(work, then=self.adopt)

    def forget(self, session: str) -> None:
        self._of.pop(session, None)

    def adopt(self, said: SessionChoices | None) -> None:
        """What a session brings along that was copied or had back; the store knows of it."""
        if said is not None:
            self._of[said.session_id] = said


def models_in(said: SessionChoices | ChoicesChange) -> list[SelectedModel]:
    """All models that are named."""
    listed = said.policy.models if isinstance(said.policy, Policy) else ()
    return [m for m in (said.large, said.small, *listed) if isinstance(m, SelectedModel)]
