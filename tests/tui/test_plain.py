"""The same in lines: what the screen can do with sessions, the queue, files and the shell, by numbers and words."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from tests.cli.conftest import Open, env, home, terminal
from tests.journeys.model_host import ModelHost, model_host
from tests.tui.conftest import Desks

from bullpen.schema.api import ConfigRemove

__all__ = ("env", "home", "terminal")

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


async def test_sessions_files_the_shell_and_the_queue_in_lines(
    desks: Desks, terminal: Open, home: Path, tmp_path: Path
) -> None:
    project = desks.project(
        {"when": "slow", "say": " ".join(f"word{n}" for n in range(3000)), "pace_ms": 20},
        {"say": "Noted, the heron."},
        {"say": "Noted, the heron."},
        {"say": "Noted, the heron."},
    )
    (project / "plan.md").write_text("one\ntwo\nthree\n")
    local = tmp_path / "note.txt"
    local.write_text("from here")
    where = ("attach", str(project), "--plain", "--new", "--host", f"unix://{desks.server.socket}")
    screen = terminal(*where, columns=110, rows=60)
    await screen.until("model: script/player")

    screen.type("/files pla")
    await screen.until("1 plan.md")
    screen.type("/attach 1")
    screen.type(f"/upload {local}")
    await screen.until("goes with the next prompt: plan.md", "goes with the next prompt: note.txt")
    screen.type("remember the bird")
    await screen.until("you › remember the bird", "with", "plan.md", "note.txt", "Noted, the heron.")

    screen.type("!echo by hand")
    await screen.until("$ echo by hand", "by hand")
    screen.type("/rename Birds")
    await screen.until("now called “Birds”")
    screen.type("/search heron")
    await screen.until("“Birds”", "[heron]")
    screen.type("/everywhere")
    await screen.until(str(project), "goes there")
    screen.type("/fork Copy")
    await screen.until("— session “Copy”")
    screen.type("/rewind")
    await screen.until("1 remember the bird")
    screen.type("/rewind 1")
    await screen.until("messages would go", "/rewind 1 yes does it")
    screen.type("/rewind 1 yes")
    await screen.until("went to the trash; you had said: remember the bird")
    screen.type("/export out.json")
    await screen.until("written to out.json")
    assert json.loads((home / "project" / "out.json").read_text())["format"] == "bullpen-session"
    screen.type("/sessions")
    shown = await screen.until(" Copy  ", " Birds  ")
    [number] = re.findall(r"^ +(\d) Birds  ", shown, re.MULTILINE)
    screen.type(f"/delete {number}")
    await screen.until(f"/delete {number} yes does it")
    screen.type(f"/delete {number} yes")
    await screen.until("in the trash")
    screen.type("/trash")
    await screen.until("Birds  ")
    screen.type("/restore 9")
    await screen.until("which one? /trash numbers them")

    screen.type("slow")
    await screen.until("word3")
    for text in ("first", "second"):
        screen.type(f"/after {text}")
    screen.type("/queue")
    await screen.until("1 first", "2 second")
    screen.type("/move 2 1")
    await screen.until("1 second", "2 first")
    screen.type("/edit 1 other words")
    screen.type("/drop 2")
    screen.type("/queue")
    await screen.until("1 other words")
    screen.type("/cancel")
    await screen.until("dropped: other words", "— cancelled")
    screen.type("/free on")
    await screen.until("everything is allowed from now on")
    screen.type("/free on")
    await screen.until("it is so already")
    screen.type("/free off")
    await screen.until("it asks again from now on")
    screen.type("/help")
    await screen.until("/rewind [N]")


async def test_a_key_is_typed_unseen_and_checked_in_lines(desks: Desks, terminal: Open, home: Path) -> None:
    where = ("attach", "--plain", "--new", "--host", f"unix://{desks.server.socket}")
    with model_host() as host:
        host.answers["/v1/models"] = lambda headers, _: (
            {"data": []} if headers["authorization"] == "Bearer sk-good" else 401
        )
        settings = {"OPENAI_API_ENDPOINT": f"{host.url}/v1", "GROQ_API_KEY": "gsk"}
        project = desks.project(options={})
        screen = terminal(where[0], str(project), *where[1:], columns=110, rows=60, **settings)
        await screen.until("model: script/player")
        screen.type("/key")
        shown = await screen.until("openai               set OPENAI_API_KEY", "/key and one of these")
        assert "groq" not in shown
        screen.type("/key openia")
        await screen.until("there is no provider openia")
        screen.type("/key openai")
        await screen.until("key of OpenAI ›")
        screen.type("sk-bad")
        await screen.until("OpenAI refused the key (401); type it again, or “keep”")
        screen.send("Up")
        screen.type("sk-good")
        await screen.until("the key of OpenAI is kept; it works")
        screen.type("/key openai")
        await screen.until("it works; /model lists what can be chosen\n· type the key")
        screen.send("C-c")
        await screen.until("no key was kept")
        screen.send("Up")
        shown = await screen.until("› /key openai")
    assert "sk-" not in shown
    state = home / ".local/share/bullpen/bullpen.json"
    assert json.loads(state.read_text())["providers"]["openai"]["api_key"] == "sk-good"


async def test_a_login_to_copilot_is_shared_by_the_screen_and_by_lines(
    desks: Desks, github: ModelHost, terminal: Open
) -> None:
    """Who gives up ends it for both; the next code is entered at GitHub, and both hear of it."""
    code = {
        "device_code": "d",
        "user_code": "ABCD-1234",
        "verification_uri": "https://github.com/login/device",
    }
    github.answers = {
        "/login/device/code": code,
        "/login/oauth/access_token": {"access_token": "gho_1"},
        "/copilot_internal/v2/token": {"token": "tid_2", "expires_at": int(time.time()) + 1800},
    }
    project = desks.project(options={})
    where = ("attach", str(project), "--plain", "--new", "--host", f"unix://{desks.server.socket}")
    async with desks.sit(project, size=(80, 24)) as ana:
        ben = terminal(*where, columns=110, rows=60)
        await ben.until("model: script/player")
        ben.type("/key copilot")
        await ben.until("/login logs in")
        ben.type("/login")
        await ben.until("open https://github.com/login/device and enter the code ABCD-1234")
        await ana.pilot.press("ctrl+l")
        await ana.until_shown("Player")
        await ana.type("copilot")
        await ana.until_shown("▸… GitHub Copilot", "enter logs in")
        await ana.pilot.press("enter")
        await ana.until_shown("https://github.com/login/device", "enter the code  ABCD-1234")
        await ana.pilot.press("escape")
        await ben.until("the login was cancelled")
        await ana.until_shown("▸… GitHub Copilot")
        github.answers["/login/device/code"] = code | {"user_code": "EFGH-5678"}
        await ana.pilot.press("enter")
        await ana.until_shown("enter the code  EFGH-5678")
        await ana.pilot.press("c")
        await ana.until_shown("copied")
        assert ana.app.clipboard == "EFGH-5678"
        ben.type("/login")
        await ben.until("enter the code EFGH-5678")
        await ana.until_shown("logged in to GitHub Copilot")
        await ben.until("logged in to GitHub Copilot; /model")
        await ana.until_shown("GitHub Copilot  ")
        shown = await ana.room.config()
        assert "copilot" in shown["providers"]
        await ana.room.call("POST", "/config/remove", ConfigRemove(scope=0, key="providers.copilot"))
    said = f"{ben.text()} {shown} {desks.server.log}"
    assert "gho_1" not in said
    assert "tid_2" not in said
