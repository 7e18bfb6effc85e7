"""Content cannot forge the fields of a stream: whatever is in it, what is decoded is what was sent (X-21)."""

from __future__ import annotations

import json
import random
import re
from typing import Any, NamedTuple

from tests.campaign import sized
from tests.conftest import Figure
from tests.journeys.server import Bullpen
from tests.journeys.stream import connect

from bullpen.client.stream import FrameParser, decode_event
from bullpen.schema.events import KINDS, MessageDelta, RunComplete, frame
from bullpen.schema.wire import encode

STRINGS = sized(10_000, 1_000_000)
PER_STREAM = 500
"""Strings that share a stream, so that a forged field would also spoil its neighbours."""

NASTY = (
    *(
        "\n",
        "\r",
        "\r\n",
        "\n\n",
        "\r\r",
        "\n\r\n",
        "\0",
        "\x0b",
        "\x0c",
        "\x1c",
        "\x85",
        "\u2028",
        "\u2029",
        "\ufeff",
    ),
    *("data: ", "data:", "id: 9-9\n", "event: x\n", "retry: 0\n", ": comment\n", "\n\ndata: {}\n\n", "id:\0"),
    *(
        '"}}}\n\n',
        '\\"',
        "\\",
        "\\n",
        "\\u000a",
        "{",
        "}",
        "]",
        '","type":"resync"',
        "</script>",
        "\x1b[2J",
        "\x1b]0;x\x07",
    ),
    *("\u202e", "\u2066", "\u200b", "\U000e0041", "\U0001f600", "é", "e\u0301", "a" * 50, " ", "\t"),
)


class Strict(NamedTuple):
    """One event, read by the rules of the HTML standard and nothing else."""

    id: str
    event: str
    data: str


def strictly(raw: bytes) -> list[Strict]:
    """An independent decoder: UTF-8, one BOM dropped, lines end with CRLF, LF or CR, NUL in an id ignores it."""
    text = raw.decode("utf-8").removeprefix("\ufeff")
    events: list[Strict] = []
    last_id = event = ""
    data: list[str] = []
    for line in re.split(r"\r\n|\n|\r", text)[:-1]:
        if not line:
            if data:
                events.append(Strict(last_id, event, "\n".join(data)))
            event, data = "", []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "data":
                data.append(value)
            case "id" if "\0" not in value:
                last_id = value
            case "event":
                event = value
    return events


def made_up(rng: random.Random) -> str:
    pieces = [rng.choice(NASTY) for _ in range(rng.randint(1, 8))]
    pieces += [chr(c) for c in (rng.randrange(0x110000) for _ in range(3)) if not 0xD800 <= c < 0xE000]
    rng.shuffle(pieces)
    return "".join(pieces)


def payloads(text: str) -> tuple[MessageDelta, RunComplete]:
    """One short and one with content in many fields."""
    delta = MessageDelta(session_id=text, message_id=text, part="text", offset=0, text=text)
    ended = RunComplete(session_id=text, run_id=text, message_id=text, text=text, error=text, cancelled=False)
    return delta, ended


def test_what_is_decoded_is_what_was_sent(figure: Figure) -> None:
    """Through the encoder, the client's parser cut at random places, and a strict decoder of the standard."""
    rng = random.Random(21)
    done = 0
    while done < STRINGS:
        sent = [p for _ in range(PER_STREAM) for p in payloads(made_up(rng))]
        raw = b"".join(
            frame(f"e-{n}", KINDS[type(payload)], "updated", encode(payload))
            for n, payload in enumerate(sent)
        )
        parser, frames, at = FrameParser(), [], 0
        while at < len(raw):
            step = rng.randint(1, 4096)
            frames += parser.feed(raw[at : at + step])
            at += step
        events = [decode_event(each) for each in frames]
        assert [event.payload if event else None for event in events] == sent
        assert [event.id if event else "" for event in events] == [f"e-{n}" for n in range(len(sent))]
        read = strictly(raw)
        assert [(each.id, each.event) for each in read] == [(f"e-{n}", "") for n in range(len(sent))]
        assert [json.loads(each.data)["payload"]["payload"] for each in read] == [
            json.loads(encode(payload)) for payload in sent
        ]
        done += PER_STREAM
    figure("X-21", "FUZZ", f"{done:,} strings in {2 * done:,} events: all decoded as sent, by two decoders")


def test_what_goes_through_a_server_comes_out_as_it_went_in(bullpen: Bullpen, figure: Figure) -> None:
    """Titles by hand and prompts that a model repeats, read from the wire by the strict decoder."""
    rng = random.Random(22)
    texts = [made_up(rng) for _ in range(100)]
    client = bullpen.attach(bullpen.project({"say": texts[0]}))
    sock = connect(bullpen.socket)
    target = f"/v1{client.url}/events?client_id={client.client_id}&deltas=1"
    sock.sendall(f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    taken = b""
    while b"\r\n\r\n" not in taken:
        taken += sock.recv(65536)
    made = [client.ok("POST", "/sessions", {"title": f"t{text}"})["id"] for text in texts]
    run_id = client.prompt(made[0], f"p{texts[1]}", run_id=f"r{texts[2]}")
    while b'"type":"run_complete"' not in taken or not taken.endswith(b"\n\n"):
        taken += sock.recv(65536)
    sock.close()
    events = [json.loads(each.data) for each in strictly(taken.partition(b"\r\n\r\n")[2])]
    titles = [e["payload"]["payload"]["title"] for e in events if is_new(e, "session")]
    assert titles[: len(texts)] == [f"t{text}" for text in texts]
    (said,) = [
        text_of(e) for e in events if is_new(e, "message") and e["payload"]["payload"]["role"] == "user"
    ]
    assert said == f"p{texts[1]}"
    (ended,) = [e["payload"]["payload"] for e in events if e["type"] == "run_complete"]
    assert (ended["run_id"], ended["text"]) == (run_id, texts[0])
    assert {e["type"] for e in events} <= set(KINDS.values())
    figure(
        "X-21",
        "FUZZ",
        f"{len(texts)} hostile titles, a prompt, a run id and an answer through a server: unchanged",
    )


def is_new(event: Any, kind: str) -> bool:
    return bool(event["type"] == kind and event["payload"]["type"] == "created")


def text_of(event: Any) -> str:
    return "".join(p["data"]["text"] for p in event["payload"]["payload"]["parts"] if p["type"] == "text")
