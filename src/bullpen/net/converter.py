"""Makes Markdown or plain text of an HTML page, or takes the results out of a search engine's: a program of its own, which `pages` starts with the page as its input.

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

MAX_RESULTS = 100
MAX_WORDS = 2000

WAS_CUT = 3
"""The exit code when there was more."""

NOT_CONTENT = ("script", "style", "noscript", "template", "iframe", "svg")
AROUND_CONTENT = ("nav", "header", "footer", "aside")

_INLINE_DATA = re.compile(r"data:[a-z]+/[a-z0-9.+-]+;base64,[A-Za-z0-9+/=%]+")


def main() -> None:
    """Arguments: `markdown` or `text`, and `whole` or `content` for a page without what stands around its content; or `results`."""
    form, part = sys.argv[1:3]
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    page = _INLINE_DATA.sub("data:", sys.stdin.buffer.read().decode("utf-8", "replace"))
    if form == "results":
        sys.stdout.write(_results(page))
        sys.exit(0)
    text = _convert(page, form, NOT_CONTENT if part == "whole" else NOT_CONTENT + AROUND_CONTENT).encode()
    sys.stdout.buffer.write(text[:MAX_BYTES])
    sys.stdout.flush()
    sys.exit(WAS_CUT if len(text) > MAX_BYTES else 0)


def _convert(page: str, form: str, without: tuple[str, ...]) -> str:
    from html_to_markdown import ConversionOptions, PreprocessingOptions, convert

    options = ConversionOptions(
        extract_metadata=False,
        output_format="plain" if form == "text" else "markdown",
        preprocessing=PreprocessingOptions(enabled=False),
        exclude_selectors=list(without),
    )
    return convert(page, options).content or ""


def _results(page: str) -> str:
    """The links, titles and summaries of a page of DuckDuckGo, as JSON."""
    import json
    from html.parser import HTMLParser
    from urllib.parse import parse_qs, urlsplit

    class Reader(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.found: list[list[str]] = []
            self.into = -1

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            said = dict(attrs)
            classes = (said.get("class") or "").split()
            if tag == "a" and ("result-link" in classes or "result__a" in classes):
                self.found.append(["", target(said.get("href") or ""), ""])
                self.into = 0
            elif self.found and ("result-snippet" in classes or "result__snippet" in classes):
                self.into = 2

        def handle_endtag(self, tag: str) -> None:
            if tag in ("a", "td", "div"):
                self.into = -1

        def handle_data(self, data: str) -> None:
            if (
                self.into >= 0
                and len(self.found) <= MAX_RESULTS
                and len(self.found[-1][self.into]) < MAX_WORDS
            ):
                self.found[-1][self.into] += data[:MAX_WORDS]

    def target(link: str) -> str:
        """Where a link leads behind the engine's own redirect."""
        parts = urlsplit(link)
        behind = parse_qs(parts.query).get("uddg", [""])[0] if parts.path == "/l/" else ""
        return behind or link

    reader = Reader()
    reader.feed(page)
    reader.close()
    return json.dumps(reader.found[:MAX_RESULTS])


if __name__ == "__main__":
    main()
