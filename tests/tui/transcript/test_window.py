"""Only what is near the window is drawn, and what is read stands still."""

from tests.tui.transcript.scenes import answer, prompt, said, scene
from textual.strip import Strip

from bullpen.tui.transcript.column import Place
from bullpen.tui.transcript.drawing import draw, estimate
from bullpen.tui.transcript.items import Book, Item
from bullpen.tui.transcript.window import Window

HEIGHT = 20


class Watched:
    """A window over a session, and which items were drawn for it."""

    def __init__(self, turns: int) -> None:
        self.drawn: list[str] = []
        self.book = Book()
        messages = [(prompt(f"prompt {n}"), answer(said("word " * 300))) for n in range(turns)]
        self.book.load(message for turn in messages for message in turn)
        at = scene()

        def drawing(item: Item) -> list[Strip]:
            self.drawn.append(item.key)
            return draw(item, at)

        self.window = Window(drawing, lambda item: estimate(item, 80))
        self.window.load(self.book.items)

    def text(self, place: Place) -> str:
        return self.window.strips(place.item)[place.row].text


def test_a_long_session_is_drawn_where_it_is_looked_at() -> None:
    watched = Watched(5_000)
    watched.window.settle_end(HEIGHT)
    watched.window.settle(Place(6_000, 0), HEIGHT)
    assert 0 < len(watched.drawn) < 40


def test_what_is_read_stands_still_when_guesses_above_it_are_replaced() -> None:
    watched = Watched(200)
    window = watched.window
    place = window.settle(Place(300, 1), HEIGHT)
    before = watched.text(place)
    window.settle(Place(250, 0), HEIGHT)
    assert window.column.at(window.column.y(place)) == place
    assert watched.text(place) == before


def test_only_items_that_changed_are_drawn_anew() -> None:
    watched = Watched(1)
    growing = answer(said("one"), reason=None)
    watched.window.change(watched.book.take(growing))
    watched.window.settle_end(HEIGHT)
    watched.drawn.clear()
    other = prompt("and this")
    watched.window.change(watched.book.take(growing))
    watched.window.change(watched.book.take(other))
    watched.window.settle_end(HEIGHT)
    assert watched.drawn == [f"{other.id}/prompt"]
