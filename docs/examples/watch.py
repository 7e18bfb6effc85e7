"""Watch everything that happens in a workspace, whoever causes it. Ctrl-C ends it.

    python docs/examples/watch.py ~/project

Kill the server, close the laptop, restart the machine behind it: what happened meanwhile is printed when the link is
back, once and in order.
"""

# ruff: noqa: T201 (printing is what an example is for)

import sys
from contextlib import suppress

import anyio

from bullpen.client.updates import LinkChanged
from bullpen.client.workspace import attach
from bullpen.schema.asks import PermissionRequest
from bullpen.schema.events import RunComplete
from bullpen.schema.message import Message


async def main(path: str) -> None:
    async with attach(path, name="watch.py") as room:
        updates = room.updates()
        print(
            f"watching {room.workspace.path}: {len(room.sessions)} sessions, {len(room.asks)} open asks",
            flush=True,
        )
        async for update in updates:
            if isinstance(update, LinkChanged):
                print(f"-- {update.state} {update.reason}", flush=True)
                continue
            match update.payload:
                case Message(role="user") as prompt:
                    print(f"prompt: {prompt.text!r}", flush=True)
                case Message(role="assistant") as answer if answer.finish:
                    print(f"answer ({answer.finish.reason}): {answer.text!r}", flush=True)
                case PermissionRequest() as ask:
                    print(f"{ask.tool_name} asks: {ask.params}", flush=True)
                case RunComplete() as end:
                    print(f"run {end.run_id} is over {end.error}", flush=True)


with suppress(KeyboardInterrupt):
    anyio.run(main, sys.argv[1] if len(sys.argv) > 1 else ".")
