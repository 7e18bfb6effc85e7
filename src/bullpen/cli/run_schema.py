"""The JSON Schema of the lines that `bullpen run --json` prints."""

from __future__ import annotations

from typing import Any

from bullpen.cli.run_report import STATUSES
from bullpen.server.openapi import events_schema

_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}


def run_schema() -> dict[str, Any]:
    """Draft 2020-12, for one line. The first is a `run` as soon as the prompt is accepted, the last always a `result`."""
    events = events_schema()
    return {
        "$schema": events["$schema"],
        "$id": "bullpen.run.schema.json",
        "title": "A line of bullpen run --json",
        "description": "Events of kinds that you do not know are to be skipped; there is exactly one result, and it comes last.",
        "oneOf": [{"$ref": "#/$defs/RunResult"}, {"$ref": "#/$defs/RunAccepted"}, *events["oneOf"]],
        "$defs": {**events["$defs"], "RunResult": _result(), "RunAccepted": _accepted()},
    }


def _accepted() -> dict[str, Any]:
    named = _object("The session and the run.", session_id=_TEXT, run_id=_TEXT)
    return _object(
        "The prompt is accepted; again for each time that the model is asked anew for an answer that fits.",
        id=_TEXT,
        type={"const": "run"},
        payload=_object("The wire's envelope.", type={"const": "created"}, payload=named),
    )


def _result() -> dict[str, Any]:
    counts = ("calls", "input", "output", "cache_read", "cache_write", "estimated")
    usage = _object(
        "Model calls, tokens and dollars, sub-agents included; so many calls are estimated.",
        **dict.fromkeys(counts, _COUNT),
        cost={"type": "number", "minimum": 0},
    )
    denied = _object("A tool that was not allowed.", tool=_TEXT, tool_call_id=_TEXT, reason=_TEXT)
    result = _object(
        "How the run ended. Session and run are empty when there were none.",
        type={"const": "result"},
        reason={"enum": list(STATUSES)},
        exit_code={"enum": sorted(set(STATUSES.values()))},
        session_id=_TEXT,
        run_id=_TEXT,
        text={**_TEXT, "description": "The last message of the turn."},
        error=_TEXT,
        error_code=_TEXT,
        model={**_TEXT, "description": "provider/model of the last message."},
        duration_s={"type": "number", "minimum": 0},
        usage=usage,
        tool_calls=_COUNT,
        denied_tools={"type": "array", "items": denied},
    )
    result["properties"]["output"] = {"description": "With --output-schema: the answer as the value it is."}
    return result


def _object(description: str, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "description": description,
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
