"""Files of the web: whole or not at all."""

from __future__ import annotations

import asyncio
from pathlib import Path

import anyio
import pytest
from tests.internet import Asked as Request
from tests.internet import World, Write, answer, redirect
from tests.tools.conftest import Asked, Bench, Change

from bullpen.tools.base import PermissionDenied, Reach

DATA = bytes(range(256)) * 1000


def names(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*")}


async def test_a_file_is_put_where_it_was_wanted(online: Bench, world: World) -> None:
    world.secure.pages["/f.bin"] = answer(DATA, content_type="application/x-thing")
    outcome = await online.call(
        "download", url="https://site.test/f.bin", file_path="new/sub/f.bin", timeout=600
    )
    target = online.root / "new/sub/f.bin"
    assert target.read_bytes() == DATA
    assert outcome.content == f"Downloaded 256000 bytes to {target} (content type: application/x-thing)."
    assert names(online.root) == {"new", "new/sub", "new/sub/f.bin"}
    assert online.asked == [
        Asked(
            "download",
            {"url": "https://site.test/f.bin", "file_path": str(target), "timeout": 600},
            target.parent,
            f"Download to {target} from https://site.test/f.bin",
            Reach(paths=(target,), hosts=("site.test",)),
        )
    ]


async def test_a_text_is_recorded(online: Bench, world: World) -> None:
    """So that it can be seen and undone like any other change."""
    (online.root / "a.txt").write_text("old\n")
    world.site.pages["/a.txt"] = answer(b"new\n", content_type="text/plain")
    await online.call("download", url="http://site.test/a.txt", file_path="a.txt")
    assert online.files.changes == [Change(online.root / "a.txt", "old\n", "new\n")]


async def test_the_ask_says_what_would_be_replaced(online: Bench, world: World) -> None:
    """And nothing happens before it is answered, not even directories are made."""

    def refuse(asked: Asked) -> None:
        raise PermissionDenied

    (online.root / "a.txt").write_text("mine")
    online.on_permit = refuse
    await online.call("download", url="http://site.test/", file_path="a.txt")
    await online.call("download", url="http://site.test/", file_path="new/b.txt")
    await online.files.mark_read(online.root / "a.txt")
    await online.call("download", url="http://site.test/", file_path="a.txt")
    assert "replaces a file that was not read in this session" in online.asked[0].description
    assert "replaces" not in online.asked[1].description
    assert "replaces a file." in online.asked[2].description
    assert names(online.root) == {"a.txt"}
    assert world.asked == []


@pytest.mark.parametrize("fault", ["cut", "missing", "too large"])
async def test_what_fails_leaves_everything_as_it_was(online: Bench, world: World, fault: str) -> None:
    (online.root / "a.txt").write_text("mine")
    world.site.pages["/a"] = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf"
    world.site.pages["/b"] = answer(bytes(3000))
    online.limits = {"download": {"max_bytes": 2000}}
    where = {"cut": "/a", "missing": "/nothing", "too large": "/b"}[fault]
    for name in ("a.txt", "b.txt"):
        outcome = await online.call("download", url=f"http://site.test{where}", file_path=name)
        assert outcome.is_error
    assert names(online.root) == {"a.txt"}
    assert (online.root / "a.txt").read_text() == "mine"
    assert online.files.changes == []


async def test_a_cancel_leaves_nothing_behind(online: Bench, world: World) -> None:
    half = asyncio.Event()

    async def endless(asked: Request, write: Write) -> None:
        await write(b"HTTP/1.1 200 OK\r\n\r\n" + bytes(100_000))
        half.set()
        while True:
            await write(b"x")
            await asyncio.sleep(0.01)

    world.site.pages["/x"] = endless
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: online.call("download", url="http://site.test/x", file_path="x"))
        await half.wait()
        group.cancel_scope.cancel()
    await world.site.hung_up.wait()
    assert names(online.root) == set()


async def test_a_file_that_somebody_changed_meanwhile_is_left_alone(online: Bench, world: World) -> None:
    target = online.root / "a.txt"
    target.write_text("mine")

    async def slow(asked: Request, write: Write) -> None:
        target.write_text("changed while it came")
        await write(answer(b"theirs"))

    world.site.pages["/x"] = slow
    outcome = await online.call("download", url="http://site.test/x", file_path="a.txt")
    assert "changed by somebody else" in outcome.content
    assert target.read_text() == "changed while it came"


async def test_a_redirect_to_another_host_is_asked_for(online: Bench, world: World) -> None:
    world.site.pages["/go"] = redirect("http://other.test/")
    await online.call("download", url="http://site.test/go", file_path="x")
    assert [a.reach.hosts for a in online.asked] == [("site.test",), ("other.test",)]
    assert (online.root / "x").read_text() == "hello"


async def test_a_directory_is_no_target(online: Bench) -> None:
    outcome = await online.call("download", url="http://site.test/", file_path=".")
    assert "is a directory" in outcome.content
    assert online.asked == []
