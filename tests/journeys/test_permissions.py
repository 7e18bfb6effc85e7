"""`bullpen permissions` on a real server: what is said there is what becomes of a call."""

from __future__ import annotations

import subprocess

from tests.journeys.server import Bullpen


def test_rules_are_made_explained_and_taken_back(bullpen: Bullpen) -> None:
    project = str(bullpen.project())

    def say(*words: str) -> subprocess.CompletedProcess[str]:
        return bullpen.run_command(
            "permissions", *words, "--in", project, "-H", f"unix://{bullpen.socket}", check=False
        )

    def outcome(command: str) -> tuple[int, str]:
        done = say("explain", command)
        return done.returncode, done.stdout.partition(":")[0]

    assert outcome("npm run test") == (1, "asked")
    allowed = say("allow", "npm run test")
    assert (allowed.returncode, allowed.stderr) == (0, "")
    assert "`npm run test`" in allowed.stdout
    assert outcome("npm run test") == (0, "allowed")
    assert outcome("npm run test && curl x") == (1, "asked")

    assert say("deny", "npm *", "--scope", "person").returncode == 0
    assert outcome("npm run test") == (3, "refused")
    assert outcome("sudo npm run test") == (3, "refused")

    listed = say("list").stdout.splitlines()
    # Both are of the same second, or not.
    assert sorted(line.split()[1] for line in listed) == ["allow", "deny"]
    for line in listed:
        assert say("revoke", line.split()[0]).returncode == 0
    assert outcome("npm run test") == (1, "asked")


def test_a_rule_about_nothing_is_refused_with_the_next_step(bullpen: Bullpen) -> None:
    done = bullpen.run_command("permissions", "deny", "--in", str(bullpen.project()), check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "name a command, --tool, --path or --at" in done.stderr
