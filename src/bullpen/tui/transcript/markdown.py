"""Markdown into strips, block by block.

Text that grows is rendered anew only from its last block on: once a block has begun, those before it do not change any more.
Headings have no boxes, links are shown with their address, HTML is text. What would take a parser more than linear time is
shown as it was written.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from pygments.lexer import Lexer
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from bullpen.present.inert import inert
from bullpen.tui.transcript import code
from bullpen.tui.transcript.flow import Run, blank, strip, strips
from bullpen.tui.transcript.palette import Palette
from bullpen.tui.transcript.table import table

WIDEST = 120
"""Longer rows are hard to read."""

MAX_BLOCK = 20_000
"""A block of more characters is shown as it was written, and so is one with more of the signs that open something."""
MAX_SIGNS = 1_500

FENCE_STEP = 40
"""A fence that grows is coloured in pieces of so many lines; when it has ended, as a whole."""

BULLETS = "•◦▪"

MAX_SPLIT = 200_000
"""A longer text is cut into blocks at its blank lines."""

_ITEM = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)]) ")

_parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
_splitter = MarkdownIt("commonmark", {"html": False}).enable(["table"])
_splitter.core.ruler.enableOnly(["normalize", "block"])


class Markdown:
    """One text at one width. It may be told a longer one any number of times."""

    def __init__(self, width: int, palette: Palette, indent: int = 2) -> None:
        self._width = width
        self._palette = palette
        self._indent = indent
        self._was_open = False
        self._settled = ""
        self._strips: list[Strip] = []
        self._pieces: dict[str, list[Strip]] = {}
        """Of a fence that grows, what is coloured already."""

    def strips(self, text: str, *, is_open: bool = False) -> list[Strip]:
        """All rows of the text; `is_open` while more of it may come."""
        text = inert(text).strip("\n")
        if not text.startswith(self._settled) or (self._was_open and not is_open):
            # What was drawn in pieces while it grew is drawn as a whole in the end.
            self._settled, self._strips = "", []
        self._was_open = is_open
        *whole, last = split(text[len(self._settled) :], by_item=is_open) or [""]
        for block in whole:
            self._strips += self._drawn(block, is_open=False)
            self._settled += block
        return self._strips + self._drawn(last, is_open=is_open)

    def _drawn(self, block: str, *, is_open: bool) -> list[Strip]:
        if not block.strip():
            return []
        drawing = _Drawing(self._width, self._palette, self._indent, self._pieces if is_open else None)
        drawing.block(block)
        is_joined = _is_item(block) and _is_item(self._settled.rpartition("\n\n")[2])
        gap = [blank(self._width, self._palette.text)] if self._strips and not is_joined else []
        return gap + drawing.strips


def split(text: str, *, by_item: bool = False) -> list[str]:
    """The top-level blocks as they are written, in order; joined they are the text again. `by_item` also cuts a list at the end before
    its last item, which may still grow."""
    lines = text.splitlines(keepends=True)
    if len(text) > MAX_SPLIT:
        return _paragraphs(lines)
    tokens = _splitter.parse(text)
    starts = [token.map[0] for token in tokens if token.level == 0 and token.map and token.nesting >= 0]
    if by_item and tokens and tokens[-1].type in ("bullet_list_close", "ordered_list_close"):
        starts += [
            token.map[0]
            for token in tokens
            if token.type == "list_item_open" and token.level == 1 and token.map and token.map[0] > starts[-1]
        ][-1:]
    bounds = [0, *starts[1:], len(lines)]
    return ["".join(lines[start:end]) for start, end in itertools.pairwise(bounds)]


def _is_item(block: str) -> bool:
    """Whether a text is a list that was cut."""
    return _ITEM.match(block) is not None


def _paragraphs(lines: Sequence[str]) -> list[str]:
    """What is too much for the parser at once, cut at blank lines."""
    blocks = [""]
    for line in lines:
        if (blocks[-1] and not blocks[-1].endswith("\n\n")) or not line.strip():
            blocks[-1] += line
        else:
            blocks.append(line)
    return blocks


class _Drawing:
    """The strips of one block. A prefix has a form for its first row and one for all others."""

    def __init__(
        self, width: int, palette: Palette, indent: int, pieces: dict[str, list[Strip]] | None
    ) -> None:
        self.strips: list[Strip] = []
        self._width = width
        self._palette = palette
        self._pieces = pieces
        gap = (" " * indent, palette.text)
        self._prefixes: list[tuple[Run, Run]] = [(gap, gap)]
        self._depth = 0

    def block(self, source: str) -> None:
        signs = sum(map(source.count, "[]*_`<!&\\|"))
        if len(source) > MAX_BLOCK or signs > MAX_SIGNS:
            self._rows([(source.rstrip("\n"), self._palette.text)])
            return
        for node in SyntaxTreeNode(_parser.parse(source)).children:
            self._node(node, source)

    def _node(self, node: SyntaxTreeNode, source: str) -> None:
        palette = self._palette
        match node.type:
            case "heading":
                self._rows(self._inline(node.children, palette.heading))
            case "paragraph":
                self._rows(self._inline(node.children, self._ink))
            case "bullet_list" | "ordered_list":
                self._list(node, source)
            case "blockquote":
                bar = ("▎ ", palette.faint)
                self._within((bar, bar), node.children, source)
            case "fence" | "code_block":
                self._fence(node.content, node.info)
            case "hr":
                self._rows([("─" * max(self._room, 1), palette.faint)])
            case "table":
                self._table(node, source)
            case _:
                self._rows([(node.content, self._ink)])

    @property
    def _ink(self) -> Style:
        return self._palette.text

    @property
    def _room(self) -> int:
        used = sum(len(first[0]) for first, _ in self._prefixes)
        return min(self._width, WIDEST) - used

    def _rows(self, runs: Sequence[Run]) -> None:
        """Wrapped rows behind the prefixes, whose first form is used up by this."""
        room = max(self._room, 8)
        first = [head for head, _ in self._prefixes]
        rest = [tail for _, tail in self._prefixes]
        rows = strips(runs, room, self._palette.text)
        for row in rows:
            self._put(first, row)
            first = rest
        self._prefixes = [(tail, tail) for _, tail in self._prefixes]

    def _put(self, prefix: Sequence[Run], row: Strip) -> None:
        self.strips.append(strip([*(Segment(*run) for run in prefix), *row], self._width, self._palette.text))

    def _within(self, prefix: tuple[Run, Run], nodes: Sequence[SyntaxTreeNode], source: str) -> None:
        self._prefixes.append(prefix)
        for number, node in enumerate(nodes):
            if number and node.type not in ("bullet_list", "ordered_list"):
                self._rows([("", self._palette.text)])
            self._node(node, source)
        self._prefixes.pop()

    def _list(self, node: SyntaxTreeNode, source: str) -> None:
        number = int(node.attrs.get("start", 1) or 1) if node.type == "ordered_list" else 0
        width = len(f"{number + len(node.children)}. ") if node.type == "ordered_list" else 2
        sign = BULLETS[self._depth % len(BULLETS)]
        self._depth += 1
        for item in node.children:
            mark = f"{number}. ".rjust(width) if node.type == "ordered_list" else f"{sign} "
            number += 1
            self._within(
                ((mark, self._palette.accent), (" " * width, self._palette.text)), item.children, source
            )
        self._depth -= 1

    def _fence(self, content: str, info: str) -> None:
        lexer = code.by_name(info.split(maxsplit=1)[0] if info.split() else "")
        lines = content.rstrip("\n").split("\n")
        if self._pieces is None or len(self._prefixes) > 1:
            self._coloured("\n".join(lines), lexer)
            return
        for start in range(0, len(lines), FENCE_STEP):
            piece = "\n".join(lines[start : start + FENCE_STEP])
            if piece not in self._pieces:
                at = len(self.strips)
                self._coloured(piece, lexer)
                if start + FENCE_STEP >= len(lines):
                    return
                self._pieces[piece] = self.strips[at:]
            else:
                self.strips += self._pieces[piece]

    def _coloured(self, text: str, lexer: Lexer | None) -> None:
        for runs in code.coloured(text, lexer, self._palette, self._palette.panel):
            self._panel(runs)

    def _panel(self, runs: Sequence[Run]) -> None:
        room = max(self._room, 8)
        pad = (" ", self._palette.panel)
        prefix = [tail for _, tail in self._prefixes]
        for row in strips(
            runs or [("", self._palette.panel)], room, self._palette.panel, first=[pad], at="anywhere"
        ):
            self._put(prefix, row)

    def _table(self, node: SyntaxTreeNode, source: str) -> None:
        rows = [
            [
                self._inline(cell.children, self._palette.strong if part.type == "thead" else self._ink)
                for cell in row.children
            ]
            for part in node.children
            for row in part.children
        ]
        drawn = table(rows, max(self._room, 8), self._palette)
        if drawn is None:
            start, end = node.map or (0, 0)
            self._rows([("".join(source.splitlines(keepends=True)[start:end]).rstrip("\n"), self._ink)])
            return
        prefix = [tail for _, tail in self._prefixes]
        for row in drawn:
            self._put(prefix, row)

    def _inline(self, nodes: Sequence[SyntaxTreeNode], style: Style) -> list[Run]:
        return [run for node in nodes for run in self._spoken(node, style)]

    def _spoken(self, node: SyntaxTreeNode, style: Style) -> list[Run]:
        """The runs of an inline node in a style; what it holds is in that style, too."""
        match node.type:
            case "text":
                return [(node.content, style)]
            case "code_inline":
                return [(node.content, style + self._palette.code)]
            case "softbreak":
                return [(" ", style)]
            case "hardbreak":
                return [("\n", style)]
            case "strong":
                return self._inline(node.children, style + Style(bold=True))
            case "em":
                return self._inline(node.children, style + Style(italic=True))
            case "s":
                return self._inline(node.children, style + Style(strike=True))
            case "link":
                return self._link(
                    self._inline(node.children, style + self._palette.link), str(node.attrs["href"]), style
                )
            case "image":
                return self._link([(f"▣ {node.content}", style)], str(node.attrs["src"]), style)
            case _ if node.children:
                return self._inline(node.children, style)
            case _:
                return [(node.content, style)]

    def _link(self, shown: list[Run], address: str, style: Style) -> list[Run]:
        text = "".join(run[0] for run in shown)
        if text in (address, address.removeprefix("mailto:")):
            return shown
        return [*shown, (f" ({address})", style + self._palette.faint)]
