"""A repository of canaries: before trust none sings, with trust exactly the trusted ones, and after a change none again (X-12, X-13)."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from tests.campaign import sized
from tests.conftest import Figure
from tests.faults.hostile.canaries import CANARIES, CONFIGURED, GIT, Canary
from tests.faults.hostile.trap import Trap, person_in
from tests.journeys.server import Bullpen, Client

TOGETHER = [canary for canary in CONFIGURED if canary.item and not canary.apart]
SING = {canary.name for canary in TOGETHER if not canary.control}
"""What must sing when all of it is trusted; the others may, and are proven otherwise."""
MAY_SING = {canary.name for canary in CONFIGURED if canary.item}


@pytest.mark.parametrize("canary", [c for c in CANARIES if c.control], ids=lambda c: c.name)
def test_a_canary_can_sing(canary: Canary, tmp_path: Path) -> None:
    """Without us, in a repository of its own: a trap that cannot spring proves nothing."""
    trap = Trap(tmp_path / "repo", tmp_path / "cage", tmp_path / "outside", "http://127.0.0.1:9")
    trap.set_up([canary])
    assert trap.sung() == set(), "making the trap sets it off"
    trap.control(canary)
    assert trap.sung() == {canary.name}


@pytest.mark.timeout(180)
def test_nothing_sings_before_trust_nor_after_a_change(home: Bullpen, figure: Figure) -> None:
    """Opened, listed, viewed, searched, prompted and asked in, first as a stranger's. Then every item is trusted and shown to work; then each
    is changed a little, and is inert as on the first day."""
    with person_in(home, CANARIES) as person:
        client = person.start()
        person.look_at_everything(client)
        assert {c.item.split("[")[0] for c in CONFIGURED if c.item} <= listed(client)
        assert person.leave(client) == set()
        assert len(person.host.asked) >= 4, "the model was asked"

        client = person.start()
        assert person.trap.sung() == set()
        trust(client, [canary.item for canary in TOGETHER])
        person.look_at_everything(client)
        person.wait_for(SING)
        assert person.leave(client) <= MAY_SING

        person.forget()
        change_everything(person.trap)
        client = person.start()
        person.look_at_everything(client)
        states = {e["item"]: e["state"] for e in client.ok("GET", "/trust")["effects"]}
        assert person.leave(client) == set()
        assert {states[canary.item] for canary in TOGETHER} == {"changed"}
    proven = sum(bool(c.control) for c in CANARIES), sum(not c.control for c in CANARIES)
    told = f"{proven[0]} of them proven by a command, {proven[1]} by trust"
    figure(
        "X-12",
        "ATTK",
        f"trap repository of {len(CANARIES)} canaries, {told}: 0 sang before trust, 0 after {len(TOGETHER)} trusted ones changed",
    )
    figure("X-13", "ATTK", f"{len(GIT)} canaries in a repository's git settings, on a server: 0 executions")


def listed(client: Client) -> set[str]:
    """What waits for trust, as a client is told."""
    return {effect["item"].split("[")[0] for effect in client.ok("GET", "/trust")["effects"]}


def trust(client: Client, items: list[str]) -> None:
    client.ok("POST", "/trust", {"fingerprint": client.ok("GET", "/trust")["fingerprint"], "items": items})


def change_everything(trap: Trap) -> None:
    """Another content for each item; two of them read as before and run another script."""
    config = trap.path / "bullpen.json"
    settings = json.loads(config.read_text())
    for hooks in settings["hooks"].values():
        for hook in hooks:
            if "check.sh" not in hook["command"]:
                hook["name"] = "again"
    for section in ("mcp", "lsp", "providers"):
        for name, entry in settings[section].items():
            if name != "script":
                entry["name" if section == "providers" else "timeout"] = "7"
    settings["env"] = {name: value + ":" for name, value in settings["env"].items()}
    more: list[tuple[Any, Any]] = [
        (settings["permissions"]["allowed_tools"], "view"),
        (settings["permissions"]["rules"], {"effect": "allow", "command": "true"}),
        (settings["tools"]["fetch"]["allow_private"], "127.0.0.1:9"),
        (settings["options"]["context_paths"], "x.md"),
        (settings["options"]["skills_paths"], "x"),
    ]
    for values, value in more:
        values.append(value)
    config.write_text(json.dumps(settings))
    for name in ("tools/check.sh", "tools/server", ".env"):
        with (trap.path / name).open("a") as file:
            file.write("# again\nA=1\n" if name == ".env" else "# again\n")
    for canary in CONFIGURED:
        for name in canary.files:
            if name.endswith(".md") and "%OUT%" not in name:
                with (trap.path / name).open("a") as file:
                    file.write("Again.\n")
    linked = trap.outside / "linked.json"
    linked.write_text(linked.read_text().replace('"linked"', '"again"'))


@pytest.mark.timeout(sized(120, 1800))
def test_exactly_the_trusted_item_sings(home: Bullpen, figure: Figure) -> None:
    """One after the other, each alone."""
    items = sorted({canary.item for canary in CONFIGURED if canary.item})
    chosen = sized(random.sample(items, 1), items)
    with person_in(home, CANARIES) as person:
        for item in chosen:
            own = [canary for canary in CONFIGURED if canary.item == item]
            client = person.start()
            trust(client, [item])
            sings = {canary.name for canary in own if not canary.control}
            person.look_at_everything(client)
            person.wait_for(sings)
            client.ok("DELETE", "/trust")
            assert sings <= person.leave(client) <= {canary.name for canary in own}, item
            person.forget()
    figure(
        "X-12", "ATTK", f"{len(chosen)} of {len(items)} items trusted alone: exactly what was trusted sang"
    )
