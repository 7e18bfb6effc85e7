"""What each kind of item looks like, as far as it can be read."""

import json

import pytest
from inline_snapshot import snapshot
from tests.tui.transcript.scenes import answer, call, items, prompt, result, said, shown, used

from bullpen.schema.message import (
    BORN_FINISHED,
    Binary,
    BinaryPart,
    Reasoning,
    ReasoningPart,
    ShellCommand,
    ShellCommandPart,
    new_message,
)
from bullpen.tui.transcript.scene import Spent
from bullpen.tui.transcript.tools import TOOLS

OLD = "a\nb\nreturn a - b\nc\n"
NEW = OLD.replace("a - b", "a + b")


def test_prompts_have_a_bar_and_the_name_of_somebody_else() -> None:
    image = BinaryPart(data=Binary(path="/x/b.png", mime_type="image/png", data=b"x" * 2345))
    assert shown(prompt("hi\nthere")) == "┃ hi\n┃ there"
    assert shown(prompt("hi", image, author="ben")) == "┃ ben\n┃ hi\n┃ ■ b.png (2 kB)"


def test_thoughts_are_folded_to_their_end() -> None:
    thought = Reasoning(thinking="one\ntwo\nthree\nfour", signature="", started_at=1, finished_at=13)
    message = answer(ReasoningPart(data=thought), reason=None)
    folded = "  ∴ thought for 12s, 4 lines, space shows all\n  │ three\n  │ four"
    assert shown(message) == folded
    (item,) = items(message)
    assert "│ one\n" in shown(message, unfolded={item.key})


def test_a_turn_ends_with_who_answered_and_how_long_it_took() -> None:
    ended = answer(said("y"))
    assert shown(prompt("x"), ended).endswith("◇ player · script · 12s")
    spent = {ended.id: Spent(0.0312, 12_345)}
    assert shown(prompt("x"), ended, spent=spent).endswith("12s · 12.3K tokens in context · $0.0312")


def test_a_command_that_failed_is_never_ticked_off() -> None:
    about = {"output": "\x1b[31mred\x1b[0m\nExit code 2", "exit_code": 2, "start_time": 0, "end_time": 2500}
    assert used("bash", {"command": "make"}, "red", about) == "  ✗ Bash  make  exit 2  2s\n    red"
    before = {"output": "red\nExit code 2"}
    assert "✗ Bash  make  exit 2" in used("bash", {"command": "make"}, "red", before)
    assert used("bash", {"command": "make"}, "ok", {"output": "ok"}).startswith("  ✓ Bash  make")


def test_a_long_command_leaves_room_for_how_it_went() -> None:
    about = {"output": "", "exit_code": 1, "start_time": 0, "end_time": 4000}
    row = used("bash", {"command": "make " * 40}, "", about, width=60)
    assert row.startswith("  ✗ Bash  make make")
    assert row.endswith("…  exit 1  4s")


def test_long_output_is_folded_and_errors_are_whole_on_demand() -> None:
    text = "\n".join(f"line {n}" for n in range(30))
    folded = used("grep", {"pattern": "x"}, text)
    assert "line 9\n    … 20 more lines, space shows them" in folded
    messages = answer(call("grep"), reason="tool_use"), result(text, is_error=True)
    (item,) = items(*messages)
    assert "line 29" not in shown(*messages)
    assert "line 29" in shown(*messages, unfolded={item.key})


def test_what_a_running_command_prints() -> None:
    running = answer(call("bash", {"command": "make"}), reason=None)
    assert shown(running, printed={"c1": "one\ntwo\n"}) == "  ● Bash  make\n    one\n    two"


def test_a_call_that_waits_for_a_person_says_so() -> None:
    running = answer(call("bash", {"command": "make"}), reason=None)
    assert shown(running, asking=frozenset({"c1"})) == "  ? Bash  make  waits for your answer"


def test_changes_are_shown_as_they_are_and_side_by_side_where_there_is_room() -> None:
    about = {"old_content": OLD, "new_content": NEW, "additions": 1, "removals": 1}
    assert used("edit", {"file_path": "x.py"}, "ok", about) == snapshot("""\
  ✓ Edit  x.py  (+1 −1)
     @@ -1,4 +1,4 @@
     1 1   a
     2 2   b
     3   - return a - b
       3 + return a + b
     4 4   c\
""")
    wide = used("edit", {"file_path": "x.py"}, "ok", about, width=140)
    (row,) = (row for row in wide.split("\n") if "│" in row and "return" in row)
    assert row.split("│")[0].strip() == "3 - return a - b"
    assert row.split("│")[1].strip() == "3 + return a + b"


def test_a_change_that_was_denied_is_shown_with_the_refusal() -> None:
    denied = used(
        "edit",
        {"file_path": "x.py"},
        "User denied permission",
        {"old_content": OLD, "new_content": NEW},
        is_error=True,
    )
    assert "✗ Edit  x.py\n    User denied permission" in denied
    assert "- return a - b" in denied


def test_some_of_several_edits_failed() -> None:
    about = {
        "old_content": OLD,
        "new_content": NEW,
        "edits_applied": 1,
        "edits_failed": [{"index": 2, "error": "not found"}],
    }
    assert "! 1 of 2 edits were made\n    ✗ edit 2: not found" in used("multiedit", {}, "ok", about)


def test_todos_are_a_list_with_what_changed() -> None:
    todos = [{"content": "look", "status": "completed"}, {"content": "mend", "status": "in_progress"}]
    about = {
        "todos": todos,
        "completed": 1,
        "total": 2,
        "just_completed": ["look"],
        "just_started": "mending",
    }
    assert (
        used("todos", {}, "ok", about) == "  ✓ To-do  1/2  done: look  now: mending\n    ✓ look\n    → mend"
    )


def test_questions_are_shown_with_their_answers() -> None:
    asked = {"questions": [{"question": "Which?"}, {"question": "Sure?"}]}
    told = "Q1: Which?\nAnswer: a (Alpha)\n\nQ2: Sure?\nAnswer: yes"
    assert used("question", asked, told) == (
        "  ✓ Question  Which? (+1 more)\n    ? Which?\n    → a (Alpha)\n    ? Sure?\n    → yes"
    )


def test_foreign_tools() -> None:
    assert used("mcp_git_status", {"repo": "."}, '{"a": 1}') == (
        '  ✓ git → status  {"repo": "."}\n    {\n      "a": 1\n    }'
    )
    assert used("odd_tool", None, "hello") == "  ✓ Odd tool\n    hello"


def test_an_image_is_told_by_type_and_size() -> None:
    asked = answer(call("view", {"file_path": "a.png"}), reason="tool_use")
    drawn = shown(asked, result("Image", data="QUJD" * 400, mime_type="image/png"))
    assert drawn == "  ✓ View  a.png\n    image/png, 1 kB"


def test_a_hook_that_changed_the_call_is_told_and_the_header_is_of_what_ran() -> None:
    hook = {"hooks": [{"name": "guard", "input_rewrite": True}], "updated_input": {"command": "ls -la"}}
    assert used("bash", {"command": "ls"}, "x", {"output": "x", "hook": hook}) == (
        "  ⚑ hook guard: changed the call\n  ✓ Bash  ls -la\n    x"
    )


@pytest.mark.parametrize("name", sorted(TOOLS))
def test_every_tool_can_be_shown_whatever_is_in_it(name: str) -> None:
    for arguments in ("", "{", "[]", json.dumps({"path": 5, "todos": [3], "questions": "x"})):
        for about in ("", "[]", "{", json.dumps({"todos": 4, "hook": 3, "edits_failed": [1], "content": 3})):
            assert TOOLS[name].name in used(name, arguments, "text", about)


def test_a_shell_command_with_its_exit_code() -> None:
    shell = ShellCommand(command="make\ntest", output="10%\r20%\nend\n", exit_code=2)
    message = new_message("user", "s", (ShellCommandPart(data=shell), BORN_FINISHED), 0)
    assert shown(message) == "$ make\n  test  exit 2\n    20%\n    end"


def test_answers_that_did_not_end_well() -> None:
    failed = answer(reason="error", message="Provider Error", details="overloaded\nfor long")
    assert shown(failed) == "  ERROR  Provider Error\n  overloaded\n  for long"
    gone = answer(reason="error", message="Interrupted", details="The server stopped.")
    assert shown(gone) == "  INTERRUPTED\n  The server stopped."
    stopped = answer(call("bash", {"command": "x"}), reason="canceled", message="User canceled request")
    assert shown(stopped) == "  ⊘ Bash  x  cancelled\n\n  CANCELLED\n  stopped bash"
