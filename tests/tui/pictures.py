"""Pictures of the main screens, for docs/: `python -m tests.tui.pictures` draws them anew from a real server and a scripted model."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
from tests.journeys.server import Bullpen
from tests.tui.conftest import Desks, Sitting

from bullpen.schema.asks import PermissionRequest
from bullpen.tui.preferences import Preferences

DOCS = Path(__file__).parents[2] / "docs" / "pictures"

PLAN = """\
I looked at the parser and at its tests. Two things are wrong:

1. `parse()` drops the **last line** when the file does not end with a line feed.
2. An empty file raises `IndexError`.

```python
def parse(text: str) -> list[Row]:
    return [Row.of(line) for line in text.splitlines() if line.strip()]
```

| case | before | after |
|---|---|---|
| no line feed at the end | 2 rows | 3 rows |
| empty file | IndexError | 0 rows |

I will change it and run the tests.
"""

OLD = "def parse(text):\n    rows = []\n    for line in text.split('\\n')[:-1]:\n        rows.append(Row.of(line))\n    return rows\n"

SCRIPT: list[dict[str, Any]] = [
    {
        "when": "parser",
        "think": "The user wants the last line kept. I should read the parser first.",
        "say": "Let me look at it.",
        "calls": [
            {
                "name": "todos",
                "input": {
                    "todos": [
                        {"content": "Read the parser", "status": "completed", "active_form": "Reading"},
                        {"content": "Mend it", "status": "in_progress", "active_form": "Mending the parser"},
                        {"content": "Run the tests", "status": "pending", "active_form": "Running the tests"},
                    ]
                },
            },
            {"name": "view", "input": {"file_path": "parser.py"}},
            {"name": "grep", "input": {"pattern": "parse"}},
        ],
    },
    {
        "when": "parser",
        "say": PLAN,
        "calls": [
            {
                "name": "edit",
                "input": {
                    "file_path": "parser.py",
                    "old_string": "    for line in text.split('\\n')[:-1]:",
                    "new_string": "    for line in text.splitlines():",
                },
            }
        ],
    },
    {
        "when": "parser",
        "say": "Now the tests.",
        "calls": [
            {
                "name": "bash",
                "input": {"command": "echo '3 passed in 0.02s'", "description": "run the tests"},
            }
        ],
    },
    {"when": "parser", "say": "All three tests pass."},
]


async def at_work(ana: Sitting) -> None:
    """A turn that has come to the ask about its edit."""
    await ana.type("The parser loses the last line, please mend it\n")
    await ana.until(lambda: ana.room.asks, "the ask")


async def finished(ana: Sitting) -> None:
    """The same turn to its end."""
    await at_work(ana)
    while not (ana.chat.session and not ana.chat.session.is_busy):
        for ask in ana.room.asks:
            assert isinstance(ask, PermissionRequest)
            await ana.room.grant(ask, "allow")
        await ana.pilot.pause(0.05)
    await ana.until_shown("All three tests pass.")


async def nothing(ana: Sitting) -> None:
    """The first page."""
    await ana.pilot.pause(0.2)


PICTURES: dict[str, tuple[Callable[[Sitting], Awaitable[None]], tuple[int, int], Preferences, str]] = {
    "welcome": (nothing, (120, 40), Preferences(theme="dark", motion="reduced"), ""),
    "chat": (finished, (120, 40), Preferences(theme="dark", motion="reduced"), ""),
    "chat-light": (finished, (120, 40), Preferences(theme="light", motion="reduced"), ""),
    "chat-contrast": (finished, (120, 40), Preferences(theme="contrast", motion="reduced"), ""),
    "chat-80": (finished, (80, 24), Preferences(theme="dark", motion="reduced"), ""),
    "chat-200": (finished, (200, 60), Preferences(theme="dark", motion="reduced"), ""),
    "ask": (at_work, (120, 40), Preferences(theme="dark", motion="reduced"), ""),
    "ask-80": (at_work, (80, 24), Preferences(theme="light", motion="reduced"), ""),
    "palette": (nothing, (120, 40), Preferences(theme="dark", motion="reduced"), "ctrl+p"),
    "help": (nothing, (120, 40), Preferences(theme="dark", motion="reduced"), "f1"),
    "models": (nothing, (120, 40), Preferences(theme="dark", motion="reduced"), "ctrl+l"),
    "sessions": (finished, (120, 40), Preferences(theme="dark", motion="reduced"), "ctrl+s"),
    "changes": (finished, (120, 40), Preferences(theme="dark", motion="reduced"), "alt+u"),
}


async def draw(desks: Desks, name: str) -> str:
    """One picture, as SVG that loads nothing from elsewhere."""
    reach, size, preferences, key = PICTURES[name]
    project = desks.project(*SCRIPT)
    (project / "parser.py").write_text(OLD)
    async with desks.sit(project, size=size, preferences=preferences) as ana:
        await reach(ana)
        if key:
            await ana.pilot.press(key)
        await ana.pilot.pause(0.5)
        svg = ana.app.export_screenshot(title="bullpen")
    svg = re.sub(r"@font-face \{.*?\}\s*|<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    # Nobody's directories, in as many columns as before.
    svg = re.sub(
        r"(?:/tmp|…)/bp\w*(?:/projects/\w+)?",
        lambda found: _as_wide("/home/ana/projects/the-line-parser", found[0]),
        svg,
    )
    return re.sub(r"terminal-\d+", "terminal", svg)


def _as_wide(text: str, before: str) -> str:
    return text[: len(before)] + "&#160;" * (len(before) - len(text))


async def main(names: list[str]) -> None:
    DOCS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bp", ignore_cleanup_errors=True) as directory:
        server = Bullpen(Path(directory)).start()
        try:
            for name in names or PICTURES:
                (DOCS / f"{name}.svg").write_text(await draw(Desks(server), name))
        finally:
            server.stop()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1:])
