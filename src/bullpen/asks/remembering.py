"""What stays of an answer: a grant for the session, a grant for exactly this call, or rules. All of it ends by itself."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import msgspec

from bullpen.asks import display
from bullpen.asks.rules import check, judge, offered
from bullpen.asks.subject import Subject
from bullpen.errors import BadRequest
from bullpen.schema.api import NewRule, PermissionAnswer
from bullpen.schema.asks import Grant, PermissionRequest, Rule
from bullpen.store import asks, rules
from bullpen.store.tx import Tx

DAY_S = 86_400
DEFAULT_DAYS = 30
"""How long something stays allowed that outlives its session: long enough not to bother, short enough to be forgotten safely."""
MAX_DAYS = 3650


def answer_rules(answer: PermissionAnswer, subject: Subject) -> tuple[Rule, ...]:
    """The rules that an answer makes, if it makes any. For the session a call to a host is allowed by rules too, which name the
    host. Raises `BadRequest` when they would not cover the call that was asked about."""
    if answer.action == "allow_session" and subject.goes_out:
        return offered(subject)
    if answer.action != "allow_rule":
        return ()
    made = offered(subject)
    if answer.rule:
        tool = f"{subject.tool}:{subject.action}"
        rule = Rule(id="", effect="allow", tool=tool)
        if subject.command:
            rule = msgspec.structs.replace(rule, command=answer.rule)
        elif subject.hosts and not subject.paths:
            rule = msgspec.structs.replace(rule, host=answer.rule)
        else:
            rule = msgspec.structs.replace(rule, path=answer.rule)
        check(rule)
        made = (rule,)
    if not made or subject.protects:
        raise BadRequest("no rule may cover this call; allow it once, or exactly as it is")
    if judge(subject, made).allowed is None:
        raise BadRequest(f"the rule {answer.rule!r} does not cover this call")
    return made


def new_rule(body: NewRule, *, by: str, now: int) -> Rule:
    """A rule as somebody wrote it. Raises `BadRequest`."""
    if not body.effect:
        raise BadRequest("the effect of a rule is allow, ask or deny")
    if body.scope == "session" and not body.session_id:
        raise BadRequest("a rule for a session has to name the session")
    if not -1 <= body.days <= MAX_DAYS:
        raise BadRequest(f"days must be between 0 and {MAX_DAYS}")
    # What takes something away stays until somebody takes it back; only what gives something ends by itself.
    ends = body.effect == "allow" and body.scope != "session"
    days = (DEFAULT_DAYS if ends else 0) if body.days < 0 else body.days
    rule = Rule(
        id=str(uuid.uuid4()),
        effect=body.effect,
        tool=body.tool,
        command=body.command,
        path=body.path,
        host=body.host,
        scope=body.scope,
        session_id=body.session_id if body.scope == "session" else "",
        created_by=by,
        created_at=now,
        expires_at=now + days * DAY_S if days else 0,
    )
    check(rule)
    return rule


async def remember(
    tx: Tx, workspace: str, ask: asks.Ask, answer: PermissionAnswer, made: Sequence[Rule], by: str
) -> None:
    """Keep what the answer says to keep, in the answer's own transaction."""
    match answer.action:
        case "allow_session" | "allow_exact" if not made:
            await _add_grant(tx, workspace, ask, answer.action, by)
        case "allow_rule" | "allow_session":
            is_session = answer.scope == "session" or answer.action == "allow_session"
            for rule in made:
                kept = msgspec.structs.replace(
                    rule,
                    id=str(uuid.uuid4()),
                    scope="session" if is_session else answer.scope,
                    session_id=ask.session if is_session else "",
                    origin="answer",
                    created_by=by,
                    created_at=tx.now,
                    expires_at=0 if is_session else tx.now + DEFAULT_DAYS * DAY_S,
                )
                await rules.add(tx, workspace, kept)


async def _add_grant(tx: Tx, workspace: str, ask: asks.Ask, action: str, by: str) -> None:
    request = msgspec.json.decode(ask.body, type=PermissionRequest)
    is_exact = action == "allow_exact"
    what = f"{request.tool_name} to {request.action} in {request.path}"
    covers = f"exactly this: {_one_line(request)}" if is_exact else f"{what}, for this session"
    await asks.add_grant(
        tx,
        workspace,
        Grant(
            id=str(uuid.uuid4()),
            scope="exact" if is_exact else "session",
            session_id=ask.session,
            tool_name=request.tool_name,
            action=request.action,
            path=request.path,
            fingerprint=ask.fingerprint if is_exact else "",
            created_at=tx.now,
            granted_by=by,
            expires_at=tx.now + DEFAULT_DAYS * DAY_S if is_exact else 0,
            covers=covers,
        ),
    )


def _one_line(request: PermissionRequest) -> str:
    """The call in few words, for a list."""
    text = " ".join(display.visible(request.description).split())
    return f"{text[:199]}…" if len(text) > 200 else text
