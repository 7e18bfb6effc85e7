"""The command as a whole: help, errors, and what a start costs."""

import importlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from tests.cli.conftest import Command
from tests.client.standin import StandIn, session

from bullpen import __version__
from bullpen.cli.main import COMMANDS, MODULES, cli, run


def all_commands(group: click.Group = cli, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        yield (*path, name)
        found = group.get_command(ctx, name)
        if isinstance(found, click.Group):
            yield from all_commands(found, (*path, name))


LISTINGS = [
    *(
        ("changes",),
        ("config", "check"),
        ("config", "get"),
        ("config", "show"),
        ("doctor",),
        ("jobs", "list"),
        ("logs",),
    ),
    *(
        ("lsp", "known"),
        ("lsp", "list"),
        ("mcp", "list"),
        ("models", "favorite"),
        ("models", "list"),
        ("permissions", "list"),
    ),
    *(("permissions", "explain"), ("providers",), ("ps",), ("run",), ("stats",), ("trust",)),
]
"""What a script might read."""


def test_every_command_explains_itself_and_refuses_what_it_does_not_know(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By help with examples, and by one line with a hint; one that lists something can say it in JSON."""
    for path in all_commands():
        assert run([*path, "--help"]) == 0, path
        told = capsys.readouterr()
        assert ("Examples:" in told.out, f"bullpen {' '.join(path)}" in told.out, told.err) == (
            True,
            True,
            "",
        ), path
        assert ("--json" in told.out) or path not in LISTINGS, path
        assert run([*path, "--no-such-option"]) == 2, path
        told = capsys.readouterr()
        assert (told.out, told.err.count("\n")) == ("", 1), path
        assert f"'bullpen {' '.join(path)}" in told.err, path
        assert told.err.endswith(" --help' shows how\n"), path


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_overview_says_what_the_commands_say(name: str) -> None:
    """It is written down twice, so that the help loads no command."""
    command: click.Command = importlib.import_module(f"bullpen.cli.{MODULES.get(name, name)}").command
    assert (command.name, command.short_help) == (name, COMMANDS[name])


async def test_the_version_is_told(bullpen: Command) -> None:
    assert (await bullpen("--version")).stdout == f"bullpen {__version__}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["ps"], ["stop"], ["server", "--help"]])
def test_a_one_shot_command_loads_next_to_nothing(arguments: list[str], env: dict[str, str]) -> None:
    """click, http.client and json; neither an event loop nor the client."""
    script = (
        "import sys; from bullpen.cli.main import run; run(sys.argv[1:]); "
        "print(*sys.modules, file=sys.stderr)"
    )
    child = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, env=env, check=True
    )
    heavy = {"asyncio", "anyio", "httpx2", "msgspec", "apsw", "starlette", "uvicorn", "bullpen.client.http"}
    assert heavy.intersection(child.stderr.split()) == set()


async def test_an_unknown_command_is_one_line(bullpen: Command) -> None:
    done = await bullpen("frobnicate")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "bullpen: No such command 'frobnicate' – 'bullpen --help' shows how\n"


async def test_a_defect_is_one_line_too_unless_asked(bullpen: Command, server: StandIn) -> None:
    """The traceback is there for whoever wants it."""
    server.answers["GET /version"] = [(200, []), (200, [])]
    done = await bullpen("ps", "--host", server.host)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "BULLPEN_DEBUG=1" in done.stderr
    assert "Traceback" in (await bullpen("ps", "--host", server.host, BULLPEN_DEBUG="1")).stderr


async def test_ps_shows_who_is_where(bullpen: Command, server: StandIn) -> None:
    server.is_open = True
    server.sessions["s1"] = session("s1", "build\x1b[2J it", is_busy=True)
    server.clients = [{"client_id": "c1", "name": "ana", "streams": 1, "current_session": "s1"}]
    server.answers["GET /workspaces"] = [(200, [{"id": "w1", "path": "/work", "config": {}}])] * 2
    shown = (await bullpen("ps", "--host", server.host)).stdout.split("\n")
    assert shown[0].startswith(f"server 0.1.0 at {server.host}, pid ")
    assert shown[1:] == [
        "  /work  (1 client, 1 session, 1 busy)",
        "    client ana in “build␛[2J it”",
        "    busy    “build␛[2J it”  s1",
        "",
    ]
    told = json.loads((await bullpen("ps", "--json", "--host", server.host)).stdout)
    assert [w["clients"][0]["name"] for w in told["workspaces"]] == ["ana"]


async def test_without_a_server_ps_and_stop_say_so(bullpen: Command) -> None:
    """It is nothing to mend: a server starts by itself."""
    ps, stop = await bullpen("ps"), await bullpen("stop")
    assert (ps.returncode, ps.stdout) == (
        0,
        "no server is running; it starts by itself when a client needs it\n",
    )
    assert (stop.returncode, stop.stdout) == (0, "no server is running\n")
    assert json.loads((await bullpen("ps", "--json")).stdout) == {"server": None, "workspaces": []}


@pytest.mark.parametrize("command", [["ps"], ["stop"], ["stop", "--force"]])
async def test_a_named_server_that_is_not_there_is_an_error(bullpen: Command, command: list[str]) -> None:
    done = await bullpen(*command, "--host", "unix:///nonexistent.sock")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("bullpen: no server answers at unix:///nonexistent.sock")


async def test_stop_says_who_is_attached(bullpen: Command, server: StandIn) -> None:
    """And how to stop it anyway."""
    server.is_open = True
    server.clients = [{"client_id": "c1", "name": "ana", "streams": 1}]
    server.answers["POST /control"] = [(409, {"message": "server is hosting live workspaces"})]
    server.answers["GET /workspaces"] = [(200, [{"id": "w1", "path": "/work", "config": {}}])]
    done = await bullpen("stop", "--host", server.host)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "bullpen: the server is in use (/work: ana); stop it anyway with 'bullpen stop --force'\n"
    )
    assert server.calls("POST /control")[0].headers["host"] == "bullpen"


async def test_the_doctor_finds_nothing_to_mend_in_a_fresh_home(bullpen: Command) -> None:
    done = await bullpen("doctor")
    assert (done.returncode, done.stderr) == (0, "")
    assert "ok    sqlite: 3." in done.stdout
    assert "run 'bullpen' and choose one" in done.stdout


async def test_the_doctor_looks_for_configured_programs(bullpen: Command) -> None:
    """And starts none of them."""
    (bullpen.cwd.parent / ".config" / "bullpen").mkdir(parents=True)
    config = {
        "lsp": {"gone": {"command": "no-such-server"}, "off": {"command": "x", "disabled": True}},
        "mcp": {"gone": {"command": "no-such-tool"}, "here": {"command": "touch", "args": ["canary"]}},
    }
    (bullpen.cwd.parent / ".config" / "bullpen" / "bullpen.json").write_text(json.dumps(config))
    done = await bullpen("doctor", "--json", NO_COLOR="1")
    found = {(f["check"], f["status"], f["detail"].split()[0].strip(":")) for f in json.loads(done.stdout)}
    assert done.returncode == 1
    assert {
        ("lsp", "fail", "gone"),
        ("lsp", "ok", "off"),
        ("mcp", "fail", "gone"),
        ("mcp", "ok", "here"),
    } <= found
    assert ("colours", "ok", "none") in found
    assert not (bullpen.cwd / "canary").exists()


async def test_the_doctor_says_what_is_wrong_and_what_to_do(bullpen: Command) -> None:
    """A broken config file, and settings that wait for trust."""
    (bullpen.cwd.parent / ".config" / "bullpen").mkdir(parents=True)
    (bullpen.cwd.parent / ".config" / "bullpen" / "bullpen.json").write_text("{nonsense")
    (bullpen.cwd / "bullpen.json").write_text('{"mcp": {"x": {"command": "touch", "args": ["canary"]}}}')
    done = await bullpen("doctor", "--json")
    found = {(f["check"], f["status"]): f for f in json.loads(done.stdout)}
    assert done.returncode == 1
    assert "bullpen.json" in found["config", "fail"]["detail"]
    assert "mcp.x" in found["trust", "warn"]["detail"]
    assert not (bullpen.cwd / "canary").exists()


async def test_a_group_without_a_command_shows_its_help(bullpen: Command) -> None:
    done = await bullpen("lsp")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: bullpen lsp")
    assert "Examples:" in done.stderr


async def test_a_shell_completes_commands_options_models_and_sessions(
    bullpen: Command, server: StandIn
) -> None:
    """From what is at hand; whatever is not there is not offered, and says nothing."""
    server.is_open = True
    server.sessions["s1"] = session("s1-long", "Paint\x1b[2J it")
    place = {"id": "w1", "path": str(bullpen.cwd), "config": {}}
    server.answers["GET /workspaces"] = [(200, [place])]
    (bullpen.cwd.parent / ".config" / "bullpen").mkdir(parents=True)
    config = {"providers": {"play": {"type": "scripted", "models": [{"id": "m"}]}}}
    (bullpen.cwd.parent / ".config" / "bullpen" / "bullpen.json").write_text(json.dumps(config))

    async def offered(*words: str, **env: str) -> list[str]:
        asked = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1), **env}
        done = await bullpen(_BULLPEN_COMPLETE="bash_complete", **asked)
        assert (done.returncode, done.stderr) == (0, "")
        return [line.partition(",")[2] for line in done.stdout.split()]

    assert await offered("bullpen", "comp") == ["completion"]
    assert "--output-schema" in await offered("bullpen", "run", "--out")
    assert await offered("bullpen", "run", "-m", "play/") == ["play/m"]
    assert await offered("bullpen", "run", "-s", "s1", BULLPEN_HOST=server.host) == ["s1-long"]
    assert await offered("bullpen", "run", "-s", "s1") == []
    script = await bullpen("completion", "zsh")
    assert (script.returncode, script.stdout.startswith("#compdef bullpen")) == (0, True)


async def test_the_manual_page_has_every_command(bullpen: Command) -> None:
    page = (await bullpen("man")).stdout
    assert page.startswith(".TH BULLPEN 1")
    for path in all_commands():
        assert f".SS bullpen {' '.join(path)}".replace("-", "\\-") in page, path
    if shutil.which("groff"):
        checked = subprocess.run(
            ["groff", "-man", "-Tutf8", "-ww", "-z"], input=page, capture_output=True, text=True, check=True
        )
        assert checked.stderr == ""
