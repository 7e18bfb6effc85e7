"""Anything on any route: a running server answers with what its own description allows, or hangs up, and lives on."""

from __future__ import annotations

import json
import uuid
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st
from schemathesis.generation import GenerationMode
from tests.campaign import sized
from tests.conftest import Figure
from tests.faults.fuzz.target import UNSAFE, Target


def operations(target: Target, mode: GenerationMode) -> list[Any]:
    """Those that may be tried. What takes neither body nor query cannot be called in a wrong way."""
    found = [each.ok() for each in target.schema.get_all_operations()]
    assert len(found) > 70
    safe = [operation for operation in found if operation.label not in UNSAFE]
    return [o for o in safe if mode is GenerationMode.POSITIVE or list(o.body) or list(o.query)]


EXAMPLES = sized(3, 40)
"""Per operation and mode."""


@pytest.mark.timeout(sized(120, 3600))
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=lambda m: m.value)
def test_every_operation_answers_as_described(target: Target, mode: GenerationMode, figure: Figure) -> None:
    """Made-up requests, right and wrong, to every operation: never a 500, never a status or type nobody announced."""
    failures: list[str] = []
    tried = operations(target, mode)
    before = target.answers
    for operation in tried:
        try:
            sweep(target, operation, mode)
        except BaseExceptionGroup as group:
            failures.append(f"{operation.label}: {'; '.join(str(each) for each in group.exceptions)}")
    assert failures == [], "\n\n".join(failures)
    assert target.bullpen.call("GET", "/health").status_code == 200
    assert "Traceback (most recent call last)" not in target.bullpen.log
    figure(
        "R-34",
        "FUZZ",
        f"0 × 500 in {target.answers - before:,} {mode.value} requests to {len(tried)} operations",
    )


def sweep(target: Target, operation: Any, mode: GenerationMode) -> None:
    """Make requests up and check each answer."""

    @hypothesis.settings(
        max_examples=EXAMPLES,
        # The same requests every time: what is found is to be found again.
        derandomize=True,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(
        case=operation.as_strategy(generation_mode=mode), known=st.sampled_from([True, True, True, False])
    )
    def run(case: Any, known: bool) -> None:
        target.check(target.aim(case, known))

    run()


@pytest.mark.parametrize(
    "paths",
    [
        *(
            {"path": p}
            for p in ("a\0b", "~nobody-at-all/x", "loop/x", "file", "file/x", "a" * 300, "a/" * 3_000)
        ),
        *(
            {"path": "ok", "data_dir": d}
            for d in ("a\0b", "~nobody-at-all", "loop/x", "file", "file/x", "a" * 300)
        ),
    ],
    ids=lambda paths: "-".join(paths.values())[:20].replace("\0", "NUL"),
)
def test_a_path_that_cannot_be_used_is_refused(target: Target, paths: dict[str, str]) -> None:
    """What is wrong with a path that a client names is the client's to mend, and it is told what."""
    places = target.bullpen.home / "places"
    places.mkdir(exist_ok=True)
    (places / "file").write_text("")
    if not (places / "loop").is_symlink():
        (places / "loop").symlink_to("loop")
    body = {key: path if path.startswith("~") else f"{places}/{path}" for key, path in paths.items()}
    answer = target.bullpen.call("POST", "/workspaces", {**body, "client_id": str(uuid.uuid4())})
    assert (answer.status_code, "cannot be used as a" in answer.json()["message"]) == (400, True)


def test_an_environment_that_cannot_be_used_is_left_out(target: Target) -> None:
    """Variables without a name, without a value's sign or with a NUL byte are no reason to fail."""
    body = {"path": f"{target.bullpen.home}/odd", "client_id": str(uuid.uuid4())}
    env = ["A=\0", "HOME=/\0", "XDG_CONFIG_HOME=/\0", "=x", "plain", "", "HOME=relative", "B=\ud800"]
    workspace = target.bullpen.ok("POST", "/workspaces", content=json.dumps({**body, "env": env}))
    target.bullpen.ok("POST", f"/workspaces/{workspace['id']}/agent/sessions/x/shell", {"command": "true"})


@pytest.mark.parametrize(
    "query",
    [
        *("", "?client_id=", "?client_id=x", "?client_id=%00", "?client_id=ä", "?client_id=" + "a" * 5_000),
        *("?client_id[]=1", "?CLIENT_ID=1", "?;;&&==", "?" + "a=b&" * 2_000, "?client_id=%ff%fe", "?%"),
    ],
)
def test_an_event_stream_with_a_bad_query_is_refused(target: Target, query: str) -> None:
    answer = target.client.call("GET", f"/events{query}")
    assert (answer.status_code, bool(answer.json()["message"])) == (400, True)


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "0",
        "-",
        "x-1",
        "-1",
        "1-2-3",
        "٣-٤",
        "9" * 200,
        "{epoch}--1",
        "{epoch}-" + "9" * 30,
        "{epoch}-1e3",
    ],
)
def test_any_cursor_gets_a_stream(target: Target, cursor: str) -> None:
    """What cannot be served is answered with a resync, never with an error or with silence."""
    epoch = target.client.call("GET", "/sessions").headers["bullpen-cursor"].rpartition("-")[0]
    shown = cursor.format(epoch=epoch).encode().decode("latin-1")
    stream = target.client.stream(after=shown)
    if cursor:
        assert stream.next("resync")["reason"]
    stream.cut()
