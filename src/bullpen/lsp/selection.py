"""Which language servers a file wants, by what the configuration says and what is installed, and why it has none."""

from __future__ import annotations

from collections.abc import Container, Mapping
from pathlib import Path

import msgspec

from bullpen.config.settings import Settings
from bullpen.config.spans import seconds
from bullpen.errors import LanguageServerFailed
from bullpen.lsp import plan
from bullpen.lsp.known import is_source
from bullpen.lsp.plan import Plan
from bullpen.system import paths
from bullpen.system.clock import Clock


class Following(msgspec.Struct, frozen=True, kw_only=True):
    """What the configuration says about language servers."""

    plans: dict[str, Plan] = {}
    auto: bool = False
    trusted: bool = False
    idle_s: float = 0.0
    is_logged: bool = False

    @classmethod
    def of(cls, settings: Settings) -> Following:
        options = settings.options
        unusable = {name: plan.unusable(name, why) for name, why in settings.lsp_errors.items()}
        return cls(
            plans={
                name: plan.configured(name, entry, trusted=settings.trusted)
                for name, entry in settings.lsp.items()
            }
            | unusable,
            auto=options.auto_lsp,
            trusted=settings.trusted,
            idle_s=seconds(options.lsp_idle_timeout),
            is_logged=options.debug_lsp,
        )


class Selection:
    """Holds files against the configuration that is followed. Looks at the disk, so most of it belongs into a thread."""

    def __init__(self, root: Path, env: Mapping[str, str], clock: Clock, *, again_s: float) -> None:
        self._root = root
        self._env = env
        self._clock = clock
        self._again_s = again_s
        self._following = Following()
        self._missing: dict[str, float] = {}

    @property
    def following(self) -> Following:
        return self._following

    def follow(self, following: Following) -> None:
        self._following, self._missing = following, {}

    def fitting(self, path: Path, started: Container[str]) -> list[Plan]:
        """The plans for a file: those of the person, then of the catalogue what is installed. `started` are the names of
        servers that were found before."""
        following = self._following
        fitting = [
            each
            for each in following.plans.values()
            if not each.disabled and each.knows(path) and each.belongs(self._root)
        ]
        served = {each.family for each in fitting}
        for model, mine in plan.catalogue(trusted=following.trusted) if following.auto else ():
            if model.is_generic or model.name in following.plans or model.family in served:
                continue
            if (model.runs_project_code and not following.trusted) or not mine.knows(path):
                continue
            if mine.belongs(self._root) and (model.name in started or self._is_installed(mine)):
                served.add(model.family)
                fitting.append(mine)
        return fitting

    def serves(self, path: Path) -> bool:
        """Whether any server that there is, or could be, is for files of this name."""
        plans = [each for each in self._following.plans.values() if not each.disabled]
        plans += [mine for _, mine in plan.catalogue(trusted=False)] if self._following.auto else []
        return any(each.knows(path) for each in plans)

    def is_watched(self, path: Path) -> bool:
        """Whether servers want to know what becomes of a file."""
        return is_source(path.name) or any(each.knows(path) for each in self._following.plans.values())

    def reason(self, path: Path) -> str:
        """Why no server answers for a file, with the next step."""
        if not paths.is_inside(self._root, path):
            return f"{path} lies outside the workspace; language servers only know what is in it"
        if not self._following.auto:
            return f"no language server is configured for {path.name}, and options.auto_lsp is off"
        able = [model for model, mine in plan.catalogue(trusted=False) if mine.knows(path)]
        waiting = [m.name for m in able if m.runs_project_code and not self._following.trusted]
        here = [model for model in able if plan.has_marker(self._root, model.root_markers)]
        hint = f"; to get one: {here[0].install}" if here else ""
        if able and not here:
            marks = " or ".join(able[0].root_markers)
            hint = (
                f"; {able[0].name} starts where {marks} lies in the workspace, and the user can configure other "
                "root_markers under lsp"
            )
        if waiting:
            hint += (
                f"; {', '.join(waiting)} would run or fetch what the project says, so the user has to configure it under "
                "lsp or to trust the project first"
            )
        return f"no language server that can do this runs for {path.name}{hint}"

    def _is_installed(self, mine: Plan) -> bool:
        """Asked again after a while: somebody may have installed it meanwhile."""
        now = self._clock.monotonic()
        if now < self._missing.get(mine.name, now):
            return False
        try:
            plan.launch(mine, self._root, self._env)
        except LanguageServerFailed:
            self._missing[mine.name] = now + self._again_s
            return False
        return True
