"""What servers complain about, put into words for a model: what a change did, what is wrong with a file, or all of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from bullpen.lsp.checking import Baseline
from bullpen.lsp.diagnostics import STILL, WARNING, Complaint, Found, Shift, counted, fresh, listed

FILE, PROJECT, FIXED = "file_diagnostics", "project_diagnostics", "fixed_diagnostics"


def after_change(
    path: Path,
    root: Path,
    text: str,
    before: Mapping[str, Baseline],
    after: Mapping[str, Found],
    silent: Sequence[str],
) -> str:
    """What a change of a file did: complaints that are new, those that are gone, and what there is now.

    `after` holds what each server says that has spoken of the new text, `silent` the names of the others. Of a server that
    did not know the file before, nobody can tell what is new in it: all it says is listed.
    """
    here: list[Complaint] = []
    elsewhere: list[Complaint] = []
    gone: list[Complaint] = []
    for server, now in after.items():
        known = before.get(server)
        then = known.found if known is not None else {}
        old, new = _serious(then, path), _serious(now, path)
        shift = Shift.between(known.text, text) if known is not None and known.text is not None else STILL
        here += fresh(old, new, shift)
        gone += fresh(new, old)
        for other in (now.keys() | then.keys()) - {path} if known is not None else ():
            old, new = _serious(then, other), _serious(now, other)
            elsewhere += fresh(old, new)
            gone += fresh(new, old)
    summary = []
    if after:
        is_compared = all(name in before and before[name].text is not None for name in after)
        new_ones = f"{len(here) + len(elsewhere)} new, {len(gone)} fixed. " if is_compared else ""
        left = [c for now in after.values() for c in _serious(now, path)]
        summary.append(
            f"{'By this change: ' if new_ones else ''}{new_ones}Now in this file: {counted(left)}."
        )
    if silent:
        summary.append(f"No answer yet from {', '.join(silent)}; lsp_diagnostics shows what comes.")
    if not summary:
        return ""
    return "\n" + "\n".join(
        [
            *listed(FILE, here, root),
            *listed(PROJECT, elsewhere, root),
            *listed(FIXED, gone, root),
            *_summary(summary),
        ]
    )


def after_view(path: Path, root: Path, found: Found) -> str:
    """What is wrong with a file; nothing when nothing is."""
    lines = listed(FILE, _serious(found, path), root)
    return "\n" + "\n".join(lines) if lines else ""


def in_full(path: Path | None, root: Path, found: Found, silent: Sequence[str]) -> str:
    """All complaints: of the file, of the rest, and how many there are."""
    here = found.get(path, []) if path is not None else []
    rest = sorted(
        (c for other, all_ in found.items() if other != path for c in all_),
        key=lambda c: (c.severity, c.path, c.line),
    )
    summary = [f"Project: {counted([*here, *rest])}."]
    if path is not None:
        summary.insert(0, f"Current file: {counted(here)}.")
    if silent:
        summary.append(f"No answer yet from {', '.join(silent)}; ask again in a moment.")
    return "\n".join([*listed(FILE, here, root), *listed(PROJECT, rest, root), *_summary(summary)])


def _summary(lines: Sequence[str]) -> list[str]:
    return ["<diagnostic_summary>", *lines, "</diagnostic_summary>"]


def _serious(found: Found, path: Path) -> list[Complaint]:
    """Errors and warnings; hints and remarks would drown them."""
    return [c for c in found.get(path, ()) if c.severity <= WARNING]
