"""Versions of files that a session changed."""

from __future__ import annotations

from tests.store.conftest import SESSION, WORKSPACE

from bullpen.store import files
from bullpen.store.store import Store


async def test_the_original_is_kept_once(store: Store) -> None:
    """Each change adds one version; only what somebody else wrote in between is kept beside."""

    async def change(before: str, after: str) -> None:
        await store.write(lambda tx: files.record_change(tx, WORKSPACE, SESSION, "/f", before, after))

    await change("0", "1")
    await change("1", "2")
    await change("theirs", "3")
    found = await store.read(lambda tx: files.history(tx, WORKSPACE, SESSION))
    assert [(item.version, item.content) for item in found] == list(enumerate(["0", "1", "2", "theirs", "3"]))
