"""A sheet to draw a chart on: text, bars and lines in named inks, written as SVG that is readable by day and by night.

An ink is a class of the style sheet with a colour for either scheme. The sheet has a ground of its own, so that the
chart stays readable where the page's scheme is not the one that the browser reports.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

FONT = "ui-sans-serif,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"


@dataclass(frozen=True)
class Ink:
    light: str
    dark: str


GROUND = Ink("#ffffff", "#0d1117")
FRAME = Ink("#d1d9e0", "#30363d")
GRID = Ink("#e4e8ec", "#21262d")

TEXTS = {"strong": Ink("#1f2328", "#f0f6fc"), "quiet": Ink("#59636e", "#9198a1")}
MARKS = {
    "ours": Ink("#0b6e64", "#2dd4bf"),
    "ours2": Ink("#2f9d90", "#178f82"),
    "reference": Ink("#57606a", "#b1bac4"),
    "peer": Ink("#87909a", "#6e7681"),
    "short": Ink("#cf222e", "#ff7b72"),
}
"""What a bar, a line or a dot can be: ours in one hue, everybody else in greys, red for a target that was missed."""


def style() -> str:
    day = rules("light")
    night = rules("dark")
    return (
        f"text{{font-family:{FONT};font-size:13px}}"
        ".title{font-size:17px;font-weight:600}.small{font-size:11.5px}.bold{font-weight:600}"
        ".hollow{fill:none;stroke-width:1.5;stroke-dasharray:3 2.5}"
        ".trace{fill:none;stroke-width:2.25;stroke-linejoin:round;stroke-linecap:round}"
        f"{day}@media(prefers-color-scheme:dark){{{night}}}"
    )


def rules(scheme: str) -> str:
    """The colours of one scheme, as rules for the classes that the sheet uses."""

    def colour(ink: Ink) -> str:
        return ink.light if scheme == "light" else ink.dark

    return "".join(
        [
            f".ground{{fill:{colour(GROUND)};stroke:{colour(FRAME)}}}",
            f".grid{{stroke:{colour(GRID)}}}",
            f".axis{{stroke:{colour(TEXTS['quiet'])}}}",
            *(f".{name}{{fill:{colour(ink)}}}" for name, ink in (TEXTS | MARKS).items()),
            *(
                f".hollow.{name},.trace.{name}{{fill:none;stroke:{colour(ink)}}}"
                for name, ink in MARKS.items()
            ),
        ]
    )


@dataclass(frozen=True)
class Aside:
    """What stands behind a text: less than a text of its own, more than a part of it."""

    words: str
    ink: str = "quiet"


class Sheet:
    def __init__(self, width: int, height: float, title: str, description: str) -> None:
        self.width = width
        self.height = height
        self._title = title
        self._description = description
        self._parts: list[str] = []

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *classes: str,
        anchor: str = "start",
        middle: bool = False,
        aside: Aside | None = None,
    ) -> None:
        """`middle`: y is where the middle of the letters lies, not their foot. `aside` stands behind, in its own ink."""
        ink = () if {*TEXTS, *MARKS}.intersection(classes) else ("strong",)
        place = f'x="{x:.1f}" y="{y:.1f}"' + (f' text-anchor="{anchor}"' if anchor != "start" else "")
        centre = ' dominant-baseline="central"' if middle else ""
        more = f'<tspan dx="10" class="{aside.ink}">{escape(aside.words)}</tspan>' if aside else ""
        self._parts.append(
            f'<text {place}{centre} class="{" ".join([*ink, *classes])}">{escape(words)}{more}</text>'
        )

    def bar(self, x: float, y: float, width: float, height: float, *classes: str) -> None:
        # A bar that would be too thin to see is drawn as a mark of two pixels.
        self._parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 2):.1f}" height="{height:.1f}" rx="2" class="{" ".join(classes)}"/>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, *classes: str) -> None:
        self._parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{" ".join(classes)}"/>'
        )

    def trace(self, points: Iterable[tuple[float, float]], *classes: str) -> None:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._parts.append(f'<polyline points="{path}" class="{" ".join(["trace", *classes])}"/>')

    def dot(self, x: float, y: float, radius: float, *classes: str) -> None:
        self._parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" class="{" ".join(classes)}"/>'
        )

    def render(self) -> str:
        width, height = self.width, f"{self.height:.0f}"
        size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title description">',
                f'<title id="title">{escape(self._title)}</title>',
                f'<desc id="description">{escape(self._description)}</desc>',
                f"<style>{style()}</style>",
                f'<rect x="0.5" y="0.5" width="{width - 1}" height="{self.height - 1:.0f}" rx="8" class="ground"/>',
                *self._parts,
                "</svg>\n",
            ]
        )
