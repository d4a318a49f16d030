"""A symbolic link that another user made, anywhere on the way to the database or the cache, is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from measured_runs import run

from gemmsmith.compile.cache_folder import trusted_folder
from gemmsmith.compile.foreign_links import foreign_link
from gemmsmith.errors import CacheError
from gemmsmith.store.database import Results
from gemmsmith.store.database_errors import ResultsError


def link(path: Path, target: Path | str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A link of another user: only root can give one away, anybody else is taken for another user."""
    path.symlink_to(target, target_is_directory=True)
    if os.geteuid() == 0:
        os.lchown(path, 65534, 65534)
    else:
        me = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda me=me: me + 1)
    return path


@pytest.mark.parametrize("below", ["r.db", "deep/er/r.db", "../mine/r.db"])
def test_a_database_behind_a_foreign_link(below: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    path = link(tmp_path / "theirs", tmp_path / "mine", monkeypatch) / below
    for read_only in (False, True):
        with pytest.raises(ResultsError, match=r"lies behind .*theirs, a symbolic link that user \d+ made") as caught:
            Results.open(path, read_only=read_only)
        assert "--db" in caught.value.hint
    assert not list((tmp_path / "mine").iterdir())


def test_a_database_that_is_a_foreign_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Results.open(tmp_path / "real.db") as results:
        results.begin(run("r1"))
    with pytest.raises(ResultsError, match="symbolic link"):
        Results.open(link(tmp_path / "r.db", "real.db", monkeypatch), read_only=True)


def test_a_link_of_mine_that_leads_through_a_foreign_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "far" / "data").mkdir(parents=True)
    (tmp_path / "own").symlink_to("theirs/data", target_is_directory=True)
    theirs = link(tmp_path / "theirs", tmp_path / "far", monkeypatch)
    found = foreign_link(tmp_path / "own" / "r.db")
    assert found is not None
    if os.geteuid() == 0:
        assert found.path == theirs
        assert found.owner == 65534


def test_links_of_mine_are_followed(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "own").symlink_to(tmp_path / "data", target_is_directory=True)
    (tmp_path / "round").symlink_to("round")
    assert foreign_link(tmp_path / "round" / "r.db") is None, "the system refuses it"
    with Results.open(tmp_path / "own" / "r.db") as results:
        results.begin(run("r1"))
    assert (tmp_path / "data" / "r.db").exists()


def test_a_cache_behind_a_foreign_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir(mode=0o700)
    path = link(tmp_path / "theirs", tmp_path / "mine", monkeypatch) / "cache"
    with pytest.raises(CacheError, match=r"lies behind .*theirs"), trusted_folder(path):
        pass
    assert not (tmp_path / "mine" / "cache").exists()
