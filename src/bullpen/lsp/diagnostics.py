"""What servers complain about: kept by document, compared with what they said before, and worded for a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bullpen.lsp.documents import path_of
from bullpen.lsp.positions import Encoding, Text, lines_of, number_at

MAX_PER_FILE = 500
MAX_FILES = 2_000
MAX_IN_ALL = 10_000
MAX_BYTES = 4_000
MAX_NESTED = 200
MAX_URI = 8_000
"""What is kept of one server's complaints, and of each. Nobody reads more, and a server that goes wrong may send without end."""

SHOWN = 10
"""Of the file, and again of the rest of the project: enough to act on."""

MAX_MESSAGE = 600

ERROR, WARNING = 1, 2
SEVERITIES = {1: "Error", 2: "Warning", 3: "Info", 4: "Hint"}
TAGS = {1: "unnecessary", 2: "deprecated"}

_PULLED, _PUSHED = "pulled", "pushed"

_encoder = msgspec.json.Encoder()


class Complaints:
    """All that one server complains about, by URI. A server may publish one part and be asked for another."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, list[dict[str, Any]]]] = {}
        self._pushes: Counter[str] = Counter()
        self._versions: dict[str, int] = {}
        self._count = 0

    def push(self, uri: str, items: Any, version: int) -> bool:
        """What the server published. The version is that of the open document, 0 for one that is not open. Gives back
        whether that is something else than before."""
        is_new = self._keep(uri, _PUSHED, items, version)
        if uri in self._known:
            self._pushes[uri] += 1
        return is_new

    def pull(self, uri: str, items: Any, version: int) -> bool:
        """What the server answered when it was asked."""
        return self._keep(uri, _PULLED, items, version)

    def agree(self, uri: str, version: int) -> None:
        """The server has nothing to add to what it said of an earlier version."""
        if uri in self._known:
            self._versions[uri] = version

    def has(self, uri: str) -> bool:
        """Whether the server said anything about a document yet, and be it that all is well."""
        return uri in self._known

    def doubt(self) -> None:
        """The server knows more by now, so nothing of this may be true any more."""
        self._versions = dict.fromkeys(self._versions, -1)

    def is_about(self, uri: str, version: int) -> bool:
        """Whether what is kept was said about this version, or a later one."""
        return uri in self._known and self._versions[uri] >= version

    def pushes(self, uri: str) -> int:
        """How often the server has published something about a document."""
        return self._pushes[uri]

    def of(self, uri: str) -> list[dict[str, Any]]:
        return [item for items in self._known.get(uri, {}).values() for item in items]

    def by_uri(self) -> dict[str, list[dict[str, Any]]]:
        return {uri: found for uri in self._known if (found := self.of(uri))}

    def forget(self, uri: str) -> None:
        self._count -= sum(map(len, self._known.pop(uri, {}).values()))
        self._pushes.pop(uri, None)
        self._versions.pop(uri, None)

    def count(self) -> int:
        return self._count

    def _has_room(self, uri: str) -> bool:
        """Whether one more file can be known; one about which there is nothing to say makes room for it."""
        if len(self._known) >= MAX_FILES:
            clean = next((known for known in self._known if not self.of(known)), None)
            if clean is None:
                return False
            self.forget(clean)
        return len(uri) <= MAX_URI

    def _keep(self, uri: str, kind: str, items: Any, version: int) -> bool:
        if uri not in self._known and not self._has_room(uri):
            return False
        before = self._known.setdefault(uri, {}).get(kind, [])
        room = min(MAX_PER_FILE, MAX_IN_ALL - self._count + len(before))
        listed = items if isinstance(items, list) else []
        kept = [_slim(item) for item in listed[:room] if isinstance(item, dict)]
        self._known[uri][kind] = kept
        self._count += len(kept) - len(before)
        self._versions[uri] = version
        return kept != before


def _slim(item: dict[str, Any]) -> dict[str, Any]:
    """A complaint without what only editors need, and without what makes it too large."""
    found = {key: value for key, value in item.items() if key != "data"}
    encoded = _encoder.encode(found)
    if len(encoded) <= MAX_BYTES and encoded.count(b"[") + encoded.count(b"{") <= MAX_NESTED:
        return found
    message = item.get("message")
    return {
        "range": {"start": {key: number_at(_start(item), key) for key in ("line", "character")}},
        "severity": item.get("severity") if isinstance(item.get("severity"), int) else ERROR,
        "message": message[:MAX_MESSAGE] if isinstance(message, str) else "",
    }


def _start(item: Mapping[str, Any]) -> Any:
    where = item.get("range")
    return where.get("start") if isinstance(where, dict) else None


class Complaint(NamedTuple):
    """One complaint, with a place that people can go to: line and column count from 1."""

    path: Path
    line: int
    column: int
    severity: int
    server: str
    source: str
    code: str
    tags: tuple[str, ...]
    message: str

    @property
    def gist(self) -> tuple[Any, ...]:
        """What stays the same when lines are put in before it."""
        return (self.path, self.severity, self.server, self.source, self.code, self.message)

    def words(self, root: Path) -> str:
        name = self.path.relative_to(root) if self.path.is_relative_to(root) else self.path
        source = f" {self.source}" if self.source and self.source.lower() != self.server.lower() else ""
        code = f" [{self.code}]" if self.code else ""
        tags = f" ({', '.join(self.tags)})" if self.tags else ""
        severity = SEVERITIES.get(self.severity, "Error")
        return (
            f"{severity}: {name}:{self.line}:{self.column} [{self.server}{source}]{code}{tags} {self.message}"
        )


Found = dict[Path, list[Complaint]]


def collect(
    server: str,
    by_uri: Mapping[str, Sequence[Mapping[str, Any]]],
    texts: Mapping[str, str],
    encoding: Encoding,
) -> Found:
    """Complaints by file, worst first and then by place. `texts` are those of open documents, by URI."""
    found: Found = {}
    for uri, items in by_uri.items():
        path = path_of(uri)
        if path is None:
            continue
        text = Text(texts[uri], encoding) if uri in texts else None
        found[path] = sorted(
            (_complaint(path, server, item, text) for item in items),
            key=lambda c: (c.severity, c.line, c.column),
        )
    return found


def merged(parts: Iterable[Found]) -> Found:
    """What several servers say, together."""
    whole: Found = {}
    for part in parts:
        for path, complaints in part.items():
            whole.setdefault(path, []).extend(complaints)
    return {path: sorted(all_, key=lambda c: (c.severity, c.line, c.column)) for path, all_ in whole.items()}


class Shift(NamedTuple):
    """How lines moved between two versions of a text: those below `start` stayed, those from `end` on moved by `by`."""

    start: int
    end: int
    by: int

    @classmethod
    def between(cls, before: str, after: str) -> Shift:
        old, new = lines_of(before), lines_of(after)
        limit = min(len(old), len(new))
        start = next((i for i in range(limit) if old[i] != new[i]), limit)
        tail = next((i for i in range(limit - start) if old[-1 - i] != new[-1 - i]), limit - start)
        return cls(start, len(old) - tail, len(new) - len(old))

    def moved(self, line: int) -> int | None:
        """Where a line of the old text (from 1) is now; None when it was among those that changed."""
        if line <= self.start:
            return line
        return line + self.by if line > self.end else None


STILL = Shift(1 << 31, 1 << 31, 0)
"""Nothing moved."""


def fresh(before: Sequence[Complaint], after: Sequence[Complaint], shift: Shift = STILL) -> list[Complaint]:
    """Those of `after` that were not there `before`, wherever the lines went meanwhile.

    First each goes with the one that stood at its place, then with any other that says the same; so when there is
    one more of a kind, the one at the changed place counts as the new one.
    """
    at_place = Counter((*c.gist, shift.moved(c.line)) for c in before)
    anywhere: Counter[tuple[Any, ...]] = Counter()
    rest: list[Complaint] = []
    for complaint in after:
        key = (*complaint.gist, complaint.line)
        if at_place[key]:
            at_place[key] -= 1
        else:
            rest.append(complaint)
    for key, count in at_place.items():
        anywhere[key[:-1]] += count
    new = []
    for complaint in rest:
        if anywhere[complaint.gist]:
            anywhere[complaint.gist] -= 1
        else:
            new.append(complaint)
    return new


def listed(tag: str, complaints: Sequence[Complaint], root: Path) -> list[str]:
    """A block of at most SHOWN complaints, in lines; nothing when there are none."""
    if not complaints:
        return []
    lines = [complaint.words(root) for complaint in complaints[:SHOWN]]
    if len(complaints) > SHOWN:
        lines.append(f"… and {len(complaints) - SHOWN} more")
    return [f"<{tag}>", *lines, f"</{tag}>"]


def counted(complaints: Iterable[Complaint]) -> str:
    """How many errors and warnings there are."""
    kinds = Counter(complaint.severity for complaint in complaints)
    return f"{_plural(kinds[ERROR], 'error')}, {_plural(kinds[WARNING], 'warning')}"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _complaint(path: Path, server: str, item: Mapping[str, Any], text: Text | None) -> Complaint:
    start = _start(item)
    line, column = number_at(start, "line"), number_at(start, "character")
    if text is not None:
        line, column = text.from_wire(start)
    severity = item.get("severity")
    message, code, source = item.get("message"), item.get("code"), item.get("source")
    if isinstance(message, dict):
        message = message.get("value")
    if isinstance(code, dict):
        code = code.get("value")
    tags = item.get("tags")
    return Complaint(
        path=path,
        line=line + 1,
        column=column + 1,
        severity=severity if isinstance(severity, int) and severity in SEVERITIES else ERROR,
        server=server,
        source=one_line(source, 60) if isinstance(source, str) else "",
        code=one_line(str(code), 120) if isinstance(code, str | int) and not isinstance(code, bool) else "",
        tags=tuple(TAGS[tag] for tag in tags if isinstance(tag, int) and tag in TAGS)
        if isinstance(tags, list)
        else (),
        message=_one_paragraph(message if isinstance(message, str) else "(no message)"),
    )


def one_line(text: str, limit: int) -> str:
    """Words of a server that stand within a line of ours."""
    return " ".join(text[: 2 * limit].split())[:limit].replace("</", "‹/")


def _one_paragraph(message: str) -> str:
    """Further lines are indented, and no mark can be closed: a message must not look like something of ours."""
    text = "\n  ".join(line.strip() for line in message.strip().splitlines() if line.strip())
    text = text.replace("</", "‹/")
    return text if len(text) <= MAX_MESSAGE else text[:MAX_MESSAGE] + "…"
