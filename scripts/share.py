#!/usr/bin/env python3
"""Makes what an installed package puts under `share/`: the manual page and the completions of shells, as the commands print them.

    scripts/share.py           writes the files
    scripts/share.py --check   changes nothing, fails when a file would change

Run it with the Python of `.venv/` after a command or an option has changed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

SHARE = Path(__file__).parent.parent / "share"
FILES = {
    "man/man1/bullpen.1": ("man",),
    "bash-completion/completions/bullpen": ("completion", "bash"),
    "zsh/site-functions/_bullpen": ("completion", "zsh"),
    "fish/vendor_completions.d/bullpen.fish": ("completion", "fish"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the files under share/.")
    parser.add_argument("--check", action="store_true", help="change nothing, fail when a file would change")
    is_check = parser.parse_args().check
    stale = [name for name, command in FILES.items() if not settled(SHARE / name, command, is_check=is_check)]
    for name in stale:
        print(f"share/{name} is not what the command prints: run scripts/share.py", file=sys.stderr)
    return 1 if stale else 0


def settled(path: Path, command: tuple[str, ...], *, is_check: bool) -> bool:
    """Whether the file holds what the command prints; unless this is only a check, it does afterwards."""
    printed = subprocess.run([sys.executable, "-m", "bullpen", *command], stdout=subprocess.PIPE, check=True)
    if not is_check:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(printed.stdout)
    return path.is_file() and path.read_bytes() == printed.stdout


sys.exit(main())
