"""Bytes to events, and the pauses between attempts."""

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bullpen.client.stream import Backoff, Frame, FrameParser, Place, decode_event
from bullpen.schema.events import Event, MessageDelta, RunComplete

STREAM = (
    b": hello\n\n"
    b'id: e-1\ndata: {"a":1}\n\n'
    b"retry: 5\r\nid: e-2\r\ndata: one\r\ndata: two\r\n\r\n"
    b"event: x\ndata:three\n\n"
    b"id: e-9\n\n"
)
FRAMES = [Frame("e-1", b'{"a":1}'), Frame("e-2", b"one\ntwo"), Frame("", b"three")]


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_frames_do_not_depend_on_how_the_network_cut_them(cuts: list[int]) -> None:
    """Comments, other fields and frames without data are passed over."""
    parser = FrameParser()
    edges = sorted({0, *cuts, len(STREAM)})
    chunks = [STREAM[a:b] for a, b in itertools.pairwise(edges)]
    assert [frame for chunk in chunks for frame in parser.feed(chunk)] == FRAMES


def test_a_frame_becomes_the_event_it_was() -> None:
    """The payload has the class that its kind names."""
    data = (
        b'{"type":"run_complete","payload":{"type":"updated","payload":{"session_id":"s","message_id":"m"}}}'
    )
    assert decode_event(Frame("e-1", data)) == Event(
        id="e-1", kind="run_complete", action="updated", payload=RunComplete(session_id="s", message_id="m")
    )


@pytest.mark.parametrize(
    "data",
    [
        b'{"type":"hologram","payload":{"type":"created","payload":{}}}',
        b'{"type":"message","payload":{"type":"created","payload":{"parts":5}}}',
        b"not json",
        b"\xff\xfe",
        b"[]",
    ],
)
def test_what_makes_no_sense_is_skipped(data: bytes) -> None:
    """A newer server may send kinds that we do not know."""
    assert decode_event(Frame("e-1", data)) is None


def test_text_with_line_separators_stays_one_event() -> None:
    """Only a line feed ends a line of the stream; the separators of Unicode do not."""
    text = "a\u2028b\u0085c"
    data = (
        '{"type":"message_delta","payload":{"type":"updated","payload":'
        f'{{"session_id":"s","message_id":"m","part":"text","offset":0,"text":"{text}"}}}}}}'
    )
    [frame] = FrameParser().feed(f"data: {data}\n\n".encode())
    event = decode_event(frame)
    assert event
    assert isinstance(event.payload, MessageDelta)
    assert event.payload.text == text


def test_pauses_double_up_to_ten_seconds() -> None:
    """Each is spread by up to a quarter, and a success starts over."""
    backoff = Backoff(random.Random(1))
    bounds = [0.25, 0.5, 1, 2, 4, 8, 10, 10]
    pauses = [backoff.pause_s() for _ in bounds]
    assert all(top * 0.75 <= pause <= top for pause, top in zip(pauses, bounds, strict=True))
    backoff.reset()
    assert backoff.pause_s() <= 0.25


@pytest.mark.parametrize(
    ("event", "answer", "within"),
    [
        ("e-3", "e-3", True),
        ("e-3", "e-4", True),
        ("e-4", "e-3", False),
        ("e-3.1", "e-3", False),
        ("e-3.1", "e-4", True),
        ("e-3.2.17", "e-3", False),
        ("a-b-3", "a-b-3", True),
        ("f-1", "e-4", False),
    ],
)
def test_an_event_is_part_of_an_answer_up_to_its_cursor(event: str, answer: str, *, within: bool) -> None:
    """Growing text behind the last number may or may not be in the answer."""
    place = Place.of(event)
    assert place
    assert place.is_within(Place.of(answer)) is within
