"""Finding by a few letters."""

import pytest

from bullpen.tui.dialogs.fuzzy import find


@pytest.mark.parametrize(
    ("query", "text", "marked"),
    [
        ("ses", "New session", "ses"),
        ("nwses", "New session", "Nwses"),
        ("ses new", "New session", "Newses"),
        ("s", "News sail", "s"),
        ("", "anything", ""),
        ("straße", "Straße", "Straße"),
        ("İ", "İstanbul", "İ"),
        ("日本", "in 日本語", "日本"),
    ],
)
def test_what_was_meant_is_marked(query: str, text: str, marked: str) -> None:
    found = find(query, text)
    assert found is not None
    assert "".join(text[place] for place in sorted(found.places)) == marked


@pytest.mark.parametrize(
    ("query", "text"), [("xyz", "New session"), ("sess new x", "New session"), ("nn", "n")]
)
def test_what_does_not_fit_is_not_found(query: str, text: str) -> None:
    assert find(query, text) is None


def test_the_beginning_of_a_word_fits_best_and_other_words_are_found_unmarked() -> None:
    scores = [
        found.score for text in ("models", "a model", "commodity", "my road") if (found := find("mod", text))
    ]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == 4
    found = find("model clear", "a model", also="/new clear")
    assert found is not None
    assert len(found.places) == len("model")
