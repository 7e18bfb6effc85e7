"""Answers in the format of Anthropic's Messages interface: recorded ones, and what a test makes up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parent / "recorded"
WORDS = (RECORDED / "anthropic_words.sse").read_bytes()
CALLS = (RECORDED / "anthropic_thoughts_and_calls.sse").read_bytes()


def event(kind: str, **facts: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind} | facts)}\n\n".encode()


def begin(**usage: Any) -> bytes:
    return event("message_start", message={"id": "m", "role": "assistant", "content": [], "usage": usage})


def start(index: int, kind: str, **facts: Any) -> bytes:
    return event("content_block_start", index=index, content_block={"type": kind} | facts)


def text(index: int, *words: str) -> bytes:
    return b"".join(_delta(index, type="text_delta", text=word) for word in words)


def thought(index: int, *words: str, signature: str = "") -> bytes:
    pieces = [_delta(index, type="thinking_delta", thinking=word) for word in words]
    signed = [_delta(index, type="signature_delta", signature=signature)] if signature else []
    return b"".join(pieces + signed)


def arguments(index: int, *pieces: str) -> bytes:
    return b"".join(_delta(index, type="input_json_delta", partial_json=piece) for piece in pieces)


def stop(index: int) -> bytes:
    return event("content_block_stop", index=index)


def end(reason: str | None = "end_turn", **usage: Any) -> bytes:
    return event("message_delta", delta={"stop_reason": reason}, usage=usage) + event("message_stop")


def say(*words: str, index: int = 0) -> bytes:
    return start(index, "text", text="") + text(index, *words) + stop(index)


def call(index: int, call_id: str, name: str, *pieces: str) -> bytes:
    head = start(index, "tool_use", id=call_id, name=name, input={})
    return head + arguments(index, *pieces) + stop(index)


def _delta(index: int, **delta: Any) -> bytes:
    return event("content_block_delta", index=index, delta=delta)
