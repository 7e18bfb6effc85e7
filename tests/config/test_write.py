from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.config.conftest import FAKE, World

from bullpen.config import machine_file, write
from bullpen.errors import BadRequest, ConfigError
from bullpen.schema.agent import SelectedModel


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "share" / "data" / "bullpen.json"


def read(file: Path) -> Any:
    return json.loads(file.read_text())


def test_set_and_remove(file: Path) -> None:
    assert write.set_value(file, "options.tui.diff_mode", "split") == {
        "options": {"tui": {"diff_mode": "split"}}
    }
    write.set_value(file, r"providers.llama\.cpp.base_url", "http://x")
    assert read(file) == {
        "options": {"tui": {"diff_mode": "split"}},
        "providers": {"llama.cpp": {"base_url": "http://x"}},
    }
    write.remove_value(file, "options.tui.diff_mode")
    write.remove_value(file, "no.such.key")
    write.remove_value(file, "options.tui.diff_mode.deeper")
    assert read(file)["options"] == {"tui": {}}


def test_the_file_is_private(file: Path) -> None:
    write.set_value(file, "a", 1)
    assert oct(file.stat().st_mode & 0o777) == "0o600"
    assert {oct(d.stat().st_mode & 0o777) for d in (file.parent, file.parent.parent)} == {"0o700"}
    file.chmod(0o644)
    write.set_value(file, "a", 2)
    assert oct(file.stat().st_mode & 0o777) == "0o600"
    assert sorted(os.listdir(file.parent)) == ["bullpen.json", "bullpen.json.lock"]


@pytest.mark.parametrize(
    "key", ["", ".", "a.", ".a", "a..b", "a" * 600, ".".join("a" * 20), "a\x00b", "a\nb", "options!", "a.b!"]
)
def test_keys_that_are_none(file: Path, key: str) -> None:
    for attempt in (lambda: write.set_value(file, key, 1), lambda: write.remove_value(file, key)):
        with pytest.raises(BadRequest):
            attempt()
    assert not file.exists()


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("theme.deep", 1, "'theme' is no object"),
        ("list.0", 1, "'list' is no object"),
        ("options.disabled_tools", "bash", "options.disabled_tools: expected `array`"),
        ("options", 5, "an object is wanted"),
        ("x", "y" * 300_000, "larger than"),
    ],
)
def test_changes_that_would_break_the_config(file: Path, key: str, value: Any, why: str) -> None:
    """Refused, and the file is as it was."""
    write.set_value(file, "theme", "dark")
    write.set_value(file, "list", [1])
    before = file.read_bytes()
    with pytest.raises(BadRequest, match=why):
        write.set_value(file, key, value)
    assert file.read_bytes() == before


def test_a_broken_file_is_not_overwritten(file: Path) -> None:
    file.parent.mkdir(parents=True)
    file.write_text("{oops")
    with pytest.raises(ConfigError, match="line 1"):
        write.set_value(file, "a", 1)
    assert file.read_text() == "{oops"


def test_models_are_chosen_and_remembered(file: Path) -> None:
    """Newest first, each once, five of them."""
    layer: write.Layer = {}
    for name in ("a", "b", "c", "d", "e", "f", "c"):
        layer = write.select_model(file, "large", SelectedModel(provider="p", model=name))
    assert layer == {"models": {"large": {"model": "c", "provider": "p"}}}
    content = read(file)
    assert content["models"]["large"] == {"model": "c", "provider": "p"}
    assert [m["model"] for m in content["recent_models"]["large"]] == ["c", "f", "e", "d", "b"]


@pytest.mark.parametrize(
    ("role", "model"),
    [
        ("medium", SelectedModel(provider="p", model="m")),
        ("large", SelectedModel()),
        ("", SelectedModel(model="m")),
    ],
)
def test_choices_that_are_none(file: Path, role: str, model: SelectedModel) -> None:
    with pytest.raises(BadRequest):
        write.select_model(file, role, model)


def test_compact_mode(file: Path) -> None:
    write.set_compact(file, True)
    assert read(file) == {"options": {"tui": {"compact_mode": True}}}


def test_a_key_is_kept_as_it_was_typed(world: World) -> None:
    """Dollar signs and quotes in a key are part of it; a whole reference is meant as one."""
    world.user({"providers": {"fake": FAKE | {"api_key": ""}}})
    world.env["MY_KEY"] = "sk-from-env"
    for typed, key in (("sk-second", "sk-second"), ("a$b'c\\d\"", "a$b'c\\d\""), ("$MY_KEY", "sk-from-env")):
        write.set_provider_key(world.workspace_state, "fake", "string", typed)
        assert world.load().providers["fake"].api_key == key


def test_a_token_replaces_a_key_and_a_key_a_token(file: Path) -> None:
    write.set_provider_key(file, "p.q", "string", "sk")
    write.set_provider_key(file, "p.q", "oauth", {"access_token": "t"})
    assert read(file) == {"providers": {"p.q": {"oauth": {"access_token": "t"}}}}
    write.set_provider_key(file, "p.q", "string", "sk")
    assert read(file) == {"providers": {"p.q": {"api_key": "sk"}}}


@pytest.mark.parametrize(
    ("kind", "key", "why"),
    [
        ("weird", "k", 'unsupported api key kind "weird"'),
        ("string", 5, "api key"),
        ("oauth", "x", "api key"),
        ("oauth", {}, "api key"),
    ],
)
def test_keys_of_the_wrong_kind(file: Path, kind: str, key: Any, why: str) -> None:
    with pytest.raises(BadRequest, match=why):
        write.set_provider_key(file, "fake", kind, key)
    with pytest.raises(BadRequest, match="provider_id"):
        write.set_provider_key(file, "", "string", "k")


def test_scopes(world: World) -> None:
    assert write.scope_file(0, world.places, world.workspace_state) == world.places.state_file
    assert write.scope_file(1, world.places, world.workspace_state) == world.workspace_state
    with pytest.raises(BadRequest, match="scope 2"):
        write.scope_file(2, world.places, world.workspace_state)


def test_changes_from_all_sides_are_all_kept(file: Path) -> None:
    """Threads and processes take their turns."""
    script = (
        "import sys; from pathlib import Path; from bullpen.config import write\n"
        "for i in range(20): write.set_value(Path(sys.argv[1]), f'{sys.argv[2]}.k{i}', i)\n"
    )
    children = [subprocess.Popen([sys.executable, "-c", script, str(file), f"child{n}"]) for n in range(2)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: write.set_value(file, f"thread.k{i}", i), range(40)))
    assert [child.wait(30) for child in children] == [0, 0]
    assert {key: len(value) for key, value in read(file).items()} == {
        "child0": 20,
        "child1": 20,
        "thread": 40,
    }


def test_a_crash_leaves_the_old_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write.set_value(file, "a", 1)

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write.set_value(file, "a", 2)
    assert read(file) == {"a": 1}
    assert sorted(os.listdir(file.parent)) == ["bullpen.json", "bullpen.json.lock"]


def test_a_link_stays_a_link(file: Path, tmp_path: Path) -> None:
    """Whoever keeps such files elsewhere finds the change there, and both names share one lock."""
    elsewhere = tmp_path / "elsewhere" / "state.json"
    write.set_value(elsewhere, "a", 1)
    file.parent.mkdir(parents=True)
    file.symlink_to(elsewhere)
    write.set_value(file, "b", 2)
    assert file.is_symlink()
    assert read(elsewhere) == {"a": 1, "b": 2}
    assert machine_file.lock_of(file) == elsewhere.with_name("state.json.lock")


def test_a_lock_that_is_never_given_back(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_file, "LOCK_LIMIT_S", 0.1)
    write.set_value(file, "a", 1)
    with (
        machine_file.locked(machine_file.lock_of(file)),
        pytest.raises(ConfigError, match="another process holds"),
    ):
        write.set_value(file, "a", 2)
