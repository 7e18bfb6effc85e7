"""What people added themselves and use by name: commands kept in files, and skills."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from bullpen.errors import BadRequest
from bullpen.present.inert import inert_line
from bullpen.schema.agent import CommandInfo, SkillInfo
from bullpen.schema.api import Attachment

if TYPE_CHECKING:
    from bullpen.client.workspace import Room

T = TypeVar("T", CommandInfo, SkillInfo)


class Prepared(NamedTuple):
    """A prompt that is ready to be sent."""

    text: str
    attachments: tuple[Attachment, ...] = ()


async def prepare(room: Room, line: str) -> Prepared | None:
    """What a line such as `/name words` stands for; None when nothing is called so.

    Raises `BadRequest` when it cannot be used, with the reason.
    """
    first, *others = line.removeprefix("/").split(maxsplit=1)[:2] or [""]
    words = others[0].strip() if others else ""
    if not first:
        return None
    command = _called(first, await room.commands())
    if command is not None:
        return Prepared(await room.expand_command(command.id, words))
    skill = _called(first, [s for s in await room.skills() if s.user_invocable])
    if skill is None:
        return None
    if skill.untrusted:
        raise BadRequest(f"the skill {skill.id} is the project's and not trusted; /trust shows it")
    content = await room.read_skill(skill.id)
    # Where it lies, so that what it refers to can be found beside it.
    places = (state.path for state in room.workspace.skills if state.name == skill.name)
    file = next(places, f"{skill.name}/SKILL.md")
    attached = Attachment(
        file_path=file, file_name="SKILL.md", mime_type="text/markdown", content=content.content
    )
    return Prepared(words or f"Follow the skill {skill.name}, which is attached.", (attached,))


async def listed(room: Room) -> list[str]:
    """All that can be used by name, for people."""
    return [*_command_lines(await room.commands()), *_skill_lines(await room.skills())]


def _command_lines(commands: list[CommandInfo]) -> Iterator[str]:
    for command in commands:
        state = f"  ✗ {inert_line(command.error)}" if command.error else _mark(command)
        yield f"  {inert_line(command.usage)}  {inert_line(command.description)}  ({command.source}){state}"


def _skill_lines(skills: list[SkillInfo]) -> Iterator[str]:
    for skill in skills:
        how = f"/{inert_line(skill.name)}" if skill.user_invocable else inert_line(skill.name)
        yield f"  {how}  {inert_line(skill.description)}  (skill, {inert_line(skill.source)}){_mark(skill)}"


def _mark(found: CommandInfo | SkillInfo) -> str:
    return "  not trusted" if found.untrusted else ""


def _called(name: str, among: list[T]) -> T | None:
    """The one of that id, else of that name: what can be used first, of that the project's."""
    same = [each for each in among if name in (each.id, each.name)]
    same.sort(key=lambda each: (each.id != name, each.untrusted, each.source != "project"))
    return same[0] if same else None
