"""A long prompt, written in a person's own editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported

from bullpen.errors import BadRequest


def edited(app: App[Any], text: str, program: str, env: Mapping[str, str] = os.environ) -> str:
    """The text as the person leaves it; the screen is theirs meanwhile. Raises `BadRequest` when that cannot be."""
    command = _command(program or env.get("VISUAL") or env.get("EDITOR") or "")
    with tempfile.TemporaryDirectory(prefix="bullpen-") as directory:
        file = Path(directory, "prompt.md")
        file.write_text(text, encoding="utf-8")
        try:
            with app.suspend():
                status = subprocess.run([*command, str(file)], check=False).returncode
        except SuspendNotSupported as exc:
            raise BadRequest("this terminal cannot be lent to another program") from exc
        except OSError as exc:
            raise BadRequest(f"{command[0]} cannot be started: {exc.strerror}") from exc
        if status:
            raise BadRequest(f"{command[0]} ended with status {status}; the text is as it was")
        try:
            # Editors end a file with a line feed; nobody typed it.
            return file.read_text(encoding="utf-8").removesuffix("\n")
        except (OSError, UnicodeDecodeError) as exc:
            raise BadRequest(f"what {command[0]} wrote cannot be read: {exc}") from exc


def _command(program: str) -> list[str]:
    try:
        words = shlex.split(program)
    except ValueError as exc:
        raise BadRequest(f"the editor's command cannot be understood: {exc}") from exc
    if not words:
        raise BadRequest('no editor is set; $VISUAL, $EDITOR or "editor" in terminal.json name one')
    return words
