"""What vendors send: the stream of one answer in each of their formats, a list of pieces to send one by one."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from typing import Any, NamedTuple


class Say(NamedTuple):
    words: tuple[str, ...]


class Think(NamedTuple):
    text: str
    signature: str


class Call(NamedTuple):
    id: str
    name: str
    arguments: dict[str, Any]


Part = Say | Think | Call
Json = dict[str, Any]


def say(*words: str) -> Say:
    return Say(words)


def sse(value: Any, event: str = "") -> bytes:
    name = f"event: {event}\n".encode() if event else b""
    return name + b"data: " + json.dumps(value).encode() + b"\n\n"


def halves(text: str) -> tuple[str, str]:
    return text[:3], text[3:]


class ResponsesWire:
    """OpenAI's Responses."""

    content_type = "text/event-stream"
    ping = b": ping\n\n"
    garbage = b"data: {nonsense\n\n"

    def answer(self, *parts: Part, cached: int = 0, finish: str = "completed") -> list[bytes]:
        self._number = 0
        pieces = [self._event("response.created", response=self._response("in_progress"))]
        items = [self._item(n, part, pieces) for n, part in enumerate(parts)]
        usage = {
            "input_tokens": 100,
            "input_tokens_details": {"cached_tokens": cached},
            "output_tokens": 10,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 110,
        }
        final = self._response("completed" if finish == "completed" else "incomplete", output=items)
        final |= {"usage": usage}
        if finish != "completed":
            final |= {"incomplete_details": {"reason": finish}}
        kind = "response.completed" if finish == "completed" else "response.incomplete"
        return [*pieces, self._event(kind, response=final)]

    def failure(self, code: str, message: str) -> list[bytes]:
        self._number = 0
        failed = self._response("failed") | {"error": {"code": code, "message": message}}
        return [
            self._event("response.created", response=self._response("in_progress")),
            self._event("response.failed", response=failed),
        ]

    def _event(self, kind: str, **facts: Any) -> bytes:
        self._number += 1
        return sse({"type": kind, "sequence_number": self._number, **facts}, kind)

    def _response(self, status: str, output: list[Any] | None = None) -> Json:
        return {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "model": "m",
            "status": status,
            "output": output or [],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }

    def _item(self, n: int, part: Part, pieces: list[bytes]) -> Json:
        begun, kind, deltas, ended = self._shape(n, part)
        where = {"output_index": n, "item_id": begun["id"]}
        pieces.append(self._event("response.output_item.added", output_index=n, item=begun))
        if isinstance(part, Think):
            summary = {"type": "summary_text", "text": ""}
            pieces.append(
                self._event("response.reasoning_summary_part.added", **where, summary_index=0, part=summary)
            )
        more = {"summary_index": 0} if isinstance(part, Think) else {"content_index": 0, "logprobs": []}
        pieces += [self._event(kind, **where, **more, delta=delta) for delta in deltas]
        item = begun | ended
        pieces.append(self._event("response.output_item.done", output_index=n, item=item))
        return item

    def _shape(self, n: int, part: Part) -> tuple[Json, str, tuple[str, ...], Json]:
        """The item as it begins, the kind and content of its deltas, and what its end adds."""
        match part:
            case Say(words):
                text: Json = {"type": "output_text", "text": "".join(words), "annotations": []}
                begun: Json = {"type": "message", "id": f"msg_{n}", "role": "assistant", "content": []}
                ended: Json = {"status": "completed", "content": [text]}
                return begun | {"status": "in_progress"}, "response.output_text.delta", words, ended
            case Think(thought, signature):
                begun = {"type": "reasoning", "id": f"rs_{n}", "summary": []}
                ended = {"summary": [{"type": "summary_text", "text": thought}]}
                kind = "response.reasoning_summary_text.delta"
                return begun, kind, (thought,), ended | {"encrypted_content": signature}
            case Call(call_id, name, arguments):
                begun = {"type": "function_call", "id": f"fc_{n}", "call_id": call_id, "name": name}
                given = json.dumps(arguments)
                kind = "response.function_call_arguments.delta"
                ended = {"arguments": given, "status": "completed"}
                return begun | {"arguments": "", "status": "in_progress"}, kind, halves(given), ended


class GoogleWire:
    """`streamGenerateContent` with `alt=sse`."""

    content_type = "text/event-stream"
    ping = sse({"usageMetadata": {"promptTokenCount": 100}, "responseId": "r"})
    garbage = b"data: {nonsense\n\n"

    def answer(self, *parts: Part, cached: int = 0, finish: str = "STOP") -> list[bytes]:
        chunks = [chunk for part in parts for chunk in self._parts(part)]
        pieces = [self._chunk([chunk]) for chunk in chunks]
        usage = {"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110}
        usage |= {"cachedContentTokenCount": cached} if cached else {}
        last = {
            "candidates": [{"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": finish}]
        }
        return [*pieces, sse(last | {"usageMetadata": usage, "responseId": "r"})]

    def _chunk(self, parts: list[Json]) -> bytes:
        return sse({"candidates": [{"content": {"role": "model", "parts": parts}}], "responseId": "r"})

    def _parts(self, part: Part) -> list[Json]:
        match part:
            case Say(words):
                return [{"text": word} for word in words]
            case Think(text, signature):
                signed = base64.b64encode(signature.encode()).decode()
                return [{"text": text, "thought": True}, {"text": "", "thoughtSignature": signed}]
            case Call(_, name, arguments):
                signed = base64.b64encode(b"signed call").decode()
                return [{"functionCall": {"name": name, "args": arguments}, "thoughtSignature": signed}]


class ClaudeWire:
    """Anthropic's Messages."""

    content_type = "text/event-stream"
    ping = b'event: ping\ndata: {"type": "ping"}\n\n'
    garbage = b"event: content_block_delta\ndata: {nonsense\n\n"

    def answer(self, *parts: Part, cached: int = 0, finish: str = "end_turn") -> list[bytes]:
        usage = {"input_tokens": 100 - cached, "cache_read_input_tokens": cached, "output_tokens": 1}
        message: Json = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
        message |= {"stop_reason": None, "stop_sequence": None, "usage": usage}
        pieces = [self._event("message_start", message=message)]
        for n, part in enumerate(parts):
            block, deltas = self._block(part)
            pieces.append(self._event("content_block_start", index=n, content_block=block))
            pieces += [self._event("content_block_delta", index=n, delta=delta) for delta in deltas]
            pieces.append(self._event("content_block_stop", index=n))
        stop = {"stop_reason": finish, "stop_sequence": None}
        pieces.append(self._event("message_delta", delta=stop, usage={"output_tokens": 10}))
        return [*pieces, self._event("message_stop")]

    def _event(self, kind: str, **facts: Any) -> bytes:
        return sse({"type": kind, **facts}, kind)

    def _block(self, part: Part) -> tuple[Json, list[Json]]:
        match part:
            case Say(words):
                return {"type": "text", "text": ""}, [{"type": "text_delta", "text": w} for w in words]
            case Think(text, signature):
                return {"type": "thinking", "thinking": "", "signature": ""}, [
                    {"type": "thinking_delta", "thinking": text},
                    {"type": "signature_delta", "signature": signature},
                ]
            case Call(call_id, name, arguments):
                text = json.dumps(arguments)
                return {"type": "tool_use", "id": call_id, "name": name, "input": {}}, [
                    {"type": "input_json_delta", "partial_json": half} for half in halves(text)
                ]


class ConverseWire:
    """Bedrock's Converse: frames of Amazon's binary event stream."""

    content_type = "application/vnd.amazon.eventstream"
    garbage = b"\x00\x00\x00\x20nonsense that is no frame at all"

    @property
    def ping(self) -> bytes:
        return self._event("messageStart", role="assistant")

    def answer(self, *parts: Part, cached: int = 0, finish: str = "end_turn") -> list[bytes]:
        pieces = [self._event("messageStart", role="assistant")]
        for n, part in enumerate(parts):
            start, deltas = self._block(part)
            if start:
                pieces.append(self._event("contentBlockStart", contentBlockIndex=n, start=start))
            pieces += [self._event("contentBlockDelta", contentBlockIndex=n, delta=d) for d in deltas]
            pieces.append(self._event("contentBlockStop", contentBlockIndex=n))
        usage = {"inputTokens": 100 - cached, "outputTokens": 10, "totalTokens": 110}
        usage |= {"cacheReadInputTokens": cached, "cacheWriteInputTokens": 0}
        pieces.append(self._event("messageStop", stopReason=finish))
        return [*pieces, self._event("metadata", usage=usage, metrics={"latencyMs": 1})]

    def _block(self, part: Part) -> tuple[Json, list[Json]]:
        match part:
            case Say(words):
                return {}, [{"text": word} for word in words]
            case Think(text, signature):
                return {}, [
                    {"reasoningContent": {"text": text}},
                    {"reasoningContent": {"signature": signature}},
                ]
            case Call(call_id, name, arguments):
                text = json.dumps(arguments)
                return {"toolUse": {"toolUseId": call_id, "name": name}}, [
                    {"toolUse": {"input": half}} for half in halves(text)
                ]

    def _event(self, kind: str, **facts: Any) -> bytes:
        headers = {":message-type": "event", ":event-type": kind, ":content-type": "application/json"}
        return frame(headers, json.dumps(facts).encode())

    def failure(self, kind: str, message: str) -> bytes:
        headers = {":message-type": "exception", ":exception-type": kind, ":content-type": "application/json"}
        return frame(headers, json.dumps({"message": message}).encode())


def frame(headers: dict[str, str], payload: bytes) -> bytes:
    """One frame of Amazon's event stream: lengths, their checksum, headers, payload, checksum of all."""
    packed = b"".join(
        struct.pack("!B", len(name)) + name.encode() + struct.pack("!BH", 7, len(value)) + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack("!II", 16 + len(packed) + len(payload), len(packed))
    body = prelude + struct.pack("!I", zlib.crc32(prelude)) + packed + payload
    return body + struct.pack("!I", zlib.crc32(body))
