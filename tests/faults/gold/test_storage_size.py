"""Storage grows with the text, not with its square (R-18)."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.campaign import sized
from tests.conftest import Figure
from tests.engine.bench import SESSION, WORKSPACE, Bench, open_bench

from bullpen.schema.api import Attachment
from bullpen.schema.message import (
    Finish,
    FinishPart,
    Message,
    Part,
    Text,
    TextPart,
    ToolCall,
    ToolCallPart,
    new_message,
)
from bullpen.store import messages, prompts
from bullpen.store.growth import OpenMessage
from bullpen.store.prompts import NewRow
from bullpen.store.store import DATABASE_NAME
from bullpen.store.tx import Tx

SPARE_BYTES = 64 * 1024


class Growth:
    def __init__(self) -> None:
        self.bytes = 0

    def times(self, text_bytes: int) -> float:
        """How many times the text it is, beside what is always allowed."""
        return (self.bytes - SPARE_BYTES) / text_bytes


@asynccontextmanager
async def growing(directory: Path) -> AsyncIterator[tuple[Bench, Growth]]:
    """How much the file grows in the block; pages that are free again count too."""
    growth = Growth()
    async with open_bench(directory) as bench:
        await bench.session()
    before = (directory / DATABASE_NAME).stat().st_size
    async with open_bench(directory) as bench:
        await bench.watcher.read()
        yield bench, growth
    growth.bytes = (directory / DATABASE_NAME).stat().st_size - before


async def test_a_long_answer_that_came_word_by_word(tmp_path: Path, figure: Figure) -> None:
    """The slowest model: every token is stored by itself before the next one comes."""
    tokens = [f"token{n % 97} " for n in range(sized(20_000, 100_000))]
    text = "".join(tokens)
    message = new_message("assistant", SESSION, (), 1)
    async with growing(tmp_path) as (bench, growth):
        await bench.write(lambda tx: _open(tx, message))
        for start in range(0, len(tokens), 100):
            await _say(bench, message, tokens[start : start + 100])
        stored = await bench.read(lambda tx: messages.get(tx, message.id))
        assert stored is not None
        assert stored.text == text
        finish = FinishPart(data=Finish(reason="end_turn", time=2))
        await _rewrite(bench, message, (TextPart(data=Text(text=text)), finish))
    assert growth.times(len(text)) <= 3
    figure(
        "R-18", "GOLD", f"{len(tokens):,} tokens in as many chunks: {growth.times(len(text)):.1f} × the text"
    )


async def test_an_answer_with_many_large_calls(tmp_path: Path, figure: Figure) -> None:
    """Each call is stored when it begins and when it is complete, with all that came before it."""
    arguments = '{"content": "' + "x" * 20_000 + '"}'
    message = new_message("assistant", SESSION, (), 1)
    calls: tuple[ToolCallPart, ...] = ()
    async with growing(tmp_path) as (bench, growth):
        await bench.write(lambda tx: _open(tx, message))
        for n in range(30):
            begun = ToolCall(id=f"c{n}", name="write", input="", finished=False)
            await _rewrite(bench, message, (*calls, ToolCallPart(data=begun)))
            complete = ToolCall(id=f"c{n}", name="write", input=arguments, finished=True)
            calls = (*calls, ToolCallPart(data=complete))
            await _rewrite(bench, message, calls)
    final = len(arguments) * len(calls)
    assert growth.times(final) <= 3
    figure(
        "R-18", "GOLD", f"{len(calls)} calls of 20 KB in one answer: {growth.times(final):.1f} × their size"
    )


async def _open(tx: Tx, message: Message) -> None:
    row = NewRow(session=SESSION, text="go", run_id="r", own_run_id=True)
    seq, *_ = await prompts.accept(tx, WORKSPACE, row)
    await prompts.activate(tx, WORKSPACE, seq, seq)
    await messages.insert(tx, WORKSPACE, message, turn=seq, live=OpenMessage(WORKSPACE, message, seq))


async def _say(bench: Bench, message: Message, tokens: list[str]) -> None:
    async def work(tx: Tx) -> None:
        for token in tokens:
            await messages.append_chunk(tx, message.id, "text", token)

    await bench.write(work, durable=False)


async def _rewrite(bench: Bench, message: Message, parts: tuple[Part, ...]) -> None:
    state = message.with_parts(parts, 2)
    await bench.write(lambda tx: messages.rewrite(tx, WORKSPACE, state))


async def test_images_are_stored_once(tmp_path: Path, figure: Figure) -> None:
    size = sized(20_000, 200_000)
    async with growing(tmp_path) as (bench, growth):
        for n in range(76):
            image = Attachment(file_name="a.png", mime_type="image/png", content=os.urandom(size))
            await bench.prompt("look", run_id=f"r{n}", attachments=(image,))
            (await bench.puppet.next()).finish("nice")
            await bench.watcher.run_complete(f"r{n}")
    total = 76 * size
    assert growth.times(total) <= 3
    figure("R-18", "GOLD", f"76 images: {growth.times(total):.1f} × their bytes")


async def test_a_long_queue(tmp_path: Path) -> None:
    """Everybody is told the whole queue whenever it changes; the log keeps the last telling."""
    text = "x" * 3000
    async with growing(tmp_path) as (bench, growth):
        await bench.prompt("first", run_id="first")
        step = await bench.puppet.next()
        for n in range(100):
            await bench.prompt(text, run_id=f"r{n}")
        await bench.runner.cancel(SESSION)
        await step.closed.wait()
    assert growth.times(100 * len(text)) <= 3
