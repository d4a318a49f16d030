"""A content-addressed cache of compiled kernels on disk.

The key is a hash of everything that determines the result and of nothing else: no path, no time, no environment.
Writes are atomic for readers (a temporary file, then a rename), and every read is checked, so a killed process, a
flipped bit or a full disk costs a compilation but never gives a wrong kernel. Writes are not crash-durable. With one
lock per key, several processes compile a kernel once. cuda.core's FileStreamProgramCache is not used: it stores one
artefact per key, does not validate what it reads, and lets every process compile.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import filelock

from gemmsmith.compile.cache_entry import SCHEMA, decode, encode
from gemmsmith.compile.cache_folder import default_folder, trusted_folder
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.memo import Memo
from gemmsmith.compile.nvrtc import options
from gemmsmith.compile.request import CompileRequest
from gemmsmith.compile.toolchain import Toolchain

DEFAULT_MAX_BYTES = 1 << 30
_LOCK_TIMEOUT_S = 300.0  # ten times the slowest kernel; a process that dies releases its lock
_STALE_TEMP_S = 3600.0
_STALE_LOCK_S = 86400.0  # removing a lock that is in use would only cost a second compilation
Exchange = tuple[Callable[[str], bytes | None], Callable[[str, bytes], None]]
"""Asks other machines for the entry of a key, and gives them one."""
_ENTRY_NAME = re.compile(r"[0-9a-f]{64}\.kernel")


def cache_key(request: CompileRequest, toolchain: Toolchain) -> str:
    """SHA-256 of everything that determines the compiler's output for ``request``, and of this cache's format."""
    ingredients = {
        "schema": SCHEMA,
        "name": request.name,
        "source": request.source,
        "headers": sorted(request.headers),
        "options": options(request),
        "arch": request.arch,
        "entry": request.entry,
        "compiler": [toolchain.compiler, toolchain.build],
        "cuda_headers": toolchain.headers,
    }
    if request.isolated:  # a user's file; the rungs do not include CUDA's C++ libraries
        ingredients["cccl"] = toolchain.cccl
    return hashlib.sha256(json.dumps(ingredients, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class CacheInfo:
    """Hits and misses of one cache object, and the contents of its folder."""

    hits: int
    misses: int
    folder: str
    entries: int
    bytes: int


class CompileCache:
    """Kernels in one folder on disk; those of this process are also in memory (``memo``)."""

    def __init__(self, folder: Path | str | None = None, *, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        """``folder`` is the default one when None; ``max_bytes`` limits the total size of its entries."""
        self.folder = Path(os.path.abspath(folder if folder is not None else default_folder()))
        self.max_bytes = max_bytes
        self.memo = Memo()
        self.exchange: Exchange | None = None  # set by a worker of a cluster
        self._hits = 0
        self._misses = 0

    def get(self, key: str, compile_it: Callable[[], CompiledKernel]) -> CompiledKernel:
        """The kernel stored under ``key``, or what ``compile_it`` returns, which is then stored.

        If the folder cannot be written, the kernel is returned without ``cache_path``, and ``note`` says why. A folder
        that cannot be trusted raises ``CacheError``.
        """
        with ExitStack() as stack:
            try:
                folder = stack.enter_context(trusted_folder(self.folder))
            except OSError as problem:
                folder, note = None, _note(self.folder, problem)
            if folder is None:
                return self._missed(replace(compile_it(), key=key, note=note))
            if found := self._read(folder, key):
                return found
            with self._locked(key) as locked:
                if found := self._read(folder, key):  # another process compiled it meanwhile
                    return found
                if locked:
                    self._remove_temporaries(folder, key)
                if (given := self._given(key)) is not None:
                    return self._store(folder, given)
                made = self._missed(self._store(folder, replace(compile_it(), key=key)))
                if self.exchange is not None:
                    self.exchange[1](key, encode(made))
                return made

    def _given(self, key: str) -> CompiledKernel | None:
        """The kernel that another machine compiled, where there is one and it is intact."""
        data = self.exchange[0](key) if self.exchange is not None else None
        given = decode(data, key) if data is not None else None
        self._hits += given is not None
        return given

    def has(self, key: str) -> bool:
        """Whether there is an entry for ``key``; ``get`` still checks it."""
        return (self.folder / f"{key}.kernel").is_file()

    def info(self) -> CacheInfo:
        """Hits and misses of this object; entries and bytes of the folder, which is not created."""
        entries: list[tuple[int, str, int]] = []
        if self.folder.is_dir():
            with trusted_folder(self.folder) as folder:
                entries = _entries(folder)
        return CacheInfo(self._hits, self._misses, str(self.folder), len(entries), sum(e[2] for e in entries))

    def clear(self) -> int:
        """Remove every kernel from disk and memory; returns how many were on disk."""
        self.memo.clear()
        removed = 0
        if self.folder.is_dir():
            with trusted_folder(self.folder) as folder:
                for _, name, _ in _entries(folder):
                    with suppress(OSError):
                        os.unlink(name, dir_fd=folder)
                        removed += 1
        return removed

    def count_hit(self) -> None:
        """Count a kernel served from memory."""
        self._hits += 1

    def _missed(self, compiled: CompiledKernel) -> CompiledKernel:
        self._misses += 1
        return compiled

    @contextmanager
    def _locked(self, key: str) -> Iterator[bool]:
        """Hold the key's lock. Yields False where locks do not work; several processes may compile then."""
        lock = filelock.FileLock(str(self.folder / f"{key}.lock"), timeout=_LOCK_TIMEOUT_S, mode=0o600)
        try:
            lock.acquire(poll_interval=0.02)
        except (OSError, NotImplementedError):  # filelock.Timeout is an OSError
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    def _read(self, folder: int, key: str) -> CompiledKernel | None:
        """The entry of ``key``, if it exists, belongs to this user, is no link, and is intact."""
        name = f"{key}.kernel"
        try:
            # O_NONBLOCK: do not wait on a pipe of that name.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with open(os.open(name, flags, dir_fd=folder), "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                    return None
                compiled = decode(file.read(), key)
                if compiled is not None:
                    with suppress(OSError):
                        os.utime(file.fileno())  # the least recently used entry is evicted first
        except OSError:
            return None
        if compiled is None:
            return None
        self._hits += 1
        return replace(compiled, cache_path=str(self.folder / name))

    def _store(self, folder: int, compiled: CompiledKernel) -> CompiledKernel:
        data = encode(compiled)
        if len(data) > self.max_bytes:
            return replace(compiled, note=f"not cached: {len(data)} bytes exceed the cache's {self.max_bytes}")
        name = f"{compiled.key}.kernel"
        try:
            _write(folder, name, data)
        except OSError as error:
            return replace(compiled, note=_note(self.folder, error))
        with suppress(OSError):
            self._evict(folder, keep=name)
        return replace(compiled, cache_path=str(self.folder / name))

    def _evict(self, folder: int, keep: str) -> None:
        """Remove the least recently used entries beyond the limit, and files that killed processes left."""
        entries = _entries(folder)
        total = sum(size for _, _, size in entries)
        for _, name, size in sorted(entries):
            if total <= self.max_bytes:
                break
            if name != keep:
                with suppress(OSError):
                    os.unlink(name, dir_fd=folder)
                    total -= size
        now = time.time()
        for suffix, age in ((".tmp", _STALE_TEMP_S), (".lock", _STALE_LOCK_S)):
            for name in os.listdir(folder):
                with suppress(OSError):
                    if name.endswith(suffix) and now - _lstat(folder, name).st_mtime > age:
                        os.unlink(name, dir_fd=folder)

    def _remove_temporaries(self, folder: int, key: str) -> None:
        """While the key's lock is held, a temporary file of the key belongs to a killed process."""
        for name in os.listdir(folder):
            if name.startswith(f".{key}.") and name.endswith(".tmp"):
                with suppress(OSError):
                    os.unlink(name, dir_fd=folder)


def _write(folder: int, name: str, data: bytes) -> None:
    """Write a file that readers see whole or not at all."""
    temporary = f".{name.removesuffix('.kernel')}.{os.getpid()}.{secrets.token_hex(4)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600, dir_fd=folder)
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
        finally:
            os.close(descriptor)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _entries(folder: int) -> list[tuple[int, str, int]]:
    """(last use, name, size) of each entry."""
    found = []
    for name in os.listdir(folder):
        if _ENTRY_NAME.fullmatch(name):
            with suppress(OSError):
                status = _lstat(folder, name)
                found.append((status.st_mtime_ns, name, status.st_size))
    return found


def _lstat(folder: int, name: str) -> os.stat_result:
    return os.stat(name, dir_fd=folder, follow_symlinks=False)


def _note(folder: Path, error: OSError | None) -> str:
    reason = (error.strerror or str(error)) if error else "unknown"
    return f"compiled but not cached in {folder}: {reason}"
