"""A home, a project and a way to load them, all in a temporary directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bullpen.config.items import Trusted, TrustedItems, picked
from bullpen.config.layers import Layers, read_layers
from bullpen.config.load import load
from bullpen.config.places import Places, workspace_file
from bullpen.config.settings import Settings

FAKE: dict[str, Any] = {
    "type": "openai-compat",
    "base_url": "http://127.0.0.1:1/v1",
    "api_key": "sk-clear",
    "models": [{"id": "big", "context_window": 1000}, {"id": "little"}],
}
"""A provider that could be used."""


class World:
    """The files of one user and one project."""

    def __init__(self, top: Path) -> None:
        self.home, self.root = top / "home", top / "project"
        self.root.mkdir()
        self.env = {"HOME": str(self.home), "PATH": "/usr/bin:/bin"}
        self.places = Places(
            home=self.home,
            config=self.home / ".config/bullpen",
            data=self.home / ".local/share/bullpen",
            state=self.home / ".local/state/bullpen",
            cache=self.home / ".cache/bullpen",
            system=top / "etc",
        )
        self.workspace_state = workspace_file(self.places.data, "w1")

    def write(self, file: Path, content: dict[str, Any] | str) -> Path:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        return file

    def user(self, content: dict[str, Any] | str) -> Path:
        return self.write(self.places.config / "bullpen.json", content)

    def project(self, content: dict[str, Any] | str, name: str = "bullpen.json") -> Path:
        return self.write(self.root / name, content)

    def state(self, content: dict[str, Any] | str) -> Path:
        return self.write(self.places.state_file, content)

    def load(self, trusted: Trusted = True, **more: Any) -> Settings:
        return load(
            self.root,
            env=self.env,
            workspace_state=self.workspace_state,
            places=self.places,
            trusted=trusted,
            **more,
        )

    def layers(self) -> Layers:
        return read_layers(self.root, places=self.places, workspace_state=self.workspace_state, trusted=True)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def trusting(settings: Settings, *names: str) -> TrustedItems:
    """Somebody who trusts what they have seen: all of it, or the items of these names."""
    files: dict[str, dict[str, str]] = {}
    for item in picked(settings.items, names):
        files.setdefault(item.file, {})[item.name] = item.hash
    return TrustedItems(files)
