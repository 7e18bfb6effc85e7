"""All that can be done, in one list: commands with their keys, people's own commands, skills, prompts of tool servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bullpen.errors import BadRequest
from bullpen.present.custom import Prepared, prepare
from bullpen.schema.agent import CommandInfo, McpPrompt, SkillInfo
from bullpen.schema.api import McpGetPrompt, PromptText
from bullpen.tui.dialogs.form import Field, Form
from bullpen.tui.dialogs.picker import Picker
from bullpen.tui.dialogs.rows import Option

if TYPE_CHECKING:
    from bullpen.client.workspace import Room
    from bullpen.tui.chat import ChatScreen
    from bullpen.tui.command import Command


class Palette(Picker):
    """Dismissed with the kind and the id of what is to be done, as `kind:id`."""

    def __init__(self, room: Room, commands: Sequence[Command], keys: dict[str, str]) -> None:
        super().__init__("Commands", hint="↑↓ choose  enter do it  esc close", prompt="what is to be done?")
        self._room = room
        self._commands = commands
        self._keys = keys

    def at_once(self) -> Sequence[Option]:
        return [
            Option(
                f"do:{command.id}",
                f"{command.title} {command.takes}".rstrip(),
                right=self._keys.get(command.id, ""),
                group="Commands",
                also=f"/{command.id} {' '.join(command.aliases)}",
            )
            for command in self._commands
        ]

    async def options(self) -> Sequence[Option]:
        return [
            *self.at_once(),
            *[_of_command(each) for each in await self._room.commands()],
            *[_of_skill(each) for each in await self._room.skills() if each.user_invocable],
            *[_of_prompt(each) for each in await prompts(self._room)],
        ]

    async def pick(self, option: Option) -> None:
        """A command that cannot do without words asks for them first."""
        command = next((each for each in self._commands if f"do:{each.id}" == option.key), None)
        if command is None or not command.takes.startswith("<"):
            self.decide(option.key)
        elif given := await self.also(
            Form(command.title, [Field(command.takes.strip("<>"), is_needed=True)])
        ):
            self.decide(f"{option.key} {' '.join(given.values())}")


async def prompts(room: Room) -> list[McpPrompt]:
    """What tool servers offer to say."""
    return (await room.call("GET", "/mcp/prompts")).read(list[McpPrompt])


def _of_command(command: CommandInfo) -> Option:
    said = command.error or ("not trusted yet" if command.untrusted else command.source)
    return Option(
        f"custom:{command.id}",
        f"{command.usage} · {command.description}",
        right=said,
        group="Your commands",
        off=bool(command.error),
    )


def _of_skill(skill: SkillInfo) -> Option:
    said = "not trusted yet" if skill.untrusted else skill.source
    return Option(f"skill:{skill.id}", f"{skill.name} · {skill.description}", right=said, group="Skills")


def _of_prompt(prompt: McpPrompt) -> Option:
    return Option(
        f"prompt:{prompt.id}",
        f"{prompt.title or prompt.prompt_id} · {prompt.description}",
        right=prompt.client_id,
        group="Prompts of tool servers",
    )


async def use(chat: ChatScreen, picked: str) -> None:
    """Do what was picked. Raises what is said against it."""
    kind, _, wanted = picked.partition(":")
    match kind:
        case "do":
            name, _, words = wanted.partition(" ")
            await chat.do(name, words)
        case "custom":
            await _use_command(chat, wanted)
        case "skill":
            await _use_skill(chat, wanted)
        case "prompt":
            await _use_prompt(chat, wanted)
        case _:
            raise BadRequest(f"there is no {kind}")


async def _use_command(chat: ChatScreen, command_id: str) -> None:
    command = next(each for each in await chat.room.commands() if each.id == command_id)
    given: dict[str, str] | None = {}
    if command.arguments:
        fields = [Field(each.name, value=each.default, is_needed=each.required) for each in command.arguments]
        given = await chat.ask(Form(command.usage, fields, text=command.description))
    if given is not None:
        filled = {name: value for name, value in given.items() if value}
        await chat.say(Prepared(await chat.room.expand_command(command_id, **filled)))


async def _use_skill(chat: ChatScreen, skill_id: str) -> None:
    field = Field("words", "what is to be done with it")
    given = await chat.ask(Form(f"Skill {skill_id}", [field]))
    if given is None:
        return
    prepared = await prepare(chat.room, f"/{skill_id} {given['words']}")
    if prepared is not None:
        await chat.say(prepared)


async def _use_prompt(chat: ChatScreen, prompt_id: str) -> None:
    prompt = next(each for each in await prompts(chat.room) if each.id == prompt_id)
    given: dict[str, str] | None = {}
    if prompt.arguments:
        fields = [
            Field(each.id, each.description or each.title, is_needed=each.required)
            for each in prompt.arguments
        ]
        given = await chat.ask(Form(prompt.title or prompt.prompt_id, fields, text=prompt.description))
    if given is None:
        return
    args = {name: value for name, value in given.items() if value}
    body = McpGetPrompt(client_id=prompt.client_id, prompt_id=prompt.prompt_id, args=args)
    answer = await chat.room.call("POST", "/mcp/get-prompt", body)
    await chat.say(Prepared(answer.read(PromptText).prompt))
