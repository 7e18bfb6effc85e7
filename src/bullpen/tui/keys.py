"""Every key of the main screen and of what stands on it."""

from __future__ import annotations

from bullpen.tui import keymap
from bullpen.tui.editor import keys as editor
from bullpen.tui.transcript import keys as transcript

ALL_KEYS = (*keymap.KEYS, *editor.KEYS, *transcript.KEYS)
