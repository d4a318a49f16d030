"""A stored kernel is returned intact, or compiled again."""

from __future__ import annotations

import errno
import os
import resource
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gemmsmith.compile import cache as cache_module
from gemmsmith.compile.cache import CompileCache
from gemmsmith.compile.cache_entry import decode, encode
from gemmsmith.compile.compiled import CompiledKernel, Resources
from gemmsmith.errors import CompileError

KEY = "0123456789abcdef" * 4
OTHER = "f" * 64


def kernel(
    key: str = KEY, cubin: bytes = b"\x7fELF" + bytes(range(256)), log: str = "ptxas info: ümlaut"
) -> CompiledKernel:
    return CompiledKernel(
        entry="gemm", arch="sm_90", ptx=".version 9.0 // café\n", cubin=cubin,
        resources=Resources(32, 2048, 8, 1, 2, 576, 3), log=log, compiler="NVRTC 13.4", key=key, cached=False,
        cache_path="",
    )  # fmt: skip


class Compiler:
    """A fake compiler that counts its calls."""

    def __init__(self, result: CompiledKernel | None = None) -> None:
        self.calls = 0
        self.result = result or kernel()

    def __call__(self) -> CompiledKernel:
        self.calls += 1
        return self.result


def contents(compiled: CompiledKernel) -> tuple[object, ...]:
    return (compiled.entry, compiled.arch, compiled.ptx, compiled.cubin, compiled.resources, compiled.log, compiled.key)


def stored(folder: Path, key: str = KEY) -> Path:
    """A cache folder with one entry; returns the entry's path."""
    CompileCache(folder).get(key, Compiler(kernel(key)))
    return folder / f"{key}.kernel"


def assert_recompiled_and_healed(folder: Path) -> None:
    compiler = Compiler()
    again = CompileCache(folder).get(KEY, compiler)
    assert compiler.calls == 1
    assert not again.cached
    assert contents(again) == contents(kernel())
    healed = CompileCache(folder).get(KEY, compiler)
    assert compiler.calls == 1
    assert healed.cached


SIZE = len(encode(kernel()))


def test_a_miss_then_a_hit(tmp_path: Path) -> None:
    cache, compiler = CompileCache(tmp_path / "c"), Compiler()
    first, second = cache.get(KEY, compiler), cache.get(KEY, compiler)
    assert compiler.calls == 1
    assert (first.cached, second.cached) == (False, True)
    assert first.cache_path == second.cache_path == str(tmp_path / "c" / f"{KEY}.kernel")
    assert contents(first) == contents(second) == contents(kernel())
    assert first.note == second.note == ""


def test_info_counts(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path / "c")
    assert cache.info().entries == 0
    assert not (tmp_path / "c").exists(), "asking must not create the folder"
    for key in (KEY, OTHER, KEY, KEY):
        cache.get(key, Compiler(kernel(key)))
    info = cache.info()
    assert (info.hits, info.misses, info.entries, info.bytes) == (2, 2, 2, 2 * SIZE)
    assert info.folder == str(tmp_path / "c")


def test_clear(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path / "c")
    cache.get(KEY, Compiler())
    assert cache.clear() == 1
    assert cache.info().entries == 0


def test_a_failed_compilation_is_raised_and_not_stored(tmp_path: Path) -> None:
    def fail() -> CompiledKernel:
        raise CompileError("no")

    cache = CompileCache(tmp_path / "c")
    with pytest.raises(CompileError):
        cache.get(KEY, fail)
    compiler = Compiler()
    assert not cache.get(KEY, compiler).cached
    assert compiler.calls == 1


def test_an_oserror_of_the_compiler_is_raised(tmp_path: Path) -> None:
    def fail() -> CompiledKernel:
        raise OSError(errno.EIO, "the compiler's own")

    with pytest.raises(OSError, match="the compiler's own"):
        CompileCache(tmp_path / "c").get(KEY, fail)


@pytest.mark.parametrize(
    "at", sorted({*range(0, 64, 5), *range(64, SIZE - 32, SIZE // 20), *range(SIZE - 32, SIZE, 4)})
)
@pytest.mark.parametrize("bit", [0, 7])
def test_a_flipped_bit_is_noticed(at: int, bit: int, tmp_path: Path) -> None:
    path = stored(tmp_path / "c")
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)
    assert_recompiled_and_healed(tmp_path / "c")


@pytest.mark.parametrize(
    "length", sorted({0, 1, 16, 17, 20, 21, 31, 32, 33, 64, SIZE // 2, SIZE - 33, SIZE - 32, SIZE - 1})
)
def test_a_truncated_entry_is_noticed(length: int, tmp_path: Path) -> None:
    path = stored(tmp_path / "c")
    path.write_bytes(path.read_bytes()[:length])
    assert_recompiled_and_healed(tmp_path / "c")


@pytest.mark.parametrize("tail", [b"\0", b"x" * 32, b"x" * 5000])
def test_an_extended_entry_is_noticed(tail: bytes, tmp_path: Path) -> None:
    path = stored(tmp_path / "c")
    path.write_bytes(path.read_bytes() + tail)
    assert_recompiled_and_healed(tmp_path / "c")


def test_an_entry_of_another_key_is_ignored(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    stored(folder, OTHER).rename(folder / f"{KEY}.kernel")
    assert_recompiled_and_healed(folder)


def test_an_entry_of_another_schema_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("gemmsmith.compile.cache_entry.SCHEMA", 0)
        stored(tmp_path / "c")
    assert_recompiled_and_healed(tmp_path / "c")


@pytest.mark.parametrize("key", [OTHER, "", KEY.upper()])
def test_decode_checks_the_key(key: str) -> None:
    assert decode(encode(kernel()), KEY) is not None
    assert decode(encode(kernel()), key) is None


def test_a_stale_temporary_file_is_ignored_and_removed(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    folder.mkdir(mode=0o700)
    left = folder / f".{KEY}.1.abcd.tmp"
    left.write_bytes(encode(kernel())[:100])
    compiler = Compiler()
    CompileCache(folder).get(KEY, compiler)
    assert compiler.calls == 1
    assert not left.exists()


@pytest.mark.parametrize(("age", "kept"), [(60, True), (7200, False)])
def test_old_temporary_files_of_other_keys_are_removed(age: int, kept: bool, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    folder.mkdir(mode=0o700)
    left = folder / f".{OTHER}.1.abcd.tmp"
    left.write_bytes(b"half")
    os.utime(left, (time.time() - age, time.time() - age))
    CompileCache(folder).get(KEY, Compiler())
    assert left.exists() == kept


def _raising(name: str, number: int) -> Callable[..., object]:
    real = getattr(os, name)

    def call(*arguments: object, **keywords: object) -> object:
        writing = name != "open" or (isinstance(arguments[1], int) and arguments[1] & os.O_CREAT)
        if (writing and str(arguments[0]).endswith(".tmp")) or name == "write":
            raise OSError(number, os.strerror(number))
        return real(*arguments, **keywords)

    return call


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("function", ["write", "replace", "open"])
def test_after_a_failed_write_the_kernel_is_returned_uncached(
    function: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "c"
    compiler = Compiler()
    with monkeypatch.context() as patch:
        patch.setattr(cache_module.os, function, _raising(function, number))
        compiled = CompileCache(folder).get(KEY, compiler)
    assert contents(compiled) == contents(kernel())
    assert (compiled.cached, compiled.cache_path) == (False, "")
    assert os.strerror(number) in compiled.note
    assert "\n" not in compiled.note
    assert not [p for p in folder.iterdir() if not p.name.endswith(".lock")], "nothing half-written may stay"
    CompileCache(folder).get(KEY, compiler)
    assert compiler.calls == 2


def test_under_a_file_size_limit_the_kernel_is_returned_uncached(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        compiled = CompileCache(tmp_path / "c").get(KEY, Compiler())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert compiled.cache_path == ""
    assert "too large" in compiled.note
    assert not list((tmp_path / "c").glob("*.kernel"))


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    with monkeypatch.context() as patch:
        patch.setattr(cache_module.os, "write", lambda fd, data: real(fd, bytes(data[:7])))
        CompileCache(tmp_path / "c").get(KEY, Compiler())
    compiler = Compiler()
    assert CompileCache(tmp_path / "c").get(KEY, compiler).cached
    assert compiler.calls == 0


def test_a_read_only_folder_still_serves_hits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(tmp_path / "c")

    def refuse(*_arguments: object, **_keywords: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for name in ("write", "mkdir", "utime", "replace", "unlink"):
        monkeypatch.setattr(cache_module.os, name, refuse)
    compiler = Compiler()
    assert CompileCache(tmp_path / "c").get(KEY, compiler).cached
    assert compiler.calls == 0


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_without_a_folder_the_kernel_is_returned_uncached(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object, **_keywords: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("gemmsmith.compile.cache_folder.os.mkdir", refuse)
    compiled = CompileCache(tmp_path / "no" / "c").get(KEY, Compiler())
    assert compiled.cache_path == ""
    assert os.strerror(number) in compiled.note


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EROFS, errno.EACCES])
def test_without_locks_the_kernel_is_still_stored(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_keywords: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("filelock.FileLock.acquire", refuse)
    compiler = Compiler()
    CompileCache(tmp_path / "c").get(KEY, compiler)
    assert CompileCache(tmp_path / "c").get(KEY, compiler).cached
    assert compiler.calls == 1


def _keys(count: int) -> list[str]:
    return [f"{i:064x}" for i in range(count)]


def _fill(cache: CompileCache, keys: list[str]) -> None:
    for age, key in enumerate(keys):
        cache.get(key, Compiler(kernel(key)))
        when = time.time() - 1000 + age
        path = cache.folder / f"{key}.kernel"
        if path.exists():
            os.utime(path, (when, when))


@pytest.mark.parametrize("room", [1, 2, 3, 5, 8])
def test_the_least_recently_used_entries_are_evicted_first(room: int, tmp_path: Path) -> None:
    cache = CompileCache(tmp_path / "c", max_bytes=room * SIZE)
    keys = _keys(8)
    _fill(cache, keys)
    left = {p.stem for p in (tmp_path / "c").glob("*.kernel")}
    assert left == set(keys[-room:])
    assert cache.info().bytes <= room * SIZE


def test_a_hit_renews_an_entry(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path / "c", max_bytes=3 * SIZE)
    first, second, third, fourth = _keys(4)
    _fill(cache, [first, second, third])
    assert cache.get(first, Compiler()).cached
    cache.get(fourth, Compiler(kernel(fourth)))
    assert {p.stem for p in (tmp_path / "c").glob("*.kernel")} == {first, third, fourth}


def test_a_new_entry_stays_even_if_clocks_disagree(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path / "c", max_bytes=SIZE)
    first, second = _keys(2)
    cache.get(first, Compiler(kernel(first)))
    later = time.time() + 10_000
    os.utime(tmp_path / "c" / f"{first}.kernel", (later, later))
    cache.get(second, Compiler(kernel(second)))
    assert {p.stem for p in (tmp_path / "c").glob("*.kernel")} == {second}


def test_an_entry_larger_than_the_cap_is_returned_uncached(tmp_path: Path) -> None:
    compiled = CompileCache(tmp_path / "c", max_bytes=SIZE - 1).get(KEY, Compiler())
    assert compiled.cache_path == ""
    assert str(SIZE) in compiled.note


def test_eviction_leaves_foreign_files_alone(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path / "c", max_bytes=SIZE)
    _fill(cache, _keys(1))
    other = tmp_path / "c" / "notes.txt"
    other.write_text("mine")
    os.utime(other, (0, 0))
    _fill(cache, _keys(3))
    assert other.read_text() == "mine"


def test_entries_and_folder_are_private(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        path = stored(tmp_path / "a" / "b" / "c")
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for folder in (path.parent, path.parent.parent, path.parent.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
