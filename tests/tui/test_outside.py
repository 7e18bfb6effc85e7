"""What is said to the terminal itself."""

import pytest

from bullpen.tui.outside import Outside
from bullpen.tui.preferences import Notify

BELL = "\a"
KITTY = {"TERM": "xterm-kitty"}


def called(
    text: str = "done: tests", *, env: dict[str, str] | None = None, how: Notify = "auto", looks: bool = False
) -> list[str]:
    said: list[str] = []
    outside = Outside(said.append, how, env or {})
    outside.is_looked_at = looks
    outside.call(text)
    return said


@pytest.mark.parametrize(
    ("env", "sequence"),
    [
        ({"TERM": "xterm-256color"}, BELL),
        ({"TERM": "xterm-kitty"}, "\x1b]99;;done: tests\x1b\\"),
        ({"TERM": "foot"}, "\x1b]777;notify;bullpen;done: tests\x1b\\"),
        ({"TERM_PROGRAM": "iTerm.app"}, "\x1b]9;done: tests\x1b\\"),
        ({"TERM_PROGRAM": "ghostty"}, "\x1b]9;done: tests\x1b\\"),
        ({"WT_SESSION": "x"}, "\x1b]9;done: tests\x1b\\"),
        (
            {"TERM_PROGRAM": "WezTerm", "TMUX": "/tmp/x"},
            "\x1bPtmux;\x1b\x1b]9;done: tests\x1b\x1b\\\x1b\\",
        ),
    ],
)
def test_each_terminal_is_called_in_its_own_way(env: dict[str, str], sequence: str) -> None:
    assert called(env=env) == [sequence]


def test_whoever_looks_is_not_called() -> None:
    assert called(looks=True) == []


def test_a_person_chooses_how() -> None:
    assert called(how="off", env=KITTY) == []
    assert called(how="bell", env=KITTY) == [BELL]
    assert called(how="osc", env={"TERM": "xterm"}) == ["\x1b]9;done: tests\x1b\\"]


def test_what_others_wrote_gives_no_orders() -> None:
    """A title is a model's words: it ends no sequence and begins none."""
    (sent,) = called("done: \x1b]52;c;eA==\x07 ; \x9b2J" + "x" * 500, how="osc")
    inner = sent.removeprefix("\x1b]9;").removesuffix("\x1b\\")
    assert all(character.isprintable() and character != ";" for character in inner)
    assert len(inner) <= 120


def test_a_window_is_named() -> None:
    said: list[str] = []
    outside = Outside(said.append, "auto", {"TMUX": "x"})
    outside.keep_title()
    outside.title("bullpen /work\x1b\\x")
    outside.restore_title()
    assert said == ["\x1b[22;2t", "\x1b]2;bullpen /work␛\\x\x1b\\", "\x1b[23;2t"]
