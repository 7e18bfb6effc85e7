"""`bullpen config`, `schema` and `trust` as a person uses them: on files, without a server."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Command

SECRET = "sk-hidden-123"


@pytest.fixture
def user_file(home: Path) -> Path:
    file = home / ".config" / "bullpen" / "bullpen.json"
    file.parent.mkdir(parents=True)
    return file


@pytest.fixture
def project_file(bullpen: Command) -> Path:
    return bullpen.cwd / "bullpen.json"


async def test_show_says_where_each_setting_was_said_without_secrets(
    bullpen: Command, user_file: Path
) -> None:
    user_file.write_text(
        '{\n  // Hand-written.\n  "providers": {"p": {"api_key": "'
        + SECRET
        + '", "base_url": "http://x"}},\n'
        '  "options": {"initialize_as": "ME.md",}\n}'
    )
    done = await bullpen("config", "show")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split("\n") == [
        'options.initialize_as = "ME.md"',
        f"    {user_file}:4",
        'providers.p.api_key = "********"',
        f"    {user_file}:3",
        'providers.p.base_url = "http://x"',
        f"    {user_file}:3",
        "",
    ]
    told = json.loads((await bullpen("config", "show", "--json")).stdout)
    assert told["settings"][0] == {
        "key": "options.initialize_as",
        "value": "ME.md",
        "origins": [f"{user_file}:4"],
    }
    assert SECRET not in json.dumps(told)


async def test_a_setting_is_set_got_and_taken_back(bullpen: Command, home: Path) -> None:
    """For this workspace; nothing in the project changes."""
    done = await bullpen("config", "set", "tools.grep.timeout", "10s", "--scope", "workspace")
    assert (done.returncode, done.stderr) == (0, "")
    assert (await bullpen("config", "get", "tools.grep.timeout")).stdout == "10s\n"
    other = home / "other"
    other.mkdir()
    elsewhere = await bullpen("config", "get", "tools.grep.timeout", "-c", str(other))
    assert elsewhere.stdout == "0\n"
    await bullpen("config", "unset", "tools.grep.timeout", "--scope", "workspace")
    assert (await bullpen("config", "get", "tools.grep.timeout")).stdout == "0\n"
    assert list(bullpen.cwd.iterdir()) == []


async def test_a_written_choice_outranks_a_set_one_and_is_never_written_to(
    bullpen: Command, user_file: Path
) -> None:
    user_file.write_text('{"options": {"initialize_as": "ME.md"}} // mine')
    done = await bullpen("config", "set", "options.initialize_as", "YOU.md")
    assert done.returncode == 0
    assert f"also set in {user_file}:1" in done.stderr
    assert (await bullpen("config", "get", "options.initialize_as")).stdout == "ME.md\n"
    assert user_file.read_text().endswith("// mine")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["set", "options.debugg", "true"], "unknown key 'options.debugg', did you mean 'options.debug'?"),
        (["set", "options.disabled_tools", "bash"], "options.disabled_tools: expected `array`, got `str`"),
        (["set", "tools.grep.timeout", "soon"], "is not a duration"),
        (["get", "options.debugg"], "unknown key 'options.debugg', did you mean 'options.debug'?"),
        (["get", "models.large"], "models.large is not set"),
        (["set", "a..b", "1"], "'a..b' is not a dotted key"),
    ],
)
async def test_what_cannot_be_is_one_line_and_1(bullpen: Command, arguments: list[str], why: str) -> None:
    done = await bullpen("config", *arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert why in done.stderr


async def test_a_key_is_read_from_stdin(bullpen: Command, home: Path) -> None:
    done = await bullpen("config", "set", "providers.p.api_key", "-", stdin=f"{SECRET}\n")
    assert SECRET not in done.stdout + done.stderr
    state = home / ".local/share/bullpen/bullpen.json"
    assert json.loads(state.read_text()) == {"providers": {"p": {"api_key": SECRET}}}
    assert oct(state.stat().st_mode & 0o777) == "0o600"


async def test_a_broken_file_stops_no_command_that_could_help(
    bullpen: Command, user_file: Path, home: Path
) -> None:
    """One line with the cause and its place; every other file still counts."""
    user_file.write_text('{\n  "options": {oops}\n}')
    (bullpen.cwd / "bullpen.json").write_text('{"options": {"tui": {"compact_mode": true}}}')
    done = await bullpen("config", "check")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith(f"FAIL  {user_file}, line 2, column 15: ")
    shown = await bullpen("config", "show")
    assert (shown.returncode, shown.stderr.count("\n")) == (0, 1)
    assert "options.tui.compact_mode = true" in shown.stdout
    assert (await bullpen("config", "set", "options.progress", "false")).returncode == 0


async def test_check_tells_all_that_is_wrong(bullpen: Command, project_file: Path) -> None:
    project_file.write_text('{"options": {"progres": 1,\n "progress": 1}}')
    done = await bullpen("config", "check", "--json", BULLPEN_TRUST="1")
    assert done.returncode == 0
    assert json.loads(done.stdout) == {
        "files": [str(project_file)],
        "problems": [],
        "warnings": [
            f"{project_file}, line 1, column 14: unknown key 'options.progres', did you mean 'options.progress'?",
            f"{project_file}, line 2, column 2: options.progress: expected `bool`, got `int`",
        ],
        "untrusted": [],
    }


async def test_the_schema_is_printed(bullpen: Command) -> None:
    done = await bullpen("schema")
    told = json.loads(done.stdout)
    assert told["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert told["$defs"]["Options"]["properties"]["disabled_tools"]["description"]
    assert "openai-compat" in told["$defs"]["ProviderEntry"]["properties"]["type"]["examples"]


async def test_trust_shows_what_it_would_do_and_holds_until_that_changes(
    bullpen: Command, project_file: Path, home: Path
) -> None:
    project_file.write_text(
        '{\n"mcp": {"x": {"command": "npx", "args": ["evil\\u001b[2J", "--token=' + SECRET + '"]}}}'
    )
    shown = await bullpen("trust", "--show")
    assert (shown.returncode, shown.stderr) == (1, "")
    assert shown.stdout.split("\n") == [
        str(project_file),
        "  runs  npx evil␛[2J --token=********  (mcp.x:2)",
        "this is not trusted",
        "",
    ]
    asked = await bullpen("trust")
    assert (asked.returncode, asked.stderr) == (1, "not trusted; nothing of it takes effect\n")
    assert (await bullpen("trust", "--yes")).returncode == 0
    book = home / ".local/state/bullpen/trust.json"
    assert oct(book.stat().st_mode & 0o777) == "0o600"
    assert 'mcp.x.command = "npx"' in (await bullpen("config", "show")).stdout
    assert (await bullpen("trust", "--show")).returncode == 0
    project_file.write_text('{"mcp": {"x": {"command": "other"}}}')
    assert (await bullpen("trust", "--show")).returncode == 1
    assert "mcp.x" not in (await bullpen("config", "show")).stdout


async def test_trust_can_be_taken_back(bullpen: Command, project_file: Path) -> None:
    project_file.write_text('{"permissions": {"allowed_tools": ["bash"]}}')
    await bullpen("trust", "--yes")
    assert (await bullpen("trust", "--revoke")).returncode == 0
    done = await bullpen("trust", "--show")
    assert (done.returncode, "allows without asking  bash" in done.stdout) == (1, True)
    assert (await bullpen("trust", "--yes", "--revoke")).returncode == 2


async def test_a_project_cannot_bring_trust_along(bullpen: Command, project_file: Path, home: Path) -> None:
    """A copy at another place, and files that look like the book, are trusted by nobody."""
    project_file.write_text('{"permissions": {"allowed_tools": ["bash"]}}')
    await bullpen("trust", "--yes")
    book = (home / ".local/state/bullpen/trust.json").read_text()
    copy = home / "copy"
    (copy / ".bullpen").mkdir(parents=True)
    for name in ("bullpen.json", "trust.json", ".bullpen/trust.json"):
        (copy / name).write_text(
            project_file.read_text() if name == "bullpen.json" else book.replace("project", "copy")
        )
    assert (await bullpen("trust", "--show", str(copy))).returncode == 1


async def test_nothing_to_trust_is_fine(bullpen: Command) -> None:
    assert (await bullpen("trust")).stdout == "nothing in this project waits for trust\n"
