"""Ask servers what they make of a file, for a limited time.

A server that can be asked is asked. One that only publishes is waited for until it has spoken about the present version and
is quiet for a moment; about a file that was and is clean some do not speak again, so there silence is an answer too.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import anyio

from bullpen.errors import LanguageServerFailed
from bullpen.lsp import diagnostics
from bullpen.lsp.capabilities import DEFINITION, DIAGNOSTIC
from bullpen.lsp.client import Client
from bullpen.lsp.diagnostics import Found
from bullpen.lsp.documents import Document, uri_of
from bullpen.lsp.known import language_of

OTHERS = 8
"""How many other open files are asked about after a change: callers of what was changed are often among them."""

ASK_S = 30.0
"""One question; past this a server is stuck."""


class Baseline(NamedTuple):
    """What a server said before a change, and of which text of the file; without a text it did not know the file."""

    found: Found
    text: str | None


class Patience(NamedTuple):
    """How long a server is waited for: in all, when it says nothing more about a file that it knows, and after its last word:
    it publishes in steps, syntax before types and one file after the other."""

    whole_s: float
    silence_s: float
    quiet_s: float = 0.3


async def check(client: Client, path: Path, text: str, patience: Patience, *, anew: bool = False) -> bool:
    """Tell a server the present text of a file and hear what it says. Gives back whether it spoke in time. What it said of
    this text already counts, unless it is to be asked `anew`.

    Raises `LanguageServerFailed` when it is gone.
    """
    uri = uri_of(path)
    heard = client.complaints.pushes(uri)
    old = client.documents.get(uri)
    version = old.version if old is not None else 0
    document = client.documents.tell(uri, language_of(path.name), text)
    is_known = document.version == version and client.complaints.is_about(uri, version)
    if is_known and not (anew and client.can(DIAGNOSTIC)):
        return True
    with anyio.move_on_after(patience.whole_s):
        return await _hear(client, document, heard, patience)
    return False


def baseline(client: Client, path: Path) -> Baseline:
    document = client.documents.get(uri_of(path))
    is_known = document is not None and client.complaints.has(document.uri)
    return Baseline(complaints_of(client), document.text if document is not None and is_known else None)


def complaints_of(client: Client) -> Found:
    """All that a server complains about now."""
    texts = {uri: d.text for uri in client.documents.uris() if (d := client.documents.get(uri)) is not None}
    return diagnostics.collect(client.name, client.complaints.by_uri(), texts, client.encoding)


async def _hear(client: Client, document: Document, heard: int, patience: Patience) -> bool:
    uri = document.uri
    was_known = client.complaints.has(uri)
    was_clean = was_known and not client.complaints.of(uri)
    has_spoken = False
    if was_clean and not client.can(DIAGNOSTIC):
        await _let_it_catch_up(client, document)
    while not client.can(DIAGNOSTIC):
        is_heard = client.complaints.pushes(uri) > heard or (has_spoken and was_clean)
        limit_s = patience.silence_s if was_known else math.inf
        has_spoken = await _word_within(client, patience.quiet_s if is_heard else limit_s)
        if not has_spoken:
            if was_clean:
                client.complaints.agree(uri, document.version)
            return is_heard or was_clean
    return await _ask(client, document)


async def _let_it_catch_up(client: Client, document: Document) -> None:
    """Its silence only tells something once it has come as far as the change; a question that needs it shows that it has."""
    if not client.can(DEFINITION):
        return
    start = {"textDocument": {"uri": document.uri}, "position": {"line": 0, "character": 0}}
    try:
        await client.request(DEFINITION, start, timeout_s=ASK_S)
    except LanguageServerFailed as exc:
        if exc.is_lost:
            raise


async def _word_within(client: Client, seconds: float) -> bool:
    """Whether the server says something about any file, or can be asked from now on."""
    if client.lost.is_set():
        raise LanguageServerFailed("is gone", server=client.name, is_lost=True)
    with anyio.move_on_after(seconds):
        await client.next_word()
        return True
    return False


async def _ask(client: Client, document: Document) -> bool:
    """Again as long as it says that it knows more by now. Whoever waits sets the limit of time."""
    refreshes = -1
    try:
        while client.refreshes != refreshes:
            refreshes = client.refreshes
            await client.pull(document, timeout_s=ASK_S)
        others = [uri for uri in reversed(client.documents.uris()) if uri != document.uri][:OTHERS]
        for uri in others if client.looks_across_files else ():
            other = client.documents.get(uri)
            if other is not None:
                await client.pull(other, timeout_s=ASK_S)
    except LanguageServerFailed as exc:
        if exc.is_lost:
            raise
        return False
    return True
