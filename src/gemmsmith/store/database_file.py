"""The file under the results database: where it is, how it is opened, and what its errors mean.

Durable: a transaction that has been committed is on the disk. In WAL mode readers and a writer do not wait for each
other, but all must share memory, so it is used only on file systems known to be of this machine; elsewhere (NFS,
Lustre, a folder shared with a container) the rollback journal needs only locks.
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
PATIENCE = 60.0  # seconds: sixteen writers on a slow disk wait a few; only a hung process holds a lock this long
_SQLITE_WAIT = 1.0  # SQLite's own waiting does not notice Ctrl-C, so it is short and we repeat it
_LOCAL = ("bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "reiserfs", "tmpfs", "xfs", "zfs")
_ELSEWHERE = f"choose another file with --db or {ENVIRONMENT}"
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
_MAGIC = b"SQLite format 3\0"
_T = TypeVar("_T")


class ResultsError(GemmsmithError):
    """The results database cannot be used. Not 1, the exit code that says that something got slower."""

    exit_code = 3


def default_path() -> Path:
    """``$GEMMSMITH_DB``, or ``results.db`` in the user's data folder."""
    chosen = os.environ.get(ENVIRONMENT, "")
    if chosen:
        return Path(chosen).expanduser()
    return Path(platformdirs.user_data_dir("gemmsmith")) / "results.db"


def chosen_path(path: Path | None) -> Path:
    """``path``, or the default one; a folder is refused."""
    where = default_path() if path is None else Path(path).expanduser()
    if os.path.isdir(where):  # unlike Path's, it takes what may not be looked at for no folder
        raise UsageError(f"{where} is a folder, not a results database", "name a file: --db results.db")
    return where


def open_for_writing(path: Path) -> sqlite3.Connection:
    """A connection to the database at ``path``, made or brought to this version's schema if need be."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ResultsError(f"cannot make the folder of {path}: {error.strerror}", _ELSEWHERE) from None
    with explained(path):
        return patiently(lambda: _opened(_uri(path, "rwc"), path, write=True))


def open_for_reading(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing that was recorded; an empty database where there is no file.

    It may replay the journal of a writer that was killed, and bring an older file to this schema, where it has the
    right to.
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
            # A database in WAL mode wants to put files beside itself. Where it may not, and no writer has left any,
            # it can be read as it stands.
            left = [f for f in (Path(f"{path}-wal"), Path(f"{path}-journal")) if f.exists() and f.stat().st_size]
            if _code(error) not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY) or left:
                raise
            connection = _opened(_uri(path, "ro") + "&immutable=1", path, write=False)
        connection.execute("PRAGMA query_only = ON")
        return connection


@contextmanager
def transaction(connection: sqlite3.Connection, kind: str) -> Iterator[None]:
    """All or nothing; IMMEDIATE takes the writer's lock at once, DEFERRED sees one state of the file throughout."""
    try:
        connection.execute(f"BEGIN {kind}")
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            with suppress(sqlite3.Error):  # the first error is the one to tell
                connection.execute("ROLLBACK")
        raise


def patiently(operation: Callable[[], _T]) -> _T:
    """What ``operation`` returns, tried again while other processes hold the lock; it must be all or nothing."""
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
    """SQLite's errors as ours, with what to do."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise  # a mistake of ours, such as use after close
    except sqlite3.Error as error:
        raise _explanation(path, error) from error
    except UnicodeDecodeError as error:  # of SQLite's own message, which quotes what is damaged
        raise damaged(path, error) from error


def damaged(path: Path, error: Exception) -> ResultsError:
    """Contents that no gemmsmith wrote; nothing is repaired by guessing."""
    return ResultsError(
        f"the results database {path} is damaged ({error})",
        f"rescue what can be read with: sqlite3 {path} .recover | sqlite3 rescued.db; or {_ELSEWHERE}",
    )


def _explanation(path: Path, error: sqlite3.Error) -> GemmsmithError:
    kept = "what was recorded before is kept"
    match _code(error):
        case sqlite3.SQLITE_NOTADB if not _begins_as_sqlite(path):
            return UsageError(f"{path} is not a results database: its contents are not SQLite's", _ELSEWHERE)
        case (
            sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT | None
        ):  # None: text that is not UTF-8, which nothing here writes
            return damaged(path, error)
        case sqlite3.SQLITE_FULL:
            return ResultsError(f"no space left for the results database {path}; {kept}", _ELSEWHERE)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return ResultsError(f"the results database {path} must not be written ({error})", _ELSEWHERE)
        case sqlite3.SQLITE_CANTOPEN:
            return ResultsError(f"cannot open the results database {path}, or files beside it", _ELSEWHERE)
        case code if code in _BUSY:
            return ResultsError(
                f"another process has kept the results database {path} locked for {PATIENCE:g} s; {kept}",
                "end that process, or " + _ELSEWHERE,
            )
    return ResultsError(f"the results database {path} failed ({error}); {kept}", _ELSEWHERE)


def _begins_as_sqlite(path: Path) -> bool:
    """Whether the file says it is SQLite's, whatever is wrong with the rest of it."""
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def _code(error: sqlite3.Error) -> int | None:
    """The primary result code: the low eight bits."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _uri(path: Path, mode: str) -> str:
    return f"file:{quote(os.fsencode(os.path.abspath(path)))}?mode={mode}"


def _opened(uri: str, path: Path, *, write: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, timeout=_SQLITE_WAIT, isolation_level=None)
    try:
        version = _version(connection, path)
        # As durable in WAL mode as FULL; with a rollback journal also the journal's removal, which is the commit.
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
    """The schema's version in the file, 0 for a new one; refuses what is not ours before anything is changed."""
    with transaction(connection, "DEFERRED"):
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != APPLICATION_ID and (application, version, tables) != (0, 0, 0):
        raise UsageError(f"{path} is a database of another program", _ELSEWHERE)
    if version > len(MIGRATIONS):
        raise ResultsError(
            f"{path} has schema {version}, from a newer gemmsmith; this one knows up to {len(MIGRATIONS)}",
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
        connection.execute("PRAGMA journal_mode = delete")  # no shared memory here after all


def file_system(folder: Path) -> str:
    """The type of the file system that holds ``folder``, as the kernel calls it; '' where that is not known."""
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
    here = folder.resolve()
    found, depth = "", 0
    for line in mounts.splitlines():
        _, point, kind, *_ = line.split(" ")
        mount = Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), point))  # a blank is \040
        if here.is_relative_to(mount) and len(mount.parts) >= depth:  # of two on one point the later is seen
            found, depth = kind, len(mount.parts)
    return found
