"""The column of heights holds against a plain list, whatever is done to it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from bullpen.tui.transcript.column import Column, Place

heights = st.lists(st.integers(0, 40), max_size=60)


def tops(plain: list[int]) -> list[int]:
    return [sum(plain[:n]) for n in range(len(plain) + 1)]


@settings(max_examples=40)
@given(heights)
def test_every_row_belongs_to_the_item_that_stands_there(plain: list[int]) -> None:
    column = Column(plain)
    rows = [Place(n, row) for n, height in enumerate(plain) for row in range(height)]
    assert [column.at(y) for y in range(column.total)] == rows
    assert [column.y(place) for place in rows] == list(range(len(rows)))
    assert [column.top(n) for n in range(len(plain) + 1)] == tops(plain)


@settings(max_examples=40)
@given(heights, st.data())
def test_changes_leave_it_as_if_it_were_made_anew(plain: list[int], data: st.DataObject) -> None:
    column = Column(plain)
    for _ in range(data.draw(st.integers(1, 6))):
        if data.draw(st.booleans()) and plain:
            n = data.draw(st.integers(0, len(plain) - 1))
            plain[n] = data.draw(st.integers(0, 40))
            column.set(n, plain[n])
        else:
            start = data.draw(st.integers(0, len(plain)))
            removed = data.draw(st.integers(0, len(plain) - start))
            others = data.draw(heights)
            plain[start : start + removed] = others
            column.splice(start, removed, others)
    assert len(column) == len(plain)
    assert column.total == sum(plain)
    assert [column.top(n) for n in range(len(plain) + 1)] == tops(plain)
    assert [column[n] for n in range(len(plain))] == plain


@settings(max_examples=40)
@given(heights, st.integers(-5, 3000))
def test_rows_outside_are_the_nearest_ones(plain: list[int], y: int) -> None:
    column = Column(plain)
    place = column.at(y)
    if column.total:
        assert column.y(place) == min(max(y, 0), column.total - 1)
    else:
        assert place == Place(0, 0)
