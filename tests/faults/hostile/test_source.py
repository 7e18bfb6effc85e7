"""Gates on the source itself: no statement, command or file name is put together from what somebody else chose (X-28, X-33)."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.conftest import Figure

import bullpen

ROOT = Path(bullpen.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))

SQL_CALLS = {"run", "row", "rows", "execute", "executemany"}
SQL_WORDS = ("SELECT ", "INSERT ", "UPDATE ", "DELETE ", "CREATE ", "DROP ", "PRAGMA ", "ALTER ", "ATTACH ")

BUILT_SQL = {
    # Numbers and words of our own: PRAGMA takes no parameters.
    ("store/database.py", "level"),
    ("store/sqlite.py", "number"),
    ("store/sqlite.py", "pragma"),
    # `$6, $7`: as many places as there are constants to compare with.
    ("store/sessions.py", "places"),
}
"""What may stand in a statement although it is not written in the source, by module and name."""

FORBIDDEN_CALLS = {
    "os.system": "a shell reads what is in it",
    "os.popen": "a shell reads what is in it",
    "subprocess.getoutput": "a shell reads what is in it",
    "subprocess.getstatusoutput": "a shell reads what is in it",
    "asyncio.create_subprocess_shell": "a shell reads what is in it",
    "anyio.open_process": "it takes a string for a shell's",
    "tempfile.mktemp": "somebody else may make the file first",
    "tempfile.gettempdir": "a name in the shared directory can be guessed",
    "os.tmpnam": "somebody else may make the file first",
    "eval": "text becomes code",
    "exec": "text becomes code",
    "pickle.loads": "data becomes code",
    "pickle.load": "data becomes code",
    "marshal.loads": "data becomes code",
    "yaml.load": "data becomes code",
}


class Found(NamedTuple):
    module: str
    line: int
    what: str


@functools.cache
def nodes() -> list[tuple[str, ast.AST]]:
    """Every node of every module, with the module's path."""
    return [
        (str(path.relative_to(ROOT)), node)
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call | ast.JoinedStr)
    ]


def calls() -> Iterator[tuple[str, ast.Call]]:
    return ((module, node) for module, node in nodes() if isinstance(node, ast.Call))


def name_of(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{name_of(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def is_built(node: ast.expr, module: str = "") -> bool:
    """Whether a string is put together from parts that are not all written in the source."""
    match node:
        case ast.JoinedStr(values=parts):
            values = [part.value for part in parts if isinstance(part, ast.FormattedValue)]
            return any(not is_written(v) and (module, ast.unparse(v)) not in BUILT_SQL for v in values)
        case ast.BinOp(op=ast.Mod()):
            return True
        case ast.BinOp(left=left, right=right):
            return not (is_written(left) and is_written(right))
        case ast.Call(func=ast.Attribute(attr="format" | "join" | "replace")):
            return True
    return False


def is_written(node: ast.expr) -> bool:
    """A literal, or one of our constants by its name."""
    return (
        isinstance(node, ast.Constant)
        or (isinstance(node, ast.Name) and node.id.isupper())
        or (isinstance(node, ast.BinOp) and is_written(node.left) and is_written(node.right))
    )


def says_sql(node: ast.expr) -> bool:
    text = ast.unparse(node).upper()
    return any(word in text for word in SQL_WORDS)


def reads_like_sql(node: ast.JoinedStr) -> bool:
    first = node.values[0]
    return isinstance(first, ast.Constant) and str(first.value).lstrip().upper().startswith(SQL_WORDS)


def built_sql() -> list[Found]:
    found = []
    for module, call in calls():
        name = name_of(call.func).rpartition(".")[2]
        if name in SQL_CALLS and call.args and is_built(call.args[0], module):
            found.append(Found(module, call.lineno, ast.unparse(call.args[0])))
    return found


def test_no_statement_is_built_from_values(figure: Figure) -> None:
    statements = [
        call for _, call in calls() if name_of(call.func).rpartition(".")[2] in SQL_CALLS and call.args
    ]
    assert built_sql() == []
    figure(
        "X-28",
        "ATTK",
        f"{sum(says_sql(c.args[0]) for c in statements)} statements in the source, 0 built from values",
    )


def test_sql_is_not_built_elsewhere_and_handed_on() -> None:
    """An f-string or a format that reads like SQL, wherever it stands."""
    found = [
        Found(module, node.lineno, ast.unparse(node))
        for module, node in nodes()
        if isinstance(node, ast.JoinedStr) and reads_like_sql(node) and is_built(node, module)
    ]
    assert found == []


def test_no_shell_no_guessable_file_no_code_from_data(figure: Figure) -> None:
    found = [
        Found(module, call.lineno, f"{name_of(call.func)}: {FORBIDDEN_CALLS[name_of(call.func)]}")
        for module, call in calls()
        if name_of(call.func) in FORBIDDEN_CALLS
    ]
    found += [
        Found(module, call.lineno, "shell=True")
        for module, call in calls()
        for keyword in call.keywords
        if keyword.arg == "shell"
        and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
    ]
    assert found == []
    figure("X-33", "ATTK", f"0 guessable or shell-made names in {len(MODULES)} modules")


def test_a_program_is_started_from_a_list() -> None:
    """A string as a command would be split, or read by a shell."""
    starters = {"subprocess.Popen", "subprocess.run", "subprocess.check_output", "subprocess.check_call"}
    found = [
        Found(module, call.lineno, ast.unparse(call.args[0]))
        for module, call in calls()
        if name_of(call.func) in starters and isinstance(call.args[0], ast.Constant | ast.JoinedStr)
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "tx.run(f'DELETE FROM {x}')",
        "tx.row('SELECT ' + name)",
        "tx.rows('SELECT {}'.format(x))",
        "c.execute('SELECT %s' % x)",
    ],
)
def test_the_gate_sees_what_it_is_for(text: str) -> None:
    call = ast.parse(text).body[0]
    assert isinstance(call, ast.Expr)
    assert isinstance(call.value, ast.Call)
    assert is_built(call.value.args[0])


def test_log_lines_are_not_built_from_values() -> None:
    """What is logged goes in as arguments, which the formatter makes one line of (see `cli/serving.py`)."""
    levels = {"debug", "info", "warning", "error", "exception", "critical"}
    found = [
        Found(module, call.lineno, ast.unparse(call.args[0]))
        for module, call in calls()
        if isinstance(call.func, ast.Attribute)
        and call.func.attr in levels
        and name_of(call.func.value) in {"log", "_log", "_requests", "logging"}
        and call.args
        and is_built(call.args[0])
    ]
    assert found == []
