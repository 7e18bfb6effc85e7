"""Keys that somebody was typing when a dialog came up answer nothing."""

from collections.abc import Sequence

import pytest

from bullpen.tui.dialogs.quiet import Quiet


@pytest.mark.parametrize(
    ("pressed", "counted"),
    [
        ([0.1], [False]),
        ([0.5], [True]),
        ([0.1, 0.3, 0.6, 1.1], [False, False, False, True]),
        ([0.3, 0.6, 0.9, 1.2, 1.5], [False, False, False, False, True]),
        ([0.4, 0.41], [True, True]),
    ],
)
def test_keys_count_after_a_pause_or_when_there_is_none(
    pressed: Sequence[float], counted: Sequence[bool]
) -> None:
    quiet = Quiet(clock=lambda: 0.0)
    assert [quiet.counts(at) for at in pressed] == counted
