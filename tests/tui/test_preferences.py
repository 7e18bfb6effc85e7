"""What a person wrote down about their terminal."""

from pathlib import Path

import pytest
from textual.theme import Theme

from bullpen.errors import BadRequest
from bullpen.tui import preferences, themes
from bullpen.tui.preferences import Preferences


def test_what_is_saved_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "bullpen/terminal.json"
    chosen = Preferences(theme="light", keys={"palette": "ctrl+k"}, motion="reduced")
    preferences.save(chosen, file)
    assert preferences.load(file) == (chosen, "")
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"theme": "pink"}', '{"colour": "red"}', '{"keys": [1]}', "\xff"]
)
def test_a_bad_file_is_told_and_the_defaults_hold(tmp_path: Path, text: str) -> None:
    file = tmp_path / "terminal.json"
    file.write_bytes(text.encode("latin-1"))
    found, complaint = preferences.load(file)
    assert found == Preferences()
    assert complaint.startswith(f"{file} is not used: ")


def test_no_file_is_no_complaint(tmp_path: Path) -> None:
    assert preferences.load(tmp_path / "none.json") == (Preferences(), "")


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadRequest, match="cannot be written"):
        preferences.save(Preferences(), tmp_path / "file/terminal.json")


def test_it_lies_where_configuration_lies() -> None:
    assert preferences.path({"XDG_CONFIG_HOME": "/c", "HOME": "/h"}) == Path("/c/bullpen/terminal.json")
    assert preferences.path({"HOME": "/h"}) == Path("/h/.config/bullpen/terminal.json")


def test_the_theme_goes_by_the_terminal_unless_chosen() -> None:
    assert themes.chosen("auto", {"COLORFGBG": "0;15"}) is themes.LIGHT
    assert themes.chosen("auto", {}) is themes.DARK
    assert themes.chosen("contrast", {"COLORFGBG": "0;15"}) is themes.CONTRAST


@pytest.mark.parametrize("theme", themes.ALL.values(), ids=themes.ALL)
def test_every_colour_can_be_read(theme: Theme) -> None:
    """4.5 to 1, as the web's guidelines ask; 7 to 1 where high contrast is promised."""
    told: dict[str, str] = {
        name: getattr(theme, name)
        for name in ("foreground", "primary", "secondary", "accent", "success", "warning", "error")
    }
    told["faint"] = theme.variables["faint"]
    grounds = [ground for ground in (theme.background, theme.surface, theme.panel) if ground]
    least = 7.0 if theme is themes.CONTRAST else 4.5
    weak = {
        (name, ground): round(contrast(colour, ground), 1)
        for name, colour in told.items()
        for ground in grounds
        if contrast(colour, ground) < least
    }
    assert weak == {}
    for ground in ("added", "removed"):
        assert contrast(told["foreground"], theme.variables[ground]) >= least


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    parts = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    red, green, blue = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_what_a_person_left_open_the_configuration_may_say() -> None:
    told = {"diff_mode": "split", "theme": "light", "compact_mode": True}
    assert preferences.filled(Preferences(), told) == Preferences(diff="split", theme="light", sidebar=False)
    own = Preferences(diff="unified", theme="dark", sidebar=True)
    assert preferences.filled(own, {"diff_mode": "split", "theme": "pink"}) == own
