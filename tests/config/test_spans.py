from __future__ import annotations

import pytest

from bullpen.config.spans import seconds


@pytest.mark.parametrize(
    ("written", "span"),
    [
        ("10s", 10),
        ("2m", 120),
        ("1m30s", 90),
        ("500ms", 0.5),
        ("1.5h", 5400),
        ("8", 8),
        (7, 7),
        (5_000_000_000, 5),
        (0.5, 0.5),
    ],
)
def test_spans(written: float | str, span: float) -> None:
    assert seconds(written) == pytest.approx(span)


@pytest.mark.parametrize("written", ["", "soon", "10 parsecs", "s", -1, True, None, [], float("inf")])
def test_what_is_no_span(written: object) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        seconds(written)
