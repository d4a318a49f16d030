"""A folder or entry that another user could have made is refused."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs
import pytest
from test_cache_store import KEY, Compiler, contents, kernel, stored

from gemmsmith.compile.cache import CompileCache
from gemmsmith.compile.cache_entry import encode
from gemmsmith.compile.cache_folder import default_folder
from gemmsmith.compile.compiler import default_cache
from gemmsmith.errors import CacheError


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o770, 0o707, 0o777, 0o775, 0o1777])
def test_a_folder_others_can_write_is_refused(mode: int, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    stored(folder)
    folder.chmod(mode)
    compiler = Compiler()
    with pytest.raises(CacheError, match="can be written by others") as caught:
        CompileCache(folder).get(KEY, compiler)
    assert f"{mode:04o}" in caught.value.message
    assert "chmod 700" in caught.value.hint
    assert "GEMMSMITH_CACHE_DIR" in caught.value.hint
    assert compiler.calls == 0


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o755, 0o711])
def test_a_folder_others_can_only_read_is_accepted(mode: int, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    folder.mkdir()
    folder.chmod(mode)
    assert CompileCache(folder).get(KEY, Compiler()).cache_path


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(tmp_path / "c")
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(CacheError, match=f"belongs to user {owner}") as caught:
        CompileCache(tmp_path / "c").get(KEY, Compiler())
    assert "--cache-dir" in caught.value.hint


def test_info_and_clear_refuse_it_too(tmp_path: Path) -> None:
    stored(tmp_path / "c")
    (tmp_path / "c").chmod(0o777)
    cache = CompileCache(tmp_path / "c")
    with pytest.raises(CacheError):
        cache.info()
    with pytest.raises(CacheError):
        cache.clear()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_folder_given_to_another_user_is_refused(tmp_path: Path) -> None:
    stored(tmp_path / "c")
    os.chown(tmp_path / "c", 12345, -1)
    with pytest.raises(CacheError, match="belongs to user 12345"):
        CompileCache(tmp_path / "c").get(KEY, Compiler())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_an_entry_of_another_user_is_ignored(tmp_path: Path) -> None:
    path = stored(tmp_path / "c")
    os.chown(path, 12345, -1)
    compiler = Compiler()
    assert not CompileCache(tmp_path / "c").get(KEY, compiler).cached
    assert compiler.calls == 1


def test_a_link_to_a_folder_of_ours_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert CompileCache(tmp_path / "link").get(KEY, Compiler()).cache_path
    assert (tmp_path / "real" / f"{KEY}.kernel").exists()


def test_a_link_to_a_folder_others_can_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(CacheError, match="can be written by others"):
        CompileCache(tmp_path / "link").get(KEY, Compiler())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("what", ["link", "target"])
def test_a_link_of_or_to_another_user_is_refused(what: str, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    os.chown(tmp_path / ("link" if what == "link" else "real"), 12345, -1, follow_symlinks=False)
    with pytest.raises(CacheError, match="12345"):
        CompileCache(tmp_path / "link").get(KEY, Compiler())


@pytest.mark.parametrize("kind", ["file", "dangling link"])
def test_anything_but_a_folder_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "c"
    path.write_text("") if kind == "file" else path.symlink_to(tmp_path / "nowhere")
    with pytest.raises(CacheError, match="is not a folder"):
        CompileCache(path).get(KEY, Compiler())


def test_an_entry_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    path = stored(tmp_path / "c")
    elsewhere = tmp_path / "planted"
    elsewhere.write_bytes(encode(kernel(cubin=b"evil")))
    path.unlink()
    path.symlink_to(elsewhere)
    compiler = Compiler()
    compiled = CompileCache(tmp_path / "c").get(KEY, compiler)
    assert compiler.calls == 1
    assert contents(compiled) == contents(kernel())
    assert not path.is_symlink(), "the link is replaced"
    assert elsewhere.read_bytes() == encode(kernel(cubin=b"evil")), "what it pointed to is untouched"


def test_an_entry_that_is_a_folder_is_compiled_and_not_stored(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir(mode=0o700)
    (tmp_path / "c" / f"{KEY}.kernel").mkdir()
    compiled = CompileCache(tmp_path / "c").get(KEY, Compiler())
    assert compiled.cache_path == ""
    assert "directory" in compiled.note


def test_an_entry_that_is_a_pipe_does_not_block(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir(mode=0o700)
    os.mkfifo(tmp_path / "c" / f"{KEY}.kernel")
    compiler = Compiler()
    assert CompileCache(tmp_path / "c").get(KEY, compiler).cache_path
    assert compiler.calls == 1


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir(mode=0o700)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "c" / f"{KEY}.lock").symlink_to(victim)
    assert contents(CompileCache(tmp_path / "c").get(KEY, Compiler())) == contents(kernel())
    assert victim.read_text() == "precious"


def test_the_environment_chooses_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMMSMITH_CACHE_DIR", str(tmp_path / "mine"))
    assert default_folder() == tmp_path / "mine"
    assert CompileCache().folder == tmp_path / "mine"
    assert default_cache().folder == tmp_path / "mine"
    assert default_cache() is default_cache()


@pytest.mark.parametrize("value", [None, ""])
def test_the_default_is_the_users_cache(value: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("GEMMSMITH_CACHE_DIR", raising=False)
    if value is not None:
        monkeypatch.setenv("GEMMSMITH_CACHE_DIR", value)
    assert default_folder() == Path(platformdirs.user_cache_dir("gemmsmith")) / "compile"
    assert default_folder() == tmp_path / "gemmsmith" / "compile"


def test_the_parameter_wins_over_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMMSMITH_CACHE_DIR", str(tmp_path / "environment"))
    assert CompileCache(tmp_path / "parameter").folder == tmp_path / "parameter"
