"""Asks on a terminal: what is asked, in full, and what an answer typed as a number or a text means."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from bullpen.asks.display import visible
from bullpen.files.diff import unified
from bullpen.present.inert import inert, inert_line
from bullpen.schema.asks import (
    PermissionAction,
    PermissionRequest,
    Question,
    QuestionBatch,
    QuestionResponse,
)

SHOWN_LINES = 40
"""Of what a tool wants to do; more is a page of its own (`/show`), never cut in silence."""


def permission_text(ask: PermissionRequest, *, session: str = "", whole: bool = False) -> str:
    """What a tool wants to do, and the answers there are."""
    where = f" (in “{inert_line(session)}”)" if session else ""
    body = details(ask.params, ask.description).split("\n")
    hidden = 0 if whole else max(len(body) - SHOWN_LINES, 0)
    shown = body[: len(body) - hidden]
    lines = [
        f"? {inert_line(ask.tool_name)} asks to {inert_line(ask.action)} in {inert_line(ask.path)}{where}"
    ]
    if ask.why:
        lines.append(f"  why: {inert_line(ask.why)}")
    lines += [f"  ! it {inert_line(warning)}" for warning in ask.warnings]
    lines += [f"  | {line}" for line in shown]
    if hidden:
        lines.append(f"  … {hidden} more lines: /show prints them all")
    if said := claim(ask.params):
        lines.append(f"  the model says: {said}")
    beside = ", but not for targets like this one" if ask.protected else ""
    lines += [
        "  1 allow once",
        f"  2 allow {inert_line(ask.tool_name)} to {inert_line(ask.action)} {scope(ask.params)} for this session{beside}",
        "  3 deny, and end the turn",
        "  4 deny and say why: 4 <reason>",
        "  5 allow exactly this from now on",
    ]
    if ask.rule:
        lines.append(f"  6 allow from now on: {inert_line(ask.rule)}; or your own pattern: 6 <pattern>")
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class PermissionReply:
    action: PermissionAction
    reason: str = ""
    rule: str = ""


def permission_reply(text: str) -> PermissionReply | None:
    """What a typed line answers, or None when it answers nothing."""
    number, _, rest = text.strip().partition(" ")
    match number, rest.strip():
        case "1", "":
            return PermissionReply("allow")
        case "2", "":
            return PermissionReply("allow_session")
        case "3", "":
            return PermissionReply("deny")
        case "4", reason if reason:
            return PermissionReply("deny", reason)
        case "5", "":
            return PermissionReply("allow_exact")
        case "6", pattern:
            return PermissionReply("allow_rule", rule=pattern)
        case _:
            return None


def question_text(question: Question, *, number: int, count: int, session: str = "") -> str:
    """One question of a batch, and the answers there are."""
    of = f" ({number} of {count})" if count > 1 else ""
    where = f" (in “{inert_line(session)}”)" if session else ""
    lines = [f"? {inert_line(question.question)}{of}{where}"]
    if question.description:
        lines.append(f"  {inert_line(question.description)}")
    match question.type:
        case "yes_no":
            lines += ["  1 yes", "  2 no"]
        case "single_choice" | "multi_choice":
            for index, choice in enumerate(question.choices, 1):
                more = f"  {inert_line(choice.description)}" if choice.description else ""
                lines.append(f"  {index} {inert_line(choice.label)}{more}")
    hint = {
        "yes_no": "answer with 1 or 2",
        "single_choice": "answer with a number, or in your own words",
        "multi_choice": "answer with numbers (1 3), or in your own words",
        "free_text": "answer in your own words",
    }[question.type]
    lines.append(f"  {hint}; /skip answers none")
    return "\n".join(lines)


def question_reply(question: Question, text: str) -> QuestionResponse | None:
    """What a typed line answers, or None when it answers nothing."""
    text = text.strip()
    if not text:
        return None
    match question.type:
        case "yes_no":
            yes = {"1": True, "yes": True, "y": True, "2": False, "no": False, "n": False}.get(text.lower())
            return None if yes is None else QuestionResponse(request_id=question.id, yes=yes)
        case "free_text":
            return QuestionResponse(request_id=question.id, fill_in_text=text)
        case "single_choice" | "multi_choice":
            return _choice_reply(question, text)


def _choice_reply(question: Question, text: str) -> QuestionResponse | None:
    words = text.replace(",", " ").split()
    if not all(word.isdecimal() for word in words):
        return QuestionResponse(request_id=question.id, fill_in_text=text)
    picked = [int(word) for word in words]
    if any(not 1 <= number <= len(question.choices) for number in picked):
        return None
    if question.type == "single_choice" and len(picked) != 1:
        return None
    ids = dict.fromkeys(question.choices[number - 1].id for number in picked)
    return QuestionResponse(request_id=question.id, selected_ids=tuple(ids))


class Answers:
    """The answers to a batch as they are typed, one question after the other."""

    def __init__(self, batch: QuestionBatch) -> None:
        self.batch = batch
        self.responses: list[QuestionResponse] = []

    def following(self) -> Question | None:
        """The question to answer next, or None when all are answered."""
        asked = self.batch.questions
        return asked[len(self.responses)] if len(self.responses) < len(asked) else None

    def text(self, session: str = "") -> str:
        """The next question as it is shown."""
        question = self.following()
        assert question is not None
        number, count = len(self.responses) + 1, len(self.batch.questions)
        return question_text(question, number=number, count=count, session=session)


def scope(params: Any) -> str:
    """How far a grant for the session goes: on the web it is for one host."""
    url = params.get("url") if isinstance(params, dict) else None
    try:
        host = urlsplit(url).netloc.rpartition("@")[2] if isinstance(url, str) else ""
    except ValueError:
        host = ""
    return f"at {inert_line(visible(host))}" if host else "in this directory"


def claim(params: Any) -> str:
    """What the model says about its own call: worth reading, and no more."""
    told = params.get("description") if isinstance(params, dict) else None
    return inert_line(visible(told)) if isinstance(told, str) else ""


def command(params: Any) -> str:
    """The shell command that is asked about, as it will run; "" for anything else."""
    told = params.get("command") if isinstance(params, dict) else None
    return _plain(told) if isinstance(told, str) else ""


def change_lines(params: Any) -> list[str]:
    """How a file is to be changed, as the lines of a diff without its head; nothing for anything else."""
    if not isinstance(params, dict):
        return []
    # A file that is new has no old content.
    changed = _with_difference({"old_content": "", **params}).get("change")
    return _plain(changed).rstrip("\n").split("\n") if isinstance(changed, str) else []


def target(params: Any) -> str:
    """The file, or the address, that is asked about."""
    for key in ("file_path", "url", "path"):
        if isinstance(params, dict) and isinstance(told := params.get(key), str):
            return inert_line(visible(told))
    return ""


def offered_pattern(rule: str) -> str:
    """The pattern within the words of an offered rule, to begin another one with; "" where it has several or none."""
    found = re.findall(r"`([^`]*)`", rule)
    return found[0] if len(found) == 1 else ""


def pattern_text(ask: PermissionRequest, pattern: str) -> str:
    """What a pattern of one's own would let through, in words."""
    pattern = inert_line(pattern)
    what = f"{inert_line(ask.tool_name)} may from now on, for 30 days in this workspace,"
    if command(ask.params):
        words = pattern.removesuffix(" *")
        if pattern.endswith(" *"):
            return f"{what} run `{words}` with any further words behind it"
        stars = "; * stands for one word" if "*" in pattern else ", word for word, and nothing else"
        return f"{what} run `{pattern}`{stars}"
    if isinstance(ask.params, dict) and isinstance(ask.params.get("url"), str):
        below = " and every host below it" if pattern.startswith("*.") else ""
        return f"{what} reach {pattern.removeprefix('*.')}{below}"
    deep = ", folders within included" if "**" in pattern else ""
    return f"{what} {inert_line(ask.action)} files that fit {pattern}{deep}"


def details(params: Any, description: str) -> str:
    """The arguments in full, text as text, the old and the new of a file as their difference, and the rest as JSON; without any,
    the tool's own description."""
    if isinstance(params, str):
        return _plain(params)
    if not isinstance(params, dict):
        return _plain(description) if params is None else _plain(json.dumps(params, ensure_ascii=False))
    lines: list[str] = []
    for key, value in _with_difference(params).items():
        if value is None or (key == "description" and isinstance(value, str)):
            continue
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if "\n" in text:
            lines += [
                f"{inert_line(visible(str(key)))}:",
                *(f"  {line}" for line in _plain(text).rstrip("\n").split("\n")),
            ]
        else:
            lines.append(f"{inert_line(visible(str(key)))}: {_plain(text)}")
    return "\n".join(lines) or _plain(description)


def _with_difference(params: dict[Any, Any]) -> dict[Any, Any]:
    """A change is judged by what is different, not by two files one below the other."""
    match params:
        case {"old_content": str(old), "new_content": str(new), **others} if old != new:
            _, _, *changed = unified(old, new, "").text.split("\n")
            return {**others, "change": "\n".join(changed)}
        case _:
            return params


def _plain(text: str) -> str:
    """Stricter than elsewhere: also what joins letters or emoji has no business in what somebody approves."""
    return inert(visible(text))
