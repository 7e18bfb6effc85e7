"""Fan-out: ids, order, coalescing, deltas, a bounded tail, and nobody left behind in silence."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.engine.bench import Seen, read_frames
from tests.engine.timeloop import TimeLoop, advance

from bullpen.broker.facts import Fact
from bullpen.broker.feed import WHOLE_BYTES_PER_S, WHOLE_INTERVAL_S, Feed
from bullpen.broker.subscription import CHUNK_BYTES, Subscription
from bullpen.broker.tail import TAIL_BYTES, TAIL_ENTRIES
from bullpen.schema.events import MessageDelta, frame
from bullpen.schema.message import Message, Text, TextPart
from bullpen.schema.wire import encode
from bullpen.store.growth import OpenMessage

CONFIG = b'{"workspace_id":"w"}'


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return ("asyncio", {"loop_factory": TimeLoop})


@pytest.fixture
async def feed() -> Feed:
    clock = asyncio.get_running_loop().time
    return Feed(epoch="e", head=10, generation=3, frame=frame, clock=clock)


class Numbered:
    """Gives durable facts their numbers."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed

    def durable(self, *, size: int = 0) -> Fact:
        body = msgspec.json.encode({"workspace_id": "x" * size})
        return Fact("w", "config_changed", "updated", "c", body, self.feed.head + 1)

    def happen(self, count: int = 1, *, size: int = 0) -> None:
        for _ in range(count):
            self.feed.publish([self.durable(size=size)])


def message(text: str = "", message_id: str = "m1") -> Message:
    return Message(
        parts=(TextPart(data=Text(text=text)),) if text else (),
        id=message_id,
        role="assistant",
        session_id="s1",
        model="",
        provider="",
        created_at=1,
        updated_at=1,
    )


def opened(feed: Feed, message_id: str = "m1") -> OpenMessage:
    """A message that begins to grow, as its turn's first transaction announces it."""
    live = OpenMessage("w", message("", message_id), 1)
    body = encode(message("", message_id))
    feed.publish([Fact("w", "message", "created", message_id, body, feed.head + 1, live)])
    return live


def grow(feed: Feed, live: OpenMessage, text: str) -> None:
    feed.publish([Fact("w", "message", "updated", live.id, b"", live=live, growth=("text", text))])


def settle(feed: Feed, live: OpenMessage, text: str, *, open_still: bool = True) -> None:
    body = encode(message(text, live.id))
    seq = feed.head + 1
    feed.publish([Fact("w", "message", "updated", live.id, body, seq, live if open_still else None)])


def taken(subscription: Subscription) -> list[Seen]:
    seen: list[Seen] = []
    while piece := subscription.take():
        seen += read_frames(piece)
    return seen


def texts(seen: list[Seen]) -> list[str]:
    return [e.payload.text for e in seen if e.kind == "message"]


# Ids and order


async def test_ids_say_epoch_and_number_and_volatile_ones_never_repeat(feed: Feed) -> None:
    subscription = feed.subscribe(deltas=False)
    Numbered(feed).happen(2)
    for _ in range(2):
        feed.publish([Fact("w", "config_changed", "updated", "", CONFIG)])
    single = read_frames(feed.single("config_changed", "updated", CONFIG))
    ids = [e.id for e in taken(subscription)] + [e.id for e in single]
    assert ids == ["e-11", "e-12", "e-12.3.1", "e-12.3.2", "e-12.3.3"]
    assert (feed.cursor, subscription.seq) == ("e-12", 12)


async def test_every_subscriber_gets_the_same_bytes(feed: Feed) -> None:
    subscriptions = [feed.subscribe(deltas=deltas) for deltas in (False, True, False)]
    Numbered(feed).happen(5)
    pieces = {s.take() for s in subscriptions}
    assert len(pieces) == 1


async def test_a_subscriber_begins_at_the_present_and_is_woken(feed: Feed) -> None:
    Numbered(feed).happen()
    subscription = feed.subscribe(deltas=False)
    assert (subscription.take(), subscription.wake.is_set()) == (b"", False)
    Numbered(feed).happen()
    assert subscription.wake.is_set()
    assert [e.id for e in taken(subscription)] == ["e-12"]


async def test_one_take_hands_out_a_bounded_piece(feed: Feed) -> None:
    subscription = feed.subscribe(deltas=False)
    Numbered(feed).happen(50, size=10_000)
    sizes = []
    while piece := subscription.take():
        sizes.append(len(piece))
    assert max(sizes) < CHUNK_BYTES + 20_000
    assert len(sizes) > 5


# Straight to the connection


class Connection:
    """Takes what is written to it while it has room."""

    def __init__(self, subscription: Subscription) -> None:
        self.got: list[bytes] = []
        self.has_room = True
        self.subscription = subscription
        subscription.write_now = self.write
        subscription.waits = True

    def write(self, data: bytes) -> bool:
        if self.has_room:
            self.got.append(data)
        return self.has_room

    @property
    def ids(self) -> list[str]:
        return [e.id for e in read_frames(b"".join(self.got))]


async def test_who_waits_with_room_is_written_to(feed: Feed) -> None:
    """One write for all that was committed together, and nothing is left to take."""
    connections = [Connection(feed.subscribe(deltas=deltas)) for deltas in (True, False)]
    feed.publish([Numbered(feed).durable(), Numbered(feed).durable()._replace(seq=12)])
    for connection in connections:
        assert (len(connection.got), connection.ids) == (1, ["e-11", "e-12"])
        assert not connection.subscription.wake.is_set()
        assert (connection.subscription.seq, taken(connection.subscription)) == (12, [])


async def test_who_has_no_room_comes_for_it(feed: Feed) -> None:
    """And is not written to again before it has taken everything, so that nothing overtakes."""
    connection = Connection(feed.subscribe(deltas=False))
    connection.has_room = False
    Numbered(feed).happen()
    assert connection.subscription.wake.is_set()
    connection.has_room = True
    Numbered(feed).happen()
    assert connection.got == []
    assert [e.id for e in taken(connection.subscription)] == ["e-11", "e-12"]
    connection.subscription.waits = True
    Numbered(feed).happen()
    assert connection.ids == ["e-13"]


async def test_too_much_for_one_write_is_taken_piece_by_piece(feed: Feed) -> None:
    connection = Connection(feed.subscribe(deltas=False))
    Numbered(feed).happen(size=CHUNK_BYTES + 1)
    assert connection.got == []
    assert [e.id for e in taken(connection.subscription)] == ["e-11"]


async def test_what_is_not_for_a_subscriber_does_not_wake_it(feed: Feed) -> None:
    whole, deltas = (Connection(feed.subscribe(deltas=d)) for d in (False, True))
    live = opened(feed)
    grow(feed, live, "a")
    grow(feed, live, "b")
    assert [len(read_frames(b"".join(c.got))) for c in (whole, deltas)] == [2, 3]
    assert not whole.subscription.wake.is_set()
    await advance(WHOLE_INTERVAL_S * 1.5)
    assert texts(read_frames(whole.got[-1])) == ["ab"]


async def test_a_closing_feed_wakes_whoever_waits(feed: Feed) -> None:
    connection = Connection(feed.subscribe(deltas=False))
    feed.close()
    assert connection.subscription.wake.is_set()
    assert not connection.subscription.waits


# Growing text


async def test_whole_forms_are_coalesced_in_time(feed: Feed) -> None:
    subscription = feed.subscribe(deltas=False)
    live = opened(feed)
    taken(subscription)
    for word in ("a", "b", "c"):
        grow(feed, live, word)
    assert texts(taken(subscription)) == ["a"]
    await advance(WHOLE_INTERVAL_S * 1.5)
    assert texts(taken(subscription)) == ["abc"]
    await advance(1)
    assert taken(subscription) == []


async def test_a_long_message_is_shown_whole_less_often(feed: Feed) -> None:
    """So the bytes grow with the time, not with the square of the text."""
    subscription = feed.subscribe(deltas=False)
    live = opened(feed)
    taken(subscription)
    size = 0
    for _ in range(100):
        grow(feed, live, "x" * 2_000)
        await advance(0.1)
        size += len(subscription.take())
    assert WHOLE_BYTES_PER_S * 6 < size < WHOLE_BYTES_PER_S * 11
    await advance(1)
    assert texts(taken(subscription)) == ["x" * 200_000]


async def test_a_slow_subscriber_has_at_most_one_unsent_growth_of_a_message(feed: Feed) -> None:
    subscription = feed.subscribe(deltas=False)
    first, second = opened(feed), opened(feed, "m2")
    taken(subscription)
    for n in range(50):
        grow(feed, first, f"{n} ")
        grow(feed, second, f"{n}, ")
        await advance(WHOLE_INTERVAL_S * 1.1)
    seen = taken(subscription)
    assert sorted(e.payload.id for e in seen) == ["m1", "m2"]
    assert texts(seen)[0].startswith("0 1 2") or texts(seen)[0].startswith("0, 1, 2")


async def test_a_durable_state_replaces_the_unsent_growth_before_it(feed: Feed) -> None:
    subscription = feed.subscribe(deltas=False)
    live = opened(feed)
    taken(subscription)
    grow(feed, live, "half")
    settle(feed, live, "half a text")
    assert texts(taken(subscription)) == ["half a text"]
    grow(feed, live, ", and more")
    settle(feed, live, "the end", open_still=False)
    await advance(1)
    assert texts(taken(subscription)) == ["the end"]
    assert feed.open_frames() == []


async def test_deltas_carry_their_offset_in_code_points(feed: Feed) -> None:
    subscription = feed.subscribe(deltas=True)
    live = opened(feed)
    settle(feed, live, "🐝é")
    taken(subscription)
    for word in ("ab", "ü", "c"):
        grow(feed, live, word)
    deltas = [e.payload for e in taken(subscription)]
    assert [(d.offset, d.text) for d in deltas] == [(2, "ab"), (4, "ü"), (5, "c")]
    assert all(isinstance(d, MessageDelta) for d in deltas)
    whole = read_frames(feed.open_frames()[0])[0].payload
    assert whole.text == "🐝éabüc"


async def test_offsets_begin_anew_when_the_text_is_taken_back(feed: Feed) -> None:
    """A retried step is stored empty and grows again."""
    subscription = feed.subscribe(deltas=True)
    live = opened(feed)
    grow(feed, live, "doomed")
    settle(feed, live, "")
    grow(feed, live, "again")
    assert [e.payload.offset for e in taken(subscription) if e.kind == "message_delta"] == [0, 0]


async def test_nobody_pays_for_forms_that_nobody_wants(feed: Feed) -> None:
    live = opened(feed)
    before = feed.tail.end
    grow(feed, live, "unseen")
    assert feed.tail.end == before
    subscription = feed.subscribe(deltas=True)
    grow(feed, live, " seen")
    seen = taken(subscription)
    assert [(e.kind, e.payload.offset) for e in seen] == [("message_delta", 6)]


# The tail


async def test_the_tail_is_bounded_in_bytes(feed: Feed) -> None:
    subscription = feed.subscribe(deltas=False)
    Numbered(feed).happen(200, size=50_000)
    held = sum(feed.tail[n].size for n in range(feed.tail.first, feed.tail.end))
    assert TAIL_BYTES / 2 < held <= TAIL_BYTES
    assert feed.tail.size == held
    assert subscription.lost


async def test_the_tail_is_bounded_in_entries(feed: Feed) -> None:
    Numbered(feed).happen(TAIL_ENTRIES + 100)
    assert feed.tail.end - feed.tail.first <= TAIL_ENTRIES


async def test_dropped_growth_gives_its_bytes_back(feed: Feed) -> None:
    feed.subscribe(deltas=False)
    feed.subscribe(deltas=True)
    live = opened(feed)
    for _ in range(300):
        grow(feed, live, "x" * 1000)
        await advance(WHOLE_INTERVAL_S * 1.1)
    held = sum(feed.tail[n].size for n in range(feed.tail.first, feed.tail.end))
    assert feed.tail.size == held <= TAIL_BYTES


async def test_one_event_larger_than_the_tail_still_reaches_everybody(feed: Feed) -> None:
    subscription = feed.subscribe(deltas=False)
    Numbered(feed).happen(size=2 * TAIL_BYTES)
    assert not subscription.lost
    assert [e.id for e in taken(subscription)] == ["e-11"]


# Joining


async def test_a_joint_gives_what_came_after_the_log_was_read(feed: Feed) -> None:
    subscription = feed.subscribe(deltas=False)
    Numbered(feed).happen(5)
    joined = subscription.join(13, show_open=False)
    assert joined is not None
    assert [e.id for e in read_frames(b"".join(joined))] == ["e-14", "e-15"]
    assert (subscription.seq, taken(subscription)) == (15, [])


async def test_a_joint_that_the_tail_no_longer_covers_is_refused(feed: Feed) -> None:
    subscription = feed.subscribe(deltas=False)
    Numbered(feed).happen(50, size=50_000)
    assert subscription.join(11, show_open=False) is None
    assert subscription.lost
    joined = subscription.join(feed.head - 2, show_open=False)
    assert joined is not None
    assert len(read_frames(b"".join(joined))) == 2


async def test_a_joint_shows_what_is_open_instead_of_how_it_grew(feed: Feed) -> None:
    live = opened(feed)
    subscription = feed.subscribe(deltas=True)
    grow(feed, live, "one ")
    grow(feed, live, "two")
    joined = subscription.join(feed.head, show_open=True)
    assert joined is not None
    seen = read_frames(b"".join(joined))
    assert [(e.kind, e.payload.text) for e in seen] == [("message", "one two")]
    grow(feed, live, " three")
    assert [e.payload.offset for e in taken(subscription)] == [7]


async def test_a_joint_leaves_out_what_is_older_than_the_log_that_was_read(feed: Feed) -> None:
    """Else a busy mark of long ago comes last, and its id takes the client's cursor back."""
    subscription = feed.subscribe(deltas=False)
    feed.publish([Fact("w", "config_changed", "updated", "", CONFIG)])
    Numbered(feed).happen(3)
    feed.publish([Fact("w", "config_changed", "updated", "", CONFIG)])
    Numbered(feed).happen(1)
    joined = subscription.join(13, show_open=False)
    assert joined is not None
    assert [e.id for e in read_frames(b"".join(joined))] == ["e-13.3.2", "e-14"]


async def test_a_joint_shows_growth_by_its_present_state(feed: Feed) -> None:
    live = opened(feed)
    subscription = feed.subscribe(deltas=False)
    grow(feed, live, "one")
    Numbered(feed).happen(1)
    joined = subscription.join(feed.head, show_open=False)
    assert joined is not None
    assert [(e.id.partition(".")[0], e.payload.text) for e in read_frames(b"".join(joined))] == [
        ("e-12", "one")
    ]


# Closing


async def test_a_closed_feed_ends_its_streams_after_what_is_in_the_tail(feed: Feed) -> None:
    subscription = feed.subscribe(deltas=False)
    live = opened(feed)
    grow(feed, live, "a")
    grow(feed, live, "b")
    feed.close()
    assert (subscription.closed, subscription.wake.is_set()) == (True, True)
    assert texts(taken(subscription)) == ["", "a"]
    await advance(1)
    assert taken(subscription) == []
    with pytest.raises(RuntimeError):
        feed.subscribe(deltas=False)


async def test_one_stream_can_be_closed_alone(feed: Feed) -> None:
    first, second = feed.subscribe(deltas=False), feed.subscribe(deltas=False)
    first.close()
    feed.unsubscribe(first)
    Numbered(feed).happen()
    assert (first.closed, second.closed, len(taken(second))) == (True, False, 1)
