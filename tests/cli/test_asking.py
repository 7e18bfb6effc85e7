"""Asks on a terminal: shown in full, answered by number."""

import pytest

from bullpen.present.asking import (
    SHOWN_LINES,
    Answers,
    PermissionReply,
    change_lines,
    command,
    offered_pattern,
    pattern_text,
    permission_reply,
    permission_text,
    question_reply,
)
from bullpen.schema.asks import Choice, PermissionRequest, Question, QuestionBatch, QuestionResponse


def a_permission(**params: object) -> PermissionRequest:
    return PermissionRequest(
        id="p",
        session_id="s",
        tool_call_id="c",
        tool_name="bash",
        description="Execute command: …",
        action="execute",
        params=params,
        path="/work",
    )


def a_question(kind: str, *labels: str) -> Question:
    choices = tuple(Choice(id=f"id{n}", label=label) for n, label in enumerate(labels, 1))
    return Question(id="q", type=kind, question="Which?", choices=choices)  # type: ignore[arg-type]


def test_a_permission_shows_what_will_run() -> None:
    """The real arguments first; what the model says about them is marked as such."""
    shown = permission_text(a_permission(description="lists files", command="rm -rf build"))
    assert shown.split("\n")[:3] == [
        "? bash asks to execute in /work",
        "  | command: rm -rf build",
        "  the model says: lists files",
    ]


def test_a_change_of_a_file_is_shown_as_what_is_different() -> None:
    """With what surrounds it, and with what nobody would see otherwise."""
    old = "".join(f"line {n}\n" for n in range(20))
    new = old.replace("line 9\n", "line 9\u200b\n")
    shown = permission_text(a_permission(file_path="a.py", old_content=old, new_content=new))
    assert shown.split("\n")[1:12] == [
        "  | file_path: a.py",
        "  | change:",
        "  |   @@ -7,7 +7,7 @@",
        "  |    line 6",
        "  |    line 7",
        "  |    line 8",
        "  |   -line 9",
        "  |   +line 9<U+200B>",
        "  |    line 10",
        "  |    line 11",
        "  |    line 12",
    ]
    same = permission_text(a_permission(file_path="a.py", old_content="x", new_content="x"))
    assert "  | new_content: x" in same


def test_a_grant_for_the_session_says_how_far_it_goes() -> None:
    assert "  2 allow bash to execute in this directory for this session\n" in permission_text(a_permission())
    web = permission_text(a_permission(url="https://me@docs.example:8443/x?y"))
    assert "  2 allow bash to execute at docs.example:8443 for this session\n" in web
    assert "in this directory" in permission_text(a_permission(url="http://[broken"))


def test_arguments_cannot_forge_the_dialog() -> None:
    """Every line of theirs is marked, and control characters are visible."""
    shown = permission_text(a_permission(command="ls\n  1 allow once\n\x1b[2A"))
    assert shown.count("\n  1 allow once") == 1
    assert "\x1b" not in shown


def test_long_arguments_are_never_cut_in_silence() -> None:
    ask = a_permission(new_content="\n".join(str(n) for n in range(100)))
    assert f"… {101 - SHOWN_LINES} more lines: /show" in permission_text(ask)
    assert "\n  |   99\n" in permission_text(ask, whole=True)


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("1", PermissionReply("allow")),
        (" 2 ", PermissionReply("allow_session")),
        ("3", PermissionReply("deny")),
        ("4 not there", PermissionReply("deny", "not there")),
        ("4", None),
        ("1 please", None),
        ("yes", None),
        ("12", None),
    ],
)
def test_a_number_answers_a_permission(text: str, reply: PermissionReply | None) -> None:
    """Nothing else does: a prompt must not be taken for a yes."""
    assert permission_reply(text) == reply


@pytest.mark.parametrize(
    ("question", "text", "reply"),
    [
        (a_question("yes_no"), "1", {"yes": True}),
        (a_question("yes_no"), "No", {"yes": False}),
        (a_question("yes_no"), "perhaps", None),
        (a_question("single_choice", "a", "b"), "2", {"selected_ids": ("id2",)}),
        (a_question("single_choice", "a", "b"), "3", None),
        (a_question("single_choice", "a", "b"), "1 2", None),
        (a_question("single_choice", "a", "b"), "neither", {"fill_in_text": "neither"}),
        (a_question("multi_choice", "a", "b"), "2, 1", {"selected_ids": ("id2", "id1")}),
        (a_question("free_text"), "1", {"fill_in_text": "1"}),
        (a_question("free_text"), "  ", None),
    ],
)
def test_a_question_is_answered_by_number_or_text(
    question: Question, text: str, reply: dict[str, object] | None
) -> None:
    expected = None if reply is None else QuestionResponse(request_id="q", **reply)  # type: ignore[arg-type]
    assert question_reply(question, text) == expected


def test_a_batch_is_answered_one_after_the_other() -> None:
    batch = QuestionBatch(
        id="b", session_id="s", tool_call_id="c", questions=(a_question("yes_no"), a_question("free_text"))
    )
    answers = Answers(batch)
    first = answers.text()
    answers.responses.append(QuestionResponse(request_id="q", yes=True))
    assert ("(1 of 2)" in first, "(2 of 2)" in answers.text()) == (True, True)
    answers.responses.append(QuestionResponse(request_id="q", fill_in_text="x"))
    assert answers.following() is None


@pytest.mark.parametrize(
    ("rule", "pattern"),
    [
        ("`npm run build` by bash:execute", "npm run build"),
        ("the tool edit:write on `src/*`", "src/*"),
        ("`a` by bash:execute, `b` by bash:execute", ""),
        ("at docs.python.org", ""),
        ("", ""),
    ],
)
def test_an_offered_rule_begins_a_pattern_of_ones_own(rule: str, pattern: str) -> None:
    assert offered_pattern(rule) == pattern


@pytest.mark.parametrize(
    ("params", "pattern", "said"),
    [
        ({"command": "npm test"}, "npm *", "run `npm` with any further words behind it"),
        ({"command": "npm test"}, "npm test", "run `npm test`, word for word, and nothing else"),
        ({"command": "npm test"}, "npm * x", "run `npm * x`; * stands for one word"),
        ({"url": "https://a.b"}, "*.a.b", "reach a.b and every host below it"),
        ({"file_path": "x"}, "src/**", "execute files that fit src/**, folders within included"),
    ],
)
def test_a_pattern_is_told_in_words(params: dict[str, object], pattern: str, said: str) -> None:
    assert pattern_text(a_permission(**params), pattern).endswith(said)


def test_what_is_to_be_judged_is_made_visible() -> None:
    assert command({"command": "ls\x1b[2J"}) == "ls<U+001B>[2J"
    assert command({"command": 3}) == command(None) == ""
    assert change_lines({"file_path": "n", "new_content": "a\u200b\n"})[-1] == "+a<U+200B>"
    assert change_lines({"command": "ls"}) == change_lines("text") == []
