"""What a file is, by its content: names lie."""

from __future__ import annotations


def image_type(content: bytes) -> str:
    """The MIME type of a picture that models can see; empty for anything else."""
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if content.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if content.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return ""


def media_type(content: bytes) -> str:
    """The MIME type of what can be shown to a model: a picture, a PDF, text in UTF-8; empty for anything else."""
    if found := image_type(content):
        return found
    if content.startswith(b"%PDF-"):
        return "application/pdf"
    if b"\0" in content:
        return ""
    try:
        content.decode()
    except UnicodeDecodeError:
        return ""
    return "text/plain"
