from __future__ import annotations

import os
from pathlib import Path

import pytest

from bullpen.config import places
from bullpen.config.places import Places, project_files


def make(*files: Path) -> None:
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}")


def test_xdg_directories() -> None:
    """Absolute variables count, relative ones do not, and ours outrank them."""
    env = {"HOME": "/h", "XDG_CONFIG_HOME": "/c", "XDG_DATA_HOME": "data", "BULLPEN_CACHE_DIR": "/cache"}
    found = Places.of(env)
    assert found.config == Path("/c/bullpen")
    assert found.data == Path("/h/.local/share/bullpen")
    assert found.state == Path("/h/.local/state/bullpen")
    assert found.cache == Path("/cache")
    assert found.state_file == Path("/h/.local/share/bullpen/bullpen.json")


def test_a_home_is_found_without_a_variable() -> None:
    assert Places.of({}).home.is_absolute()


def test_the_older_name_is_read_where_ours_is_missing(tmp_path: Path) -> None:
    found = Places.of({"HOME": str(tmp_path)})
    assert found.user_file.name == "bullpen.json"
    make(found.config / "crush.json")
    assert found.user_file.name == "crush.json"
    make(found.config / "bullpen.json")
    assert found.user_file.name == "bullpen.json"


def test_workspace_files_lie_in_the_data_directory() -> None:
    assert places.workspace_file(Path("/d"), "w") == Path("/d/workspaces/w/bullpen.json")
    assert places.init_flag(Path("/d"), "w") == Path("/d/workspaces/w/init")


def test_the_walk_ends_at_the_root_of_the_repository(tmp_path: Path) -> None:
    """Outermost first; inside a directory the hidden file wins over the plain one."""
    repo = tmp_path / "repo"
    make(tmp_path / "bullpen.json", repo / ".git/HEAD", repo / "crush.json", repo / "a/b/.bullpen.json")
    make(repo / "a/bullpen.json", repo / "a/crush.json", repo / "a/.crush.json", repo / "a/b/c/bullpen.json")
    found = [str(f.relative_to(repo)) for f in project_files(repo / "a/b")]
    assert found == ["crush.json", "a/bullpen.json", "a/.crush.json", "a/b/.bullpen.json"]


def test_a_submodule_is_a_repository_of_its_own(tmp_path: Path) -> None:
    make(
        tmp_path / ".git/HEAD",
        tmp_path / "bullpen.json",
        tmp_path / "sub/.git",
        tmp_path / "sub/bullpen.json",
    )
    assert project_files(tmp_path / "sub") == [tmp_path / "sub/bullpen.json"]


def test_outside_a_repository_only_the_directory_counts(tmp_path: Path) -> None:
    make(tmp_path / "bullpen.json", tmp_path / "p/bullpen.json")
    assert project_files(tmp_path / "p") == [tmp_path / "p/bullpen.json"]


def test_links_are_resolved_before_the_walk(tmp_path: Path) -> None:
    make(tmp_path / "real/.git/HEAD", tmp_path / "real/bullpen.json", tmp_path / "bullpen.json")
    (tmp_path / "real/in").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real/in")
    assert project_files(tmp_path / "link") == [tmp_path / "real/bullpen.json"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to give a file to somebody else")
def test_files_of_another_owner_are_passed_over(tmp_path: Path) -> None:
    make(tmp_path / ".git/HEAD", tmp_path / "bullpen.json", tmp_path / "p/bullpen.json")
    os.chown(tmp_path / "bullpen.json", 12345, 12345)
    assert project_files(tmp_path / "p") == [tmp_path / "p/bullpen.json"]


def test_what_is_no_file_is_passed_over(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "bullpen.json")
    (tmp_path / ".bullpen.json").mkdir()
    assert project_files(tmp_path) == []
    assert project_files(tmp_path / "missing") == []
