"""The checks of `bullpen doctor` for what Bullpen works with: the terminal, language servers, tool servers, disks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from bullpen.cli.findings import Finding

if TYPE_CHECKING:
    from bullpen.config.settings import Settings

SMALLEST_SPACE_BYTES = 200 * 1024 * 1024
"""A session with pictures takes some tens of megabytes, and a full disk stops every turn."""

TMUX_S = 2.0


def terminal(env: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """What it can show, by what it says of itself; nothing is sent to it."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    if encoding == "utf8":
        yield Finding("terminal", "ok", "UTF-8")
    else:
        yield Finding(
            "terminal", "warn", f"prints {encoding or 'unknown'}", "set LANG=C.UTF-8 to see all characters"
        )
    yield _colours(env)
    if env.get("TMUX"):
        yield from _tmux()
    elif env.get("STY"):
        yield Finding(
            "clipboard",
            "warn",
            "GNU screen keeps copied text from your clipboard",
            "use tmux, or copy by mouse",
        )
    else:
        yield Finding(
            "clipboard", "ok", "copying is left to the terminal (OSC 52); most know it, some ask first"
        )


def _colours(env: Mapping[str, str]) -> Finding:
    term = env.get("TERM", "")
    if env.get("NO_COLOR"):
        return Finding("colours", "ok", "none: NO_COLOR is set")
    if term in ("", "dumb"):
        told = "TERM is not set" if not term else "TERM=dumb"
        return Finding("colours", "ok", f"none: {told}; 'bullpen --plain' needs no more")
    if env.get("COLORTERM") in ("truecolor", "24bit") or term.endswith("-direct"):
        return Finding("colours", "ok", f"16 million ({term})")
    if "256color" in term:
        return Finding("colours", "ok", f"256 ({term}); COLORTERM=truecolor where the terminal can do more")
    return Finding(
        "colours", "warn", f"16 or fewer ({term})", "set TERM=xterm-256color if the terminal can do it"
    )


def _tmux() -> Iterator[Finding]:
    try:
        told = subprocess.run(
            ["tmux", "show-options", "-gsv", "set-clipboard"],
            capture_output=True,
            text=True,
            timeout=TMUX_S,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        yield Finding("clipboard", "warn", "tmux does not say whether it passes copied text on")
        return
    if told == "on":
        yield Finding("clipboard", "ok", "tmux passes copied text on")
    else:
        yield Finding(
            "clipboard",
            "warn",
            f"tmux keeps what programs copy (set-clipboard {told})",
            "tmux set -s set-clipboard on, and in ~/.tmux.conf",
        )


def language_servers(root: Path, settings: Settings) -> Iterator[Finding]:
    """Those that are configured, and how many of the known ones are installed. None is started."""
    from bullpen.errors import LanguageServerFailed
    from bullpen.lsp import plan

    for name, why in sorted(settings.lsp_errors.items()):
        yield Finding("lsp", "fail", f"{name}: {why}", "mend it in the config")
    for name, server in sorted(settings.lsp.items()):
        if server.disabled:
            yield Finding("lsp", "ok", f"{name} is switched off")
            continue
        try:
            plan.launch(plan.configured(name, server, trusted=True), root, os.environ)
        except LanguageServerFailed as exc:
            yield Finding("lsp", "fail", f"{name} {exc.why}", "install it, or name its program in the config")
        else:
            yield Finding("lsp", "ok", f"{name} ({server.command or name})")
    installed = []
    for each, mine in plan.catalogue(trusted=False):
        try:
            plan.launch(mine, root, os.environ)
        except LanguageServerFailed:
            continue
        installed.append(each.name)
    found = f"installed: {', '.join(installed)}" if installed else "none of those that are known is installed"
    yield Finding("lsp", "ok", f"{found}; 'bullpen lsp known' lists them")


def tool_servers(root: Path, settings: Settings) -> Iterator[Finding]:
    """Those that are configured: whether the program is there. None is started or called."""
    for name, why in sorted(settings.mcp_errors.items()):
        yield Finding("mcp", "fail", f"{name}: {why}", "mend it in the config")
    for name, server in sorted(settings.mcp.items()):
        if server.disabled:
            yield Finding("mcp", "ok", f"{name} is switched off")
        elif server.type != "stdio":
            yield Finding(
                "mcp", "ok", f"{name} is asked over the net; 'bullpen mcp list' says whether it answers"
            )
        elif _is_there(root, server.command, server.env):
            yield Finding("mcp", "ok", f"{name} ({server.command})")
        else:
            yield Finding(
                "mcp",
                "fail",
                f"{name}: there is no program {server.command}",
                "install it, or mend the config",
            )
    if not settings.mcp and not settings.mcp_errors:
        yield Finding("mcp", "ok", "no tool server is configured")


def _is_there(root: Path, command: str, env: Mapping[str, str]) -> bool:
    """A program by its name, or by a path that begins at the workspace."""
    named = str(root / command) if os.sep in command else command
    return shutil.which(named, path=env.get("PATH") or os.environ.get("PATH", "")) is not None


def disk(root: Path) -> Iterator[Finding]:
    """Room where the agent works and where programs keep what is for now."""
    for what, where in (
        ("the workspace", root),
        ("temporary files", Path(os.environ.get("TMPDIR") or "/tmp")),
    ):
        free = shutil.disk_usage(where).free
        if free < SMALLEST_SPACE_BYTES:
            yield Finding(
                "disk", "warn", f"{what}: only {free >> 20} MiB free at {where}", "free some disk space"
            )
        else:
            yield Finding("disk", "ok", f"{what}: {free >> 30} GiB free")
    if not os.access(root, os.W_OK):
        yield Finding(
            "disk", "warn", f"{root} is not writable", "the agent can read here, and change nothing"
        )
