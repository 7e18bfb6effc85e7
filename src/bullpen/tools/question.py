"""Ask the person at the keyboard."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from bullpen.errors import ToolFailed
from bullpen.schema.asks import Choice, Question, QuestionResponse, QuestionType
from bullpen.tools.base import Outcome, ToolContext, tool

MAX_QUESTIONS = 5
MAX_QUESTION = 240
MAX_DESCRIPTION = 600
MIN_CHOICES = 2
MAX_CHOICES = 5
MAX_CHOICE_TEXT = 200

CONFIRM_TITLE = "Ready to go?"
CONFIRM_DESCRIPTION = "Review your answers above and confirm."

DESCRIPTION = f"""\
Ask the user up to {MAX_QUESTIONS} questions at once and wait for the answers. Use it for a decision that is theirs and changes \
what you do next: a requirement that can be read in two ways, a choice between designs, a risky step. Do not ask what the \
workspace can tell you, nor for permission to use a tool.

Types: `yes_no`, `single_choice`, `multi_choice` (both with {MIN_CHOICES} to {MAX_CHOICES} choices), `free_text`. The user may \
answer a choice in their own words, add notes, skip a question or cancel them all."""


class AskedChoice(Struct, frozen=True):
    id: Annotated[str, Meta(description="Short and unique within the question; comes back in the answer.")]
    label: Annotated[str, Meta(description=f"What the user picks, at most {MAX_CHOICE_TEXT} characters.")]
    description: Annotated[str, Meta(description="What it means to pick this.")] = ""


class AskedQuestion(Struct, frozen=True):
    type: QuestionType
    question: Annotated[str, Meta(description=f"The question, at most {MAX_QUESTION} characters.")]
    description: Annotated[
        str,
        Meta(description=f"Why it is asked and what depends on it, at most {MAX_DESCRIPTION} characters."),
    ]
    label: Annotated[str, Meta(description="One or two words for the heading.")] = ""
    choices: Annotated[list[AskedChoice], Meta(description="For single_choice and multi_choice.")] = []
    options: list[AskedChoice] = []


class QuestionParams(Struct, frozen=True):
    questions: list[AskedQuestion] | str
    confirm_title: Annotated[
        str, Meta(description="Heading of the last page, where several answers are confirmed.")
    ] = ""
    confirm_description: Annotated[str, Meta(description="Text of that page.")] = ""


async def _ask(params: QuestionParams, ctx: ToolContext) -> Outcome:
    questions = [_checked(each) for each in _listed(params.questions)]
    is_batch = len(questions) > 1
    responses = await ctx.ask(
        questions,
        confirm_title=params.confirm_title or (CONFIRM_TITLE if is_batch else ""),
        confirm_description=params.confirm_description or (CONFIRM_DESCRIPTION if is_batch else ""),
    )
    blocks = [_render(number, *pair) for number, pair in enumerate(zip(questions, responses, strict=True), 1)]
    return Outcome(content="\n\n".join(blocks))


def _advertised(schema: dict[str, Any]) -> dict[str, Any]:
    """Without what is only tolerated: the list as a JSON text, and `options` for `choices`."""
    (asked,) = [form for form in schema["properties"]["questions"]["anyOf"] if form["type"] == "array"]
    known = {name: form for name, form in asked["items"]["properties"].items() if name != "options"}
    asked = {**asked, "items": {**asked["items"], "properties": known}}
    return {**schema, "properties": {**schema["properties"], "questions": asked}}


_tolerant = tool("question", DESCRIPTION, effects=False, interactive=True)(_ask)
question = msgspec.structs.replace(_tolerant, schema=_advertised(_tolerant.schema))


def _listed(given: list[AskedQuestion] | str) -> list[AskedQuestion]:
    if isinstance(given, str):
        try:
            given = msgspec.json.decode(given, type=list[AskedQuestion])
        except msgspec.MsgspecError as exc:
            raise ToolFailed(f"questions is not a list of questions: {exc}") from exc
    if not 1 <= len(given) <= MAX_QUESTIONS:
        raise ToolFailed(f"ask 1 to {MAX_QUESTIONS} questions at once, not {len(given)}")
    return given


def _checked(asked: AskedQuestion) -> Question:
    choices = asked.choices or asked.options
    _check_length("question", asked.question, MAX_QUESTION)
    _check_length("description", asked.description, MAX_DESCRIPTION)
    if asked.type in {"single_choice", "multi_choice"}:
        _check_choices(asked.question, choices)
    elif choices:
        raise ToolFailed(f"a {asked.type} question takes no choices: {asked.question!r}")
    return Question(
        id=str(uuid.uuid4()),
        type=asked.type,
        label=asked.label,
        question=asked.question,
        description=asked.description,
        choices=tuple(Choice(id=each.id, label=each.label, description=each.description) for each in choices),
    )


def _check_length(name: str, text: str, limit: int, *, is_needed: bool = True) -> None:
    if is_needed and not text.strip():
        raise ToolFailed(f"{name} must not be empty")
    if len(text) > limit:
        raise ToolFailed(f"{name} is {len(text)} characters long, and {limit} are allowed: {text[:60]!r}…")


def _check_choices(asked: str, choices: Sequence[AskedChoice]) -> None:
    if not MIN_CHOICES <= len(choices) <= MAX_CHOICES:
        raise ToolFailed(f"{asked!r} needs {MIN_CHOICES} to {MAX_CHOICES} choices and has {len(choices)}")
    if len({each.id for each in choices}) < len(choices):
        raise ToolFailed(f"the choice ids of {asked!r} are not unique")
    for each in choices:
        _check_length("a choice's id", each.id, MAX_CHOICE_TEXT)
        _check_length("a choice's label", each.label, MAX_CHOICE_TEXT)
        _check_length("a choice's description", each.description, MAX_CHOICE_TEXT, is_needed=False)


def _render(number: int, asked: Question, response: QuestionResponse | None) -> str:
    lines = [f"Q{number}: {asked.question}", f"Answer: {_answer(asked, response)}"]
    if response is not None:
        labels = {choice.id: choice.label for choice in asked.choices}
        lines += [
            f"Note{_about(key, labels)}: {note}" for key, note in response.notes.items() if note.strip()
        ]
    return "\n".join(lines)


def _answer(asked: Question, response: QuestionResponse | None) -> str:
    if response is None:
        return "(skipped)"
    if response.yes is not None:
        return "yes" if response.yes else "no"
    labels = {choice.id: choice.label for choice in asked.choices}
    picked = [f"{key} ({labels[key]})" if key in labels else key for key in response.selected_ids]
    typed = [response.fill_in_text.strip()] if response.fill_in_text.strip() else []
    return ", ".join(picked + typed) or "(skipped)"


def _about(key: str, labels: dict[str, str]) -> str:
    return f" on {key}" if key in labels else ""
