from __future__ import annotations

import base64
from typing import Any

import pytest
from mcp_types import CallToolResult

from bullpen.errors import ToolFailed
from bullpen.mcp.results import outcome_of, shorten
from bullpen.tools.base import Outcome


def outcome(*content: dict[str, Any], supports_media: bool = True, **fields: Any) -> Outcome:
    result = CallToolResult.model_validate({"content": content, **fields})
    return outcome_of(result, supports_media=supports_media)


def media(kind: str, data: bytes) -> dict[str, Any]:
    return {"type": kind, "data": base64.b64encode(data).decode(), "mimeType": f"{kind}/x"}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def test_texts_are_joined() -> None:
    link = {"type": "resource_link", "name": "n", "uri": "x:1"}
    inside = {"type": "resource", "resource": {"uri": "x:2", "text": "inside"}}
    blob = {"type": "resource", "resource": {"uri": "x:3", "blob": "AAAA", "mimeType": "application/zip"}}
    assert outcome(text("a"), link, inside, blob) == Outcome(
        content="a\nn: x:1\ninside\n[the resource x:3 (application/zip) is not text]"
    )


def test_an_image_goes_before_a_recording() -> None:
    assert outcome(media("audio", b"la"), media("image", b"px")) == Outcome(
        content="[1 more image or recording left out]", data=b"px", mime_type="image/x"
    )
    assert outcome(media("audio", b"la")) == Outcome(content="", data=b"la", mime_type="audio/x")


def test_what_cannot_be_shown_is_named() -> None:
    assert outcome(text("a"), media("image", b"px"), supports_media=False) == Outcome(
        content="a\n[an image (image/x) was left out: the model cannot take it in]"
    )
    broken = {"type": "audio", "data": "%%%", "mimeType": "audio/x"}
    assert outcome(broken) == Outcome(content="[a recording (audio/x) was left out: it could not be decoded]")


def test_structured_content_stands_in_for_missing_text() -> None:
    assert outcome(structuredContent={"a": 1}) == Outcome(content='{"a": 1}')
    assert outcome(text("one"), structuredContent={"a": 1}) == Outcome(content="one")


def test_a_failure_is_one() -> None:
    with pytest.raises(ToolFailed, match=r"^no luck$"):
        outcome(text("no luck"), isError=True)
    with pytest.raises(ToolFailed, match="did not say why"):
        outcome(isError=True)


def test_a_cut_does_not_split_a_letter() -> None:
    assert shorten("ää", 3) == "ä\n\n[… the other 1 of 4 bytes were left out]"
