"""Only commands known word for word to be reads run without asking."""

from __future__ import annotations

import os
import random
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import Figure

from bullpen.system.shell_safety import MAX_CHARACTERS, is_read_only, paths_read

HERE = Path(__file__).parent


def corpus(name: str) -> list[str]:
    lines = (HERE / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("# ")]


def unescaped(line: str) -> str:
    return line.encode("latin-1", "backslashreplace").decode("unicode_escape")


ATTACKS = [unescaped(line) for line in corpus("shell_attacks.txt")]
READS = corpus("shell_reads.txt")


@pytest.mark.parametrize("command", ATTACKS, ids=ascii)
def test_what_is_not_known_to_be_a_read_asks(command: str) -> None:
    """Every line of the corpus of attacks is refused."""
    assert not is_read_only(command)


@pytest.mark.parametrize("command", READS, ids=ascii)
def test_a_plain_read_does_not_ask(command: str) -> None:
    """A person is not bothered with looking at files."""
    assert is_read_only(command)


def test_a_read_stays_one_only_without_additions() -> None:
    """Whatever is hung onto a read makes it ask: mutations of every benign line."""
    tails = [
        "; rm x",
        " & rm x",
        "\nrm x",
        " > x",
        " $(rm x)",
        " `rm x`",
        " && rm x",
        " | sh",
        " <(rm x)",
        " *",
        " ~",
        "\0",
    ]
    accepted = [read + tail for read in READS for tail in tails if is_read_only(read + tail)]
    assert accepted == []


def test_the_corpus_is_large_enough(figure: Figure) -> None:
    """A corpus that shrinks by accident would prove nothing."""
    attacks, reads = set(ATTACKS), set(READS)
    assert (len(attacks) >= 650, len(reads) >= 150) == (True, True)
    free = sum(map(is_read_only, attacks)), sum(map(is_read_only, reads))
    figure(
        "X-10",
        "ATTK",
        f"{free[0]} of {len(attacks)} attacks run without asking, {free[1]} of {len(reads)} plain reads do",
    )


def test_long_commands_ask() -> None:
    """Nobody reads a screen full of words before nodding."""
    assert is_read_only("echo " + "x" * (MAX_CHARACTERS - 5))
    assert not is_read_only("echo " + "x" * MAX_CHARACTERS)


def test_the_paths_of_a_read_are_told() -> None:
    """The caller can look whether a link leads one of them away."""
    found = paths_read("cat a.txt 'b c' | grep -n x - d/e | sed -n 1,2p f && ls -l")
    assert found == frozenset({"a.txt", "b c", "d/e", "f"})


# Mutations of harmless lines: whatever still passes is really run, and must have changed nothing.

SNIPPETS = [
    *";&|<>$`\\'\"(){}[]*?~!#=%^@:,.-+ \t\n\r\0",
    *(
        "&&",
        "||",
        ">>",
        ">|",
        "2>",
        "&>",
        "<(",
        ">(",
        "$(",
        "${",
        "$((",
        "<<E",
        "<<<",
        "\u200b",
        "\u00a0",
        "\u202e",
    ),
    *(
        "rm -rf .",
        "touch made",
        "> made",
        "; touch made",
        "&& touch made",
        "| tee made",
        "| sh",
        "-o made",
        "--output=made",
    ),
    *(
        "-exec touch made ;",
        "-delete",
        "-fprint made",
        "--pre=sh",
        "-f",
        "-i",
        "-w",
        "-s",
        "--files0-from=made",
        "-C",
    ),
    *(
        "/etc/passwd",
        "../outside/made",
        "~/made",
        "$HOME/made",
        "/dev/null",
        "made",
        "-",
        "--",
        "$(touch made)",
    ),
]


def mutated(read: str, chance: random.Random) -> str:
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        at = chance.randint(0, len(read))
        match chance.randrange(4):
            case 0:
                read = read[:at] + read[at + chance.randint(1, 4) :]
            case 1:
                words = read.split(" ")
                chance.shuffle(words)
                read = " ".join(words)
            case _:
                pad = chance.choice(("", " "))
                read = read[:at] + pad + chance.choice(SNIPPETS) + pad + read[at:]
    return read


def a_tree(root: Path) -> None:
    for name in (
        "README.md",
        "a.txt",
        "b.txt",
        "a",
        "b",
        "d",
        "names.txt",
        "names.csv",
        "log.txt",
        "dist.whl",
        "a.py",
    ):
        (root / name).write_text(f"{name}\nb\na\nTODO main\n", encoding="utf-8")
    (root / "src").mkdir()
    (root / "src" / "app.py").write_text("import os\n", encoding="utf-8")
    (root / "tests").mkdir()


def state_of(root: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """All that is below a directory: kind, links, time of change, content."""
    found: dict[str, tuple[int, int, int, bytes]] = {}
    for path in sorted(root.rglob("*")):
        facts = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (facts.st_mode, facts.st_nlink, facts.st_mtime_ns, content)
    return found


def test_what_passes_has_no_effect_when_it_is_run(tmp_path: Path) -> None:
    """10,000 mutations of harmless lines, with a fixed seed; those that pass are run by bash, as the tool would."""
    root, home, outside = tmp_path / "work", tmp_path / "home", tmp_path / "outside"
    for made in (root, home, outside):
        made.mkdir()
    a_tree(root)
    chance = random.Random(20)
    passed = {line for _ in range(10_000) if is_read_only(line := mutated(chance.choice(READS), chance))}
    before = state_of(tmp_path)
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": "C"}
    run = sorted({*READS, *chance.sample(sorted(passed), min(len(passed), 250))})
    for line in run:
        subprocess.run(
            ["bash", "-c", line],
            cwd=root,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=30,
            check=False,
        )
        assert state_of(tmp_path) == before, line
    assert len(run) > 300


@given(read=st.sampled_from(READS), at=st.integers(0, 60), inserted=st.text(min_size=1, max_size=3))
def test_no_character_that_a_shell_obeys_is_let_in(read: str, at: int, inserted: str) -> None:
    """Outside of quotes: a line that passes contains none of them, wherever it was put."""
    line = read[:at] + inserted + read[at:]
    if is_read_only(line) and not {"'", '"'} & set(line):
        allowed = re.sub(r">/dev/null|2>&1|&&|\|\|", "", line)
        assert not set(allowed) & set(";&<>$`\\(){}[]*?~!#\n\r\0"), line
