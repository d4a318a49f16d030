"""The schema of a results database: whether it is the expected one, and its migration to the newest.

An older file is upgraded in one transaction. Rows from before checksums get theirs then.
"""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from itertools import chain
from pathlib import Path

from gemmsmith.errors import UsageError
from gemmsmith.store.database_access import sign_rows
from gemmsmith.store.database_errors import ELSEWHERE, ResultsError, ResultsWarning, code_of, damaged
from gemmsmith.store.database_schema import APPLICATION_ID, CHECKSUMS, MIGRATIONS


def prepare(connection: sqlite3.Connection) -> None:
    """The settings of every connection."""
    connection.text_factory = lambda text: text.decode(errors="surrogateescape")  # invalid text fails its checksum
    # As durable as FULL in WAL mode; with a rollback journal it also syncs the journal's removal, the commit.
    connection.execute("PRAGMA synchronous = EXTRA")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA cell_size_check = ON")


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


def check_pages(connection: sqlite3.Connection, path: Path) -> None:
    """SQLite's own check of its pages: about 5 ms per megabyte."""
    ((found,), *_) = connection.execute("PRAGMA quick_check(1)").fetchall()
    if found != "ok":
        raise damaged(path, " ".join(str(found).split()))


def schema_version(connection: sqlite3.Connection, path: Path) -> int:
    """The file's schema version, 0 for a new file; refuses other programs' databases before any change."""
    with transaction(connection, "DEFERRED"):
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        objects = _objects(connection)
    if not objects and (application, version) == (0, 0):
        return 0
    wrong = _schema_fault(objects, min(version, len(MIGRATIONS)))
    if application != APPLICATION_ID:
        if not wrong:
            raise damaged(path, "the file header does not name gemmsmith, the tables are gemmsmith's")
        raise UsageError(f"{path} is a database of another program", ELSEWHERE)
    if version > len(MIGRATIONS):
        raise ResultsError(
            f"{path} has schema {version}, from a newer gemmsmith; this version supports up to {len(MIGRATIONS)}",
            f"upgrade gemmsmith, or {ELSEWHERE}",
        )
    if wrong:
        raise damaged(path, wrong)
    return int(version)


def is_older(version: int) -> bool:
    return version < len(MIGRATIONS)


def _objects(connection: sqlite3.Connection) -> dict[tuple[str, str], str]:
    """The text of each table, index, view and trigger."""
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return {(kind, name): f"{table} {sql}" for kind, name, table, sql in rows}


@cache
def _expected(migrations: tuple[tuple[str, ...], ...]) -> dict[tuple[str, str], str]:
    """The schema that these migrations make."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        for statement in chain.from_iterable(migrations):
            fresh.execute(statement)
        return _objects(fresh)


def _schema_fault(objects: dict[tuple[str, str], str], version: int) -> str:
    """What of gemmsmith's schema is missing or different; '' if nothing. The user may have added views."""
    expected = _expected(MIGRATIONS[:version])
    if not expected:
        return "the schema's version is 0"
    for (kind, name), text in expected.items():
        if objects.get((kind, name)) != text:
            return f"the {kind} {name} is {'missing' if (kind, name) not in objects else 'not the one of this version'}"
    return ""


def migrated(connection: sqlite3.Connection, path: Path, write: bool) -> sqlite3.Connection:
    """The connection after the migration; if the file cannot be written, a copy of the database in memory."""
    try:
        signed = migrate(connection)
    except sqlite3.OperationalError as error:
        if write or code_of(error) not in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
            raise
        copy = sqlite3.connect(":memory:", isolation_level=None)
        connection.backup(copy)
        connection.close()
        prepare(copy)
        migrate(copy)
        return copy
    if signed:
        warnings.warn(
            f"{path} was upgraded: its {signed:,} rows have checksums from now on. Damage from before cannot be seen.",
            ResultsWarning, stacklevel=2,
        )  # fmt: skip
    return connection


def migrate(connection: sqlite3.Connection) -> int:
    """Bring the schema up to date in one transaction; returns how many older rows got checksums."""
    signed = 0
    with transaction(connection, "IMMEDIATE"):
        (version,) = connection.execute("PRAGMA user_version").fetchone()  # another process may have been first
        for number, statements in enumerate(MIGRATIONS[version:], version + 1):
            for statement in statements:
                connection.execute(statement)
            if number == CHECKSUMS:
                signed = sign_rows(connection.execute)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {max(version, len(MIGRATIONS))}")
    return signed
