"""The walls around the commands of one workspace: what is behind them, how they are made, and whether they can be.

Two ways. Bubblewrap gives a command a file system, processes and a network of its own, so it can do what Landlock
cannot: take single files out of a directory that is otherwise writable, and hide what lies in the workspace itself.
Landlock needs nothing but a kernel. In both the command may write in the workspace and in a private temporary
directory, read what is not secret, and reach nobody; `confine.py` says what else is shut.

Whoever asks for a sandbox gets one or gets nothing: there is no way from here to a command without walls.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from bullpen.errors import ToolFailed
from bullpen.system import confine
from bullpen.system.confine import FILTER_FD, NEEDED_ABI, Confinement


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


Mode = Literal["off", "auto", "landlock", "bubblewrap"]

SECRETS = _names(
    """
    .ssh .gnupg .aws .azure .kube .docker .oci .terraform.d .password-store .vault-token .netrc
    .git-credentials .npmrc .pypirc .pgpass .my.cnf .mozilla .thunderbird .gem/credentials
    .cargo/credentials .cargo/credentials.toml .config/gcloud .config/gh .config/hub .config/op
    .config/git/credentials .config/google-chrome .config/chromium .local/share/keyrings .bash_history
    .zsh_history .python_history
    """
)
"""Below a person's home: what no build needs and every thief wants."""

SETTINGS = _names(
    """
    bullpen.json .bullpen.json crush.json .crush.json .mcp.json .bullpen .crush .git/hooks
    """
)
"""In the workspace: what decides what may run. Also shut where it does not exist yet."""

RUN_LATER = _names(
    """
    .git/config .git/info .envrc .vscode .idea .husky .github/workflows .github/actions .gitlab-ci.yml
    .circleci
    """
)
"""In the workspace: what others run without being asked."""

LEADING_OUT = (
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "DBUS_SESSION_BUS_ADDRESS",
    "XDG_RUNTIME_DIR",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "DOCKER_HOST",
    "TMUX",
)
"""Variables that say where somebody else's socket is."""

KERNEL = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus")
"""Of the kernel: root may write them by name alone, without any capability."""

TRIAL_S = 10.0


class Asked(NamedTuple):
    """What the configuration says."""

    mode: Mode = "off"
    network: bool = False
    writable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


class State(NamedTuple):
    """What is in force. With `why` nothing is: commands are refused for that reason."""

    mode: Mode
    network: bool
    why: str = ""


class Walled(NamedTuple):
    """A command as it has to be started."""

    argv: tuple[str, ...]
    env: dict[str, str]
    walls: Confinement | None


OFF = State("off", True)


class Sandbox:
    """Made for one workspace; follows its configuration. `own` are the places of Bullpen itself."""

    def __init__(self, root: Path, own: Iterable[Path] = ()) -> None:
        self._root = Path(os.path.realpath(root))
        self._own = tuple(own)
        self._asked = Asked()
        self._home = Path("/nonexistent")
        self._temp: Path | None = None
        self._inside = 0
        self._placeholders: list[Path] = []
        self.state = OFF

    async def follow(self, asked: Asked, env: Mapping[str, str]) -> None:
        """Take up what the configuration asks for, and see whether it can be had."""
        self._asked = asked
        self._home = Path(env.get("HOME") or "/nonexistent")
        if asked.mode != "off" and not self._inside:
            # What a server that was killed has left.
            self._placeholders = [self._root / name for name in SETTINGS if name.endswith(".json")]
            await asyncio.to_thread(self._remove_placeholders)
        self.state = OFF if asked.mode == "off" else await asyncio.to_thread(self._find_out)

    async def wall(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> Walled:
        """The command within the walls that are in force. Raises `ToolFailed` when it must not run."""
        if self.state.why:
            raise ToolFailed(
                f"commands may only run in a sandbox here, and there is none: {self.state.why}. Nothing was run. "
                "A person has to mend this, or set options.sandbox.mode to off; do not try another way."
            )
        if self.state.mode == "off":
            return Walled(tuple(argv), dict(env), None)
        return await asyncio.to_thread(self._wall, tuple(argv), dict(env), cwd)

    def enter(self) -> None:
        """A command has begun behind the walls."""
        self._inside += 1

    def leave(self) -> None:
        """A command and all that it started has ended."""
        self._inside -= 1
        if not self._inside:
            self._remove_placeholders()

    async def close(self) -> None:
        """Leave nothing behind."""
        self._remove_placeholders()
        if self._temp is not None:
            await asyncio.to_thread(shutil.rmtree, self._temp, ignore_errors=True)
            self._temp = None

    # Whether

    def _find_out(self) -> State:
        asked = self._asked
        reasons: list[str] = []
        for mode, find in (("bubblewrap", no_bubblewrap), ("landlock", self._no_landlock)):
            if asked.mode not in ("auto", mode):
                continue
            why = find()
            if not why:
                return State("bubblewrap" if mode == "bubblewrap" else "landlock", asked.network)
            reasons.append(why)
        return State(asked.mode, asked.network, "; ".join(reasons))

    def _no_landlock(self) -> str:
        within = [str(secret) for secret in self._hidden() if _is_in(secret, self._root)]
        if within:
            return (
                f"the workspace holds {within[0]}, which Landlock cannot keep out of it; use bubblewrap, or a workspace "
                "further down"
            )
        return no_landlock()

    # How

    def _wall(self, argv: tuple[str, ...], env: dict[str, str], cwd: Path) -> Walled:
        temp = self._temporary()
        by_bubblewrap = self.state.mode == "bubblewrap"
        seen = Path("/tmp") if by_bubblewrap else temp
        env = {name: value for name, value in env.items() if name not in LEADING_OUT}
        env |= {
            "TMPDIR": str(seen),
            "XDG_CACHE_HOME": str(seen / "cache"),
            "BULLPEN_SANDBOX": self.state.mode,
        }
        hidden = self._hidden()
        writable = [self._root, *(p for p in self._named(self._asked.writable) if p.exists())]
        if not by_bubblewrap:
            readable = list(readable_places(Path("/"), hidden))
            walls = Confinement(
                "landlock", self.state.network, readable, [str(place) for place in (temp, *writable)]
            )
            return Walled(argv, env, walls)
        walls = Confinement("bubblewrap", self.state.network, [], [])
        return Walled((*self._wrapper(hidden, writable, temp), "--chdir", str(cwd), "--", *argv), env, walls)

    def _wrapper(self, hidden: Collection[Path], writable: list[Path], temp: Path) -> list[str]:
        words = [_bubblewrap(), "--unshare-all", "--die-with-parent", "--cap-drop", "ALL"]
        words += ["--share-net"] if self.state.network else []
        words += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run"]
        for name in KERNEL:
            words += ["--ro-bind-try", name, name]
        words += (
            ["--ro-bind-try", "/run/systemd/resolve", "/run/systemd/resolve"] if self.state.network else []
        )
        words += ["--bind", str(temp), "/tmp"]
        replaced = (Path("/run"), Path("/tmp"))
        outside = [h for h in hidden if not any(_is_in(h, place) for place in (*replaced, *writable))]
        words += _masks(outside)
        for place in writable:
            words += ["--bind", str(place), str(place)]
        words += _masks([h for h in hidden if any(_is_in(h, place) and h != place for place in writable)])
        words += self._protection()
        return [*words, "--seccomp", str(FILTER_FD)]

    def _protection(self) -> list[str]:
        """What is there becomes read-only, and so does what is missing and must not be made."""
        words: list[str] = []
        if (self._root / ".git").is_dir():
            # A mount cannot be renamed: nobody puts another directory in its place.
            words += ["--bind", str(self._root / ".git"), str(self._root / ".git")]
        for name in (*SETTINGS, *RUN_LATER):
            place = self._root / name
            if name in SETTINGS and not os.path.lexists(place):
                place = self._hold_place(place)
            if place.exists() and not place.is_symlink():
                words += ["--ro-bind", str(place), str(place)]
        return words

    def _hold_place(self, place: Path) -> Path:
        """Where there is nothing yet, an empty directory stands until the last command has ended. Without a repository there
        are no hooks to protect."""
        if place.parent.is_dir():
            with contextlib.suppress(FileExistsError):
                place.mkdir()
                self._placeholders.append(place)
        return place

    def _remove_placeholders(self) -> None:
        for place in self._placeholders:
            with contextlib.suppress(OSError):  # Somebody has put something there, or taken it away.
                place.rmdir()
        self._placeholders = []

    def _temporary(self) -> Path:
        if self._temp is None:
            self._temp = Path(os.path.realpath(tempfile.mkdtemp(prefix="bullpen-sandbox-")))
            (self._temp / "cache").mkdir()
        return self._temp

    def _hidden(self) -> list[Path]:
        named = [self._home / name for name in SECRETS]
        named += self._named(self._asked.hidden)
        real = {Path(os.path.realpath(place)) for place in (*named, *self._own)}
        return sorted(place for place in real if place != self._root)

    def _named(self, names: Iterable[str]) -> list[Path]:
        """Places from the configuration; one that is neither absolute nor below the home means nothing here."""
        places = (self._home / name[2:] if name.startswith("~/") else Path(name) for name in names)
        return [Path(os.path.realpath(place)) for place in places if place.is_absolute()]


def no_bubblewrap() -> str:
    """Why there is none to be had on this machine; nothing when there is."""
    if not confine.knows_machine():
        return "bubblewrap is only used on Linux, x86-64 or ARM64"
    program = _bubblewrap()
    if not program:
        return "bubblewrap is not installed (Debian, Ubuntu, Fedora: the package bubblewrap)"
    trial = [program, "--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "true"]
    try:
        tried = subprocess.run(trial, capture_output=True, timeout=TRIAL_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as exc:
        return f"bubblewrap cannot be run: {exc}"
    said = tried.stderr.decode("utf-8", "replace").strip().splitlines()
    return (
        f"bubblewrap does not work here: {said[-1] if said else tried.returncode}" if tried.returncode else ""
    )


def no_landlock() -> str:
    """Why there is none to be had on this machine; nothing when there is."""
    if not confine.knows_machine():
        return "Landlock is only used on Linux, x86-64 or ARM64"
    abi = confine.landlock_abi()
    if abi >= NEEDED_ABI:
        return ""
    have = f"version {abi} of it" if abi else "none"
    return f"Landlock needs Linux 6.12 or newer (this kernel has {have}); bubblewrap needs only its package"


def readable_places(place: Path, hidden: Collection[Path]) -> Iterator[str]:
    """The largest places that hold nothing hidden. Links are left out: what they lead to is judged by itself."""
    shut = {str(secret) for secret in hidden}
    above = {str(parent) for secret in hidden for parent in secret.parents}
    waiting = [str(place)]
    while waiting:
        looked_at = waiting.pop()
        if looked_at in shut:
            continue
        if looked_at not in above:
            yield looked_at
            continue
        with contextlib.suppress(OSError), os.scandir(looked_at) as entries:
            inner = [entry.path for entry in entries if not entry.is_symlink()]
            waiting += sorted(inner, reverse=True)


def _masks(places: Iterable[Path]) -> list[str]:
    words: list[str] = []
    for place in places:
        if place.is_dir():
            words += ["--tmpfs", str(place), "--remount-ro", str(place)]
        elif place.exists():
            words += ["--ro-bind", "/dev/null", str(place)]
    return words


def _is_in(place: Path, directory: Path) -> bool:
    return place == directory or directory in place.parents


def _bubblewrap() -> str:
    """Never by a PATH that a repository or a client could have had a hand in."""
    return shutil.which("bwrap", path="/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin") or ""
