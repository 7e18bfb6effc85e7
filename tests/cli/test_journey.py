"""What people do with the command, against the real server."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from tests.cli.conftest import BULLPEN, Command, Open
from tests.client.conftest import HASTY
from tests.journeys.server import until

from bullpen.client.locate import find_address
from bullpen.client.process import server_pid
from bullpen.system.address import UnixAddress

pytestmark = pytest.mark.timeout(120)

BUILD = {"name": "bash", "input": {"command": "echo made > out.txt; cat out.txt", "description": "build it"}}
QUESTION = {
    "name": "question",
    "input": {
        "questions": [
            {
                "type": "single_choice",
                "question": "Which colour?",
                "description": "for the shed",
                "choices": [
                    {"id": "r", "label": "Red", "description": "-"},
                    {"id": "g", "label": "Green", "description": "-"},
                ],
            }
        ]
    },
}
LOOK = {"name": "ls", "input": {}}
SCRIPT = [
    {"when": "The first part, in short", "say": "All read."},
    {"when": "build", "say": "I will build it.", "calls": [BUILD]},
    {"when": "build", "say": "It is built."},
    {"when": "slow", "say": " ".join(f"word{n}" for n in range(300)), "pace_ms": 100},
    {"when": "choose", "say": "Let me ask.", "calls": [QUESTION]},
    {"when": "choose", "say": "A fine colour."},
    {"when": "hello", "say": "Hello to you."},
    {"when": "fail", "fail": {"message": "no such model", "status": 400}},
    {
        "when": "long",
        "say": "Much to read.",
        "calls": [LOOK],
        "usage": {"input": 95_000, "output": 10},
    },
    {"purpose": "summary", "say": "The first part, in short."},
    {
        "when": "limit",
        "say": "At last.",
        "fail": {"status": 429, "message": "slow down", "retry_after_s": 50, "times": 1},
    },
]


class Host:
    """The server that commands in this home start by themselves."""

    def __init__(self, env: dict[str, str]) -> None:
        address = find_address(None, env)
        assert isinstance(address, UnixAddress)
        self.address = address

    @property
    def pid(self) -> int:
        pid = server_pid(self.address)
        assert pid
        return pid

    async def until_gone(self) -> None:
        with anyio.fail_after(20):
            while server_pid(self.address) is not None:  # noqa: ASYNC110 (another process)
                await anyio.sleep(0.05)


@pytest.fixture
async def host(env: dict[str, str], home: Path) -> AsyncIterator[Host]:
    env |= {"BULLPEN_SERVER_READY_TIMEOUT": "40s", "BULLPEN_SERVER_IDLE_TIMEOUT": "60"}
    found = Host(env)
    yield found
    if server_pid(found.address):
        # Nothing of it is kept, so it need not tidy up.
        os.kill(found.pid, signal.SIGKILL)
        await found.until_gone()


def configure(home: Path, config: dict[str, Any]) -> None:
    directory = home / ".config" / "bullpen"
    directory.mkdir(parents=True)
    (directory / "bullpen.json").write_text(json.dumps(config))


@pytest.fixture
def script(home: Path) -> None:
    """A model that follows the script above, configured by the user."""
    provider = {
        "type": "scripted",
        "models": [{"id": "m", "name": "M", "context_window": 100_000}],
        "provider_options": {"script": SCRIPT},
    }
    chosen = {"provider": "play", "model": "m"}
    configure(home, {"providers": {"play": provider}, "models": {"large": chosen, "small": chosen}})


@pytest.fixture
def tour(home: Path) -> None:
    """The guided tour is chosen, and hurries."""
    configure(home, HASTY)


async def workspace_id(bullpen: Command) -> str:
    told = json.loads((await bullpen("ps", "--json")).stdout)
    [workspace] = told["workspaces"]
    found: str = workspace["id"]
    return found


def watch(host: Host, workspace: str, cursor: str = "") -> subprocess.Popen[str]:
    """A third client: curl on the event stream, which it has been let into."""
    url = f"http://x/v1/workspaces/{workspace}/events?client_id=11111111-1111-4111-8111-111111111111"
    again = ["-H", f"Last-Event-ID: {cursor}"] if cursor else []
    if shutil.which("curl") is None:
        assert not os.environ.get("CI"), "curl is needed for this test"
        pytest.skip("curl is not installed")
    with tempfile.NamedTemporaryFile() as head:
        command = ["curl", "-sN", "-D", head.name, "--unix-socket", str(host.address.path), *again, url]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        until(lambda: os.stat(head.name).st_size, "curl to be on the stream")
    return process


def kinds_and_cursor(stream: str) -> tuple[list[str], str]:
    """The durable events of a stream, and the last of their ids."""
    kinds, last, event_id = [], "", ""
    for line in stream.splitlines():
        if line.startswith("id: "):
            event_id = line.removeprefix("id: ")
        elif line.startswith("data: ") and "." not in event_id:
            kinds.append(json.loads(line.removeprefix("data: "))["type"])
            last = event_id
    return kinds, last


@pytest.mark.usefixtures("script", "host")
async def test_a_run_that_outgrows_its_context_prints_its_answer_and_no_summary(bullpen: Command) -> None:
    done = await bullpen("run", "a long story")
    assert (done.returncode, done.stdout) == (0, "Much to read.\n\nAll read.\n")
    assert "bullpen: the conversation was summarised to make room" in done.stderr


@pytest.mark.usefixtures("script")
async def test_a_person_steers_waits_pins_and_counts(host: Host, terminal: Open, bullpen: Command) -> None:
    ana = terminal("attach", "--plain", "--name", "ana", rows=60)
    await ana.until("model: play/m")
    ana.type("go slow")
    await ana.until("word3 ")
    ana.type("/now hello instead")
    await ana.until("you › hello instead", "Hello to you.")

    ana.type("a limit")
    await ana.until("slow down; asking again at", "(/wake)")
    ana.type("/wake")
    await ana.until("At last.")
    ana.type("/wake")
    await ana.until("nothing waits for a model")
    ana.type("/pin mind the gap")
    await ana.until("pinned: summaries of this session keep it")
    ana.type("/undo summary")
    await ana.until("no summary that could be undone")
    ana.type("/model play/m")
    await ana.until("model of this session: play/m")
    ana.type("/cost")
    await ana.until("play/m  ~$0.0000")
    stats = await bullpen("stats", "--by", "person")
    assert "\nana " in "\n" + stats.stdout
    [row] = json.loads((await bullpen("stats", "--json")).stdout)
    assert (row["key"], row["calls"] >= 3) == ("play/m", True)


@pytest.mark.usefixtures("script")
async def test_two_terminals_and_curl_share_everything(
    host: Host, terminal: Open, bullpen: Command, home: Path
) -> None:
    """A turn, a permission, a cancel, and a server killed in between: nothing is missing for anybody."""
    ana = terminal("attach", "--plain", "--name", "ana", rows=60)
    await ana.until("model: play/m")
    ben = terminal("attach", "--plain", "--name", "ben", rows=60)
    await ben.until("with ana")
    curl = watch(host, await workspace_id(bullpen))

    ana.type("please build it")
    for screen in (ana, ben):
        await screen.until(
            "› please build it", "I will build it.", "command: echo made > out.txt", "1 allow once"
        )
    ben.type("1")
    await ana.until("you › please build it", "allowed by ben", "✓ made", "It is built.")
    await ben.until("ana › please build it", "✓ made", "It is built.")
    assert (home / "project" / "out.txt").read_text() == "made\n"

    ben.type("/changes")
    await ben.until("“please build it”  1 created; out.txt")
    ben.type("/undo")
    await ben.until("undid turn 1: 1 path (/redo takes it back)")
    await ana.until("[I undid what an earlier turn changed in these files")
    assert not (home / "project" / "out.txt").exists()
    ben.type("/redo")
    await ben.until("redid turn 1: 1 path (/undo 1 takes it back)")
    assert (home / "project" / "out.txt").read_text() == "made\n"

    ben.type("go slow")
    await ana.until("word3 ")
    ana.type("hello from the queue")
    await ben.until("1 waiting")
    os.kill(host.pid, signal.SIGKILL)
    for screen in (ana, ben):
        await screen.until(
            "link lost", "reconnected", "— Interrupted", "› hello from the queue", "Hello to you."
        )

    ana.type("slow again")
    await ben.until("slow again\n\nword0 word1 word2 ")
    ben.send("C-c")
    for screen in (ana, ben):
        await screen.until("— cancelled")

    # The killed server ended curl's stream; its cursor gets the rest of the story, once and in order.
    first, cursor = kinds_and_cursor((await anyio.to_thread.run_sync(curl.communicate))[0])
    late = watch(host, await workspace_id(bullpen), cursor)
    await anyio.sleep(1)
    late.terminate()
    rest, _ = kinds_and_cursor((await anyio.to_thread.run_sync(late.communicate))[0])
    assert [kind for kind in (*first, *rest) if kind.startswith("permission_request")] == [
        "permission_request"
    ]
    assert (first.count("run_complete"), rest.count("run_complete")) == (1, 3)
    for screen in (ana, ben):
        screen.send("C-d")
        await screen.until("[status 0]")


@pytest.mark.usefixtures("script")
async def test_a_question_is_answered_from_the_other_terminal(host: Host, terminal: Open) -> None:
    ana = terminal("attach", "--plain", "--name", "ana", rows=50)
    await ana.until("model: play/m")
    ben = terminal("attach", "--plain", "--name", "ben", rows=50)
    await ben.until("model: play/m")
    ana.type("let me choose")
    await ben.until("Which colour?", "2 Green")
    ben.type("2")
    await ana.until("answered by ben", "A fine colour.")


async def test_the_first_look_works_without_any_key(host: Host, terminal: Open, home: Path) -> None:
    """Bare `bullpen` in an empty home offers the tour, which asks before it writes."""
    screen = terminal("--plain", rows=60)
    await screen.until("no model is configured yet", "(demo/tour)")
    screen.type("1")
    await screen.until("model: demo/tour")
    screen.type("show me")
    await screen.until("write asks to write", "BULLPEN-TOUR.md", limit_s=40)
    screen.type("1")
    await screen.until("allowed")
    with anyio.fail_after(30):
        while not (home / "project" / "BULLPEN-TOUR.md").exists():  # noqa: ASYNC110 (another process)
            await anyio.sleep(0.05)


@pytest.mark.usefixtures("script")
async def test_run_answers_and_leaves_nothing_behind(host: Host, bullpen: Command) -> None:
    done = await bullpen("run", "say hello")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Hello to you.\n", "")
    again = await bullpen("run", "-C", "hello again")
    assert again.stdout == "Hello to you.\n"
    with anyio.fail_after(20):
        while json.loads((await bullpen("ps", "--json")).stdout)["workspaces"]:
            # The workspace finishes what it has to finish, and closes.
            pass


@pytest.mark.usefixtures("script")
async def test_run_denies_what_nobody_allowed(host: Host, bullpen: Command, home: Path) -> None:
    """With the hint how to allow it; and then it is done."""
    denied = await bullpen("run", "build it")
    assert "--on-ask allow" in denied.stderr
    assert not (home / "project" / "out.txt").exists()
    allowed = await bullpen("run", "--permissions", "allow", "build it")
    assert allowed.stdout == "I will build it.\n\nIt is built.\n"
    assert (home / "project" / "out.txt").read_text() == "made\n"


@pytest.mark.usefixtures("script")
async def test_run_tells_a_failure(host: Host, bullpen: Command) -> None:
    done = await bullpen("run", "fail please")
    assert (done.returncode, done.stdout) == (4, "")
    assert "no such model" in done.stderr


async def test_run_without_a_model_plays_the_demo_and_keeps_no_choice(host: Host, bullpen: Command) -> None:
    done = await bullpen("run", "hi")
    assert (done.returncode, "Welcome to Bullpen" in done.stdout) == (0, True)
    assert "using the built-in demo" in done.stderr
    again = await bullpen("run", "--detach", "hi")
    assert "using the built-in demo" in again.stderr


@pytest.mark.usefixtures("script")
async def test_run_survives_a_killed_server_and_tells_the_truth(host: Host, bullpen: Command) -> None:
    """The turn died with the server: that is a failure, and what was said is on stdout."""
    process = await anyio.to_thread.run_sync(
        lambda: subprocess.Popen(
            [*BULLPEN, "run", "slow"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=bullpen.env,
            cwd=bullpen.cwd,
        )
    )
    assert process.stdout
    first = await anyio.to_thread.run_sync(process.stdout.read, 6)
    os.kill(host.pid, signal.SIGKILL)
    out, err = await anyio.to_thread.run_sync(process.communicate)
    assert (process.returncode, first) == (1, "word0 ")
    assert "reconnected" in err
    assert out.endswith("\n")


@pytest.mark.usefixtures("script")
async def test_ctrl_c_ends_a_run_and_its_turn(host: Host, terminal: Open) -> None:
    screen = terminal("run", "slow")
    await screen.until("word2 ")
    screen.send("C-c")
    await screen.until("cancelling", "[status 130]")


@pytest.mark.usefixtures("script")
async def test_a_turn_goes_on_when_its_client_leaves(host: Host, terminal: Open, bullpen: Command) -> None:
    """And is there for the next one to see."""
    screen = terminal("attach", "--plain", "--name", "ana")
    await screen.until("model: play/m")
    screen.type("slow")
    await screen.until("word3 ")
    screen.send("C-d")
    await screen.until("[status 0]")
    shown = (await bullpen("ps")).stdout
    assert "1 busy" in shown
    stopped = await bullpen("stop")
    assert (stopped.returncode, "still at work" in stopped.stderr) == (1, True)
    again = terminal("attach", "--plain")
    await again.until("› slow", "word0 word1")
    forced = await bullpen("stop", "--force")
    assert (forced.returncode, forced.stdout) == (0, "the server has stopped\n")
    await again.until("— cancelled", "link lost")


@pytest.mark.usefixtures("tour")
async def test_a_second_server_on_the_same_data_says_who_has_it(
    host: Host, bullpen: Command, home: Path
) -> None:
    await bullpen("run", "hi")
    done = await bullpen("server", "--host", f"unix://{home}/other.sock")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert f"pid={host.pid}" in done.stderr


@pytest.mark.usefixtures("tour")
async def test_over_tcp_the_token_of_the_same_user_is_found(
    host: Host, bullpen: Command, env: dict[str, str]
) -> None:
    """Without it there is one clear sentence."""
    with subprocess.Popen(
        [*BULLPEN, "server", "--host", "tcp://127.0.0.1:0"], env=env, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr
        line = await anyio.to_thread.run_sync(process.stderr.readline)
        port = _tcp_port(line)
        done = await bullpen("run", "--host", f"tcp://127.0.0.1:{port}", "-c", str(bullpen.cwd), "hi")
        assert (done.returncode, "Welcome" in done.stdout) == (0, True)
        refused = await bullpen("ps", "--host", f"tcp://127.0.0.1:{port}", BULLPEN_TOKEN="wrong" * 10)
        assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
        assert "BULLPEN_TOKEN" in refused.stderr
        process.terminate()


def _tcp_port(line: str) -> int:
    found: Any = line.rsplit("tcp://127.0.0.1:", 1)[-1].split(",", maxsplit=1)[0]
    return int(found)


async def test_a_project_is_trusted_from_within(host: Host, home: Path, terminal: Open) -> None:
    """Everybody sees what waits, one lets it, and everybody is told; a file that breaks is told as well."""
    file = home / "project" / "bullpen.json"
    file.write_text('{"hooks": {"PreToolUse": [{"command": "./check"}]}}')
    ana, ben = terminal("attach", "--plain", "--name", "ana"), terminal("attach", "--plain", "--name", "ben")
    await ana.until("hooks.PreToolUse ('bullpen trust' shows it)")
    await ben.until("attached to")
    ana.type("/trust")
    await ana.until("runs  ./check  (hooks.PreToolUse[0]:1)", "not trusted; /trust yes")
    ana.type("/trust yes")
    await ana.until("trusted, until it changes")
    await ben.until("the configuration has changed (trust)")
    file.write_text("{oops")
    await ben.until("line 1, column 2")
    ben.type("/trust no")
    await ben.until("no longer trusted")


@pytest.mark.usefixtures("host", "script")
async def test_commands_of_ones_own_are_used_by_name(home: Path, terminal: Open) -> None:
    """Listed, sent with their words, and told how they are used; a project's waits for trust."""
    mine, theirs = home / ".config/bullpen/commands", home / "project/.claude/commands"
    for place in (mine, theirs):
        place.mkdir(parents=True)
    (mine / "greet.md").write_text("Say hello to $WHOM.")
    (theirs / "theirs.md").write_text("Do as we say.")
    ana = terminal("attach", "--plain", "--name", "ana")
    await ana.until("attached to")
    ana.type("/commands")
    await ana.until(
        "/greet WHOM  Say hello to $WHOM.  (user)", "/theirs", "(project)  not trusted", "(skill, system)"
    )
    ana.type("/greet")
    await ana.until("WHOM is missing: /greet WHOM")
    ana.type("/theirs")
    await ana.until("project:theirs is the project's and not trusted")
    ana.type("/greet ben and all others")
    await ana.until("you › Say hello to ben and all others.", "Hello to you.")


@pytest.mark.usefixtures("host")
async def test_a_chosen_model_without_a_key_is_not_replaced_by_the_tour(bullpen: Command, home: Path) -> None:
    directory = home / ".config" / "bullpen"
    directory.mkdir(parents=True)
    chosen = {"provider": "anthropic", "model": "claude-sonnet-4-6"}
    (directory / "bullpen.json").write_text(json.dumps({"models": {"large": chosen}}))
    done = await bullpen("run", "hi")
    assert (done.returncode, done.stdout) == (3, "")
    assert "anthropic/claude-sonnet-4-6 cannot be used" in done.stderr
    assert "set ANTHROPIC_API_KEY" in done.stderr
    assert len(done.stderr.splitlines()) == 1
