"""The file of the results database: its location, how it is opened, and its errors.

Durable: a committed transaction is on disk. In WAL mode readers and a writer do not block each other, but they must
share memory, so WAL is used only on file systems known to be local. Elsewhere (NFS, Lustre, a folder shared with a
container) the rollback journal is used, which needs only locks.
"""

from __future__ import annotations

import os
import random
import re
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import platformdirs

from gemmsmith.compile.foreign_links import foreign_link
from gemmsmith.errors import UsageError
from gemmsmith.store import database_errors
from gemmsmith.store.database_errors import BUSY, ELSEWHERE, ENVIRONMENT, ResultsError, code_of, explained
from gemmsmith.store.database_upgrade import check_pages, is_older, migrate, migrated, prepare, schema_version

_SQLITE_WAIT = 1.0  # SQLite's own wait ignores Ctrl-C, so it is short and we repeat it
_LOCAL = ("bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "reiserfs", "tmpfs", "xfs", "zfs")
_T = TypeVar("_T")


def default_path() -> Path:
    """``$GEMMSMITH_DB``, or ``results.db`` in the user's data folder."""
    chosen = os.environ.get(ENVIRONMENT, "")
    if chosen:
        return Path(chosen).expanduser()
    return Path(platformdirs.user_data_dir("gemmsmith")) / "results.db"


def chosen_path(path: Path | None) -> Path:
    """``path`` or the default; a folder is refused, and a path through another user's symbolic link."""
    where = default_path() if path is None else Path(path).expanduser()
    link = foreign_link(where)
    if link is not None:
        raise ResultsError(
            f"the results database {where} lies behind {link.path}, a symbolic link that user {link.owner} made",
            ELSEWHERE,
        )
    if os.path.isdir(where):  # unlike Path.is_dir, False for a path without permission
        raise UsageError(f"{where} is a folder, not a results database", "name a file: --db results.db")
    if os.path.exists(where) and not os.path.isfile(where):  # a pipe: reading it would wait for a writer
        raise UsageError(f"{where} is not a file", ELSEWHERE)
    return where


def open_for_writing(path: Path) -> sqlite3.Connection:
    """A connection to the database at ``path``; creates or migrates it if needed."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ResultsError(f"cannot make the folder of {path}: {error.strerror}", ELSEWHERE) from None
    with explained(path):
        return patiently(lambda: _opened(_uri(path, "rwc"), path, write=True))


def open_for_reading(path: Path) -> sqlite3.Connection:
    """A connection that changes no recorded data; an empty database if there is no file.

    With write permission it may replay the journal of a killed writer and migrate an older file.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        connection = sqlite3.connect(":memory:", isolation_level=None)
        migrate(connection)
        return connection
    except OSError as error:
        raise ResultsError(f"cannot read the results database {path}: {error.strerror}", ELSEWHERE) from None
    with explained(path):
        try:
            connection = patiently(lambda: _opened(_uri(path, "rw"), path, write=False))
        except sqlite3.OperationalError as error:
            # A database in WAL mode needs files beside it. Without write permission, and if no writer left such files,
            # it can be read as immutable.
            left = [f for f in (Path(f"{path}-wal"), Path(f"{path}-journal")) if f.exists() and f.stat().st_size]
            if code_of(error) not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY) or left:
                raise
            connection = _opened(_uri(path, "ro") + "&immutable=1", path, write=False)
        connection.execute("PRAGMA query_only = ON")
        return connection


def patiently(operation: Callable[[], _T]) -> _T:
    """Run ``operation``, retrying while other processes hold the lock; it must be atomic."""
    deadline = time.monotonic() + database_errors.PATIENCE
    while True:
        try:
            return operation()
        except sqlite3.OperationalError as error:
            if code_of(error) not in BUSY or time.monotonic() > deadline:
                raise
        time.sleep(random.uniform(0.005, 0.05))


def _uri(path: Path, mode: str) -> str:
    return f"file:{quote(os.fsencode(os.path.abspath(path)))}?mode={mode}"


def _opened(uri: str, path: Path, *, write: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, timeout=_SQLITE_WAIT, isolation_level=None)
    try:
        prepare(connection)
        version = schema_version(connection, path)
        if write or is_older(version):
            check_pages(connection, path)  # writing to damaged pages spreads the damage
        if write:
            _choose_journal(connection, path)
        if is_older(version):
            connection = migrated(connection, path, write)
    except BaseException:
        connection.close()
        raise
    return connection


def _choose_journal(connection: sqlite3.Connection, path: Path) -> None:
    wanted = "wal" if file_system(path.parent) in _LOCAL else "delete"
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    if mode == wanted:
        return
    try:
        connection.execute(f"PRAGMA journal_mode = {wanted}")
    except sqlite3.OperationalError as error:
        if code_of(error) in BUSY or wanted == "delete":
            raise
        connection.execute("PRAGMA journal_mode = delete")  # no shared memory on this file system


def file_system(folder: Path) -> str:
    """The type of the file system of ``folder``, by the kernel's name; '' if unknown."""
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
    here = folder.resolve()
    found, depth = "", 0
    for line in mounts.splitlines():
        _, point, kind, *_ = line.split(" ")
        mount = Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), point))  # a space is \040
        if here.is_relative_to(mount) and len(mount.parts) >= depth:  # the later of two mounts on one point is visible
            found, depth = kind, len(mount.parts)
    return found
