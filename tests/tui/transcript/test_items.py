"""Messages become items, and what moves changes its own items only."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tui.transcript.scenes import answer, call, items, prompt, result, said

from bullpen.schema.message import Message
from bullpen.tui.transcript.items import Book, Call, Ending, Note, Prompt, Said, Waiting, state_of


def test_a_call_and_its_result_are_one_item() -> None:
    asked = answer(said("Let me look."), call("ls", {"path": "."}), reason="tool_use")
    told = [type(item) for item in items(prompt("look"), asked, result("a"), answer(said("Done.")))]
    assert told == [Prompt, Said, Call, Said, Ending]


def test_a_call_goes_through_its_states() -> None:
    def state(*messages: Message, asking: tuple[str, ...] = ()) -> str:
        (item,) = (item for item in items(*messages) if isinstance(item, Call))
        return state_of(item, asking)

    begun = answer(call("bash", "", finished=False), reason=None)
    running = answer(call("bash", {"command": "ls"}), reason=None)
    assert state(begun) == "pending"
    assert state(running) == "running"
    assert state(running, asking=("c1",)) == "asking"
    assert state(running, result("fine")) == "done"
    assert state(running, result("no", is_error=True)) == "failed"
    assert state(running, result("context canceled", is_error=True)) == "cancelled"
    assert state(answer(call("bash", {}), reason="canceled")) == "cancelled"


def test_ids_of_calls_may_come_again_in_later_answers() -> None:
    first = answer(call("ls"), reason="tool_use")
    second = answer(call("ls"), reason="tool_use")
    found = [item for item in items(first, result("one"), second, result("two")) if isinstance(item, Call)]
    assert [item.result and item.result.content for item in found] == ["one", "two"]


def test_an_answer_that_has_not_begun_is_waited_for() -> None:
    assert [type(item) for item in items(prompt("x"), answer(reason=None))] == [Prompt, Waiting]


def test_how_a_turn_ended() -> None:
    (ending,) = (
        item for item in items(prompt("x", at=100), answer(said("y"), time=112)) if isinstance(item, Ending)
    )
    assert (ending.model, ending.provider, ending.seconds) == ("player", "script", 12)
    (note,) = (
        item for item in items(answer(reason="error", message="Oh", details="no")) if isinstance(item, Note)
    )
    assert (note.kind, note.title, note.details) == ("error", "Oh", "no")


STEPS = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from(["grow", "end", "call", "result", "drop"])), max_size=25
)


@settings(max_examples=40)
@given(STEPS)
def test_taking_messages_one_by_one_is_as_good_as_loading_them(steps: list[tuple[int, str]]) -> None:
    """Whatever order they move in, the items are those that a fresh look gives."""
    book = Book()
    known: dict[str, Message] = {}
    shown: list[object] = []
    for number, what in steps:
        name = f"m{number}"
        match what:
            case "grow":
                message = answer(said(f"text {len(steps)}" * (number + 1)), reason=None)
            case "end":
                message = answer(said("all"))
            case "call":
                message = answer(said("x"), call("ls", call_id=name), reason="tool_use")
            case "result":
                name, message = f"r{number}", result("out", call_id=f"m{number}")
            case _:
                change = book.drop(name)
                known.pop(name, None)
                shown[change.start : change.start + change.removed] = book.items[change.start :][
                    : change.added
                ]
                continue
        known[name] = msgspec.structs.replace(message, id=name)
        change = book.take(known[name])
        shown[change.start : change.start + change.removed] = book.items[change.start :][: change.added]
    assert shown == book.items
    fresh = Book()
    fresh.load(known.values())
    assert [item.key for item in book.items] == [item.key for item in fresh.items]
