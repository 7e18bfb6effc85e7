"""What a conversation is made of, as every vendor wants it: sound arguments, files with a name."""

from __future__ import annotations

import base64
import re

import msgspec

from bullpen.schema.message import Binary, ToolResult

_NOT_IN_IDS = re.compile(r"[^a-zA-Z0-9_-]")


def arguments_of(text: str) -> str:
    """Arguments that hosts accept: many refuse a whole conversation for one call that is not an object."""
    try:
        msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeError):
        return "{}"
    return text


def sound_id(call_id: str) -> str:
    """The id of a call without characters that some vendor refuses: a conversation may go on with another's model."""
    return _NOT_IN_IDS.sub("_", call_id)


def media_of(result: ToolResult) -> list[Binary]:
    """The picture or document in a tool result; what is not base64 is left out."""
    if not result.data:
        return []
    try:
        data = base64.b64decode(result.data, validate=True)
    except ValueError:
        return []
    return [Binary(path=result.name, mime_type=result.mime_type, data=data)]


def base64_of(file: Binary) -> str:
    return base64.b64encode(file.data).decode()


def name_of(file: Binary) -> str:
    return file.path.rpartition("/")[2] or "file"


def unshown(file: Binary) -> str:
    """What a model is told of a file that it cannot be shown."""
    return f"[{name_of(file)}, {file.mime_type}, cannot be shown to this model]"
