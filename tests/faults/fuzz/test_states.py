"""Made-up requests in made-up orders, each going on from what earlier ones made (R-34, stateful)."""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from typing import Any

import hypothesis
import hypothesis.errors
import pytest
import schemathesis
from tests.campaign import sized
from tests.conftest import Figure
from tests.faults.fuzz.links import with_links
from tests.faults.fuzz.target import CHECKS, UNSAFE, Target, with_full_bodies

LIMIT_S = float(os.environ.get("BULLPEN_FUZZ_S", sized(8.0, 900.0)))
MACHINES = 3
"""Runs of a machine between two looks at the clock, each of `STEPS` requests at most."""

STEPS = 25


@pytest.mark.timeout(LIMIT_S + 120)
def test_requests_that_follow_each_other_answer_as_described(target: Target, figure: Figure) -> None:
    """Never a 500, never a status or a form that nobody announced, and the server is alive afterwards."""
    machine, statuses, chained, found = machine_of(target)
    ends = time.monotonic() + LIMIT_S
    rounds = 0
    while time.monotonic() < ends:
        rounds += 1
        settings = hypothesis.settings(
            max_examples=MACHINES,
            stateful_step_count=STEPS,
            database=None,
            deadline=None,
            phases=[hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        # The server remembers what earlier sequences did, so the same choices need not lead to the same steps.
        with contextlib.suppress(hypothesis.errors.Flaky):
            hypothesis.seed(rounds)(machine).run(settings=settings)
        assert found == [], "\n\n".join(found)
    assert target.bullpen.call("GET", "/health").status_code == 200
    assert "Traceback (most recent call last)" not in target.bullpen.log
    total = sum(statuses.values())
    assert chained["followed"] > total / 4, chained
    assert statuses["2xx"] > total / 10, statuses
    figure(
        "R-34",
        "FUZZ",
        f"0 × 500 in {total:,} stateful requests ({chained['followed']:,} from earlier answers, "
        f"{statuses['2xx']:,} × 2xx), {chained['sequences']:,} sequences",
    )


def machine_of(target: Target) -> tuple[Any, Counter[str], Counter[str], list[str]]:
    document = with_links(with_full_bodies(target.bullpen.ok("GET", "/openapi.json")))
    schema: Any = schemathesis.openapi.from_dict(document)
    for label in UNSAFE:
        method, path = label.split()
        schema = schema.exclude(method=method, path=path)
    statuses: Counter[str] = Counter()
    chained: Counter[str] = Counter()
    found: list[str] = []

    class Machine(schema.as_state_machine()):  # type: ignore[misc]  # made at run time
        def setup(self) -> None:
            chained["sequences"] += 1

        def get_call_kwargs(self, case: Any) -> dict[str, Any]:
            del case
            return {
                "base_url": target.base_url,
                "headers": {"Authorization": f"Bearer {target.token}"},
                "timeout": 20,
            }

        def validate_response(self, response: Any, case: Any, **_: Any) -> None:
            try:
                case.validate_response(response, checks=CHECKS)
            except BaseExceptionGroup as group:
                found.append("; ".join(str(each) for each in group.exceptions))
            statuses[f"{response.status_code // 100}xx"] += 1

        def step(self, input: Any) -> Any:  # noqa: A002  # the machine's name for it
            follows = input.transition is not None and input.is_applied
            chained["followed" if follows else "begun"] += 1
            target.aim(input.case, known=not follows)
            return super().step(input)

    return Machine, statuses, chained, found
