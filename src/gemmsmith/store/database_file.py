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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import platformdirs

from gemmsmith.errors import GemmsmithError, UsageError
from gemmsmith.store.database_schema import APPLICATION_ID, MIGRATIONS

ENVIRONMENT = "GEMMSMITH_DB"
PATIENCE = 60.0  # seconds; sixteen writers on a slow disk wait a few, only a hung process locks this long
_SQLITE_WAIT = 1.0  # SQLite's own wait ignores Ctrl-C, so it is short and we repeat it
_LOCAL = ("bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "reiserfs", "tmpfs", "xfs", "zfs")
_ELSEWHERE = f"choose another file with --db or {ENVIRONMENT}"
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
_MAGIC = b"SQLite format 3\0"
_T = TypeVar("_T")


class ResultsError(GemmsmithError):
    """The results database cannot be used. Exit code 3, since 1 means a regression."""

    exit_code = 3


def default_path() -> Path:
    """``$GEMMSMITH_DB``, or ``results.db`` in the user's data folder."""
    chosen = os.environ.get(ENVIRONMENT, "")
    if chosen:
        return Path(chosen).expanduser()
    return Path(platformdirs.user_data_dir("gemmsmith")) / "results.db"


def chosen_path(path: Path | None) -> Path:
    """``path`` or the default; a folder is refused."""
    where = default_path() if path is None else Path(path).expanduser()
    if os.path.isdir(where):  # unlike Path.is_dir, False for a path without permission
        raise UsageError(f"{where} is a folder, not a results database", "name a file: --db results.db")
    return where


def open_for_writing(path: Path) -> sqlite3.Connection:
    """A connection to the database at ``path``; creates or migrates it if needed."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ResultsError(f"cannot make the folder of {path}: {error.strerror}", _ELSEWHERE) from None
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
        _migrate(connection)
        return connection
    except OSError as error:
        raise ResultsError(f"cannot read the results database {path}: {error.strerror}", _ELSEWHERE) from None
    with explained(path):
        try:
            connection = patiently(lambda: _opened(_uri(path, "rw"), path, write=False))
        except sqlite3.OperationalError as error:
            # A database in WAL mode needs files beside it. Without write permission, and if no writer left such files,
            # it can be read as immutable.
            left = [f for f in (Path(f"{path}-wal"), Path(f"{path}-journal")) if f.exists() and f.stat().st_size]
            if _code(error) not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY) or left:
                raise
            connection = _opened(_uri(path, "ro") + "&immutable=1", path, write=False)
        connection.execute("PRAGMA query_only = ON")
        return connection


@contextmanager
def transaction(connection: sqlite3.Connection, kind: str) -> Iterator[None]:
    """One atomic transaction; IMMEDIATE takes the write lock at once, DEFERRED reads one consistent state."""
    try:
        connection.execute(f"BEGIN {kind}")
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            with suppress(sqlite3.Error):  # keep the first error
                connection.execute("ROLLBACK")
        raise


def patiently(operation: Callable[[], _T]) -> _T:
    """Run ``operation``, retrying while other processes hold the lock; it must be atomic."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return operation()
        except sqlite3.OperationalError as error:
            if _code(error) not in _BUSY or time.monotonic() > deadline:
                raise
        time.sleep(random.uniform(0.005, 0.05))


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours, with a hint."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise  # a bug here, such as use after close
    except sqlite3.Error as error:
        raise _explanation(path, error) from error
    except UnicodeDecodeError as error:  # from SQLite's own message, which quotes damaged data
        raise damaged(path, error) from error


def damaged(path: Path, error: Exception) -> ResultsError:
    """The error for contents that gemmsmith did not write; nothing is repaired."""
    return ResultsError(
        f"the results database {path} is damaged ({error})",
        f"recover readable data with: sqlite3 {path} .recover | sqlite3 rescued.db; or {_ELSEWHERE}",
    )


def _explanation(path: Path, error: sqlite3.Error) -> GemmsmithError:
    kept = "earlier records are intact"
    match _code(error):
        case sqlite3.SQLITE_NOTADB if not _begins_as_sqlite(path):
            return UsageError(f"{path} is not a results database: it is not an SQLite file", _ELSEWHERE)
        case (
            sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT | None
        ):  # None: text that is not UTF-8, which gemmsmith never writes
            return damaged(path, error)
        case sqlite3.SQLITE_FULL:
            return ResultsError(f"no space left for the results database {path}; {kept}", _ELSEWHERE)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return ResultsError(f"no permission to write the results database {path} ({error})", _ELSEWHERE)
        case sqlite3.SQLITE_CANTOPEN:
            return ResultsError(f"cannot open the results database {path} or its journal", _ELSEWHERE)
        case code if code in _BUSY:
            return ResultsError(
                f"another process has locked the results database {path} for {PATIENCE:g} s; {kept}",
                "end that process, or " + _ELSEWHERE,
            )
    return ResultsError(f"the results database {path} failed ({error}); {kept}", _ELSEWHERE)


def _begins_as_sqlite(path: Path) -> bool:
    """Whether the file starts with SQLite's magic bytes."""
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def _code(error: sqlite3.Error) -> int | None:
    """SQLite's primary result code: the low eight bits."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _uri(path: Path, mode: str) -> str:
    return f"file:{quote(os.fsencode(os.path.abspath(path)))}?mode={mode}"


def _opened(uri: str, path: Path, *, write: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, timeout=_SQLITE_WAIT, isolation_level=None)
    try:
        version = _version(connection, path)
        # As durable as FULL in WAL mode; with a rollback journal it also syncs the journal's removal, the commit.
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA foreign_keys = ON")
        if write:
            _choose_journal(connection, path)
        if version < len(MIGRATIONS):
            _migrate(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """The file's schema version, 0 for a new file; refuses other programs' databases before any change."""
    with transaction(connection, "DEFERRED"):
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != APPLICATION_ID and (application, version, tables) != (0, 0, 0):
        raise UsageError(f"{path} is a database of another program", _ELSEWHERE)
    if version > len(MIGRATIONS):
        raise ResultsError(
            f"{path} has schema {version}, from a newer gemmsmith; this version supports up to {len(MIGRATIONS)}",
            f"upgrade gemmsmith, or {_ELSEWHERE}",
        )
    return int(version)


def _migrate(connection: sqlite3.Connection) -> None:
    with transaction(connection, "IMMEDIATE"):
        (version,) = connection.execute("PRAGMA user_version").fetchone()  # another process may have been first
        for statements in MIGRATIONS[version:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {max(version, len(MIGRATIONS))}")


def _choose_journal(connection: sqlite3.Connection, path: Path) -> None:
    wanted = "wal" if file_system(path.parent) in _LOCAL else "delete"
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    if mode == wanted:
        return
    try:
        connection.execute(f"PRAGMA journal_mode = {wanted}")
    except sqlite3.OperationalError as error:
        if _code(error) in _BUSY or wanted == "delete":
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
