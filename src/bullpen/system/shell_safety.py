"""Which shell commands may run without asking: those known, word for word, to be reads.

There is no list of dangerous things here, only of harmless ones. A command passes if the grammar parses all
of it; if it is one simple command, or a short chain of them joined by `|`, `&&` or `||`; if every word is a
plain or quoted literal; if a second, independent splitter finds the same words; and if the program and each
of its arguments match a rule below. Everything else asks: expansions, globs, redirections other than to
`/dev/null`, assignments, wrappers (`env`, `xargs`), background, several lines, words we do not know.

Paths must be relative and without `..`. Whether a link leads one out of the workspace cannot be seen in the
text: `paths_read` gives the paths to the caller, who looks.

`git` is left out. Even `git status` runs what a repository's configuration names (fsmonitor, filters, external
diff), so no list of its arguments is safe; it can join when we run it with such settings switched off.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bullpen.system.paths import is_inside
from bullpen.system.shell_grammar import parser

MAX_CHARACTERS = 1000
MAX_COMMANDS = 8

_PRINTABLE = re.compile(r"[\x20-\x7e]+")
_BARE = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")
"""A word without quotes: no character that any shell treats in a special way."""
_QUOTED = re.compile(r"[^\\$`!\"]*")
"""What may stand between double quotes."""

_REDIRECTS: Mapping[str, tuple[str, ...]] = {
    ">/dev/null": (">", "/dev/null"),
    "> /dev/null": (">", "/dev/null"),
    "2>/dev/null": ("2", ">", "/dev/null"),
    "2> /dev/null": ("2", ">", "/dev/null"),
    "2>&1": ("2", ">&", "1"),
}


def is_read_only(command: str) -> bool:
    """Whether the command is known to read and to do nothing else, as far as its text tells."""
    return paths_read(command) is not None


def is_known_read(command: str, directory: Path, root: Path) -> bool:
    """Whether the command, run in that directory, is known to read within `root` and to do nothing else. Follows links."""
    found = paths_read(command)
    return found is not None and all(is_inside(root, directory / path) for path in ("", *found))


def paths_read(command: str) -> frozenset[str] | None:
    """The paths that a known read looks at, relative to where it runs; None when it has to ask."""
    command = command.strip(" ")
    if len(command) > MAX_CHARACTERS or not _PRINTABLE.fullmatch(command):
        return None
    try:
        commands, tokens = _parse(command)
        if len(commands) > MAX_COMMANDS or _split(command) != tokens:
            return None
        return frozenset(path for words in commands for path in _paths_of(words))
    except _Unknown:
        return None


def paths_of_words(words: Sequence[str]) -> frozenset[str] | None:
    """The same for one simple command that was read already."""
    try:
        return frozenset(_paths_of(words)) if words else None
    except _Unknown:
        return None


class _Unknown(Exception):
    """Something in the command is not on the list."""


# The grammar


def _parse(command: str) -> tuple[list[list[str]], list[str]]:
    """The simple commands, and all words and operators in a row."""
    root = parser().parse(command.encode()).root_node
    if root.has_error or len(root.children) != 1:
        raise _Unknown
    top = root.children[0]
    if (top.start_byte, top.end_byte) != (0, len(command)):
        raise _Unknown
    commands: list[list[str]] = []
    tokens = list(_walk(top, commands))
    return commands, tokens


def _walk(node: Any, commands: list[list[str]]) -> Iterator[str]:
    match node.type:
        case "command":
            words = [_word(child) for child in _parts_of_command(node)]
            commands.append(words)
            yield from words
        case "pipeline" | "list":
            for child in node.children:
                if child.type in {"|", "&&", "||"}:
                    yield child.type
                else:
                    yield from _walk(child, commands)
        case "redirected_statement":
            body, *redirects = node.children
            yield from _walk(body, commands)
            for redirect in redirects:
                yield from _redirect(redirect)
        case _:
            raise _Unknown


def _redirect(node: Any) -> tuple[str, ...]:
    found = _REDIRECTS.get(_text(node))
    if node.type != "file_redirect" or found is None:
        raise _Unknown
    return found


def _parts_of_command(node: Any) -> list[Any]:
    """The name, then the arguments; anything before the name is an assignment or a redirection."""
    name, *arguments = node.children
    if name.type != "command_name" or len(name.children) != 1 or name.children[0].type != "word":
        raise _Unknown
    return [name.children[0], *arguments]


def _word(node: Any) -> str:
    """What the shell makes of a word, if that is written in it."""
    text = _text(node)
    match node.type:
        case "word" | "number" if _BARE.fullmatch(text):
            return text
        case "raw_string":
            return text[1:-1]
        case "string" if _QUOTED.fullmatch(text[1:-1]) and len(text) > 1:
            return text[1:-1]
        case "concatenation":
            return "".join(map(_word, node.children))
    raise _Unknown


def _text(node: Any) -> str:
    return str(node.text.decode())


def _split(command: str) -> list[str]:
    """The same words and operators as another splitter sees them: an oversight of one is caught by the other."""
    splitter = shlex.shlex(command, posix=True, punctuation_chars=True)
    splitter.whitespace_split = True
    splitter.commenters = ""
    try:
        return list(splitter)
    except ValueError:
        raise _Unknown from None


# The rules


class _Program(msgspec.Struct, frozen=True, kw_only=True):
    """What one program may be given. `flags` are short options, `long` whole long ones, `values` those that
    take a value, each with its form. `operands` turns the rest into the paths that are read."""

    flags: str = ""
    long: frozenset[str] = frozenset()
    values: Mapping[str, re.Pattern[str]] = {}
    operands: Callable[[Sequence[str]], Sequence[str]]

    def paths(self, arguments: Sequence[str]) -> Sequence[str]:
        rest: list[str] = []
        queue = iter(arguments)
        for word in queue:
            if not word.startswith("-") or word == "-":
                rest.append(word)
            elif not self._is_option(word, queue):
                raise _Unknown
        return self.operands(rest)

    def _is_option(self, word: str, following: Iterator[str]) -> bool:
        if word in self.long or (not word.startswith("--") and set(word[1:]) <= set(self.flags)):
            return True
        name, sign, value = word.partition("=") if word.startswith("--") else (word[:2], "", word[2:])
        form = self.values.get(name)
        if form is None:
            return False
        return bool(form.fullmatch(value if value or sign else next(following, "")))


def _no_operands(words: Sequence[str]) -> Sequence[str]:
    if words:
        raise _Unknown
    return ()


def _any_words(words: Sequence[str]) -> Sequence[str]:
    return ()


def _names(words: Sequence[str]) -> Sequence[str]:
    if not all(re.fullmatch(r"[\w.+-]+", word) for word in words):
        raise _Unknown
    return ()


def _paths(words: Sequence[str]) -> Sequence[str]:
    paths = [word for word in words if word != "-"]
    if any(word.startswith(("/", "~")) or ".." in word.split("/") or not word for word in paths):
        raise _Unknown
    return paths


def _one_path(words: Sequence[str]) -> Sequence[str]:
    """`uniq` writes to its second operand."""
    if len(words) > 1:
        raise _Unknown
    return _paths(words)


def _pattern_then_paths(words: Sequence[str]) -> Sequence[str]:
    if not words:
        raise _Unknown
    return _paths(words[1:])


def _date_format(words: Sequence[str]) -> Sequence[str]:
    """Any other operand sets the clock."""
    if len(words) > 1 or any(not word.startswith("+") for word in words):
        raise _Unknown
    return ()


def _few_numbers(words: Sequence[str]) -> Sequence[str]:
    """Short ones: a long sequence fills the memory of whoever reads it."""
    if not 1 <= len(words) <= 3 or not all(re.fullmatch(r"-?\d{1,5}", word) for word in words):
        raise _Unknown
    return ()


def _sed_print(words: Sequence[str]) -> Sequence[str]:
    """Only the printing of lines by number; `sed` can write files and run programs."""
    if not words or not re.fullmatch(r"(\d+|\$)(,(\+?\d+|\$))?p", words[0]):
        raise _Unknown
    return _paths(words[1:])


_NUMBER = re.compile(r"[+-]?\d+[KMkm]?")
_ANY = re.compile(r".+")
_FIELDS = re.compile(r"[0-9,-]+")

_GREP = _Program(
    flags="nilLcwvEFoHhsqrxIa",
    long=frozenset(
        {"--recursive", "--ignore-case", "--line-number", "--count", "--fixed-strings", "--color=never"}
    ),
    values={
        **dict.fromkeys(("-A", "-B", "-C", "-m"), _NUMBER),
        **dict.fromkeys(("--include", "--exclude", "--exclude-dir"), _ANY),
    },
    operands=_pattern_then_paths,
)
_RG = _Program(
    flags="nilcwvFsoSNHx",
    long=frozenset(
        {"--files-with-matches", "--ignore-case", "--line-number", "--count", "--fixed-strings", "--hidden"}
    ),
    values={
        **dict.fromkeys(("-A", "-B", "-C", "-m"), _NUMBER),
        "-g": _ANY,
        "--glob": _ANY,
        "-t": _ANY,
        "--type": _ANY,
    },
    operands=_pattern_then_paths,
)
_RG_FILES = _Program(
    long=frozenset({"--files", "--hidden"}), values={"-g": _ANY, "--glob": _ANY, "-t": _ANY}, operands=_paths
)
"""`rg --files` takes no pattern: its first word is a path already."""
_CHECKSUM = _Program(flags="bt", operands=_paths)
_HEAD = _Program(
    flags="qv0123456789", values={"-n": _NUMBER, "-c": _NUMBER, "--lines": _NUMBER}, operands=_paths
)

_PROGRAMS: Mapping[str, _Program] = {
    "arch": _Program(operands=_no_operands),
    "basename": _Program(operands=_any_words),
    "cksum": _Program(operands=_paths),
    "cat": _Program(flags="nbsAETve", operands=_paths),
    "cmp": _Program(flags="sbl", operands=_paths),
    "comm": _Program(flags="123", operands=_paths),
    "cut": _Program(flags="s", values={"-d": re.compile("."), "-f": _FIELDS, "-c": _FIELDS}, operands=_paths),
    "date": _Program(
        flags="uR",
        long=frozenset({"--utc", "--iso-8601", "-I", "-Iseconds", "-Iminutes", "-Ihours", "--rfc-email"}),
        values={"-d": _ANY, "--date": _ANY, "--iso-8601": re.compile("date|hours|minutes|seconds|ns")},
        operands=_date_format,
    ),
    "df": _Program(flags="hHTkmaiP", operands=_paths),
    "diff": _Program(flags="ubBwiqs", values={"-U": _NUMBER}, operands=_paths),
    "dirname": _Program(operands=_any_words),
    "du": _Program(flags="shackxbm", values={"-d": _NUMBER, "--max-depth": _NUMBER}, operands=_paths),
    "expand": _Program(flags="i", values={"-t": _FIELDS}, operands=_paths),
    "false": _Program(operands=_no_operands),
    "file": _Program(flags="bi", operands=_paths),
    "fold": _Program(flags="bs", values={"-w": _NUMBER}, operands=_paths),
    "grep": _GREP,
    "groups": _Program(operands=_names),
    "head": _HEAD,
    "hostname": _Program(operands=_no_operands),
    "id": _Program(flags="ugnGr", operands=_names),
    "ls": _Program(
        flags="1aAbBcCdfFgGhiklmnopqQrRsStuUvxX",
        long=frozenset({"--all", "--almost-all", "--recursive", "--reverse", "--color=never", "--color=auto"})
        | frozenset({"--group-directories-first", "--full-time", "--human-readable", "--size"}),
        values={
            "-I": _ANY,
            "--ignore": _ANY,
            "--sort": re.compile(r"[a-z]+"),
            "--time": re.compile(r"[a-z]+"),
        },
        operands=_paths,
    ),
    "md5sum": _CHECKSUM,
    "nl": _Program(flags="a", operands=_paths),
    "nproc": _Program(operands=_no_operands),
    "od": _Program(
        flags="abcdfilosxv",
        values={"-A": re.compile("[doxn]"), "-t": re.compile("[a-z0-9]+"), "-N": _NUMBER, "-j": _NUMBER},
        operands=_paths,
    ),
    "paste": _Program(flags="s", values={"-d": re.compile(".+")}, operands=_paths),
    "pwd": _Program(flags="LP", operands=_no_operands),
    "readlink": _Program(flags="fen", operands=_paths),
    "realpath": _Program(flags="ems", operands=_paths),
    "rev": _Program(operands=_paths),
    "rg": _RG,
    "sed": _Program(flags="n", operands=_sed_print),
    "sha1sum": _CHECKSUM,
    "seq": _Program(values={"-s": re.compile(".")}, operands=_few_numbers),
    "sha256sum": _CHECKSUM,
    "sha512sum": _CHECKSUM,
    "sort": _Program(
        flags="nrufbgiMhVds",
        values={"-k": re.compile(r"[0-9.,a-zA-Z]+"), "-t": re.compile(".")},
        operands=_paths,
    ),
    "stat": _Program(values={"-c": _ANY, "--format": _ANY}, operands=_paths),
    "strings": _Program(flags="a", values={"-n": _NUMBER}, operands=_paths),
    "tac": _Program(operands=_paths),
    "tail": _HEAD,
    "tr": _Program(flags="dscC", operands=_any_words),
    "tree": _Program(flags="adfpshDFintr", values={"-L": _NUMBER, "-I": _ANY, "-P": _ANY}, operands=_paths),
    "true": _Program(operands=_no_operands),
    "uname": _Program(flags="asnrvmpio", operands=_no_operands),
    "uniq": _Program(flags="cdui", values={"-f": _NUMBER, "-s": _NUMBER, "-w": _NUMBER}, operands=_one_path),
    "uptime": _Program(flags="ps", operands=_no_operands),
    "wc": _Program(flags="lwcmL", operands=_paths),
    "which": _Program(flags="a", operands=_names),
    "whoami": _Program(operands=_no_operands),
}

_FIND_TESTS: Mapping[str, re.Pattern[str] | None] = {
    **dict.fromkeys(("-name", "-iname", "-path", "-ipath", "-size", "-mtime", "-mmin", "-perm"), _ANY),
    **dict.fromkeys(("-maxdepth", "-mindepth"), re.compile(r"\d+")),
    "-type": re.compile("[fdlbcps]"),
    **dict.fromkeys(("-not", "-o", "-a", "-or", "-and", "-print", "-print0", "-empty", "-prune"), None),
}


def _paths_of(words: Sequence[str]) -> Sequence[str]:
    name, *arguments = words
    if name == "echo":
        return ()
    if name == "find":
        return _find_paths(arguments)
    program = _RG_FILES if name == "rg" and "--files" in arguments else _PROGRAMS.get(name)
    if program is None:
        raise _Unknown
    return program.paths(arguments)


def _find_paths(arguments: Sequence[str]) -> Sequence[str]:
    """`find` takes paths first, then an expression; only tests that act on nothing are known."""
    queue = iter(arguments)
    paths: list[str] = []
    for word in queue:
        if not word.startswith("-"):
            paths.append(word)
            continue
        if word not in _FIND_TESTS:
            raise _Unknown
        form = _FIND_TESTS[word]
        if form is not None and not form.fullmatch(next(queue, "")):
            raise _Unknown
    return _paths(paths)
