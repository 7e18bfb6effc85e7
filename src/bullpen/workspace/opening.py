"""What a workspace is opened with: what the host lends to all of them, and what the first client asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bullpen.config.settings import ProviderSettings
from bullpen.engine.history import Histories
from bullpen.providers.base import Provider
from bullpen.store.database import Database
from bullpen.system.clock import Clock
from bullpen.system.journal import Journal
from bullpen.system.processes import Processes
from bullpen.system.tally import Tally
from bullpen.system.watch import Watcher
from bullpen.tools.base import Tool
from bullpen.workspace.models import Hosts


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What the host lends to every workspace."""

    clock: Clock
    processes: Processes
    tools: Callable[[], Mapping[str, Tool]]
    make_provider: Callable[[ProviderSettings], Provider]
    trusted: bool
    """Whether every project counts as trusted."""
    detach_grace_s: float
    database: type[Database] = Database
    histories: Histories = field(default_factory=Histories)
    tally: Tally = field(default_factory=Tally)
    journal: Journal = field(default_factory=Journal)
    trust_file: Path | None = None
    """Which projects the person who runs the server trusts."""
    watcher: Watcher | None = None
    """Tells of changed config files; without one they are read anew when a client asks."""
    own_places: tuple[Path, ...] = ()
    """Where the server keeps what commands must not see: settings, keys, conversations."""
    hosts: Hosts = field(default_factory=Hosts)


@dataclass(frozen=True, kw_only=True)
class Opening:
    """What the first client asked for; later ones join it as it is."""

    id: str
    path: str
    root: Path
    yolo: bool
    debug: bool
    channels: tuple[str, ...]
    env: Mapping[str, str]
