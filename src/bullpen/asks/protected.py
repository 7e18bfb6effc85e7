"""Targets that run code later, or that decide what may run: they need an approval of their own.

Neither a session's grant nor a rule, a tool that is allowed as a whole or a hook covers them; only an answer to exactly this call does.
That also holds for creating them: a file that is not there yet has nobody watching it.

For a shell command the question is whether its text names such a target, not whether it writes to it: which of its words are
written to only the program knows. Quotes and backslashes are taken out first, globs are compared as globs. What a
program computes for itself cannot be seen here; that is what a sandbox is for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePath

from bullpen.system.shell_wrappers import Part

READS = frozenset({"read", "list", "search", "fetch"})
"""Actions of tools that change nothing."""

_SETTINGS = "which decides what Bullpen may do"
_HOOK = "which runs code later"
_SHELL = "which every new shell runs"
_CI = "which runs on build machines"
_EDITOR = "which editors run"
_KEYS = "which decides who may log in"
_SYSTEM = "which belongs to the system"

_NAMES: Mapping[str, str] = {
    **dict.fromkeys(
        ("bullpen.json", ".bullpen.json", "crush.json", ".crush.json", "crushrc", ".mcp.json"), _SETTINGS
    ),
    **dict.fromkeys(
        (
            ".gitconfig",
            ".gitattributes",
            ".gitmodules",
            ".pre-commit-config.yaml",
            "lefthook.yml",
            ".lefthook.yml",
        ),
        _HOOK,
    ),
    **dict.fromkeys(
        (".envrc", ".npmrc", ".pypirc", ".yarnrc.yml", "sitecustomize.py", "usercustomize.py"), _HOOK
    ),
    **dict.fromkeys(
        (".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc"),
        _SHELL,
    ),
    **dict.fromkeys(
        (".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc"), _SHELL
    ),
    **dict.fromkeys((".vimrc", ".exrc", ".nvimrc", ".emacs", ".tmux.conf", ".screenrc"), _EDITOR),
    **dict.fromkeys((".gitlab-ci.yml", ".travis.yml", "azure-pipelines.yml", "jenkinsfile"), _CI),
    **dict.fromkeys(("bitbucket-pipelines.yml", ".drone.yml", ".woodpecker.yml", "appveyor.yml"), _CI),
    **dict.fromkeys(("authorized_keys", ".netrc", ".rhosts"), _KEYS),
}
_FOLDERS: Mapping[tuple[str, ...], str] = {
    **dict.fromkeys(((".git",), (".husky",), (".githooks",), (".config", "git"), (".hg",)), _HOOK),
    **dict.fromkeys(((".ssh",), (".gnupg",)), _KEYS),
    **dict.fromkeys(
        ((".vscode",), (".idea",), (".devcontainer",), (".cursor",), (".zed",), (".fleet",)), _EDITOR
    ),
    **dict.fromkeys(((".claude",), (".gemini",), (".codex",), (".bullpen",), (".crush",)), _SETTINGS),
    **dict.fromkeys(((".config", "bullpen"), ("share", "bullpen"), (".config", "crush")), _SETTINGS),
    **dict.fromkeys(((".github", "workflows"), (".github", "actions"), (".circleci",), (".buildkite",)), _CI),
    **dict.fromkeys(((".config", "fish"), (".config", "autostart"), (".config", "systemd")), _SHELL),
    ("library", "launchagents"): _SHELL,
}
_ROOTS = ("/etc", "/usr", "/bin", "/sbin", "/lib", "/boot", "/opt", "/var/spool")
_COMMANDS: Mapping[str, tuple[frozenset[str], str]] = {
    "git": (frozenset({"config", "submodule", "init", "clone", "hook"}), "can change what git runs later"),
    **dict.fromkeys(
        ("crontab", "at", "batch", "systemctl", "launchctl"), (frozenset[str](), "runs code later")
    ),
    **dict.fromkeys(("ssh-keygen", "ssh-copy-id", "ssh-add"), (frozenset[str](), "changes who may log in")),
    **dict.fromkeys(("bullpen", "crush"), (frozenset[str](), "can change what Bullpen may do")),
    **dict.fromkeys(("chsh", "visudo", "usermod", "passwd"), (frozenset[str](), "changes who may log in")),
}
"""Programs that change such targets without naming them; with words, only when one of those is among its words."""

_NOISE = re.compile(r"['\"\\]|\$@|\$\*|\$\{[@*]\}")
_ANSI_C = re.compile(r"\$'((?:[^'\\]|\\.)*)'")
_SUBSTITUTED = re.compile(r"\$\([^()]*\)|`[^`]*`")
_BRACES = re.compile(r"(?<!\$)\{([^{}\s]*,[^{}\s]*)\}")
_EXTENSION = re.compile(r"\*\.\w+")
_WORD = re.compile(r"[^\s;|&<>()=,:`]+")
_WILD = re.compile(r"\$\{[^}]*\}|\$\w+|\{[^}]*\}|\[[^\]]*\]|[*?]+")


def by_paths(paths: Sequence[Path], action: str, *, root: Path, guarded: Sequence[Path]) -> str:
    """Why a tool's write to one of the paths needs its own approval, "" if none does."""
    if action in READS:
        return ""
    for path in paths:
        if why := _of_system(path, root) or _of_path(path, root, guarded):
            return f"writes to {_shown(path, root)}, {why}"
    return ""


def by_command(
    command: str,
    parts: Sequence[Part],
    *,
    written: Sequence[Path],
    mentioned: Sequence[Path],
    directory: Path,
    root: Path,
    guarded: Sequence[Path],
) -> str:
    """The same for a shell command that redirects to some paths and mentions others."""
    if why := _of_path(directory, root, guarded):
        return f"runs in {_shown(directory, root)}, {why}"
    for path in written:
        if why := _of_system(path, root):
            return f"writes to {_shown(path, root)}, {why}"
    for path in (*written, *mentioned):
        if why := _of_path(path, root, guarded):
            return f"names {_shown(path, root)}, {why}"
    for part in (inner for outer in parts for inner in outer.every()):
        if (known := _COMMANDS.get(part.name)) and (
            not known[0] or known[0] & set(filter(None, part.words[1:]))
        ):
            return f"`{part.name}` {known[1]}"
    for word in _words_in(command):
        if why := _of_word(word):
            return f"names {word}, {why}"
    return ""


def _of_path(path: Path, root: Path, guarded: Sequence[Path]) -> str:
    if any(path.is_relative_to(place) for place in guarded):
        return _SETTINGS
    # A project may lie anywhere, also in a folder with such a name; what counts is where in it the path is.
    return _of_parts(_folded(path.relative_to(root) if path.is_relative_to(root) else path))


def _of_system(path: Path, root: Path) -> str:
    if path.is_relative_to(root):
        return ""
    return _SYSTEM if any(path.is_relative_to(place) for place in _ROOTS) else ""


def _of_parts(parts: Sequence[str]) -> str:
    if parts and (why := _NAMES.get(parts[-1])):
        return why
    for folder, why in _FOLDERS.items():
        size = len(folder)
        if any(tuple(parts[n : n + size]) == folder for n in range(len(parts) - size + 1)):
            return why
    return ""


def _words_in(command: str) -> Iterator[str]:
    """What could be a path anywhere in the text, also within a program's own code; each once."""
    plain = _NOISE.sub("", _SUBSTITUTED.sub("*", _ANSI_C.sub(_decoded, command)))
    seen: set[str] = set()
    for text in dict.fromkeys((command, re.sub(r"['\"]", " ", command), *_without_braces(plain))):
        for word in _WORD.findall(text):
            if len(word) <= 4096 and word not in seen:
                seen.add(word)
                yield word


def _without_braces(text: str) -> list[str]:
    """The text once for each of the first alternatives that stand in braces."""
    texts = [text]
    for _ in range(4):
        texts = [t for text in texts for t in _one_brace_less(text)][:64]
    return texts


def _one_brace_less(text: str) -> list[str]:
    found = _BRACES.search(text)
    if found is None:
        return [text]
    return [text[: found.start()] + choice + text[found.end() :] for choice in found[1].split(",")]


def _decoded(found: re.Match[str]) -> str:
    """An escaped string as the shell reads it, near enough to find a name in it."""
    return found[1].encode("latin-1", "backslashreplace").decode("unicode_escape", "replace")


def _of_word(word: str) -> str:
    parts = _folded(PurePath(os.path.expanduser(word)))
    if why := _of_parts(parts):
        return why
    if any(str(PurePath(word)).startswith(f"{place}/") for place in ("/etc", "/root/.ssh")):
        return _SYSTEM
    return _of_glob([_WILD.sub("*", part) for part in parts]) if _WILD.search(word) else ""


def _of_glob(parts: Sequence[str]) -> str:
    """A word of which a part is only known when it runs: what it may become. A part without a letter of its own may
    become anything and says nothing."""
    said = [re.search(r"[^*.]", part) is not None or part.strip("*") not in {"", "."} for part in parts]
    if parts and said[-1] and "*" in parts[-1] and not _EXTENSION.fullmatch(parts[-1]):
        for name, why in _NAMES.items():
            if fnmatchcase(name, parts[-1]):
                return why
    for folder, why in _FOLDERS.items():
        size = len(folder)
        for n in range(len(parts) - size + 1):
            window = list(zip(folder, parts[n : n + size], said[n : n + size], strict=True))
            if all(fnmatchcase(name, part) for name, part, _ in window) and any(
                is_said for *_, is_said in window
            ):
                return why
    return ""


def _folded(path: PurePath) -> list[str]:
    """Compared without regard to case: some file systems have none."""
    return [part.casefold() for part in path.parts]


def _shown(path: Path, root: Path) -> str:
    return f"`{path.relative_to(root)}`" if path.is_relative_to(root) else f"`{path}`"
