"""Gives lines that a model wrote the indentation of the file they go into."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def fitted(new: str, wanted: Sequence[str], there: Sequence[str], file: Sequence[str]) -> str:
    """The new text, indented as the file is.

    `wanted` are the lines that the model thought were there, `there` those that are. Where one is the other with
    something before it, so is the new text. Else depths are counted: in units of the model's text on one side, of the
    file's on the other, and moved by as much as the first lines differ.
    """
    pairs = [(_indent(one), _indent(other)) for one, other in zip(wanted, there, strict=True) if one.strip()]
    lines = new.split("\n")
    added = _added(pairs)
    if added is not None:
        return "\n".join(added + line if line.strip() else line for line in lines)
    removed = _added([(other, one) for one, other in pairs])
    if removed is not None:
        return "\n".join(line.removeprefix(removed) for line in lines)
    theirs = _unit([*wanted, *lines]) or _unit(file)
    ours = _unit(file) or theirs
    shift = _depth(pairs[0][1], ours)[0] - _depth(pairs[0][0], theirs)[0]
    return "\n".join(_moved(line, theirs, ours, shift) if line.strip() else line for line in lines)


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _added(pairs: Iterable[tuple[str, str]]) -> str | None:
    """What stands before every indentation of the one side on the other, if it is the same for all."""
    added = {
        other[: len(other) - len(one)] if other.endswith(one) and len(other) >= len(one) else None
        for one, other in pairs
    }
    return added.pop() if len(added) == 1 else None


def _unit(lines: Iterable[str]) -> str:
    """A tab if any line begins with one, else the smallest indentation by blanks; nothing where there is none."""
    indents = {_indent(line) for line in lines if line.strip()} - {""}
    if any(indent.startswith("\t") for indent in indents):
        return "\t"
    return min(indents, key=len, default="")


def _depth(indent: str, unit: str) -> tuple[int, int]:
    """How many units deep, and how many blanks beyond that."""
    tabs, blanks = indent.count("\t"), indent.count(" ")
    if unit in {"", "\t"}:
        return tabs, blanks
    depth, rest = divmod(blanks, len(unit))
    return tabs + depth, rest


def _moved(line: str, theirs: str, ours: str, shift: int) -> str:
    indent = _indent(line)
    depth, rest = _depth(indent, theirs)
    return ours * max(depth + shift, 0) + " " * rest + line[len(indent) :]
