"""The calls of tools are counted: how many, how many of them failed, and how long they took."""

from __future__ import annotations

from pathlib import Path

from tests.engine.bench import SESSION, WORKSPACE, Bench, open_bench

from bullpen.schema.agent import ToolCallsRow
from bullpen.schema.api import QuestionAnswer
from bullpen.schema.asks import QuestionResponse
from bullpen.store import tool_calls
from bullpen.system.clock import SystemClock


class HandClock(SystemClock):
    """Spans are as long as the test says."""

    passed_s = 0.0

    def monotonic(self) -> float:
        return self.passed_s


async def counted(bench: Bench) -> list[ToolCallsRow]:
    return await bench.read(lambda tx: tool_calls.by_tool(tx, WORKSPACE, 0))


async def test_calls_are_counted_by_tool_with_their_time_but_not_with_that_of_people(tmp_path: Path) -> None:
    """Also those that fail, that name a tool otherwise, and that a word between or a cancel cuts short."""
    clock = HandClock()
    async with open_bench(tmp_path, clock=clock) as bench:
        await bench.session()
        await bench.prompt("go", run_id="r1")
        step = await bench.puppet.next()
        step.call("c1", "hold", '{"name":"a"}')
        step.call("c2", "wonder", '{"name":"why?"}')
        step.call("c3", "fail", '{"name":"b"}')
        step.call("c4", "functions.Echo", '{"name":"c"}')
        step.call("c5", "echo", '{"name":"d"}')
        step.finish(reason="tool_use")
        await bench.gate.entered()
        clock.passed_s += 2.5
        bench.gate.open("a")
        batch = await bench.watcher.until("question_batch_request")
        clock.passed_s += 100
        response = QuestionResponse(request_id="q1", fill_in_text="because")
        await bench.services.questions.answer(
            QuestionAnswer(batch_request_id=batch.id, responses=(response,)), "ana"
        )
        step = await bench.puppet.next()
        assert await counted(bench) == [
            ToolCallsRow(key="echo", calls=2, failed=0, took_s=0),
            ToolCallsRow(key="fail", calls=1, failed=1, took_s=0),
            ToolCallsRow(key="hold", calls=1, failed=0, took_s=2.5),
            ToolCallsRow(key="wonder", calls=1, failed=0, took_s=0),
        ]
        step.call("c6", "wonder", '{"name":"and now?"}')
        step.finish(reason="tool_use")
        await bench.watcher.until("question_batch_request")
        clock.passed_s += 100
        await bench.prompt("stop wondering", run_id="r2", timing="now")
        step = await bench.puppet.next()
        assert (await counted(bench))[1] == ToolCallsRow(key="wonder", calls=2, failed=1, took_s=0)
        step.call("c7", "hold", '{"name":"e"}')
        step.finish(reason="tool_use")
        await bench.gate.entered()
        clock.passed_s += 1000
        await bench.runner.cancel(SESSION)
        assert (await counted(bench))[1] == ToolCallsRow(key="hold", calls=2, failed=1, took_s=2.5)
