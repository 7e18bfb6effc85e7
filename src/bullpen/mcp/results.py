"""What a server answered, as the outcome of a tool call: bounded, decoded, and nothing silently left out."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, assert_never

from bullpen.errors import ToolFailed
from bullpen.tools.base import Outcome

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock

MAX_TEXT_BYTES = 200_000
"""About 50,000 tokens: a server that says more than that drowns the conversation."""

MAX_MEDIA_BYTES = 10 * 1024 * 1024

SILENCE = "The tool gave no output."


def outcome_of(result: CallToolResult, *, supports_media: bool) -> Outcome:
    """Texts joined, and the first image, else the first recording. Raises `ToolFailed` when the server says so."""
    media = _Media(supports_media)
    texts = [text for block in result.content if (text := _text_of(block, media))]
    if not texts and media.empty and result.structured_content is not None:
        texts.append(json.dumps(result.structured_content, ensure_ascii=False))
    whole = "\n".join([*texts, *media.notes()])
    text = shorten(whole)
    if result.is_error:
        raise ToolFailed(text or "The tool failed and did not say why.")
    data, mime_type = media.first()
    is_cut = len(whole.encode("utf-8", "replace")) > MAX_TEXT_BYTES
    return Outcome(content=text or ("" if data else SILENCE), data=data, mime_type=mime_type, is_cut=is_cut)


def outcome_of_parts(contents: Sequence[Any], *, supports_media: bool) -> Outcome:
    """A resource that was read: its texts joined, and its first image or recording."""
    media = _Media(supports_media)
    whole = "\n".join([*(text for each in contents if (text := _resource_text(each, media))), *media.notes()])
    data, mime_type = media.first()
    is_cut = len(whole.encode("utf-8", "replace")) > MAX_TEXT_BYTES
    empty = "" if data else "The resource is empty."
    return Outcome(content=shorten(whole) or empty, data=data, mime_type=mime_type, is_cut=is_cut)


def shorten(text: str, limit_bytes: int = MAX_TEXT_BYTES) -> str:
    """The beginning of a long text, with a note of how much is missing."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit_bytes:
        return raw.decode()
    kept = raw[:limit_bytes].decode("utf-8", "ignore")
    return f"{kept}\n\n[… the other {len(raw) - limit_bytes} of {len(raw)} bytes were left out]"


def _text_of(block: ContentBlock, media: _Media) -> str:
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            media.add(block.type, block.data, block.mime_type)
            return ""
        case "resource_link":
            return f"{block.title or block.name}: {block.uri}"
        case "resource":
            return _resource_text(block.resource, media)
        case _:
            assert_never(block)


def _resource_text(resource: Any, media: _Media) -> str:
    text: str | None = getattr(resource, "text", None)
    if text is not None:
        return text
    mime_type = resource.mime_type or ""
    if mime_type.startswith(("image/", "audio/")):
        media.add(mime_type.partition("/")[0], getattr(resource, "blob", ""), mime_type)
        return ""
    return f"[the resource {resource.uri} ({mime_type or 'of unknown type'}) is not text]"


class _Media:
    """Images and recordings of an answer. A result holds one; for the others a note is left."""

    def __init__(self, supported: bool) -> None:
        self._supported = supported
        self._usable: list[tuple[str, bytes, str]] = []
        self._notes: list[str] = []

    @property
    def empty(self) -> bool:
        return not self._usable and not self._notes

    def add(self, kind: str, encoded: str, mime_type: str) -> None:
        what = "an image" if kind == "image" else "a recording"
        if not self._supported:
            self._notes.append(f"[{what} ({mime_type}) was left out: the model cannot take it in]")
            return
        try:
            data = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            data = b""
        if not data or len(data) > MAX_MEDIA_BYTES:
            why = f"has {len(data)} bytes, {MAX_MEDIA_BYTES} are allowed" if data else "could not be decoded"
            self._notes.append(f"[{what} ({mime_type}) was left out: it {why}]")
            return
        self._usable.append((kind, data, mime_type))

    def first(self) -> tuple[bytes, str]:
        if not self._usable:
            return b"", ""
        _, data, mime_type = min(self._usable, key=lambda each: each[0] != "image")
        return data, mime_type

    def notes(self) -> Sequence[str]:
        more = len(self._usable) - 1
        if more > 0:
            return (
                *self._notes,
                f"[{more} more {'image or recording' if more == 1 else 'images or recordings'} left out]",
            )
        return self._notes


def resource_content(contents: Any) -> dict[str, str]:
    """One part of a resource, as the wire shows it; `blob` is base64 as the server sent it."""
    part = {"uri": str(contents.uri)}
    if contents.mime_type:
        part["mime_type"] = contents.mime_type
    return {**part, "text": getattr(contents, "text", ""), "blob": getattr(contents, "blob", "")}
