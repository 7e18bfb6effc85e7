"""What stands in a shell command: every simple command in it, word for word, and every file it redirects to.

Nothing is run and nothing is guessed. A word that the shell makes up when it runs (a variable, a substitution, a
glob) is None here, since its text tells nobody what it will be. A line is `whole` if the grammar parsed all of it, a
second, independent splitter finds the same words, and every word is written out; only then does this reading say
all that the line does. Otherwise `why` says what stands in the way, and the commands that were found are a
lower bound: good enough to refuse by, never to allow by.
"""

from __future__ import annotations

import functools
import importlib
import re
import shlex
from collections.abc import Iterator
from typing import Any

import msgspec

MAX_CHARACTERS = 10_000
"""Nobody reads more before nodding, and no rule was written with more in mind."""

_BARE = re.compile(r"[\w@%+=:,./^-]+")
"""A word without quotes: no character that any shell treats in a special way."""
_QUOTED = re.compile(r"[^\\$`\"]*")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_NUMBERED = re.compile(r"\d+|-")

_STRUCTURE = frozenset({"program", "list", "pipeline", "redirected_statement", "&&", "||", "|", ";"})
"""What a whole line may be made of, besides simple commands."""

_REASONS = {
    "ERROR": "it cannot be parsed",
    "command_substitution": "it contains a command substitution",
    "process_substitution": "it contains a process substitution",
    "simple_expansion": "it uses a variable",
    "expansion": "it uses a variable",
    "arithmetic_expansion": "it computes a word",
    "brace_expression": "it contains a brace expansion",
    "variable_assignment": "it sets a variable",
    "variable_assignments": "it sets variables",
    "declaration_command": "it sets a variable",
    "unset_command": "it takes a variable away",
    "function_definition": "it defines a function",
    "heredoc_redirect": "it contains a here-document",
    "herestring_redirect": "it contains a here-string",
    "ansi_c_string": "it contains an escaped string",
    "translated_string": "it contains a translated string",
    "subshell": "it starts a subshell",
    "comment": "it contains a comment",
    "&": "it runs something in the background",
    "|&": "it joins commands by |&",
}
_WORDS = frozenset({"word", "string", "concatenation", "extglob_pattern", "regex", "file_redirect"})
_WRITING = frozenset({">", ">>", ">|", "&>", "&>>", ">&", "<>"})

Word = str | None
"""None is a word that is only known when the command runs."""


class Simple(msgspec.Struct, frozen=True):
    """One simple command; `texts` are its words as they are written."""

    words: tuple[Word, ...]
    texts: tuple[str, ...]

    @property
    def name(self) -> Word:
        return self.words[0] if self.words else None

    @property
    def literal(self) -> tuple[str, ...] | None:
        """Its words, if all of them are written out."""
        words = tuple(word for word in self.words if word is not None)
        return words if len(words) == len(self.words) else None


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A command as the shell would read it. `targets` are the files it redirects to, None if only running tells."""

    commands: tuple[Simple, ...] = ()
    targets: tuple[Word, ...] = ()
    why: str = ""

    @property
    def whole(self) -> bool:
        return not self.why and bool(self.commands)


@functools.cache
def parser() -> Any:
    """Loaded at first use: the grammar takes longer to load than a server may take to start."""
    bash, tree_sitter = importlib.import_module("tree_sitter_bash"), importlib.import_module("tree_sitter")
    return tree_sitter.Parser(tree_sitter.Language(bash.language()))


@functools.lru_cache(maxsize=256)
def read(command: str) -> Line:
    """Read a command. Never raises: what cannot be read is not whole."""
    if len(command) > MAX_CHARACTERS:
        return Line(why="it is too long to be read")
    odd = next((c for c in command if not (c in "\n\t" or " " <= c <= "~" or c.isalnum())), "")
    why = f"it contains the character U+{ord(odd):04X}" if odd else ""
    if not why and "\n" in command:
        why = "it has several lines"
    try:
        source = command.encode()
    except UnicodeEncodeError:
        return Line(why=why)
    reading = _Reading()
    reading.visit(parser().parse(source).root_node)
    why = why or reading.why
    if not why and not reading.commands:
        why = "it contains no command"
    if not why and _split(command) != reading.tokens:
        why = "it can be read in two ways"
    return Line(commands=tuple(reading.commands), targets=tuple(reading.targets), why=why)


class _Reading:
    """A walk over the tree of one command. `tokens` are its words and operators in a row."""

    def __init__(self) -> None:
        self.commands: list[Simple] = []
        self.targets: list[Word] = []
        self.tokens: list[str] = []
        self.why = ""

    def visit(self, root: Any) -> None:
        """Depth first, without recursion: a hostile line may be nested as deeply as it is long."""
        stack = [root]
        while stack:
            node = stack.pop()
            match node.type:
                case "command":
                    inner = self._command(node)
                case "file_redirect":
                    inner = self._redirect(node)
                case kind:
                    if kind not in _STRUCTURE or node.has_error or node.is_missing:
                        self._stop(node)
                    elif not node.children and kind:
                        self.tokens.append(kind)
                    inner = list(node.children)
            stack += reversed(inner)

    def _command(self, node: Any) -> list[Any]:
        """Take the words; gives back what else has to be looked into."""
        words: list[Word] = []
        texts: list[str] = []
        inner: list[Any] = []
        for child in node.children:
            if child.type in {
                "file_redirect",
                "heredoc_redirect",
                "herestring_redirect",
                "variable_assignment",
            }:
                inner.append(child)
                # These come before the name, where the order of words is not that of the text any more.
                self._stop(child)
                continue
            part = child.children[0] if child.type == "command_name" and len(child.children) == 1 else child
            text = _text(part)
            word = _literal(part)
            if word is None:
                self._stop(_culprit(part))
                inner.append(part)
                word = _unescaped(part)
            else:
                self.tokens.append(word)
            words.append(word)
            texts.append(text)
        if words:
            self.commands.append(Simple(tuple(words), tuple(texts)))
        return inner

    def _redirect(self, node: Any) -> list[Any]:
        descriptor, operator, target = "", "", None
        for child in node.children:
            if child.type == "file_descriptor":
                descriptor = _text(child)
            elif not operator:
                operator = child.type
            else:
                target = child
        word = None if target is None else _literal(target)
        if target is None or word is None:
            self._stop(node)
            if operator in _WRITING:
                self.targets.append(None if target is None else _unescaped(target))
            return [] if target is None else [target]
        self.tokens += [*([descriptor] if descriptor else []), operator, word]
        if (
            operator in _WRITING
            and word != "/dev/null"
            and not (operator == ">&" and _NUMBERED.fullmatch(word))
        ):
            self.targets.append(word)
        elif operator not in _WRITING and operator not in {"<", "<&"}:
            self._stop(node)
        return []

    def _stop(self, node: Any) -> None:
        if self.why:
            return
        if node.has_error or node.is_missing:
            self.why = _REASONS["ERROR"]
        else:
            fallback = (
                "it contains a glob, an escape or a tilde"
                if node.type in _WORDS
                else f"it contains a {node.type.replace('_', ' ')}"
            )
            self.why = _REASONS.get(node.type, fallback)


def _literal(node: Any) -> Word:
    """What the shell makes of a word, if that is written in it without any escapes."""
    text = _text(node)
    match node.type:
        case "word" | "number" if _BARE.fullmatch(text) and not node.has_error:
            return text
        case "raw_string":
            return text[1:-1]
        case "string" if len(text) > 1 and _QUOTED.fullmatch(text[1:-1]) and not node.has_error:
            return text[1:-1]
        case "concatenation":
            parts = [_literal(child) for child in node.children]
            return None if any(part is None for part in parts) else "".join(map(str, parts))
    return None


def _unescaped(node: Any) -> Word:
    """A word with backslashes in it: clear enough to refuse by, though not to allow by."""
    text = _text(node)
    match node.type:
        case "word" if not re.search(r"[*?\[\]{}~]", text):
            return _ESCAPED.sub(r"\1", text)
        case "string" if len(text) > 1 and not re.search(r"(?<!\\)[$`]", text):
            return re.sub(r"\\([$`\"\\])", r"\1", text[1:-1])
        case "concatenation":
            parts = [
                _literal(child) if _literal(child) is not None else _unescaped(child)
                for child in node.children
            ]
            return None if any(part is None for part in parts) else "".join(map(str, parts))
    return None


def _culprit(node: Any) -> Any:
    """The part of a word that keeps it from being literal."""
    for inner in _below(node):
        if inner.type in _REASONS:
            return inner
    return node


def _below(node: Any) -> Iterator[Any]:
    stack = [node]
    while stack:
        inner = stack.pop()
        yield inner
        stack += reversed(inner.children)


def _text(node: Any) -> str:
    return str(node.text.decode())


def _split(command: str) -> list[str] | None:
    """The same words and operators as another splitter sees them: an oversight of one is caught by the other."""
    splitter = shlex.shlex(command, posix=True, punctuation_chars=True)
    splitter.whitespace_split = True
    splitter.commenters = ""
    try:
        return list(splitter)
    except ValueError:
        return None
