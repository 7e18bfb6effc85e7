"""What a sub-agent is sent to the web with: a folder for its pages, and the addresses that it may visit without asking.

Whoever sent it was shown the prompt and the address. Beyond these it may go, unasked, to addresses that came from outside exactly as they
stand: what a search found, and what the pages that it read link to. Such an address cannot carry anything of ours, because nobody
here wrote it. One that the sub-agent has put together itself is asked about like any other.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import msgspec

from bullpen.config.agents import SubAgent
from bullpen.net import urls
from bullpen.net.urls import Url, UrlRefused
from bullpen.system.files import private

INLINE_BYTES = 50_000
"""A page up to this size is shown whole; a larger one is laid down as a file and searched there."""

MAX_LINKS = 2000
MAX_KNOWN = 20_000

_LINK = re.compile(r"\]\(<?([^\s()<>]{1,2000})")


class Errand(msgspec.Struct, frozen=True, kw_only=True):
    """`known` are the addresses that came from outside."""

    agent: SubAgent
    directory: Path
    known: set[str] = msgspec.field(default_factory=set)

    def knows(self, url: Url) -> bool:
        return str(url) in self.known

    def learn(self, *addresses: str) -> None:
        """From a search, or from the person who agreed."""
        self.known.update(itertools.islice(addresses, max(0, MAX_KNOWN - len(self.known))))

    def learn_links(self, page: Url, text: str) -> None:
        """The addresses that a page links to, from its Markdown."""
        found: list[str] = []
        for link in itertools.islice(_LINK.finditer(text), MAX_LINKS):
            try:
                found.append(str(urls.follow(page, link[1])))
            except UrlRefused:
                continue
        self.learn(*found)

    def lay_down(self, text: str) -> Path:
        """Keep a page as a file of the sub-agent's own folder. Blocking."""
        for number in itertools.count(1):
            path = self.directory / f"page-{number}.md"
            try:
                with open(path, "x", encoding="utf-8", errors="replace", opener=private) as file:
                    file.write(text)
            except FileExistsError:
                continue
            return path
        raise AssertionError
