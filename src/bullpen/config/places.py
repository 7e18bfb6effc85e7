"""Where things lie: the user's config, machine-written state, and the config files of a project.

Nothing here reads the environment of the process; it is handed in, so that two workspaces with different
creators can differ. Nothing is created either.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec

NAME = "bullpen.json"
LEGACY_NAME = "crush.json"
"""Read where there is no file of ours at the same place."""

SHELL_NAMES = ("crushrc", ".crushrc")
"""Config in the form of a shell script, which is never run."""


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """The directories of one user: `config` is written by hand, the others by us."""

    home: Path
    config: Path
    data: Path
    state: Path
    cache: Path
    system: Path = Path("/etc/bullpen")

    @classmethod
    def of(cls, env: Mapping[str, str]) -> Places:
        """The XDG directories that the environment names; `BULLPEN_GLOBAL_CONFIG`, `BULLPEN_GLOBAL_DATA` and
        `BULLPEN_CACHE_DIR` replace single ones."""
        home = _absolute(env.get("HOME")) or Path(pwd.getpwuid(os.getuid()).pw_dir)

        def xdg(variable: str, default: str) -> Path:
            return (_absolute(env.get(variable)) or home / default) / "bullpen"

        return cls(
            home=home,
            config=_absolute(env.get("BULLPEN_GLOBAL_CONFIG")) or xdg("XDG_CONFIG_HOME", ".config"),
            data=_absolute(env.get("BULLPEN_GLOBAL_DATA")) or xdg("XDG_DATA_HOME", ".local/share"),
            state=xdg("XDG_STATE_HOME", ".local/state"),
            cache=_absolute(env.get("BULLPEN_CACHE_DIR")) or xdg("XDG_CACHE_HOME", ".cache"),
        )

    @property
    def own(self) -> tuple[Path, ...]:
        """All that belongs to Bullpen itself."""
        return (self.config, self.data, self.state, self.cache)

    @property
    def system_file(self) -> Path:
        """The administrator's config."""
        return _first_file(self.system, NAME, LEGACY_NAME)

    @property
    def user_file(self) -> Path:
        """The user's own config."""
        return _first_file(self.config, NAME, LEGACY_NAME)

    @property
    def state_file(self) -> Path:
        """What was chosen through a client for all workspaces; holds keys, so it is 0600."""
        return self.data / NAME

    @property
    def trust_file(self) -> Path:
        """Which projects this person trusts. Never in a directory that a client or a repository names."""
        return self.state / "trust.json"


def workspace_dir(data_dir: Path, workspace_id: str) -> Path:
    """Where the data directory keeps what belongs to one workspace; never in the repository."""
    return data_dir / "workspaces" / workspace_id


def workspace_file(data_dir: Path, workspace_id: str) -> Path:
    """What was chosen through a client for this workspace alone."""
    return workspace_dir(data_dir, workspace_id) / NAME


def init_flag(data_dir: Path, workspace_id: str) -> Path:
    """Exists once the initialisation of the project was offered."""
    return workspace_dir(data_dir, workspace_id) / "init"


def git_root(directory: Path) -> Path | None:
    """The root of the working tree around a resolved directory; linked worktrees and submodules have their own."""
    return next((d for d in (directory, *directory.parents) if (d / ".git").exists()), None)


def project_directories(root: Path) -> list[Path]:
    """The directories whose config files belong to a project, outermost first.

    The walk ends at the root of the git working tree; outside git only the directory itself counts.
    """
    start = root.resolve()
    boundary = git_root(start) or start
    return [*reversed([d for d in start.parents if d.is_relative_to(boundary)]), start]


def project_files(root: Path) -> list[Path]:
    """The config files of a project, outermost directory first; later ones win.

    Files of another owner than the directory's are passed over: nobody else may configure this user's agent.
    """
    return [file for file in _candidates(root) if _is_file_of(file, _owner(root))]


def foreign_files(root: Path) -> list[Path]:
    """The config files of a project that are passed over because they belong to somebody else."""
    return [file for file in _candidates(root) if file.is_file() and not _is_file_of(file, _owner(root))]


def shell_files(root: Path, places: Places) -> list[Path]:
    """Shell configuration at the places where config files are read."""
    directories = (places.config, *project_directories(root))
    return [d / name for d in directories for name in SHELL_NAMES if (d / name).is_file()]


def project_file(root: Path, name: str) -> Path | None:
    """A file in the workspace's own directory, under the same guard as its config files."""
    file = root.resolve() / name
    return file if _is_file_of(file, _owner(root)) else None


def watched_files(root: Path, places: Places) -> list[Path]:
    """Every file that would count if it were there, and the directories they would be in."""
    user = [d / n for d in (places.system, places.config) for n in (NAME, LEGACY_NAME)]
    project = [
        d / (prefix + n)
        for d in project_directories(root)
        for prefix in ("", ".")
        for n in (NAME, LEGACY_NAME)
    ]
    return [*user, *project, root.resolve() / ".env"]


def _candidates(root: Path) -> list[Path]:
    return [
        _first_file(directory, prefix + NAME, prefix + LEGACY_NAME)
        for directory in project_directories(root)
        for prefix in ("", ".")
    ]


def _owner(root: Path) -> int:
    try:
        return root.resolve().stat().st_uid
    except OSError:
        return -1


def _absolute(value: str | None) -> Path | None:
    """A path from a variable; the XDG rules say that relative ones are to be ignored."""
    return Path(value) if value and value.startswith("/") else None


def _first_file(directory: Path, *names: str) -> Path:
    """The first of the names that exists, else the first of them."""
    return next((directory / n for n in names if (directory / n).is_file()), directory / names[0])


def _is_file_of(file: Path, owner: int) -> bool:
    try:
        info = file.stat()
    except OSError:
        return False
    return stat.S_ISREG(info.st_mode) and info.st_uid == owner
