"""How each tool is shown: its name, what of its arguments says most, and what came of it.

Nothing is drawn here: a call becomes a `Header` and a `Body`, which `bodies.py` draws.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from bullpen.present.difference import difference
from bullpen.present.inert import inert_line
from bullpen.schema.message import ToolCall, ToolResult

MAX_WORD = 4_000
"""So much of an argument stands in a header, when all of it is wanted."""


class Header(NamedTuple):
    """`main` is the argument that says most, `more` what is worth telling beside it."""

    name: str
    main: str
    more: tuple[str, ...] = ()


class Plain(NamedTuple):
    text: str


class Output(NamedTuple):
    """What a program printed, colours and all."""

    text: str


class Source(NamedTuple):
    """Lines of a file, from a number on; none when it is 0."""

    text: str
    path: str
    first: int = 1


class Difference(NamedTuple):
    """A unified diff."""

    text: str
    path: str


class Prose(NamedTuple):
    """Markdown."""

    text: str


class Listed(NamedTuple):
    """Lines with a sign each."""

    rows: tuple[tuple[str, str], ...]


Body = Plain | Output | Source | Difference | Prose | Listed


class Facts(NamedTuple):
    """What is known of a call: its arguments as they took effect, its result and what that tells people."""

    arguments: Mapping[str, Any]
    content: str
    about: Mapping[str, Any]

    def word(self, key: str) -> str:
        """An argument as one line."""
        value = self.arguments.get(key)
        if value is None or value == "":
            return ""
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return inert_line(text[:MAX_WORD])


class Shown(NamedTuple):
    """One tool in the table. `main` are the arguments that say most, the first that is there; `more` those told beside it."""

    name: str
    main: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    body: Callable[[Facts], list[Body]] = lambda facts: [Plain(facts.content)]


def facts_of(call: ToolCall, result: ToolResult | None) -> Facts:
    """A hook may have changed the call: what took effect is what is told."""
    about = _object(result.metadata) if result else {}
    hook = about.get("hook")
    changed = hook.get("updated_input") if isinstance(hook, dict) else None
    arguments = changed if isinstance(changed, dict) else _object(call.input)
    return Facts(arguments, result.content if result else "", about)


def header_of(call: ToolCall, facts: Facts) -> Header:
    """What stands in the first row."""
    shown = TOOLS.get(call.name)
    if shown is None:
        given = json.dumps(facts.arguments, ensure_ascii=False) if facts.arguments else ""
        return Header(_foreign_name(call.name), inert_line(given[:MAX_WORD]))
    main = next((word for key in shown.main if (word := facts.word(key))), "")
    more = tuple(f"{key}={word}" for key in shown.more if (word := facts.word(key)))
    if call.name == "bash" or call.name.startswith("job_"):
        return _command_header(call.name, shown, facts, main, more)
    if call.name == "todos":
        return Header(shown.name, _progress(facts))
    if call.name == "question":
        return Header(shown.name, _asked(facts))
    return Header(shown.name, main, more + _counts(facts))


def body_of(call: ToolCall, facts: Facts) -> list[Body]:
    """What came of a call that went well."""
    shown = TOOLS.get(call.name)
    return shown.body(facts) if shown else _foreign_body(facts)


def exit_code(facts: Facts) -> int:
    """How a command ended; 0 where nothing says otherwise."""
    told = facts.about.get("exit_code")
    if isinstance(told, int):
        return told
    # Sessions from before the code was told apart have it as the last lines of the output.
    for line in reversed(str(facts.about.get("output", "")).rsplit("\n", 4)[-4:]):
        name, _, number = line.rpartition(" ")
        if name == "Exit code" and number.lstrip("-").isdigit():
            return int(number)
    return 0


def seconds_of(facts: Facts) -> float:
    """How long a command took, when that is told."""
    match facts.about:
        case {"start_time": int(start), "end_time": int(end)}:
            return max(end - start, 0) / 1000
        case _:
            return 0


def _object(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _foreign_name(name: str) -> str:
    """An MCP tool is `mcp_server_tool`; any other unknown one gets its name in words."""
    if name.startswith("mcp_"):
        server, _, tool = name.removeprefix("mcp_").partition("_")
        return f"{inert_line(server)} → {inert_line(tool)}" if tool else inert_line(server)
    return inert_line(name.replace("_", " ")).capitalize() or "?"


def _foreign_body(facts: Facts) -> list[Body]:
    """JSON is set out, a diff is shown as one, all else is text."""
    content = facts.content
    if content.lstrip().startswith(("{", "[")) and len(content) < 200_000:
        try:
            return [Source(json.dumps(json.loads(content), indent=2, ensure_ascii=False), "x.json", 0)]
        except (ValueError, RecursionError):
            pass
    if content.startswith(("--- ", "diff --git ")) and "\n@@ " in content:
        return [Difference(content, "")]
    return [Plain(content)]


def _command_header(name: str, shown: Shown, facts: Facts, main: str, more: tuple[str, ...]) -> Header:
    if facts.about.get("background"):
        return Header("Job start", main, (f"job={facts.about.get('shell_id', '')}",))
    if name != "bash" and (command := facts.about.get("command")):
        return Header(shown.name, f"{main}  {inert_line(str(command))}")
    return Header(shown.name, main, more)


def _counts(facts: Facts) -> tuple[str, ...]:
    """How many lines came and went."""
    match facts.about:
        case {"additions": int(added), "removals": int(removed)}:
            return (f"+{added} −{removed}",)
        case _:
            return ()


def _progress(facts: Facts) -> str:
    match facts.about:
        case {"completed": int(done), "total": int(total)}:
            started = inert_line(str(facts.about.get("just_started") or ""))
            ended = facts.about.get("just_completed")
            finished = ended if isinstance(ended, list) else ()
            told = [f"{done}/{total}"]
            told += [f"done: {inert_line(', '.join(map(str, finished)))}"] if finished else []
            told += [f"now: {started}"] if started else []
            return "  ".join(told)
        case _:
            return ""


SIGNS = {"completed": "✓", "in_progress": "→", "pending": "•"}


def _todos(facts: Facts) -> list[Body]:
    entries = facts.about.get("todos") or facts.arguments.get("todos") or ()
    rows = tuple(
        (SIGNS.get(str(entry.get("status")), "•"), inert_line(str(entry.get("content", ""))))
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, dict)
    )
    return [Listed(rows)] if rows else [Plain(facts.content)]


def _asked(facts: Facts) -> str:
    asked = facts.arguments.get("questions")
    given = asked if isinstance(asked, list) else ()
    listed = [str(each.get("question", "")) for each in given if isinstance(each, dict)]
    more = f" (+{len(listed) - 1} more)" if len(listed) > 1 else ""
    return inert_line(listed[0]) + more if listed else ""


def _answers(facts: Facts) -> list[Body]:
    rows: list[tuple[str, str]] = []
    for line in facts.content.split("\n"):
        name, _, told = line.partition(": ")
        if name == "Answer":
            rows.append(("→", told))
        elif name.startswith("Note"):
            rows.append((" ", line))
        elif name.startswith("Q") and name[1:].isdigit():
            rows.append(("?", told))
    return [Listed(tuple(rows))] if rows else [Plain(facts.content)]


def _printed(facts: Facts) -> list[Body]:
    output = facts.about.get("output")
    if not isinstance(output, str) or facts.about.get("background"):
        return [Output(facts.content)]
    # The header tells it already.
    return [Output(output.removesuffix(f"Exit code {exit_code(facts)}"))]


def _viewed(facts: Facts) -> list[Body]:
    about = facts.about
    if about.get("resource_type") == "skill":
        name, told = about.get("resource_name", ""), about.get("resource_description", "")
        return [Plain(f"loaded the skill {name}: {told}")]
    content = about.get("content")
    if not isinstance(content, str) or not content:
        return [Plain(facts.content)]
    offset = facts.arguments.get("offset")
    return [Source(content, facts.word("file_path"), (offset if isinstance(offset, int) else 0) + 1)]


def _changed(facts: Facts) -> list[Body]:
    diff = change_of(facts)
    notes = _failed_edits(facts)
    return [*notes, diff] if diff else [Plain(facts.content)]


def change_of(facts: Facts) -> Difference | None:
    """The change that a call made or would have made."""
    path = facts.word("file_path")
    match facts.about:
        case {"old_content": str(old), "new_content": str(new)}:
            return Difference(difference(old, new), path)
        case {"diff": str(diff)}:
            return Difference(diff, path)
        case _:
            return None


def _failed_edits(facts: Facts) -> list[Body]:
    failed = facts.about.get("edits_failed")
    if not isinstance(failed, list) or not failed:
        return []
    applied = facts.about.get("edits_applied")
    rows = [
        ("!", f"{applied} of {len(failed) + (applied if isinstance(applied, int) else 0)} edits were made")
    ]
    rows += [
        ("✗", f"edit {each.get('index')}: {each.get('error')}") for each in failed if isinstance(each, dict)
    ]
    return [Listed(tuple(rows))]


def _prose(facts: Facts) -> list[Body]:
    return [Prose(facts.content)]


_PATH = ("file_path", "path")

TOOLS: dict[str, Shown] = {
    "bash": Shown("Bash", ("command",), ("working_dir",), _printed),
    "job_output": Shown("Job output", ("shell_id",), (), _printed),
    "job_kill": Shown("Job kill", ("shell_id",)),
    "job_list": Shown("Jobs"),
    "view": Shown("View", _PATH, ("limit", "offset"), _viewed),
    "write": Shown("Write", _PATH, (), _changed),
    "edit": Shown("Edit", _PATH, ("replace_all",), _changed),
    "multiedit": Shown("Multi-edit", _PATH, (), _changed),
    "lsp_replace_symbol": Shown("Replace symbol", ("symbol",), ("file_path", "action"), _changed),
    "lsp_rename": Shown("Rename symbol", ("symbol",), ("new_name", "path"), _changed),
    "glob": Shown("Glob", ("pattern",), ("path",)),
    "grep": Shown("Grep", ("pattern",), ("path", "include", "literal_text")),
    "ls": Shown("List", ("path",), ("depth", "ignore")),
    "fetch": Shown("Fetch", ("url",), ("format", "timeout")),
    "web_fetch": Shown("Fetch", ("url",), (), _prose),
    "web_search": Shown("Search", ("query",), ("max_results",), _prose),
    "download": Shown("Download", ("url",), ("file_path",)),
    "sourcegraph": Shown("Sourcegraph", ("query",), ("count", "context_window")),
    "agent": Shown("Agent", ("prompt",), ("agent",), _prose),
    "agentic_fetch": Shown("Agentic fetch", ("prompt", "url"), ("url",), _prose),
    "todos": Shown("To-do", (), (), _todos),
    "question": Shown("Question", (), (), _answers),
    "lsp_diagnostics": Shown("Diagnostics", _PATH),
    "lsp_references": Shown("Find references", ("symbol",), ("path",)),
    "lsp_definition": Shown("Find definition", ("symbol",), ("path",)),
    "lsp_symbols": Shown("List symbols", ("file_path", "path", "query")),
    "lsp_call_hierarchy": Shown("Call hierarchy", ("symbol",), ("path", "direction")),
    "lsp_restart": Shown("Restart language server", ("name",)),
    "bullpen_info": Shown("Bullpen info"),
    "bullpen_logs": Shown("Bullpen logs", (), ("lines",)),
}
SENDS = frozenset({"agent", "agentic_fetch"})
"""The tools that send a sub-agent."""
