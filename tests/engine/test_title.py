"""A session is named after its first prompt; a name somebody chose is never replaced."""

from __future__ import annotations

import pytest
from tests.engine.bench import SESSION, WORKSPACE, Bench

from bullpen.engine.title import LONGEST, shortened
from bullpen.errors import ProviderError
from bullpen.store import sessions


async def title(bench: Bench, session: str) -> str:
    return (await bench.read(lambda tx: sessions.get(tx, WORKSPACE, session))).title


@pytest.mark.parametrize("placeholder", ["", "New Session", "Untitled Session", "non-interactive"])
async def test_a_placeholder_is_replaced(bench: Bench, placeholder: str) -> None:
    await bench.session("s2", placeholder)
    bench.puppet.title = "<think>hm, a name</think>\n  A fine\nname "
    await bench.prompt("do something", run_id="r1", session="s2")
    await bench.watcher.until("session", lambda s: s.title == "A fine name", action="updated")
    assert (await bench.puppet.titles.get()).request.max_tokens == 40


async def test_a_chosen_name_stays_and_costs_no_call(bench: Bench) -> None:
    await bench.ask_and_hear("hello", "hi", run_id="r1")
    assert bench.puppet.titles.empty()
    assert await title(bench, SESSION) == "Chosen by a person"


async def test_a_name_chosen_while_the_model_thinks_about_one_stays(bench: Bench) -> None:
    """D-32, D-38."""
    await bench.session("s2", "New Session")
    bench.puppet.title = None
    await bench.prompt("do something", run_id="r1", session="s2")
    asked = await bench.puppet.titles.get()
    await bench.write(lambda tx: sessions.change(tx, WORKSPACE, "s2", title="Mine", todos=None))
    asked.finish("Theirs")
    await bench.watcher.until("session", lambda s: s.id == "s2" and s.cost > 0)
    assert await title(bench, "s2") == "Mine"


async def test_naming_survives_a_cancel_of_the_turn(bench: Bench) -> None:
    await bench.session("s2", "New Session")
    bench.puppet.title = None
    await bench.prompt("do something", run_id="r1", session="s2")
    asked = await bench.puppet.titles.get()
    await bench.runner.cancel("s2")
    asked.finish("Named all the same")
    await bench.watcher.until("session", lambda s: s.title == "Named all the same")


@pytest.mark.parametrize("error", [ProviderError("down"), ValueError("odd")])
async def test_without_an_answer_the_prompt_is_the_name(bench: Bench, error: Exception) -> None:
    await bench.session("s2", "New Session")
    bench.puppet.title = error
    await bench.prompt("do  something\nwith " + "x" * 100, run_id="r1", session="s2")
    named = await bench.watcher.until(
        "session", lambda s: s.id == "s2" and s.title.startswith("do something")
    )
    assert len(named.title) == LONGEST
    assert bench.puppet.titles.qsize() == 2


async def test_a_session_deleted_meanwhile_is_not_brought_back(bench: Bench) -> None:
    await bench.session("s2", "New Session")
    bench.puppet.title = None
    await bench.prompt("do something", run_id="r1", session="s2")
    asked = await bench.puppet.titles.get()
    await bench.puppet.next()
    await bench.runner.delete_session("s2")
    asked.finish("Nobody")
    await asked.closed.wait()
    await bench.ask_and_hear("hello", "hi", run_id="r2")
    assert await bench.sql(f"SELECT id FROM sessions WHERE workspace = '{WORKSPACE}'") == [(SESSION,)]


def test_names_are_one_short_line() -> None:
    assert shortened("  a\n b ") == "a b"
    assert len(shortened("word " * 40)) <= LONGEST
    assert shortened("word " * 40).endswith("…")
