from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bullpen.config import expand as module
from bullpen.config.expand import escape, expand, is_reference, shell
from bullpen.errors import ConfigError

ENV = {"A": "value", "EMPTY": "", "PATH": "/usr/bin:/bin"}


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("plain", "plain"),
        ("$A", "value"),
        ("${A}s", "values"),
        ("x$UNSET.y", "x.y"),
        ("${UNSET:-d}", "d"),
        ("${EMPTY:-d}", "d"),
        ("${A:-d}", "value"),
        ("${A:+d}", "d"),
        ("${UNSET:+d}", ""),
        ("${A:?no}", "value"),
        ("${UNSET:-${EMPTY:-$A}}", "value"),
        ("${UNSET:-a}b}", "ab}"),
        (r"\$A \\ \'", r"$A \ '"),
        ("'$A' \"$A's\"", "$A value's"),
        (r'"\n\$"', r"\n$"),
        ("Bearer $A", "Bearer value"),
        ("`$A`", "`value`"),
        ("$(printf 'a  b\n\n')", "a  b"),
        ("$(echo ')' \")\" $(echo $A))!", ") ) value!"),
        ("${UNSET:-$(echo no)}", "no"),
        ("${A:-$(exit 1)}", "value"),
    ],
)
def test_templates(template: str, value: str, tmp_path: Path) -> None:
    assert expand(template, ENV, shell(tmp_path, ENV)).value == value


def test_the_variables_that_were_used_are_told() -> None:
    """Also those that only a command names."""
    template = "$A ${B:-$C} ${A:+$D} $(echo $E ${F})"
    assert expand(template, ENV, lambda _: "").names == {"A", "B", "C", "D", "E", "F"}


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("cost $ 5", "'$' stands alone"),
        ("$5", "'$' stands alone"),
        ("end$", "'$' stands alone"),
        ("${A", "'${' is not closed"),
        ("$(echo", "'$(' is not closed"),
        ("${}", "names no variable"),
        ("${A%x}", "only :-, :+ and :? may follow A"),
        ("${A-x}", "only :-, :+ and :? may follow A"),
        ("'open", "single quote is not closed"),
        ('"open', "double quote is not closed"),
        ("${UNSET:?set it}", "UNSET is not set: set it"),
        ("${EMPTY:?}", "EMPTY is not set"),
        ("$(echo secret-output; exit 3)", "failed with exit code 3"),
        ("${A:+" * 30 + "}" * 30, "nested too deeply"),
    ],
)
def test_errors_say_why_and_quote_nothing(template: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        expand("sk-prefix " + template, ENV, shell(tmp_path, ENV))
    assert why in str(caught.value)
    assert not any(hidden in str(caught.value) for hidden in ("secret-output", "sk-prefix", "value"))


def test_without_leave_no_command_runs(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="may not run a command"):
        expand(f"$(touch {tmp_path}/canary)", ENV)
    assert list(tmp_path.iterdir()) == []


def test_a_command_sees_the_directory_and_the_environment_it_is_given(tmp_path: Path) -> None:
    run = shell(tmp_path, ENV)
    assert run("pwd") == str(tmp_path)
    assert run("echo $A") == "value"


@pytest.mark.parametrize("command", ["sleep 30 & wait", "yes"])
def test_a_command_that_does_not_end_is_ended(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too slow or too much, with all its children."""
    monkeypatch.setattr(module, "COMMAND_LIMIT_S", 1.0)
    began = time.monotonic()
    with pytest.raises(ConfigError, match=r"took longer|printed more"):
        shell(tmp_path, ENV)(command)
    assert time.monotonic() - began < 8


def test_a_command_that_cannot_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be started"):
        shell(tmp_path / "gone", ENV)("true")


@given(st.text())
def test_escaped_text_expands_to_itself(text: str) -> None:
    assert expand(escape(text), ENV).value == text


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("$KEY", True),
        ("${KEY:-x}", True),
        ("$(pass show key)", True),
        ("sk-a$b", False),
        ("$KEY!", False),
        ("", False),
    ],
)
def test_references(text: str, is_one: bool) -> None:
    assert is_reference(text) is is_one
