"""Rules: what is let through, asked about or refused without asking.

A call is cut into what it touches: each simple command in it, each path, each host; one that touches nothing known is a
whole of its own. It is allowed if rules cover every piece. It is refused if a deny rule matches any piece, whatever else allows it.
A command that cannot be read whole is covered by nothing, and as long as any deny rule is about commands somebody is asked about it.

Command rules are patterns of words: `npm run test`, `git commit *`. A `*` at the end stands for any further words, elsewhere for
one, within a word for any text. Deny rules also look behind wrappers and at programs named by their path; allow rules do
not: what a wrapper runs has to be named by the pattern or allowed on its own.
"""

from __future__ import annotations

import fnmatch
import functools
import itertools
import os
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from bullpen.asks.subject import Subject
from bullpen.errors import BadRequest
from bullpen.schema.asks import Rule
from bullpen.system.shell_grammar import Word
from bullpen.system.shell_wrappers import Part

MAX_TEXT = 1000


class Judgement(NamedTuple):
    """What the rules say. `denied` refuses; `doubtful` is a deny rule that may be meant, so somebody is asked; `asks` asks
    although others allow; `allowed` are the rules that cover the call, None when they do not; `missing` is then the first
    command that none covers, if it is a command that is missing."""

    denied: Rule | None = None
    doubtful: Rule | None = None
    asks: Rule | None = None
    allowed: tuple[Rule, ...] | None = None
    missing: Part | None = None


def judge(subject: Subject, rules: Iterable[Rule]) -> Judgement:
    about = [rule for rule in rules if _is_about(rule, subject)]
    denying = [rule for rule in about if rule.effect == "deny"]
    asking = [rule for rule in about if rule.effect == "ask"]
    allowing = [rule for rule in about if rule.effect == "allow"]
    return Judgement(
        denied=next((rule for rule in denying if _touches(rule, subject)), None),
        doubtful=next((rule for rule in denying if _may_touch(rule, subject)), None),
        asks=next((r for r in asking if _touches(r, subject) or _may_touch(r, subject)), None),
        allowed=_covering(allowing, subject),
        missing=_missing(allowing, subject),
    )


def check(rule: Rule) -> None:
    """Raises `BadRequest` for a rule that cannot mean what its author meant."""
    for name, text in (
        ("tool", rule.tool),
        ("command", rule.command),
        ("path", rule.path),
        ("host", rule.host),
    ):
        if len(text) > MAX_TEXT or not text.isprintable():
            raise BadRequest(f"{name} of a rule must be printable and at most {MAX_TEXT} characters long")
    if not (rule.tool or rule.command or rule.path or rule.host):
        raise BadRequest("a rule needs a tool, a command, a path or a host")
    if rule.command:
        try:
            words = shlex.split(rule.command)
        except ValueError as exc:
            raise BadRequest(f"the command of a rule cannot be read: {exc}") from exc
        if not words or (rule.effect == "allow" and "*" in words[0]):
            raise BadRequest("a rule that allows a command has to name the program")
        if re.search(r"[;&|<>`$\n]", rule.command):
            raise BadRequest("a rule is about one simple command; write one rule for each")
    if rule.host and not re.fullmatch(r"(\*\.)?[\w.:-]+", rule.host):
        raise BadRequest("a host is a name, such as example.com or *.example.com, without scheme and port")
    if rule.effect == "allow" and rule.host and rule.command:
        raise BadRequest("a rule that allows a command cannot tell which hosts it will talk to")


def keeps_from(rules: Iterable[Rule], subject: Subject, *, asks_count: bool) -> Callable[[Path], bool] | None:
    """Which real paths the rules keep a call from that looks at many: what is denied, and what nobody can be asked about one by
    one. None when there are no such rules."""
    effects = {"deny", "ask"} if asks_count else {"deny"}
    kept = [
        rule.path
        for rule in rules
        if rule.effect in effects
        and rule.path
        and not (rule.command or rule.host)
        and _is_about(rule, subject)
    ]
    if not kept:
        return None
    return lambda path: any(path_matches(pattern, path, subject.root) for pattern in kept)


# Which rules are about a call at all


def _is_about(rule: Rule, subject: Subject) -> bool:
    return not rule.tool or rule.tool in (subject.tool, f"{subject.tool}:{subject.action}")


# Deny and ask: any piece


def _touches(rule: Rule, subject: Subject) -> bool:
    """Whether everything that the rule names is there."""
    if rule.command and not any(_runs(rule, inner) for part in subject.parts for inner in part.every()):
        return False
    if rule.path and not any(path_matches(rule.path, path, subject.root) for path in _all_paths(subject)):
        return False
    return not rule.host or any(host_matches(rule.host, host) for host in subject.hosts)


def _may_touch(rule: Rule, subject: Subject) -> bool:
    """Whether it may be there without being written out. Only commands hide what they touch."""
    if not subject.command or not (rule.command or rule.path or rule.host):
        return False
    if subject.why:
        return True
    if not rule.command:
        return bool(rule.path) and not rule.host and _may_reach(rule, subject)
    pattern = _words_of(rule.command)
    return any(_may_run(pattern, inner) for part in subject.parts for inner in part.every())


_RECURSIVE = frozenset({"rg", "find", "tree", "du", "fd"})


def _may_reach(rule: Rule, subject: Subject) -> bool:
    """Whether a command may come to what the rule names without naming it: by looking at all that is in a directory."""
    top = _literal_part(rule.path, subject.root)
    places = subject.mentioned or (subject.directory,)
    goes_down = any(_goes_down(part) for part in subject.parts)
    return any(top == place or (goes_down and top.is_relative_to(place)) for place in places)


def _goes_down(part: Part) -> bool:
    options = [word for word in part.words[1:] if word and word.startswith("-")]
    return part.name in _RECURSIVE or any(
        "recursive" in word if word.startswith("--") else "r" in word.lower() for word in options
    )


def _literal_part(pattern: str, root: Path) -> Path:
    """The directory in which everything lies that a glob may match."""
    text = os.path.expanduser(pattern)
    names = itertools.takewhile(lambda name: not re.search(r"[*?]", name), text.split("/"))
    return Path(
        os.path.normpath(os.path.join(root, "/".join(names) or ("/" if text.startswith("/") else ".")))
    )


def _runs(rule: Rule, part: Part) -> bool:
    return words_match(_words_of(rule.command), (part.name, *part.words[1:])) or words_match(
        _words_of(rule.command), part.words
    )


def _may_run(pattern: Sequence[str], part: Part) -> bool:
    """Behind a wrapper any word may begin a command; in any command options may stand between the words of a pattern."""
    if part.is_wrapper and any(words_match(pattern, part.words[n:]) for n in range(1, len(part.words))):
        return True
    wanted = [word for word in pattern if word != "*"]
    rest = iter((part.name, *part.words[1:]))
    return (
        bool(wanted)
        and _word_matches(wanted[0], part.name)
        and all(any(_word_matches(want, word) for word in rest) for want in wanted)
    )


def _all_paths(subject: Subject) -> list[Path]:
    targets = [path for path in subject.targets if path is not None]
    return [*subject.paths, *targets, *subject.mentioned, *([subject.directory] if not subject.paths else [])]


# Allow: every piece


def _covering(rules: Sequence[Rule], subject: Subject) -> tuple[Rule, ...] | None:
    """The rules that together cover all of the call, or None."""
    if not rules or (subject.command and subject.why):
        return None
    used: list[Rule | None] = []
    if subject.command:
        for n, part in enumerate(subject.parts):
            if n not in subject.known:
                used += _cover_part(rules, part, subject)
        used += [_cover_path(rules, target, subject) for target in subject.targets]
    else:
        used += [_cover_path(rules, path, subject) for path in subject.paths]
        used += [_cover_host(rules, host) for host in subject.hosts]
        if not used:
            used.append(_cover_call(rules, subject))
    found = [rule for rule in used if rule is not None]
    return tuple(dict.fromkeys(found)) if found and len(found) == len(used) else None


def _missing(rules: Sequence[Rule], subject: Subject) -> Part | None:
    parts = [part for n, part in enumerate(subject.parts) if n not in subject.known]
    return next((part for part in parts if None in _cover_part(rules, part, subject)), None)


def _cover_part(rules: Sequence[Rule], part: Part, subject: Subject) -> list[Rule | None]:
    best: list[Rule | None] = [None]
    for rule in rules:
        if not rule.command or rule.host or not words_match(_words_of(rule.command), part.words):
            continue
        if rule.path and (subject.moves or not path_matches(rule.path, subject.directory, subject.root)):
            continue
        pattern = _words_of(rule.command)
        if not part.is_wrapper or pattern == list(part.words):
            return [rule]
        if part.at and len(part.inner) == 1 and len(pattern) > part.at and "*" not in pattern[part.at]:
            return [rule, *_cover_named(rules, part.inner[0], subject)]
        if part.inner:
            best = [rule, *(found for inner in part.inner for found in _cover_part(rules, inner, subject))]
    return best


def _cover_named(rules: Sequence[Rule], part: Part, subject: Subject) -> list[Rule | None]:
    """The pattern names this command; if it is a wrapper itself, what it runs has to be covered still."""
    return (
        [found for inner in part.inner for found in _cover_part(rules, inner, subject)]
        if part.is_wrapper
        else []
    )


def _cover_path(rules: Sequence[Rule], path: Path | None, subject: Subject) -> Rule | None:
    if path is None:
        return None
    for rule in rules:
        if rule.command or rule.host or not (rule.tool or rule.path):
            continue
        if path_matches(rule.path, path, subject.root) if rule.path else not subject.command:
            return rule
    return None


def _cover_host(rules: Sequence[Rule], host: str) -> Rule | None:
    for rule in rules:
        if rule.command or rule.path or not (rule.tool or rule.host):
            continue
        if not rule.host or host_matches(rule.host, host):
            return rule
    return None


def _cover_call(rules: Sequence[Rule], subject: Subject) -> Rule | None:
    """A call of which only the name and the directory are known."""
    for rule in rules:
        is_whole = rule.tool and not (rule.command or rule.host)
        if is_whole and (not rule.path or path_matches(rule.path, subject.directory, subject.root)):
            return rule
    return None


# Matching


def words_match(pattern: Sequence[str], words: Sequence[Word]) -> bool:
    """Whether a pattern matches all words of a command."""
    if not pattern:
        return False
    if pattern[-1] == "*" and len(pattern) > 1:
        pattern, words = pattern[:-1], words[: len(pattern) - 1]
    elif list(pattern) == ["*"]:
        return True
    return len(pattern) == len(words) and all(map(_word_matches, pattern, words))


def _word_matches(pattern: str, word: Word) -> bool:
    return word is not None and (
        pattern == word or ("*" in pattern and bool(_word_form(pattern).fullmatch(word)))
    )


@functools.lru_cache(maxsize=1024)
def _word_form(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(re.sub(r"[?\[]", r"[\g<0>]", pattern)))


@functools.lru_cache(maxsize=1024)
def _words_of(pattern: str) -> list[str]:
    try:
        return shlex.split(pattern)
    except ValueError:
        return pattern.split()


def path_matches(pattern: str, path: Path, root: Path) -> bool:
    """Whether a glob matches a path. Relative ones begin at the workspace. One that ends in a plain name also means all below it."""
    return bool(_path_form(pattern, str(root)).fullmatch(str(path)))


@functools.lru_cache(maxsize=1024)
def _path_form(pattern: str, root: str) -> re.Pattern[str]:
    text = str(Path(pattern).expanduser()) if pattern.startswith("~") else pattern
    text = text.removeprefix("./")
    absolute = text if text.startswith("/") else f"{root.rstrip('/')}/{text}" if text != "." else root
    form = "".join(
        _GLOBS.get(piece, re.escape(piece))
        for piece in re.split(r"(/\*\*/|\*\*|\*|\?)", absolute.rstrip("/"))
    )
    is_plain = not re.search(r"[*?]", absolute.rstrip("/").rpartition("/")[2])
    return re.compile(form + ("(/.*)?" if is_plain or absolute.endswith("/") else ""), re.DOTALL)


_GLOBS = {"/**/": "/(.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def host_matches(pattern: str, host: str) -> bool:
    pattern, host = pattern.lower().rstrip("."), host.lower().rstrip(".")
    if pattern.startswith("*."):
        return host.endswith(pattern[1:]) and host != pattern[2:]
    return host == pattern


# What an answer would allow from now on


def offered(subject: Subject) -> tuple[Rule, ...]:
    """The narrowest rules that cover the call, which `allow_rule` makes; none if no rule may cover it.

    None either for a command that runs a file of the workspace: the words stay the same when the file changes.
    """
    if subject.protects or (subject.command and subject.why) or subject.scripts:
        return ()
    tool = f"{subject.tool}:{subject.action}"
    if not subject.command:
        if not subject.paths and not subject.hosts:
            return (Rule(id="", effect="allow", tool=tool),)
        if any(re.search(r"[*?]", str(path)) or not str(path).isprintable() for path in subject.paths):
            return ()
        globs = dict.fromkeys(_glob_of(path, subject.root) for path in subject.paths)
        hosts = dict.fromkeys(subject.hosts)
        rules = [*(Rule(id="", effect="allow", tool=tool, path=glob) for glob in globs)]
        return (*rules, *(Rule(id="", effect="allow", tool=tool, host=host) for host in hosts))
    if subject.targets:
        return ()
    rules = []
    for n, part in enumerate(subject.parts):
        words = [word for word in part.words if word is not None]
        pattern = shlex.join(words)
        if n in subject.known:
            continue
        if part.is_wrapper or "*" in pattern or len(pattern) > MAX_TEXT or not pattern.isprintable():
            return ()
        rules.append(Rule(id="", effect="allow", tool=tool, command=pattern))
    made = tuple(dict.fromkeys(rules))
    return made if _covering(made, subject) else ()


def _glob_of(path: Path, root: Path) -> str:
    """The folder of a file, relative to the workspace if it lies there."""
    folder = path.parent
    if not folder.is_relative_to(root):
        return f"{folder}/*"
    inner = folder.relative_to(root).as_posix()
    return "*" if inner == "." else f"{inner}/*"
