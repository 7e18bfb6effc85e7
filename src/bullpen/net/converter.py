"""Makes Markdown or plain text of an HTML page: a program of its own, which `pages` starts with the page as its input.

The library holds the interpreter for as long as it works and can be kept busy, or brought down, by a page made for
that. Here it disturbs nobody: the system ends it when it has used up its time or its memory.
"""

from __future__ import annotations

import re
import resource
import sys

CPU_S = 20
MEMORY_BYTES = 1 << 30
MAX_BYTES = 1_000_000
"""What comes out: more than a model can read, and less than is kept of a program's output."""

WAS_CUT = 3
"""The exit code when there was more."""

NOT_CONTENT = ("script", "style", "noscript", "template", "iframe", "svg")
AROUND_CONTENT = ("nav", "header", "footer", "aside")

_INLINE_DATA = re.compile(r"data:[a-z]+/[a-z0-9.+-]+;base64,[A-Za-z0-9+/=%]+")


def main() -> None:
    """Arguments: `markdown` or `text`, and `whole` or `content` for a page without what stands around its content."""
    form, part = sys.argv[1:3]
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    page = _INLINE_DATA.sub("data:", sys.stdin.buffer.read().decode("utf-8", "replace"))
    text = _convert(page, form, NOT_CONTENT if part == "whole" else NOT_CONTENT + AROUND_CONTENT).encode()
    sys.stdout.buffer.write(text[:MAX_BYTES])
    sys.stdout.flush()
    sys.exit(WAS_CUT if len(text) > MAX_BYTES else 0)


def _convert(page: str, form: str, without: tuple[str, ...]) -> str:
    from html_to_markdown import ConversionOptions, PreprocessingOptions, convert  # noqa: PLC0415  # Limits come first.

    options = ConversionOptions(
        extract_metadata=False,
        output_format="plain" if form == "text" else "markdown",
        preprocessing=PreprocessingOptions(enabled=False),
        exclude_selectors=list(without),
    )
    return convert(page, options).content or ""


if __name__ == "__main__":
    main()
