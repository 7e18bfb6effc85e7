"""What is kept of a conversation is what reading it anew would give."""

from __future__ import annotations

import msgspec
import pytest
from tests.engine.bench import SESSION, WORKSPACE, Bench

from bullpen.config.settings import ProviderSettings
from bullpen.engine import history
from bullpen.engine.history import Histories
from bullpen.providers.base import AssistantTurn, Native, Turn, UserTurn
from bullpen.providers.chat_request import body_of
from bullpen.schema.message import Finish, FinishPart, ShellCommand, ShellCommandPart, new_message
from bullpen.store import messages, sessions


async def anew(bench: Bench, answer: str) -> list[Turn]:
    """The conversation before an answer, from the store alone."""
    session = await bench.read(lambda tx: sessions.get(tx, WORKSPACE, SESSION))
    return (await Histories().before(bench.store, WORKSPACE, answer, session, images=False)).turns


async def check(bench: Bench, text: str, answer: str) -> list[Turn]:
    """One more turn: the model is asked with just what the store would give."""
    run_id = await bench.prompt(text)
    step = await bench.puppet.next()
    [draft] = await bench.open_messages()
    asked = list(step.request.turns)
    assert asked == await anew(bench, draft.id)
    # What adapters keep of the settled beginning is of that beginning.
    settled = step.request.settled
    assert settled is not None
    assert asked[: len(settled.turns)] == settled.turns
    sent = msgspec.json.encode(body_of(step.request, ProviderSettings(id="p")))
    plain = msgspec.structs.replace(step.request, settled=None)
    assert sent == msgspec.json.encode(body_of(plain, ProviderSettings(id="p")))
    step.finish(answer)
    await bench.watcher.run_complete(run_id)
    return asked


async def shell(bench: Bench, command: str) -> None:
    """What a person ran beside the agent."""
    now = bench.services.now
    ran = ShellCommandPart(data=ShellCommand(command=command, output="done", exit_code=0))
    message = new_message(
        "user",
        SESSION,
        (ran, FinishPart(data=Finish(reason="end_turn", time=now))),
        now,
        model="",
        provider="",
    )
    await bench.write(lambda tx: messages.insert(tx, WORKSPACE, message))


async def test_turn_after_turn(bench: Bench) -> None:
    for n in range(3):
        await check(bench, f"prompt {n}", f"answer {n}")
    assert await check(bench, "prompt 3", "answer 3") == [
        UserTurn("prompt 0"),
        AssistantTurn("answer 0"),
        UserTurn("prompt 1"),
        AssistantTurn("answer 1"),
        UserTurn("prompt 2"),
        AssistantTurn("answer 2"),
        UserTurn("prompt 3"),
    ]


async def test_only_what_is_new_is_read(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    to_turns = history.to_turns

    def counted(found: list, **how) -> list[Turn]:
        made.append(len(found))
        return to_turns(found, **how)

    monkeypatch.setattr(history, "to_turns", counted)
    for n in range(5):
        await bench.ask_and_hear(f"prompt {n}", "answer")
    # A prompt, the answer before it, and the one that is to come.
    assert max(made) == 2


async def test_a_command_that_a_person_ran_in_between(bench: Bench) -> None:
    """Also one that came while the model was speaking, behind the message that was still open."""
    await check(bench, "one", "first")
    run_id = await bench.prompt("two")
    step = await bench.puppet.next()
    await shell(bench, "make")
    step.finish("second")
    await bench.watcher.run_complete(run_id)
    await shell(bench, "make test")
    asked = await check(bench, "three", "third")
    assert [type(turn) for turn in asked] == [
        UserTurn,
        AssistantTurn,
        UserTurn,
        AssistantTurn,
        *[UserTurn] * 3,
    ]


async def test_a_message_that_was_deleted(bench: Bench) -> None:
    await check(bench, "one", "first")
    await check(bench, "two", "second")
    gone = (await bench.messages())[1]
    await bench.write(lambda tx: messages.delete(tx, WORKSPACE, gone))
    asked = await check(bench, "three", "third")
    assert AssistantTurn("first") not in asked


async def test_much_is_not_kept(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "KEPT_CHARS", 10)
    await check(bench, "a long prompt", "a long answer")
    await check(bench, "another", "answer")


async def test_what_is_kept_of_a_workspace_can_be_forgotten(bench: Bench) -> None:
    await check(bench, "one", "first")
    kept = bench.services.histories
    assert kept.kept_chars() > 0
    kept.forget("another")
    assert kept.kept_chars() > 0
    await bench.runner.close(drop_queue=True)
    assert kept.kept_chars() == 0


async def test_an_answer_in_its_vendors_form_is_sent_as_it_came(bench: Bench) -> None:
    native = Native("anthropic", '[{"type":"thinking","thinking":"hm","signature":"s1"}]')
    first = await bench.prompt("one")
    step = await bench.puppet.next()
    step.finish("ok", native=native)
    await bench.watcher.run_complete(first)
    await bench.prompt("two")
    step = await bench.puppet.next()
    assert step.request.turns[1] == AssistantTurn("ok", native=native)
    [draft] = await bench.open_messages()
    assert list(step.request.turns) == await anew(bench, draft.id)
    step.finish("done")
