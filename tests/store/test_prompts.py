"""Prompts: acceptance, idempotency and the order in which they run."""

from __future__ import annotations

import pytest
from tests.store.conftest import SESSION, WORKSPACE

from bullpen.store import prompts
from bullpen.store.prompts import NewRow
from bullpen.store.store import Store


async def accept(store: Store, name: str, *, key: str = "", session: str = SESSION) -> tuple[int, str]:
    row = NewRow(session=session, text=name, run_id=name, own_run_id=True, idempotency_key=key)
    seq, run_id, _ = await store.write(lambda tx: prompts.accept(tx, WORKSPACE, row))
    return seq, run_id


async def order(store: Store) -> list[str]:
    return [p.text for p in await store.read(lambda tx: prompts.waiting(tx, WORKSPACE, SESSION))]


async def move(store: Store, name: str, index: int) -> None:
    line = await store.read(lambda tx: prompts.waiting(tx, WORKSPACE, SESSION))
    prompt = next(p for p in line if p.text == name)
    await store.write(lambda tx: prompts.move(tx, WORKSPACE, prompt, index))


async def test_a_known_key_gives_back_its_first_use(store: Store) -> None:
    """R-02."""
    first = await accept(store, "a", key="k1")
    assert await accept(store, "b", key="k1") == first
    assert await accept(store, "b", key="k2") == (2, "b")
    assert await accept(store, "b") == (3, "b")
    assert await order(store) == ["a", "b", "b"]
    await store.write(lambda tx: prompts.end(tx, WORKSPACE, 1, "done"))
    assert await accept(store, "c", key="k1") == first


async def test_a_key_belongs_to_its_workspace(store: Store) -> None:
    await store.open_feed("w2", "/other")
    await accept(store, "a", key="k1")
    row = NewRow(session=SESSION, text="b", run_id="b", own_run_id=True, idempotency_key="k1")
    assert await store.write(lambda tx: prompts.accept(tx, "w2", row)) == prompts.Accepted(1, "b")


@pytest.mark.parametrize(
    ("name", "index", "expected"),
    [
        ("a", 0, "abcd"),
        ("a", 2, "bcad"),
        ("d", 0, "dabc"),
        ("b", 99, "acdb"),
        ("c", -5, "cabd"),
        ("c", 1, "acbd"),
    ],
)
async def test_a_prompt_takes_the_place_it_is_given(
    store: Store, name: str, index: int, expected: str
) -> None:
    for letter in "abcd":
        await accept(store, letter)
    await move(store, name, index)
    assert "".join(await order(store)) == expected


async def test_who_is_accepted_later_comes_last_however_often_others_were_moved(store: Store) -> None:
    """R-03."""
    for letter in "ab":
        await accept(store, letter)
    for _ in range(5):
        await move(store, (await order(store))[0], 1)
    await accept(store, "c")
    assert (await order(store))[-1] == "c"


async def test_moving_a_hundred_times_keeps_everybody_apart(store: Store) -> None:
    for letter in "abc":
        await accept(store, letter)
    for _ in range(100):
        await move(store, (await order(store))[2], 1)
    positions = [p.position for p in await store.read(lambda tx: prompts.waiting(tx, WORKSPACE, SESSION))]
    assert len(set(positions)) == 3
    assert await order(store) == ["a", "b", "c"]
