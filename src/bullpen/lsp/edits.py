"""Edits that a server wants: read from its answer, checked, and applied to texts. Files are not touched here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bullpen.errors import LanguageServerFailed
from bullpen.lsp.documents import path_of
from bullpen.lsp.positions import Encoding, Text

MAX_FILES = 500

Edits = dict[Path, list[dict[str, Any]]]


def read_edits(answer: Any) -> Edits:
    """The edits of each file. Raises `LanguageServerFailed` for what is more than edits of texts."""
    if not isinstance(answer, dict):
        raise LanguageServerFailed("knows no edit for this")
    found: Edits = {}
    changes = answer.get("documentChanges")
    if isinstance(changes, list) and changes:
        for change in changes:
            if not isinstance(change, dict) or "kind" in change:
                raise LanguageServerFailed("wants to create, move or remove files, which is not done for it")
            document = change.get("textDocument")
            _add(found, document.get("uri") if isinstance(document, dict) else None, change.get("edits"))
    elif isinstance(answer.get("changes"), dict):
        for uri, edits in answer["changes"].items():
            _add(found, uri, edits)
    if len(found) > MAX_FILES:
        raise LanguageServerFailed(f"wants to change {len(found)} files; the limit is {MAX_FILES}")
    return {path: edits for path, edits in found.items() if edits}


def apply(text: str, edits: list[dict[str, Any]], encoding: Encoding, *, expects: str = "") -> str:
    """The text with all edits, which must not overlap. What they replace has to hold `expects`: a server that knows
    another state of the file would change the wrong place. Raises `LanguageServerFailed`."""
    lookup = Text(text, encoding)
    spans = []
    for order, edit in enumerate(edits):
        area = edit.get("range")
        new = edit.get("newText")
        if not isinstance(area, dict) or not isinstance(new, str):
            raise LanguageServerFailed("sent an edit that cannot be understood")
        start, end = lookup.offset(area.get("start")), lookup.offset(area.get("end"))
        if end < start:
            raise LanguageServerFailed("sent an edit that ends before it begins")
        if expects and end > start and expects not in text[start:end]:
            raise LanguageServerFailed("knows another state of the file; lsp_restart makes it read it again")
        spans.append((start, order, end, new))
    parts: list[str] = []
    position = 0
    for start, _, end, new in sorted(spans):
        if start < position:
            raise LanguageServerFailed("sent edits that overlap")
        parts += (text[position:start], new)
        position = end
    return "".join([*parts, text[position:]])


def _add(found: Edits, uri: Any, edits: Any) -> None:
    path = path_of(uri)
    if path is None or not isinstance(edits, list):
        raise LanguageServerFailed("sent an edit of something that is no file")
    found.setdefault(path, []).extend(edit for edit in edits if isinstance(edit, dict))
