"""Keeps a workspace in step with its configuration, whoever changes it: a client, an editor, another process.

One change at a time is read, taken up and told to everybody. What is under way is never disturbed: turns keep what they
began with, and outside servers that are configured as before go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio

from bullpen.config import write
from bullpen.config.machine_file import ensure_lock
from bullpen.errors import BullpenError
from bullpen.schema.api import Trust, TrustGiven
from bullpen.schema.events import ConfigChanged
from bullpen.system.watch import Following, Watcher
from bullpen.workspace.configuration import Configuration
from bullpen.workspace.stamps import Watched

log = logging.getLogger("bullpen.workspace")

TOLD = 20
"""How many warnings an event carries; the workspace itself shows all."""


class Upkeep:
    """Made with the workspace, which says how a configuration is taken up and how everybody is told."""

    def __init__(
        self,
        configuration: Configuration,
        watcher: Watcher | None,
        *,
        workspace: str,
        take_up: Callable[[], Awaitable[None]],
        announce: Callable[[ConfigChanged], Awaitable[Any]],
    ) -> None:
        self._configuration = configuration
        self._watcher = watcher
        self._workspace = workspace
        self._take_up = take_up
        self._announce = announce
        self._changing = anyio.Lock()
        self._hint = anyio.Event()

    # By clients

    async def change(self, scope: int, write_to: Callable[[Path], write.Layer]) -> None:
        """Change a field and tell everybody. Raises `BadRequest`."""
        await self._changed(lambda: self._configuration.change(scope, write_to))

    async def remove(self, scope: int, key: str) -> None:
        await self._changed(lambda: self._configuration.remove(scope, key))

    async def reload(self, *, commands: bool = True) -> None:
        """Read all files anew, because a client asks; everybody is told if they say something else."""
        async with self._changing:
            differs = await self._configuration.reload(commands=commands)
            await self._take_up()
            if differs:
                await self._tell("files")

    async def tell(self) -> None:
        """Tell everybody to look at the workspace again."""
        async with self._changing:
            await self._tell("")

    # Trust

    def trust(self) -> Trust:
        return self._configuration.trust()

    async def give_trust(self, given: TrustGiven) -> Trust:
        """Let the project's files take effect. Raises `ContentChanged` when they are not what was seen."""
        await self._changed(lambda: self._configuration.give_trust(given.fingerprint, given.items), "trust")
        return self.trust()

    async def revoke_trust(self, item: str = "") -> Trust:
        await self._changed(lambda: self._configuration.revoke_trust((item,) if item else ()), "trust")
        return self.trust()

    # By files

    async def follow_files(self) -> None:
        """Take changes of files up for as long as this runs; without a watcher nothing is followed."""
        if self._watcher is None:
            return
        following = self._watcher.follow(self._look)
        try:
            while True:
                await self._follow(following)
                await self._hint.wait()
                self._hint = anyio.Event()
                if await self._configuration.has_changed():
                    await self._take_files_up()
        finally:
            following.close()

    def _look(self) -> None:
        self._hint.set()

    async def _follow(self, following: Following) -> None:
        watched = self._configuration.watched
        files, locks = await asyncio.to_thread(_places_of, watched)
        following.set(files, folders=watched.folders, alone=locks)

    async def _take_files_up(self) -> None:
        try:
            await self.reload(commands=False)
        except BullpenError as exc:
            # The store may refuse for a while; whoever looks at the workspace sees the new configuration.
            log.warning("changed config files could not be announced: %s", exc)
        except Exception:
            # Whatever somebody writes into a file, the workspace and its turns go on with what they had.
            log.exception("changed config files could not be taken up")

    # Inside

    async def _changed(self, change: Callable[[], Awaitable[Any]], reason: str = "") -> None:
        async with self._changing:
            await change()
            await self._take_up()
            await self._tell(reason)

    async def _tell(self, reason: str) -> None:
        settings = self._configuration.settings
        await self._announce(
            ConfigChanged(
                workspace_id=self._workspace,
                reason=reason,
                error="; ".join((*settings.held_back, *settings.problems)),
                warnings=settings.warnings[:TOLD],
            )
        )


def _places_of(watched: Watched) -> tuple[set[Path], list[Path]]:
    """Where changes are seen: the files and what they are links to, and the locks of what we write ourselves."""
    files = {place for file in watched.files for place in (file, Path(os.path.realpath(file)))}
    locks: list[Path] = []
    for file in watched.own:
        # Where a lock cannot be made, nothing is heard of the file.
        with contextlib.suppress(OSError):
            locks.append(ensure_lock(file))
    return files, locks
