"""Why somebody is asked, or why nobody was: one sentence for people, and one for the model."""

from __future__ import annotations

from collections.abc import Iterable

from bullpen.asks.rules import Judgement
from bullpen.asks.subject import Subject
from bullpen.schema.asks import Explanation, Rule
from bullpen.system.shell_wrappers import Part

_MAX = 300


def why_asked(subject: Subject, judgement: Judgement) -> str:
    """What in the call made it ask."""
    if subject.protects:
        return _sentence(f"{subject.protects}: this needs an approval of its own")
    if judgement.doubtful is not None:
        doubt = f"{subject.why}, so it cannot be told apart from it" if subject.why else "this may be it"
        return _sentence(f"a rule denies {covers(judgement.doubtful)}, and {doubt}")
    if judgement.asks is not None:
        return _sentence(f"a rule says to ask about {covers(judgement.asks)}")
    if subject.command:
        return _sentence(_about_command(subject, judgement.missing))
    outside = [path for path in subject.paths if not path.is_relative_to(subject.root)]
    if outside:
        return _sentence(f"`{outside[0]}` lies outside the workspace")
    if subject.hosts:
        return _sentence(f"the host {subject.hosts[0]} has not been allowed here")
    if subject.paths:
        others = f" and {len(subject.paths) - 1} more" if len(subject.paths) > 1 else ""
        return _sentence(f"it changes `{subject.paths[0].relative_to(subject.root)}`{others}")
    return _sentence(f"`{subject.tool}` has not been allowed to {subject.action} here")


def _about_command(subject: Subject, missing: Part | None) -> str:
    if subject.why:
        return subject.why
    if missing is None:
        return "it redirects to a file" if subject.targets else "it does not stay within the workspace"
    if missing.is_wrapper and missing.inner:
        return f"`{missing.name}` runs another command"
    return f"`{' '.join(filter(None, missing.words[:3]))}` is not known to only read within the workspace"


def refusal(rule: Rule) -> str:
    """For the model: it is not the person at the keyboard who refused, and asking again changes nothing."""
    return f"A permission rule denies this ({covers(rule)}). Do not look for a way around it; do without, or tell the user."


def doubt(subject: Subject, rule: Rule) -> str:
    """For the model, where nobody can be asked."""
    because = f"{subject.why}, so it cannot be checked" if subject.why else "this may be the same"
    return (
        f"A permission rule denies {covers(rule)}, and {because}. Write it as plain commands without "
        "variables, substitutions and wrappers, or do without."
    )


def covers(rule: Rule) -> str:
    """What a rule is about, in words."""
    said = []
    if rule.command:
        said.append(f"`{rule.command}`")
    if rule.tool:
        said.append(f"{'by' if rule.command else 'the tool'} {rule.tool}")
    if rule.path:
        said.append(f"in `{rule.path}`" if rule.command else f"on `{rule.path}`")
    if rule.host:
        said.append(f"at {rule.host}")
    return " ".join(said) or "everything"


def covers_all(rules: Iterable[Rule]) -> str:
    return ", ".join(map(covers, rules))


def _sentence(text: str) -> str:
    return text if len(text) <= _MAX else f"{text[: _MAX - 1]}…"


def explained(outcome: str, subject: Subject, judgement: Judgement, because: str) -> Explanation:
    """The decision about a call that nobody makes."""
    named = tuple(dict.fromkeys(filter(None, (judgement.denied, judgement.doubtful, judgement.asks))))
    if outcome == "refused" and judgement.denied is not None:
        return Explanation(
            outcome="refused", why=_sentence(f"a rule denies {covers(judgement.denied)}"), rules=named
        )
    if outcome == "asked":
        return Explanation(outcome="asked", why=why_asked(subject, judgement), rules=named)
    return Explanation(outcome="allowed", why=_sentence(because), rules=judgement.allowed or ())
