"""Keep the session's list of things to do, where everybody sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct

from bullpen.errors import ToolFailed
from bullpen.schema.session import Todo, TodoStatus
from bullpen.tools.base import Outcome, ToolContext, tool

MAX_TODOS = 100
MAX_TEXT = 1000
"""The list goes out with every change of the session, so it stays a list and does not become a document."""

DESCRIPTION = f"""\
Write down the steps of a longer task and keep them up to date; the user sees the list while you work. Every call replaces the \
whole list, so send all entries each time, with those that are done.

Use it for work of three steps or more, and for several wishes in one prompt; not for a single step or a question. Mark a step \
`in_progress` before you begin it, one at a time, and `completed` as soon as it is really done, not when something about it \
still fails. Add what you find on the way, and leave out what has become needless. At most {MAX_TODOS} entries."""


class ListedTodo(Struct, frozen=True):
    content: Annotated[str, Meta(description="What is to be done, as an instruction: Run the tests.")]
    status: TodoStatus
    active_form: Annotated[
        str, Meta(description="The same while it is being done: Running the tests. Default: as `content`.")
    ] = ""


class TodosParams(Struct, frozen=True):
    todos: Annotated[list[ListedTodo], Meta(description="The whole list as it is from now on.")]


@tool("todos", DESCRIPTION, effects=False)
async def todos(params: TodosParams, ctx: ToolContext) -> Outcome:
    listed = _checked(params.todos)
    before = await ctx.replace_todos(listed)
    done, current = _count(listed, "completed"), _count(listed, "in_progress")
    content = f"The list has {len(listed)} entries: {done} completed, {current} in progress, {_count(listed, 'pending')} pending."
    if current > 1:
        content += " Work on one at a time."
    return Outcome(
        content=content if listed else "The list is empty now.", metadata=_metadata(before, listed)
    )


def _checked(given: Sequence[ListedTodo]) -> tuple[Todo, ...]:
    if len(given) > MAX_TODOS:
        raise ToolFailed(
            f"{len(given)} entries are too many; name at most {MAX_TODOS} and put small steps together"
        )
    for number, each in enumerate(given, 1):
        if not each.content.strip():
            raise ToolFailed(f"the content of entry {number} is empty; say what is to be done")
        if max(len(each.content), len(each.active_form)) > MAX_TEXT:
            raise ToolFailed(f"entry {number} is longer than {MAX_TEXT} characters; say it in one line")
    return tuple(
        Todo(content=each.content, status=each.status, active_form=each.active_form or each.content)
        for each in given
    )


def _count(listed: Sequence[Todo], status: TodoStatus) -> int:
    return sum(each.status == status for each in listed)


def _metadata(before: Sequence[Todo], after: Sequence[Todo]) -> dict[str, Any]:
    was = {each.content: each.status for each in before}
    changed = [each for each in after if was.get(each.content) != each.status]
    return {
        "is_new": not before,
        "todos": list(after),
        "just_completed": [each.content for each in changed if each.status == "completed"],
        "just_started": next((each.active_form for each in changed if each.status == "in_progress"), ""),
        "completed": _count(after, "completed"),
        "total": len(after),
    }
