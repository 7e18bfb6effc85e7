"""What a hook answers, and what the answers of several come to.

The reference's envelope is understood, and the nested form of other agents. Whatever cannot be understood is a failure of
the hook and is told as one; what it means for the call is decided by who ran the hook.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from bullpen.config.shape import Hook

EXIT_DENY = 2
EXIT_HALT = 49

MAX_REASON = 4_000
MAX_CONTEXT = 64_000
"""In characters. A hook that prints a whole log would else fill the model's context with it."""

Decision = Literal["allow", "deny", "none"]

_DECISIONS: Mapping[str, Decision] = {
    "allow": "allow",
    "approve": "allow",
    "deny": "deny",
    "block": "deny",
    "ask": "none",
    "none": "none",
    "": "none",
}


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What one hook said. `error` is why it cannot be relied on: it failed, took too long, or made no sense."""

    decision: Decision = "none"
    halt: bool = False
    reason: str = ""
    context: str = ""
    patch: dict[str, Any] | None = None
    output: str | None = None
    error: str = ""


class HookVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the hooks make of it. `updated_input` is the whole new input, `output` the new result, None when they stay
    as they are. `context` is more for the model to read. `metadata` is what people are shown, None when no hook
    ran."""

    decision: Decision = "none"
    halt: bool = False
    reason: str = ""
    context: str = ""
    updated_input: dict[str, Any] | None = None
    output: str | None = None
    metadata: dict[str, Any] | None = None

    @property
    def refuses(self) -> bool:
        return self.decision == "deny"

    @property
    def is_news(self) -> bool:
        """Whether a hook did or failed to do anything that people should know of."""
        if self.metadata is None:
            return False
        spoke = self.decision != "none" or self.context or self.updated_input is not None
        return bool(spoke or self.output is not None or any("error" in h for h in self.metadata["hooks"]))


def understand(exit_code: int, stdout: str, stderr: str) -> Said:
    match exit_code:
        case 0:
            return _read(stdout.strip()) if stdout.strip() else Said()
        case 2 | 49:
            return Said(decision="deny", halt=exit_code == EXIT_HALT, reason=_cut(stderr.strip(), MAX_REASON))
        case _:
            told = _cut(stderr.strip(), 500)
            return Said(error=f"failed with exit code {exit_code}" + (f": {told}" if told else ""))


def combine(hooks: Sequence[Hook], said: Sequence[Said], given: Mapping[str, Any]) -> HookVerdict:
    """In the order of the config: refusing wins over allowing, halting stays, later patches win."""
    decisions = {each.decision for each in said}
    halt = any(each.halt for each in said)
    decision: Decision = (
        "deny" if "deny" in decisions or halt else "allow" if "allow" in decisions else "none"
    )
    updated = dict(given)
    for each in said:
        updated |= each.patch or {}
    is_rewritten = decision != "deny" and updated != given
    outputs = [each.output for each in said if each.output is not None]
    reason = "\n".join(each.reason for each in said if each.reason)
    metadata: dict[str, Any] = {
        "hook_count": len(hooks),
        "decision": decision,
        "halt": halt,
        "reason": reason,
        "input_rewrite": is_rewritten,
        "hooks": [_shown(hook, each) for hook, each in zip(hooks, said, strict=True)],
    }
    return HookVerdict(
        decision=decision,
        halt=halt,
        reason=reason,
        context="\n".join(each.context for each in said if each.context),
        updated_input=updated if is_rewritten else None,
        output=outputs[-1] if outputs and decision != "deny" else None,
        metadata=metadata | ({"updated_input": updated} if is_rewritten else {}),
    )


def _shown(hook: Hook, said: Said) -> dict[str, Any]:
    shown = {
        "name": hook.title,
        "matcher": hook.matcher,
        "decision": said.decision,
        "halt": said.halt,
        "reason": said.reason,
        "input_rewrite": said.patch is not None,
    }
    return shown | ({"error": said.error} if said.error else {})


def _read(stdout: str) -> Said:
    try:
        words = msgspec.json.decode(stdout)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return Said(error="answered something that is no JSON")
    if not isinstance(words, dict):
        return Said(error="answered something that is no JSON object")
    nested = words.get("hookSpecificOutput")
    inner = nested if isinstance(nested, dict) else {}
    unclear: list[str] = [] if nested is None or isinstance(nested, dict) else ["hookSpecificOutput"]

    def field(name: str, other: str = "") -> Any:
        return words.get(name) or inner.get(other)

    said = Said(
        decision=_decision(field("decision", "permissionDecision"), unclear),
        halt=_flag(words.get("halt"), unclear),
        reason=_text("reason", field("reason", "permissionDecisionReason"), MAX_REASON, unclear),
        context=_text("context", field("context", "additionalContext"), MAX_CONTEXT, unclear),
        patch=_patch(field("updated_input", "updatedInput"), unclear),
        output=_output(words.get("updated_output"), unclear),
    )
    if not unclear:
        return said
    return msgspec.structs.replace(said, error=f"answered an unclear {' and '.join(unclear)}")


def _decision(word: Any, unclear: list[str]) -> Decision:
    if word is None or (isinstance(word, str) and word in _DECISIONS):
        return _DECISIONS[word or ""]
    unclear.append("decision")
    return "none"


def _flag(value: Any, unclear: list[str]) -> bool:
    if value is not None and not isinstance(value, bool):
        unclear.append("halt")
    return value is True


def _text(name: str, value: Any, limit: int, unclear: list[str]) -> str:
    if isinstance(value, list):
        return _cut("\n".join(map(str, value)), limit)
    if value is not None and not isinstance(value, str):
        unclear.append(name)
        return ""
    return _cut(value or "", limit)


def _patch(value: Any, unclear: list[str]) -> dict[str, Any] | None:
    if isinstance(value, str) and value:
        try:
            value = msgspec.json.decode(value)
        except (msgspec.MsgspecError, RecursionError, ValueError):
            value = False
    if value is None or value == "" or isinstance(value, dict):
        return value or None
    unclear.append("updated_input")
    return None


def _output(value: Any, unclear: list[str]) -> str | None:
    if value is not None and not isinstance(value, str):
        unclear.append("updated_output")
        return None
    return None if value is None else value


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}\n[cut here: the hook said more]"
