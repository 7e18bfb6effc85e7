"""`--output-schema`: an answer that is JSON of a given shape, or a sentence about what is wrong with it."""

from __future__ import annotations

import json
import re
from typing import Any

ASKED_AT_MOST = 3
"""A model that missed the shape twice with the complaint before it will hardly meet it the next time."""

_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n?```", re.DOTALL)


class SchemaWrong(Exception):
    """The schema itself cannot be used."""


class AnswerWrong(Exception):
    """The answer does not fit; the message says where and why, for a model or a person."""


def load(text: str) -> Any:
    """The schema as a file has it. Raises `SchemaWrong`."""
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    try:
        schema = json.loads(text)
    except ValueError as exc:
        raise SchemaWrong(f"it is no JSON: {exc}") from exc
    if not isinstance(schema, dict | bool):
        raise SchemaWrong("a schema is an object")
    try:
        validator_for(schema).check_schema(schema)
    except SchemaError as exc:
        raise SchemaWrong(f"it is no JSON Schema: {exc.message} (at {exc.json_path})") from exc
    return schema


def instruction(schema: Any) -> str:
    """What the model is told beside the prompt."""
    return (
        "Your final answer must be one JSON value that satisfies this JSON Schema, and nothing else: no words around it, no "
        f"code fence.\n\n{json.dumps(schema, ensure_ascii=False)}"
    )


def complaint(why: str) -> str:
    """What the model is told when its answer does not fit."""
    return f"That answer does not fit the JSON Schema: {why}\n\nAnswer again, with one JSON value that satisfies it and nothing else."


def fitting(answer: str, schema: Any) -> Any:
    """The value that the answer is. Raises `AnswerWrong`, or `SchemaWrong` when the schema points at what is not there."""
    from jsonschema.exceptions import best_match
    from jsonschema.validators import validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    value = _value(answer)
    # With a registry of its own it fetches nothing from anywhere.
    validator = validator_for(schema)(schema, registry=Registry())
    try:
        wrong = best_match(validator.iter_errors(value))
    except Unresolvable as exc:
        raise SchemaWrong(f"it refers to what is not in it: {exc}") from exc
    if wrong is not None:
        raise AnswerWrong(f"{wrong.message[:500]} (at {wrong.json_path})")
    return value


def _value(answer: str) -> Any:
    """Many models cannot but fence their JSON in."""
    fenced = _FENCED.findall(answer)
    for text in (answer, *fenced[-1:]):
        try:
            return json.loads(text)
        except ValueError:
            continue
    raise AnswerWrong("it is no JSON")
