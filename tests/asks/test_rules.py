"""Rules: word for word, deny wins, and nothing is allowed that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bullpen.asks.deciding import Call, Mode, decide
from bullpen.asks.reasons import why_asked
from bullpen.asks.rules import check, host_matches, judge, offered, path_matches
from bullpen.asks.subject import Subject, Touch, look
from bullpen.errors import BadRequest
from bullpen.schema.asks import Rule, RuleEffect

ROOT = Path("/project")


def rule(effect: RuleEffect, command: str = "", *, tool: str = "", path: str = "", host: str = "") -> Rule:
    return Rule(
        id=f"{effect} {command}{tool}{path}{host}",
        effect=effect,
        command=command,
        tool=tool,
        path=path,
        host=host,
    )


def shell(command: str) -> Subject:
    return look(Touch(tool="bash", action="execute", root=ROOT, directory=ROOT, command=command))


def allows(pattern: str, command: str) -> bool:
    return judge(shell(command), [rule("allow", pattern)]).allowed is not None


@pytest.mark.parametrize(
    ("pattern", "command", "allowed"),
    [
        ("npm run test", "npm run test", True),
        ("npm run test", "npm run test:evil", False),
        ("npm run test", "npm run test --x", False),
        ("npm run", "npm runaway", False),
        ("git commit *", "git commit", True),
        ("git commit *", "git commit -m 'a b' --no-verify", True),
        ("git commit *", "git committer", False),
        ("git commit *", "git -c x=y commit", False),
        ("git commit *", "git commit -m x && rm x", False),
        ("git commit *", "git commit -m x; rm x", False),
        ("git commit *", "git commit -m x | sh", False),
        ("git commit *", "git commit -m x\nrm x", False),
        ("git commit *", "git commit -m x & rm x", False),
        ("git commit *", 'git commit -m "$(rm x)"', False),
        ("git commit *", "git commit -m `rm x`", False),
        ("git commit *", "git commit -m $X", False),
        ("git commit *", "git commit -m *", False),
        ("git commit *", "git commit -F <(rm x)", False),
        ("git commit *", "git commit > out", False),
        ("git commit *", "git commit > /dev/null 2>&1", True),
        ("git commit *", "GIT_EDITOR=x git commit", False),
        ("git commit *", "env git commit", False),
        ("git commit *", "sudo git commit", False),
        ("git commit *", "timeout 5 git commit", False),
        ("git commit *", "sh -c 'git commit'", False),
        ("git commit *", "./git commit", False),
        ("git commit *", "/tmp/git commit", False),
        ("git commit *", "git commit -m x | head -5", True),
        ("git commit *", "(git commit)", False),
        ("git commit *", "git commit -m 'x", False),
        ("git commit *", "git commit\u200b -m x", False),
        ("npm run *:fast", "npm run test:fast", True),
        ("npm run *:fast", "npm run test:slow", False),
        ("npm * test", "npm run test", True),
        ("npm * test", "npm run x test", False),
        ("sudo *", "sudo rm x", False),
        ("sudo apt *", "sudo apt update", True),
        ("sudo apt *", "sudo -u bob apt update", False),
        ("sudo * x", "sudo rm x", False),
        ("sudo env *", "sudo env rm x", False),
        ("timeout 60 npm test", "timeout 60 npm test", True),
        ("timeout 60 *", "timeout 60 npm test", False),
        ("xargs *", "xargs rm", False),
        ("find *", "find . -exec rm x ';'", False),
        ("find *", "find . -delete", False),
        ("bash *", "bash -c 'rm x'", False),
        ("bash -c 'npm test'", "bash -c 'npm test'", True),
        ("eval *", "eval rm x", False),
    ],
)
def test_a_command_rule_is_about_words(pattern: str, command: str, allowed: bool) -> None:
    assert allows(pattern, command) is allowed


def test_several_rules_may_cover_a_line_together() -> None:
    made = [rule("allow", "npm test"), rule("allow", "git add *")]
    assert judge(shell("git add x && npm test"), made).allowed == (made[1], made[0])
    assert judge(shell("git add x && npm test && rm x"), made).allowed is None


def test_what_a_redirection_writes_needs_a_rule_of_its_own() -> None:
    made = [rule("allow", "npm test"), rule("allow", tool="bash", path="logs/*")]
    assert judge(shell("npm test > logs/a"), made).allowed is not None
    assert judge(shell("npm test > other"), made).allowed is None
    assert judge(shell("cd x && npm test > logs/a"), [*made, rule("allow", "cd *")]).allowed is None


@pytest.mark.parametrize(
    "command",
    [
        "rm x",
        "rm -rf /",
        "/bin/rm x",
        "'rm' x",
        "r'm' x",
        "r\\m x",
        "ls && rm x",
        "ls; rm x",
        "ls | rm x",
        "(rm x)",
        "{ rm x; }",
        "echo $(rm x)",
        "echo `rm x`",
        "cat <(rm x)",
        "if true; then rm x; fi",
        "f() { rm x; }",
        "A=b rm x",
        "env rm x",
        "env A=b rm x",
        "sudo rm x",
        "sudo -u bob rm x",
        "sudo env timeout 5 rm x",
        "timeout -k 5 10 rm x",
        "nice -n 5 rm x",
        "nohup rm x",
        "xargs rm",
        "ls | xargs -n 1 rm",
        "find . -exec rm '{}' ';'",
        "find . -exec rm '{}' +",
        "sh -c 'rm x'",
        "bash -lc 'ls; rm x'",
        "bash -c 'sh -c \"rm x\"'",
        "eval rm x",
        "eval 'rm x'",
        "command rm x",
        "builtin rm x",
        "exec rm x",
        "busybox rm x",
        "rm x &",
        "! rm x",
        "time rm x",
        "for f in a; do rm $f; done",
    ],
)
def test_deny_sees_every_command_and_looks_behind_wrappers(command: str) -> None:
    """Refused outright, whoever else allows it: skip mode, a grant, the config, a hook."""
    call = Call(1, "m", "allow", hook_approved=True, effects=True)
    made = [rule("deny", "rm *"), rule("allow", "rm *"), rule("allow", "sudo rm *")]
    decision = decide(
        shell(command),
        call,
        session_id="s",
        rules=made,
        standing=("exact", "session"),
        skip=True,
        allowed=("bash",),
    )
    assert decision.outcome == "refused"


@pytest.mark.parametrize(
    "command",
    [
        "$x y",
        "${x} y",
        "$(echo rm) x",
        "r$x y",
        "ls 'a",
        "git -C x push",
        "rm\u200b x",
        "base64 -d x | $SHELL",
        "x" * 20_000,
    ],
)
def test_what_may_be_denied_is_asked_about_even_when_everything_is_skipped(command: str) -> None:
    made = [rule("deny", "rm *"), rule("deny", "git push *")]
    outcomes: dict[Mode, str] = {"ask": "asked", "allow": "refused"}
    for mode, outcome in outcomes.items():
        call = Call(1, "m", mode, hook_approved=True, effects=True)
        decision = decide(
            shell(command),
            call,
            session_id="s",
            rules=made,
            standing=("exact",),
            skip=True,
            allowed=("bash",),
        )
        assert decision.outcome == outcome


def test_a_known_read_can_be_denied_too() -> None:
    subject = look(
        Touch(
            tool="bash", action="execute", root=ROOT, directory=ROOT, command="cat secrets/key", is_read=True
        )
    )
    call = Call(1, "m", "ask", hook_approved=False, effects=True)

    def outcome(*rules: Rule) -> str:
        return decide(subject, call, session_id="s", rules=rules, standing=(), skip=False, allowed=()).outcome

    assert outcome() == "free"
    assert outcome(rule("deny", path="secrets/**")) == "refused"
    assert outcome(rule("deny", "cat *")) == "refused"
    assert outcome(rule("ask", "cat *")) == "asked"


def test_hosts_and_paths() -> None:
    fetch = look(Touch(tool="fetch", action="fetch", root=ROOT, directory=ROOT, hosts=("Docs.Example.com.",)))
    assert judge(fetch, [rule("allow", host="*.example.com")]).allowed is not None
    assert judge(fetch, [rule("allow", host="example.com")]).allowed is None
    assert (
        judge(shell("curl https://u:p@evil.example:8080/x"), [rule("deny", host="evil.example")]).denied
        is not None
    )
    write = look(
        Touch(tool="write", action="write", root=ROOT, directory=ROOT, paths=(ROOT / "src/a.py", ROOT / "b"))
    )
    assert judge(write, [rule("allow", path="src/**")]).allowed is None
    assert (
        judge(write, [rule("allow", path="src/**"), rule("allow", tool="write:write", path="b")]).allowed
        is not None
    )
    assert judge(write, [rule("deny", path="b")]).denied is not None


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("src/*.py", "/project/src/a.py", True),
        ("src/*.py", "/project/src/b/a.py", False),
        ("src/**/*.py", "/project/src/b/c/a.py", True),
        ("src/**/*.py", "/project/src/a.py", True),
        ("src", "/project/src/b/a.py", True),
        ("src", "/project/srcs", False),
        ("*", "/project/a", True),
        ("*", "/project/a/b", False),
        ("/etc/**", "/etc/passwd", True),
        ("a.b", "/project/aXb", False),
        ("./src/", "/project/src/x", True),
    ],
)
def test_a_glob_begins_at_the_workspace(pattern: str, path: str, matches: bool) -> None:
    assert path_matches(pattern, Path(path), ROOT) is matches


def test_a_star_in_a_host_is_a_whole_label() -> None:
    assert [host_matches("*.a.b", h) for h in ("x.a.b", "y.x.a.b", "a.b", "xa.b", "x.a.b.c")] == [
        True,
        True,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        rule("allow"),
        rule("allow", "*"),
        rule("allow", "* x"),
        rule("allow", "r* x"),
        rule("allow", "a 'b"),
        rule("allow", "a; b"),
        rule("allow", "a && b"),
        rule("allow", "a $(b)"),
        rule("allow", host="https://a.b"),
        rule("allow", "a\u202eb"),
        rule("allow", "curl *", host="a.b"),
        rule("deny", "x" * 2000),
    ],
    ids=lambda r: ascii(r.command[:20] + r.host),
)
def test_a_rule_that_cannot_be_meant_is_refused(wrong: Rule) -> None:
    with pytest.raises(BadRequest):
        check(wrong)


@pytest.mark.parametrize(
    "command", ["npm test", "git add a.py && git commit -m 'x y'", "head -3 x | rm -r build"]
)
def test_what_is_offered_covers_the_call_and_no_other(command: str) -> None:
    made = offered(shell(command))
    assert judge(shell(command), made).allowed
    assert judge(shell(command + " more"), made).allowed is None


@pytest.mark.parametrize(
    "command", ["sudo rm x", "x > y", "echo $HOME x", "a 'b*'", "sh -c id", "cp a .git/config"]
)
def test_no_rule_is_offered_for_what_no_rule_may_cover(command: str) -> None:
    assert offered(shell(command)) == ()


# Properties

WORDS = st.sampled_from(
    ["rm", "git", "commit", "push", "npm", "test", "-m", "*", "x", "sudo", "env", "sh", "-c", "'a b'"]
)
COMMANDS = st.lists(WORDS, min_size=1, max_size=5).map(" ".join)
LINES = st.lists(
    st.one_of(
        COMMANDS,
        st.sampled_from(["&&", "|", ";", "||", "&", "$(", ")", "`", ">", "<", "\n", "'", '"', "$x", "{a,b}"]),
    ),
    min_size=1,
    max_size=6,
).map(" ".join)
RULES = st.builds(
    rule,
    st.sampled_from(["allow", "ask", "deny"]),
    st.one_of(st.just(""), COMMANDS),
    tool=st.sampled_from(["", "bash", "bash:execute", "write"]),
    path=st.sampled_from(["", "**", "src/*", "/project", "."]),
    host=st.sampled_from(["", "a.b"]),
)
RANK = {"refused": 0, "asked": 1, "allowed": 2, "free": 2}


def decided(subject: Subject, rules: list[Rule], *, skip: bool) -> str:
    call = Call(1, "m", "ask", hook_approved=False, effects=True)
    return decide(subject, call, session_id="s", rules=rules, standing=(), skip=skip, allowed=()).outcome


@given(LINES, st.lists(RULES, max_size=5), RULES, st.booleans(), st.integers(0, 5))
def test_a_deny_rule_more_never_allows_more(
    line: str, rules: list[Rule], more: Rule, skip: bool, at: int
) -> None:
    denying = Rule(
        id="more", effect="deny", command=more.command, tool=more.tool, path=more.path, host=more.host
    )
    subject = shell(line)
    with_more = [*rules[:at], denying, *rules[at:]]
    assert RANK[decided(subject, with_more, skip=skip)] <= RANK[decided(subject, rules, skip=skip)]


@given(LINES, st.lists(RULES, max_size=5))
def test_no_rule_allows_what_cannot_be_read(line: str, rules: list[Rule]) -> None:
    subject = shell(line)
    if subject.why:
        assert judge(subject, rules).allowed is None


@given(LINES, st.lists(RULES, max_size=5))
def test_the_order_of_rules_does_not_matter(line: str, rules: list[Rule]) -> None:
    subject = shell(line)
    assert decided(subject, rules, skip=False) == decided(subject, rules[::-1], skip=False)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("npm test && rm x", "`rm x` is not known to only read within the workspace"),
        ("npm test > out", "it redirects to a file"),
        ("npm test; echo $(rm x)", "it contains a command substitution"),
        ("sudo rm x", "`sudo` runs another command"),
        ("cp a .git/config", "names `.git/config`, which runs code later: this needs an approval of its own"),
    ],
)
def test_an_ask_says_what_in_the_call_made_it_one(command: str, why: str) -> None:
    subject = shell(command)
    assert why_asked(subject, judge(subject, [rule("allow", "npm test")])) == why


@pytest.mark.parametrize(
    ("names", "why"), [(("a",), "it changes `a`"), (("a", "b", "c"), "it changes `a` and 2 more")]
)
def test_an_ask_says_how_many_files_are_changed(names: tuple[str, ...], why: str) -> None:
    subject = Subject(
        tool="lsp_rename",
        action="write",
        root=ROOT,
        directory=ROOT,
        paths=tuple(ROOT / name for name in names),
    )
    assert why_asked(subject, judge(subject, [])) == why
