"""What the model is told before the conversation."""

from __future__ import annotations

from pathlib import Path

from bullpen.engine import prompt


def test_language_servers_are_told_of_where_there_are_some(tmp_path: Path) -> None:
    assert "<lsp>" in prompt.coder(tmp_path, context=[], skills=[], has_lsp=True)
    assert "<lsp>" not in prompt.coder(tmp_path, context=[], skills=[])
