"""How large a turn of a conversation is: as text that a model reads, and as something kept in memory."""

from __future__ import annotations

from bullpen.providers.base import AssistantTurn, ToolTurn, Turn, UserTurn

BYTES_PER_TOKEN = 4
PICTURE_CHARS = 4_000

TURN_CHARS = 400
"""What a turn costs in memory beside its text, roughly."""


def tokens(size: int) -> int:
    """Four bytes of text are about a token; what is begun counts."""
    return -(-size // BYTES_PER_TOKEN)


def read_chars(turn: Turn) -> int:
    """What a model reads of it; a picture counts like a page."""
    match turn:
        case UserTurn(files=files):
            return _text_chars(turn) + len(files) * PICTURE_CHARS
        case ToolTurn(result=result):
            return _text_chars(turn) + (PICTURE_CHARS if result.data else 0)
        case AssistantTurn():
            return _text_chars(turn)


def kept_chars(turn: Turn) -> int:
    """What it takes of memory."""
    beside = TURN_CHARS + _text_chars(turn)
    match turn:
        case UserTurn(files=files):
            return beside + sum(len(file.data) for file in files)
        case ToolTurn(result=result):
            return beside + len(result.data)
        case AssistantTurn(native=native):
            return beside + (len(native.content) if native is not None else 0)


def _text_chars(turn: Turn) -> int:
    match turn:
        case UserTurn(text=text):
            return len(text)
        case AssistantTurn(text=text, reasoning=reasoning, tool_calls=calls):
            return len(text) + len(reasoning) + sum(len(call.input) + len(call.name) for call in calls)
        case ToolTurn(result=result):
            return len(result.content)
