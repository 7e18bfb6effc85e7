"""Questions to the person at the keyboard."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from tests.tools.conftest import Bench

from bullpen.schema.asks import Choice, Question, QuestionResponse

FRUIT = [{"id": "a", "label": "Apple"}, {"id": "b", "label": "Pear", "description": "Green."}]
YES_NO = {"type": "yes_no", "question": "Go on?", "description": "Whether to go on."}
CHOICE = {"type": "single_choice", "question": "Which?", "description": "Pick.", "choices": FRUIT}


async def test_answers_come_in_the_order_of_the_questions(bench: Bench) -> None:
    """Each with what was picked, typed and noted; a skipped one says so."""
    text = {"type": "free_text", "question": "Name?", "description": "d"}
    many = {**CHOICE, "type": "multi_choice", "question": "What else?"}

    def answer(questions: Sequence[Question]) -> Sequence[QuestionResponse | None]:
        return [
            QuestionResponse(yes=False),
            QuestionResponse(selected_ids=("b",), notes={"_question": "because", "b": "ripe"}),
            QuestionResponse(selected_ids=("a", "b"), fill_in_text="and plums"),
            QuestionResponse(fill_in_text="Ada"),
            None,
        ]

    bench.on_ask = answer
    outcome = await bench.call(
        "question", questions=[YES_NO, CHOICE, many, text, {**text, "question": "City?"}]
    )
    assert outcome.content.split("\n\n") == [
        "Q1: Go on?\nAnswer: no",
        "Q2: Which?\nAnswer: b (Pear)\nNote: because\nNote on b: ripe",
        "Q3: What else?\nAnswer: a (Apple), b (Pear), and plums",
        "Q4: Name?\nAnswer: Ada",
        "Q5: City?\nAnswer: (skipped)",
    ]


async def test_a_batch_has_a_page_to_confirm(bench: Bench) -> None:
    """One question needs none; texts that are given win."""
    bench.on_ask = lambda questions: [None] * len(questions)
    await bench.call("question", questions=[YES_NO])
    await bench.call("question", questions=[YES_NO, CHOICE])
    await bench.call("question", questions=[YES_NO, CHOICE], confirm_title="T", confirm_description="D")
    assert [(title, text) for _, title, text in bench.batches] == [
        ("", ""),
        ("Ready to go?", "Review your answers above and confirm."),
        ("T", "D"),
    ]


async def test_questions_are_passed_on_with_ids_of_their_own(bench: Bench) -> None:
    """The answer is paired by them."""
    bench.on_ask = lambda questions: [None] * len(questions)
    await bench.call("question", questions=[YES_NO, CHOICE])
    first, second = bench.batches[0][0]
    assert first.id != second.id
    assert second.choices == (
        Choice(id="a", label="Apple"),
        Choice(id="b", label="Pear", description="Green."),
    )


async def test_the_forms_that_models_mix_up_are_taken(bench: Bench) -> None:
    """The list as a JSON text, and `options` for `choices`."""
    bench.on_ask = lambda questions: [QuestionResponse(selected_ids=("a",))]
    asked = {**CHOICE, "options": FRUIT}
    del asked["choices"]
    outcome = await bench.call("question", questions=json.dumps([asked]))
    assert outcome.content == "Q1: Which?\nAnswer: a (Apple)"


WRONG = {
    "none": [],
    "too many": [YES_NO] * 6,
    "no text": [{**YES_NO, "question": ""}],
    "long text": [{**YES_NO, "question": "x" * 241}],
    "no description": [{**YES_NO, "description": " "}],
    "long description": [{**YES_NO, "description": "x" * 601}],
    "choices for yes or no": [{**YES_NO, "choices": FRUIT}],
    "one choice": [{**CHOICE, "choices": FRUIT[:1]}],
    "six choices": [{**CHOICE, "choices": [{"id": str(n), "label": "x"} for n in range(6)]}],
    "same ids": [{**CHOICE, "choices": [FRUIT[0], FRUIT[0]]}],
    "long label": [{**CHOICE, "choices": [FRUIT[0], {"id": "b", "label": "x" * 201}]}],
    "long choice": [{**CHOICE, "choices": [FRUIT[0], {"id": "b", "label": "x", "description": "x" * 201}]}],
    "no JSON": "no list",
    "no list": '{"type": "yes_no"}',
}


@pytest.mark.parametrize("questions", WRONG.values(), ids=WRONG.keys())
async def test_what_breaks_the_limits_goes_back_to_the_model(bench: Bench, questions: Any) -> None:
    """Nobody is bothered with it."""
    outcome = await bench.call("question", questions=questions)
    assert (outcome.is_error, bench.batches) == (True, [])


async def test_models_are_told_one_form(bench: Bench) -> None:
    """What is only tolerated is not advertised."""
    schema = bench.tools["question"].schema["properties"]["questions"]
    assert schema["type"] == "array"
    assert schema["items"]["properties"].keys() == {"type", "question", "description", "label", "choices"}
