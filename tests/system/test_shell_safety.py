"""Only commands known word for word to be reads run without asking."""

from __future__ import annotations

from pathlib import Path

import pytest

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


def test_the_corpus_is_large_enough() -> None:
    """A corpus that shrinks by accident would prove nothing."""
    assert (len(set(ATTACKS)) >= 200, len(set(READS)) >= 90) == (True, True)


def test_long_commands_ask() -> None:
    """Nobody reads a screen full of words before nodding."""
    assert is_read_only("echo " + "x" * (MAX_CHARACTERS - 5))
    assert not is_read_only("echo " + "x" * MAX_CHARACTERS)


def test_the_paths_of_a_read_are_told() -> None:
    """The caller can look whether a link leads one of them away."""
    found = paths_read("cat a.txt 'b c' | grep -n x - d/e | sed -n 1,2p f && ls -l")
    assert found == frozenset({"a.txt", "b c", "d/e", "f"})
