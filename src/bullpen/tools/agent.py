"""Give a task to a sub-agent."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from bullpen.errors import ToolFailed
from bullpen.tools.base import Outcome, ToolContext, tool


class AgentParams(Struct, frozen=True):
    prompt: Annotated[str, Meta(description="The task, complete in itself: the sub-agent sees nothing else.")]
    agent: Annotated[
        str, Meta(description="Which of the available agents to send; leave it out for one that only reads.")
    ] = ""


@tool(
    "agent",
    "Hand a search or a reading task to a sub-agent with a context of its own. It can list, search and read files, and "
    "changes nothing. Use it when finding the answer would fill this conversation with text that is not needed "
    "afterwards; start several in one step for independent tasks. It knows nothing of this conversation and answers "
    "once, so say what to look for, where, and what to report. The user does not see its answer: pass on what matters.",
    effects=False,
    parallel=True,
)
async def agent(params: AgentParams, ctx: ToolContext) -> Outcome:
    if not params.prompt.strip():
        raise ToolFailed("the prompt is empty")
    answer = await ctx.delegate(params.prompt, params.agent)
    if not answer.strip():
        raise ToolFailed("the sub-agent ended without an answer")
    return Outcome(content=answer)
