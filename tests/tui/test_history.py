"""Walking through earlier prompts, by any keys in any order: what was typed comes back."""

from hypothesis import given
from hypothesis import strategies as st

from bullpen.tui.editor.history import History, unique

TEXTS = st.text("ab ", max_size=4)


@given(st.lists(TEXTS), TEXTS, st.lists(st.tuples(st.sampled_from(["earlier", "later", "edit"]), TEXTS)))
def test_the_draft_and_every_change_are_found_again(
    sent: list[str], draft: str, keys: list[tuple[str, str]]
) -> None:
    history, now = History(), draft
    entries = unique(sent)
    expected, place = [*entries, draft], len(entries)
    for key, typed in keys:
        if key == "edit":
            now = expected[place] = typed
            continue
        shown = history.earlier(now, sent) if key == "earlier" else history.later(now)
        step = -1 if key == "earlier" else 1
        is_walk = 0 <= place + step < len(expected)
        assert (shown is not None) == is_walk
        if shown is not None:
            place += step
            now = shown
            if place == len(entries):
                expected[: len(entries)] = (
                    entries  # A walk ends with the draft; a new one begins with what was sent.
                )
        assert now == expected[place]
    assert history.is_walking == (place < len(entries))
    if history.is_walking:
        assert history.leave() == expected[-1]
