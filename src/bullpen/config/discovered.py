"""What hosts said about their models when they were last asked. Remembered in the cache directory, so that nothing has to
be asked before a workspace can open.

A record belongs to one provider at one address: in two projects the same name may mean two hosts.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from bullpen.config.machine_file import replace_file
from bullpen.schema.agent import Model
from bullpen.schema.wire import Wire

NAME = "discovered.json"

KEPT = 8
"""How many addresses are remembered of one provider."""


class Found(Wire, frozen=True, kw_only=True):
    """The models of a provider, or why they are not known. `at` is the time of the answer."""

    base_url: str
    models: tuple[Model, ...] = ()
    error: str = ""
    at: int = 0


def read(cache_dir: Path) -> dict[tuple[str, str], Found]:
    """What is remembered, by provider and address. A file that cannot be read is as good as none."""
    try:
        lists = msgspec.json.decode((cache_dir / NAME).read_bytes(), type=dict[str, tuple[Found, ...]])
    except (OSError, msgspec.MsgspecError, UnicodeError):
        return {}
    return {(name, found.base_url): found for name, all_found in lists.items() for found in all_found}


def remember(cache_dir: Path, answers: Mapping[str, Found]) -> bool:
    """Add to what is remembered; whether anything was news.

    An error does not displace models that the same address had before: a server that is switched off now may be back when
    it is needed."""
    known = read(cache_dir)
    said = {(name, answer.base_url): answer for name, answer in answers.items()}
    news = {at: answer for at, answer in said.items() if _is_news(known.get(at), answer)}
    if news:
        by_name: dict[str, list[Found]] = {}
        for (name, _), found in (known | news).items():
            by_name.setdefault(name, []).append(found)
        newest = {name: sorted(found, key=lambda f: f.at)[-KEPT:] for name, found in by_name.items()}
        cache_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(cache_dir / NAME, msgspec.json.encode(newest))
    return bool(news)


def _is_news(before: Found | None, answer: Found) -> bool:
    if before is None or (answer.error and before.models):
        return before is None
    return (before.models, before.error) != (answer.models, answer.error)
