"""Errors of the results database: SQLite's, as messages with a hint."""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gemmsmith.errors import GemmsmithError, GemmsmithWarning, UsageError

ENVIRONMENT = "GEMMSMITH_DB"
PATIENCE = 60.0  # seconds; sixteen writers on a slow disk wait a few, only a hung process locks this long
ELSEWHERE = f"choose another file with --db or {ENVIRONMENT}"
BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
_MAGIC = b"SQLite format 3\0"


class ResultsError(GemmsmithError):
    """The results database cannot be used. Exit code 3, since 1 means a regression."""

    exit_code = 3


class ResultsWarning(GemmsmithWarning):
    """Some rows of the results database are damaged, or it was upgraded; what is intact can be used."""


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


def damaged(path: Path, error: object) -> ResultsError:
    """The error for contents that gemmsmith did not write; nothing is repaired unasked."""
    return ResultsError(f"the results database {path} is damaged ({error})", f"{repair_hint(path)}; or {ELSEWHERE}")


def repair_hint(path: Path) -> str:
    return f"copy what is intact to a new file with: gemmsmith history repair --db {shlex.quote(str(path))}"


def _explanation(path: Path, error: sqlite3.Error) -> GemmsmithError:
    kept = "earlier records are intact"
    match code_of(error):
        case sqlite3.SQLITE_NOTADB if not _begins_as_sqlite(path):
            return UsageError(f"{path} is not a results database: it is not an SQLite file", ELSEWHERE)
        case (
            sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT | None
        ):  # None: text that is not UTF-8, which gemmsmith never writes
            return damaged(path, error)
        case sqlite3.SQLITE_FULL:
            return ResultsError(f"no space left for the results database {path}; {kept}", ELSEWHERE)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return ResultsError(f"no permission to write the results database {path} ({error})", ELSEWHERE)
        case sqlite3.SQLITE_CANTOPEN:
            return ResultsError(f"cannot open the results database {path} or its journal", ELSEWHERE)
        case code if code in BUSY:
            return ResultsError(
                f"another process has locked the results database {path} for {PATIENCE:g} s; {kept}",
                "end that process, or " + ELSEWHERE,
            )
    return ResultsError(f"the results database {path} failed ({error}); {kept}", ELSEWHERE)


def _begins_as_sqlite(path: Path) -> bool:
    """Whether the file starts with SQLite's magic bytes."""
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def code_of(error: sqlite3.Error) -> int | None:
    """SQLite's primary result code: the low eight bits."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF
