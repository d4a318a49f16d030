"""The file of progress: kept whole, shared by processes, and never in the way when it is damaged."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from gemmsmith.errors import GemmsmithError, UsageError
from gemmsmith.learn.progress import Done, Progress, change_progress, load_progress, progress_path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "learn.json"


def test_no_file_is_no_progress(path: Path) -> None:
    assert load_progress(path) == Progress()
    assert not path.parent.exists()  # looking writes nothing


def test_what_was_done_is_kept(path: Path) -> None:
    change_progress(path, lambda p: p.graded("race", passed=False))
    change_progress(path, lambda p: p.hinted("race", 2))
    change_progress(path, lambda p: p.hinted("race", 1))
    done = change_progress(path, lambda p: p.graded("race", passed=True))
    first = done.of("race").passed
    assert first.startswith("20")
    change_progress(path, lambda p: p.graded("race", passed=False))
    found = load_progress(path).of("race")
    assert found == Done(attempts=3, hints=2, passed=first)  # passed once is passed
    assert load_progress(path).of("other") == Done()
    assert path.stat().st_mode & 0o077 == 0  # nobody else's business


@pytest.mark.parametrize(
    "text",
    [
        b"", b"{", b"[]", b"null", b"\xff\xfe\x00", b'{"version": 2, "tasks": {}}', b'{"version": 1}',
        b'{"version": 1, "tasks": []}', b'{"version": 1, "tasks": {"race": 3}}',
        b'{"version": 1, "tasks": {"race": {"attempts": "many"}}}',
        b'{"version": 1, "tasks": {"race": {"attempts": true}}}',
        b'{"version": 1, "tasks": {"race": {"nosuch": 1}}}', b"[" * 100_000,
    ],
)  # fmt: skip
def test_a_damaged_file_is_set_aside_and_kept(path: Path, text: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(text)
    seen = load_progress(path)
    assert seen.damaged == str(path)
    assert seen.of("race") == Done()
    assert path.read_bytes() == text  # looking changes nothing
    after = change_progress(path, lambda p: p.graded("race", passed=True))
    assert Path(after.damaged).read_bytes() == text
    assert load_progress(path).of("race").attempts == 1
    assert load_progress(path).damaged == ""


def test_a_file_of_another_name_is_the_users_own(tmp_path: Path) -> None:
    """--progress my_kernel.cu must not move a kernel out of the way."""
    for name, text in (("kernel.cu", "__global__ void k() {}"), ("package.json", "{}"), ("empty", "")):
        file = tmp_path / name
        file.write_text(text)
        with pytest.raises(UsageError, match="holds no progress"):
            change_progress(file, lambda p: p.hinted("race", 1))
        with pytest.raises(UsageError, match="holds no progress"):
            load_progress(file)
        assert file.read_text() == text
    change_progress(tmp_path / "new.json", lambda p: p.hinted("race", 1))
    assert load_progress(tmp_path / "new.json").of("race").hints == 1


def test_two_damaged_files_are_both_kept(path: Path) -> None:
    for text in ("one", "two"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        change_progress(path, lambda p: p.hinted("race", 1))
    kept = sorted(each.read_text() for each in path.parent.glob("*.damaged*"))
    assert kept == ["one", "two"]


def test_many_at_once_lose_nothing(path: Path) -> None:
    threads = [
        threading.Thread(target=change_progress, args=(path, lambda p: p.graded("race", passed=False)))
        for _ in range(12)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert load_progress(path).of("race").attempts == 12


def test_an_interrupted_write_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change_progress(path, lambda p: p.hinted("race", 1))
    before = path.read_bytes()

    def broken(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", broken)
        with pytest.raises(GemmsmithError, match="No space left"):
            change_progress(path, lambda p: p.hinted("race", 2))
    assert path.read_bytes() == before
    assert sorted(each.name for each in path.parent.iterdir() if not each.name.endswith(".lock")) == ["learn.json"]


def test_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMMSMITH_LEARN", str(tmp_path / "mine.json"))
    assert progress_path() == tmp_path / "mine.json"
    assert progress_path(tmp_path / "other.json") == tmp_path / "other.json"
    monkeypatch.delenv("GEMMSMITH_LEARN")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert progress_path() == tmp_path / "data" / "gemmsmith" / "learn.json"


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder"):
        progress_path(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="not a regular file"):
        progress_path(tmp_path / "pipe")


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(GemmsmithError, match="cannot write"):
        change_progress(tmp_path / "file" / "learn.json", lambda p: p.hinted("race", 1))
    assert load_progress(tmp_path / "file" / "learn.json") == Progress()


def test_the_file_is_plain_json(path: Path) -> None:
    change_progress(path, lambda p: p.solved("race"))
    assert json.loads(path.read_text())["tasks"]["race"]["solution"] is True
