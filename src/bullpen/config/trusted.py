"""What a person trusts in which project: items by file and name, with the hash of their content. Kept outside every
project, one file per person."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import msgspec

from bullpen.config.items import TrustedItems
from bullpen.config.jsonc import read_object
from bullpen.config.machine_file import change_file
from bullpen.config.wanted import Item
from bullpen.errors import ConfigError


class TrustBook:
    """Reads the file anew each time: another process may have written to it."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def items(self, root: Path) -> TrustedItems:
        """What is trusted there. A book that cannot be read trusts nothing."""
        try:
            projects = (read_object(self.file) or {}).get("projects")
        except ConfigError:
            return TrustedItems()
        try:
            return TrustedItems(msgspec.convert(_of(projects, root), dict[str, dict[str, str]]))
        except msgspec.ValidationError:
            return TrustedItems()

    def trust(self, root: Path, items: Iterable[Item]) -> None:
        """Trust these as they are now, beside what is trusted there already. Raises `ConfigError`."""

        def change(content: dict[str, Any]) -> None:
            known = _of(_projects(content), root)
            for item in items:
                known.setdefault(item.file, {})[item.name] = item.hash
            _projects(content)[_name(root)] = known

        change_file(self.file, change)

    def trust_only(self, root: Path, items: Iterable[Item]) -> None:
        """Trust these instead of whatever was trusted there before; without any nothing. Raises `ConfigError`."""
        self.revoke(root)
        self.trust(root, items)

    def revoke(self, root: Path, names: Collection[str] = ()) -> None:
        """Trust nothing there any more, or none of the items with these names. Raises `ConfigError`."""

        def change(content: dict[str, Any]) -> None:
            known = _of(_projects(content), root) if names else {}
            kept = {f: {n: h for n, h in items.items() if n not in names} for f, items in known.items()}
            _projects(content)[_name(root)] = {file: items for file, items in kept.items() if items}
            if not _projects(content)[_name(root)]:
                del _projects(content)[_name(root)]

        change_file(self.file, change)


def _name(root: Path) -> str:
    return str(root.resolve())


def _projects(content: dict[str, Any]) -> dict[str, Any]:
    projects = content.setdefault("projects", {})
    if not isinstance(projects, dict):
        projects = content["projects"] = {}
    return projects


def _of(projects: Any, root: Path) -> dict[str, dict[str, str]]:
    """The entry of a project; empty when there is none, or one of a form that nobody writes any more."""
    found = projects.get(_name(root)) if isinstance(projects, dict) else None
    if not isinstance(found, dict):
        return {}
    return {file: dict(items) for file, items in found.items() if isinstance(items, dict)}
