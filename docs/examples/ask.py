"""Ask the agent in a directory one thing and print its answer as it grows.

    python docs/examples/ask.py . "what is in this directory?"

Tools that ask for permission are refused, so that this is safe to try anywhere.
"""

# ruff: noqa: T201 (printing is what an example is for)

import sys

import anyio

from bullpen.client.workspace import attach
from bullpen.schema.events import MessageDelta, RunComplete


async def main(path: str, question: str) -> None:
    async with attach(path, name="ask.py") as room:
        if not (await room.agent()).is_ready:
            # Nothing is configured here: the built-in demo needs no key.
            await room.set_model("demo", "tour")
        events = room.events()
        session = await room.new_session()
        run = await room.prompt(question, session=session.id, permissions="deny")
        async for event in events:
            match event.payload:
                case MessageDelta(session_id=session.id, part="text", text=text):
                    print(text, end="", flush=True)
                case RunComplete(run_id=ended) as end if ended == run:
                    print(f"\n[{end.error or 'done'}]")
                    return


path, question = sys.argv[1:] or (".", "hello")
anyio.run(main, path, question)
