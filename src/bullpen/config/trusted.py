"""Which projects a person trusts, and with what content. Kept outside every project, one file per person."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bullpen.config.jsonc import read_object
from bullpen.config.machine_file import change_file
from bullpen.errors import ConfigError


class TrustBook:
    """Reads the file anew each time: another process may have written to it."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def trusts(self, root: Path, fingerprint: str) -> bool:
        """Whether exactly this content is trusted. A book that cannot be read trusts nothing."""
        try:
            projects = (read_object(self.file) or {}).get("projects")
        except ConfigError:
            return False
        return bool(fingerprint) and isinstance(projects, dict) and projects.get(_name(root)) == fingerprint

    def trust(self, root: Path, fingerprint: str) -> None:
        """Trust this content instead of whatever was trusted there before. Raises `ConfigError`."""
        change_file(self.file, lambda content: _projects(content).update({_name(root): fingerprint}))

    def revoke(self, root: Path) -> None:
        """Trust nothing there any more. Raises `ConfigError`."""
        change_file(self.file, lambda content: _projects(content).pop(_name(root), None))


def _name(root: Path) -> str:
    return str(root.resolve())


def _projects(content: dict[str, Any]) -> dict[str, Any]:
    projects = content.setdefault("projects", {})
    if not isinstance(projects, dict):
        projects = content["projects"] = {}
    return projects
