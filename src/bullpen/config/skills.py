"""Skills: folders with a `SKILL.md` that teach a model how something is done here.

They are found when the configuration is read. Of several with one name the nearest counts: the project's before
the user's, if it is trusted; within each, the directory that is searched first. A skill with a mistake in it is listed with the
mistake and takes no name from a good one. Finding a skill runs nothing and follows no link of a project out of
that project; whether a project's skills reach the model is a matter of trust, which each skill carries.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from bullpen.errors import ConfigError
from bullpen.schema.agent import SkillInfo, SkillState
from bullpen.schema.api import SkillContent, SkillOrigin

FILE_NAME = "SKILL.md"
BUILT_IN = Path(__file__).parent / "builtin"
"""Those that come with us; anybody's own of the same name counts before them."""

PROJECT_DIRS = (".agents/skills", ".bullpen/skills", ".crush/skills", ".claude/skills", ".cursor/skills")

MAX_FILE_BYTES = 1024 * 1024
MAX_NAME = 64
MAX_DESCRIPTION = 1024
MAX_COMPATIBILITY = 500
MAX_FOLDERS = 5000
"""More folders than this below one skills directory is a mistake, for instance a link to a home directory."""

Source = Literal["system", "user", "project"]

_NAME = re.compile(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*")
_KEY = re.compile(r"([A-Za-z_][\w-]*)\s*:(?:\s+(.*))?")


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """One `SKILL.md`. `error` says why it cannot be used; then the other fields hold what could be read."""

    name: str
    path: Path
    source: Source
    description: str = ""
    user_invocable: bool = True
    model_invocable: bool = True
    trusted: bool = True
    error: str = ""
    digest: str = ""
    """Of the whole file, as it was when it was found."""

    @property
    def id(self) -> str:
        return f"{self.source}:{self.name}"

    @property
    def folder(self) -> Path:
        return self.path.parent


def user_directories(env: Mapping[str, str]) -> list[Path]:
    """Where a person keeps their own skills, in the order of precedence."""
    for variable in ("BULLPEN_SKILLS_DIR", "CRUSH_SKILLS_DIR"):
        if chosen := env.get(variable):
            return [Path(chosen)]
    home = Path(env.get("HOME") or "/nonexistent")
    config = Path(env.get("XDG_CONFIG_HOME") or home / ".config")
    own = [config / name / "skills" for name in ("bullpen", "crush", "agents")]
    return [*own, home / ".agents/skills", home / ".claude/skills"]


def discover(
    root: Path,
    *,
    user_dirs: Iterable[Path],
    extra_paths: Iterable[Path] = (),
    system_dirs: Iterable[Path] = (),
    disabled: Collection[str] = (),
    trusted: Callable[[Path], bool],
) -> list[Skill]:
    """All skills of a workspace, by name; those with an error after them. Blocks: call it in a thread.

    `extra_paths` are the config's; one inside the project is the project's. `trusted` is asked about the files of project's skills.
    """
    bounds = project_bounds(root)
    found: list[Skill] = []
    for bound in bounds:
        for name in PROJECT_DIRS:
            found += _skills_in(bound / name, "project", bounds, trusted=trusted)
    for directory in extra_paths:
        is_ours = any(_real(directory).is_relative_to(bound) for bound in bounds)
        found += _skills_in(directory, "project" if is_ours else "user", bounds, trusted=trusted)
    for directory in user_dirs:
        found += _skills_in(directory, "user", bounds, trusted=trusted)
    for directory in system_dirs:
        found += _skills_in(directory, "system", bounds, trusted=trusted)
    return _nearest(found, disabled)


def project_skills(root: Path, extra_paths: Iterable[Path] = ()) -> list[tuple[Path, str]]:
    """The files of a project's own skills, each with the hash of its content.

    `extra_paths` are what the project asks for: before it is trusted, nothing outside of it is looked at.
    """
    bounds = project_bounds(root)
    inside = (path for path in extra_paths if any(_real(path).is_relative_to(bound) for bound in bounds))
    folders = [*(bound / name for bound in bounds for name in PROJECT_DIRS), *inside]
    found: dict[Path, str] = {}
    for path in (p for folder in folders for p in _files_below(folder)):
        if any(_real(path).is_relative_to(bound) for bound in bounds):
            try:
                found[path] = hashlib.sha256(_content(path)).hexdigest()
            except (OSError, ValueError) as exc:
                found[path] = str(exc)
    return sorted(found.items())


def watched_folders(root: Path, user_dirs: Iterable[Path], extra_paths: Iterable[Path]) -> list[Path]:
    """The folders in which a skill may come, go or change: those that are searched, and the ones in them."""
    searched = [
        *(bound / name for bound in project_bounds(root) for name in PROJECT_DIRS),
        *extra_paths,
        *user_dirs,
    ]
    inside = (
        folder for top in searched if top.is_dir() for folder in sorted(top.iterdir()) if folder.is_dir()
    )
    return [*searched, *itertools.islice(inside, MAX_FOLDERS)]


def _nearest(found: Iterable[Skill], disabled: Collection[str]) -> list[Skill]:
    """One per name: what is trusted, of that a project's skill, then the one found first. A file that is good by one way is good."""
    hidden = {name.lower() for name in disabled}
    named: dict[str, Skill] = {}
    broken: dict[Path, Skill] = {}
    for skill in sorted(found, key=lambda skill: (not skill.trusted, skill.source != "project")):
        if skill.name.lower() in hidden:
            continue
        if skill.error:
            broken.setdefault(_real(skill.path), skill)
        else:
            named.setdefault(skill.name.lower(), skill)
    good = {_real(skill.path) for skill in named.values()}
    return [named[name] for name in sorted(named)] + [
        broken[path] for path in sorted(broken) if path not in good
    ]


def project_bounds(root: Path) -> list[Path]:
    """The workspace, and the repository it is a part of."""
    top = _real(root)
    repository = next((place for place in (top, *top.parents) if (place / ".git").exists()), top)
    return [top] if repository == top else [top, repository]


def _skills_in(
    directory: Path, source: Source, bounds: Sequence[Path], *, trusted: Callable[[Path], bool]
) -> Iterator[Skill]:
    for path in _files_below(directory):
        if source == "project" and not any(_real(path).is_relative_to(bound) for bound in bounds):
            yield Skill(
                name=path.parent.name,
                path=path,
                source=source,
                trusted=False,
                error="leads out of the project",
            )
        else:
            yield load(path, source=source, trusted=source != "project" or trusted(path))


def _files_below(directory: Path) -> Iterator[Path]:
    """Links are followed, each place is visited once; below a skill there are no others."""
    visited: set[Path] = set()
    for folder, folders, names in os.walk(directory, followlinks=True):
        here = Path(folder)
        if _real(here) in visited or len(visited) >= MAX_FOLDERS:
            folders.clear()
            continue
        visited.add(_real(here))
        folders[:] = [] if FILE_NAME in names else sorted(set(folders) - {".git", "node_modules"})
        if FILE_NAME in names:
            yield here / FILE_NAME


def load(path: Path, *, source: Source, trusted: bool = True) -> Skill:
    """Read one skill. A mistake in the file is told in `error`, never raised."""
    folder = path.parent.name
    try:
        raw = _content(path)
        keys = front_matter(raw.decode("utf-8"))
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
        return Skill(name=folder, path=path, source=source, trusted=trusted, error=reason)
    return Skill(
        name=keys.get("name", "") or folder,
        description=keys.get("description", ""),
        path=path,
        source=source,
        user_invocable=_is_true(keys.get("user-invocable", "true")),
        model_invocable=not _is_true(keys.get("disable-model-invocation", "false")),
        trusted=trusted,
        error=_mistake(keys, folder),
        digest=hashlib.sha256(raw).hexdigest(),
    )


def _mistake(keys: Mapping[str, str], folder: str) -> str:
    name, description = keys.get("name", ""), keys.get("description", "")
    if not name:
        return "name is missing"
    if len(name) > MAX_NAME or not _NAME.fullmatch(name):
        return f"name must be letters and digits with single hyphens, at most {MAX_NAME} characters"
    if name.lower() != folder.lower():
        return f"name {name!r} differs from the folder's name {folder!r}"
    if not description:
        return "description is missing"
    if len(description) > MAX_DESCRIPTION:
        return f"description is longer than {MAX_DESCRIPTION} characters"
    if len(keys.get("compatibility", "")) > MAX_COMPATIBILITY:
        return f"compatibility is longer than {MAX_COMPATIBILITY} characters"
    return ""


def _is_true(text: str) -> bool:
    return text.lower() in {"true", "yes", "on"}


def read(skill: Skill) -> bytes:
    """The whole file. Raises `ConfigError` when it cannot be read any more, or is not what was trusted."""
    try:
        raw = _content(skill.path)
    except (OSError, ValueError) as exc:
        raise ConfigError(f"skill {skill.name} cannot be read: {exc}") from exc
    if skill.source == "project" and hashlib.sha256(raw).hexdigest() != skill.digest:
        raise ConfigError(f"skill {skill.name} has just changed; try again")
    return raw


def _content(path: Path) -> bytes:
    if not path.is_file():
        raise ValueError("not a regular file")
    with path.open("rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise ValueError(f"larger than {MAX_FILE_BYTES} bytes")
    return content


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


# On the wire


def info(skill: Skill) -> SkillInfo:
    return SkillInfo(
        id=skill.id,
        name=skill.name,
        description=skill.description,
        label=f"{skill.source}:{skill.name}",
        source=skill.source,
        user_invocable=skill.user_invocable,
        untrusted=not skill.trusted,
    )


def state(skill: Skill) -> SkillState:
    return SkillState(name=skill.name, path=str(skill.path), state=1 if skill.error else 0, error=skill.error)


def content(skill: Skill) -> SkillContent:
    """The answer to a client that reads a skill. Raises `ConfigError`."""
    origin = SkillOrigin(
        name=skill.name, description=skill.description, source=skill.source, builtin=skill.source == "system"
    )
    return SkillContent(content=read(skill), result=origin)


# The front matter


def front_matter(text: str) -> dict[str, str]:
    """The top-level keys with a scalar value; lists and nested maps are passed over.

    This is the part of YAML that skills use: plain, quoted, folded and literal scalars. Raises ValueError
    when the text does not begin with a block between two lines of three dashes.
    """
    values = ((key, _scalar(first, below)) for key, first, below in _entries(split_head(text)[0]))
    return {key: value for key, value in values if value is not None}


def front_lists(text: str) -> dict[str, list[str]]:
    """The top-level keys whose value is a list, in brackets or one item a line. Raises ValueError as `front_matter` does."""
    found: dict[str, list[str]] = {}
    for key, first, below in _entries(split_head(text)[0]):
        items = [line.strip()[1:] for line in below if line.strip().startswith("-")]
        if first.startswith("["):
            items = " ".join([first, *below]).strip().strip("[]").split(",")
        if first.startswith("[") or (not first and items):
            found[key] = [item.strip(" \"'") for item in items if item.strip(" \"'")]
    return found


def split_head(text: str) -> tuple[list[str], str]:
    """The lines of the front matter, and the text below it. Raises ValueError when there is none."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != "---":
        raise ValueError("no front matter: the file must begin with ---")
    end = next((i for i, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), None)
    if end is None:
        raise ValueError("the front matter has no end: a line with --- is missing")
    return lines[1:end], "\n".join(lines[end + 1 :])


def _entries(lines: Sequence[str]) -> Iterator[tuple[str, str, list[str]]]:
    """Each key with the rest of its line and the indented lines below it."""
    key, first, below = "", "", list[str]()
    for line in lines:
        begun = _KEY.fullmatch(line.rstrip())
        if begun is not None:
            if key:
                yield key, first, below
            key, first, below = begun[1], (begun[2] or "").strip(), []
        elif not line.startswith("#"):
            below.append(line)
    if key:
        yield key, first, below


def _scalar(first: str, below: Sequence[str]) -> str | None:
    if first[:1] in {"|", ">"}:
        lines = [line.strip() for line in below]
        return ("\n" if first[0] == "|" else " ").join(lines).strip()
    if first.startswith(("[", "{", "&", "*", "!")) or not first:
        return None
    whole = " ".join([first, *(line.strip() for line in below)]).strip()
    if whole.startswith('"'):
        return _double_quoted(whole)
    if whole.startswith("'"):
        return re.sub(r"'\s*(#.*)?$", "", whole[1:]).replace("''", "'")
    return re.sub(r"\s+#.*$", "", whole)


def _double_quoted(text: str) -> str:
    found = re.match(r'"(?:[^"\\]|\\.)*"', text)
    if found is None:
        raise ValueError(f"a quote is not closed: {text[:40]}")
    try:
        return str(msgspec.json.decode(found[0]))
    except msgspec.DecodeError:
        return found[0][1:-1]
