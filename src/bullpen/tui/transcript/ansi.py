"""What programs print, with its colours in the theme's own. Everything else they would have a terminal do is left out.

Backgrounds, blinking and hiding are not taken over: what is printed must be readable, whatever a program wants.
"""

from __future__ import annotations

import colorsys
import re
from collections.abc import Iterator

from rich.style import Style

from bullpen.tui.transcript.flow import Run
from bullpen.tui.transcript.palette import Palette

_SEQUENCE = re.compile(
    "\x1b\\[(?P<sgr>[0-9;:]{0,64})m"  # colours
    "|(?:\x1b\\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]"  # all other control sequences
    "|(?:\x1b[\\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\\\|\x9c)?"  # strings for the terminal
    "|\x1b[ -/]{0,4}[0-~]"
)

_STEPS = (0, 95, 135, 175, 215, 255)


def plain(text: str) -> str:
    """The text without sequences, and of a line that was written over only what stood there last."""
    return "\n".join(_written_over(line) for line in _SEQUENCE.sub("", text).split("\n"))


def runs(text: str, palette: Palette) -> Iterator[Run]:
    """The text in runs of the theme's colours."""
    text = "\n".join(_written_over(line) for line in text.split("\n"))
    state = _Ink(palette)
    done = 0
    for found in _SEQUENCE.finditer(text):
        if found.start() > done:
            yield text[done : found.start()], state.style
        if found["sgr"] is not None:
            state.take(found["sgr"])
        done = found.end()
    if done < len(text):
        yield text[done:], state.style


def _written_over(line: str) -> str:
    """Progress bars go back to the start of their line again and again."""
    return line.rstrip("\r").rpartition("\r")[2]


class _Ink:
    """The style that codes have led to."""

    def __init__(self, palette: Palette) -> None:
        self._palette = palette
        self.style = palette.text

    def take(self, codes: str) -> None:
        numbers = [int(code) if code.isdigit() else 0 for code in re.split("[;:]", codes)]
        while numbers:
            match numbers.pop(0):
                case 0:
                    self.style = self._palette.text
                case 1:
                    self.style += Style(bold=True)
                case 3:
                    self.style += Style(italic=True)
                case 4:
                    self.style += Style(underline=True)
                case 22:
                    self.style += Style(bold=False)
                case 23:
                    self.style += Style(italic=False)
                case 24:
                    self.style += Style(underline=False)
                case code if 30 <= code <= 37 or 90 <= code <= 97:
                    self._colour(code % 10)
                case 39:
                    self._colour(7)
                case 38:
                    self._colour(_extended(numbers))
                case 48 | 58:
                    _extended(numbers)
                case _:
                    pass

    def _colour(self, number: int) -> None:
        self.style += Style(color=self._palette.ansi[number].color)


def _extended(numbers: list[int]) -> int:
    """Which of the eight a colour of a larger set comes nearest to. Takes its numbers away."""
    kind = numbers.pop(0) if numbers else 0
    if kind == 5 and numbers:
        return _of_256(numbers.pop(0))
    if kind == 2:
        parts, numbers[:3] = (*numbers[:3], 0, 0, 0)[:3], []
        return _nearest(*parts)
    return 7


def _of_256(number: int) -> int:
    if number < 16:
        return number % 8
    if number >= 232:
        return 7 if number >= 244 else 0
    number = min(number, 231) - 16
    return _nearest(_STEPS[number // 36], _STEPS[number // 6 % 6], _STEPS[number % 6])


def _nearest(red: int, green: int, blue: int) -> int:
    hue, lightness, saturation = colorsys.rgb_to_hls(*(min(part, 255) / 255 for part in (red, green, blue)))
    if saturation < 0.2 or not 0.08 < lightness < 0.95:
        return 0 if 0.1 < lightness < 0.6 else 7
    # Red, yellow, green, cyan, blue and magenta stand around the circle in this order.
    return (1, 3, 2, 6, 4, 5)[round(hue * 6) % 6]
