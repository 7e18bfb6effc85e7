"""The decision about a call, as a pure function of the call, the rules and the grants."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from typing import Literal, NamedTuple

from bullpen.asks import reasons
from bullpen.asks.rules import Judgement, judge
from bullpen.asks.subject import Subject
from bullpen.schema.asks import PermissionRequest, Rule
from bullpen.schema.wire import encode
from bullpen.system.scripts import Script

Mode = Literal["ask", "allow", "deny"]


class Call(NamedTuple):
    """The tool call that asks: which turn and message it belongs to, how its run answers, and whose prompt it serves."""

    turn: int
    message_id: str
    mode: Mode
    hook_approved: bool
    effects: bool
    author: str = ""


class Decision(NamedTuple):
    """`free` is a known read, of which nothing is written down. `is_told` allows with a notice to everybody. `because` says
    what allowed it; `reason` is for the model, why it was refused."""

    outcome: Literal["free", "allowed", "asked", "refused"]
    judgement: Judgement
    is_told: bool = False
    reason: str = ""
    because: str = ""


def decide(
    subject: Subject,
    call: Call,
    *,
    session_id: str,
    rules: Iterable[Rule],
    standing: Collection[str],
    skip: bool,
    allowed: Collection[str],
) -> Decision:
    """`standing` are the scopes of the grants that cover the call: `session`, `exact`."""
    judged = judge(subject, [rule for rule in rules if holds(rule, session_id, call.author)])
    if judged.denied is not None:
        return Decision("refused", judged, reason=reasons.refusal(judged.denied))
    if judged.doubtful is not None:
        if call.mode == "allow":
            return Decision("refused", judged, reason=reasons.doubt(subject, judged.doubtful))
        return Decision("asked", judged)
    if skip or call.mode == "allow":
        because = "permissions are skipped" if skip else "the run allows everything"
        return Decision("free" if subject.is_read else "allowed", judged, because=because)
    if subject.protects:
        if "exact" not in standing:
            return Decision("asked", judged)
        return Decision("allowed", judged, is_told=True, because="exactly this was allowed before")
    if judged.asks is not None:
        return Decision("asked", judged)
    if subject.is_read:
        return Decision("free", judged, because="it is known to only read within the workspace")
    if subject.tool in allowed or f"{subject.tool}:{subject.action}" in allowed:
        return Decision("allowed", judged, because="the config allows the tool")
    if because := _standing(subject, call, judged, standing):
        return Decision("allowed", judged, is_told=True, because=because)
    return Decision("asked", judged)


def fingerprint_of(request: PermissionRequest, scripts: Sequence[Script] = ()) -> str:
    """What exactly was shown: tool, action, arguments, directory, and the content of the files that it runs."""
    shown = [request.tool_name, request.action, request.params, request.path]
    return hashlib.sha256(encode([*shown, scripts] if scripts else shown)).hexdigest()


def _standing(subject: Subject, call: Call, judged: Judgement, standing: Collection[str]) -> str:
    if call.hook_approved:
        return "a hook approved it"
    if "exact" in standing:
        return "exactly this was allowed before"
    if judged.allowed is not None:
        return f"a rule allows {reasons.covers_all(judged.allowed)}"
    return "it was allowed for this session" if "session" in standing and not subject.goes_out else ""


def holds(rule: Rule, session_id: str, author: str) -> bool:
    """Whether a rule holds for a call. What somebody allowed themselves in all workspaces, nobody else was allowed."""
    if rule.scope == "session":
        return rule.session_id == session_id
    return rule.scope != "person" or rule.effect != "allow" or rule.created_by == author
