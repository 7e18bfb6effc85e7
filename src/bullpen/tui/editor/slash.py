"""What can be typed with a slash: the commands of the screen, those that people keep in files, skills, and prompts of tool servers."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from bullpen.errors import BadRequest
from bullpen.present.custom import Prepared, prepare
from bullpen.schema.agent import McpPrompt
from bullpen.schema.api import McpGetPrompt, PromptText
from bullpen.tui.commands import COMMANDS
from bullpen.tui.editor.popup import Choice

if TYPE_CHECKING:
    from bullpen.client.workspace import Room


def built_in() -> list[Choice]:
    """The commands of the screen, which need no server."""
    return [
        Choice(each.id, f"/{each.id} {each.takes}".rstrip(), each.title, takes=each.takes)
        for each in COMMANDS.values()
    ]


async def offered(room: Room) -> list[Choice]:
    """Everything that can be typed."""
    commands = [
        Choice(each.name, each.usage, f"{each.description}  ({each.source})", takes=_takes(each.usage))
        for each in await room.commands()
        if not each.error and not each.untrusted
    ]
    skills = [
        Choice(each.name, f"/{each.name}", f"{each.description}  (skill)", takes="[what to do]")
        for each in await room.skills()
        if each.user_invocable and not each.untrusted
    ]
    prompts = [
        Choice(
            _name(each),
            f"/{_name(each)} {_arguments(each)}".rstrip(),
            each.description,
            takes=_arguments(each),
        )
        for each in await _prompts(room)
    ]
    known: dict[str, Choice] = {}
    for choice in (*built_in(), *commands, *skills, *prompts):
        known.setdefault(choice.value, choice)
    return list(known.values())


def ranked(choices: list[Choice], query: str) -> list[Choice]:
    """Those that fit what was typed: names that begin with it first, then names that hold it."""
    wanted = query.lower()
    fitting = [choice for choice in choices if wanted in choice.value.lower()]
    return sorted(fitting, key=lambda choice: not choice.value.lower().startswith(wanted))


async def expanded(room: Room, line: str) -> Prepared | None:
    """The prompt that a line with a slash stands for; None when nothing is called so. Raises `BadRequest`."""
    prepared = await prepare(room, line)
    if prepared is not None:
        return prepared
    name, _, words = line.removeprefix("/").partition(" ")
    prompt = next((each for each in await _prompts(room) if _name(each) == name), None)
    if prompt is None:
        return None
    try:
        values = shlex.split(words)
    except ValueError as exc:
        raise BadRequest(f"/{name}: {exc}") from exc
    missing = [each.id for each in prompt.arguments[len(values) :] if each.required]
    if missing:
        raise BadRequest(f"/{name} wants {_arguments(prompt)}; {', '.join(missing)} is missing")
    # The last argument takes all the words that are left.
    last = len(prompt.arguments) - 1
    said = [*values[:last], " ".join(values[last:])] if last >= 0 and len(values) > last else values
    arguments = {each.id: value for each, value in zip(prompt.arguments, said, strict=False)}
    body = McpGetPrompt(client_id=prompt.client_id, prompt_id=prompt.prompt_id, args=arguments)
    return Prepared((await room.call("POST", "/mcp/get-prompt", body)).read(PromptText).prompt)


async def _prompts(room: Room) -> list[McpPrompt]:
    return (await room.call("GET", "/mcp/prompts")).read(list[McpPrompt])


def _name(prompt: McpPrompt) -> str:
    return f"{prompt.client_id}:{prompt.prompt_id}"


def _arguments(prompt: McpPrompt) -> str:
    return " ".join(f"<{each.id}>" if each.required else f"[{each.id}]" for each in prompt.arguments)


def _takes(usage: str) -> str:
    return usage.partition(" ")[2]
