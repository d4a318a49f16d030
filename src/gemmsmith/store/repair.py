"""``gemmsmith history repair``: copy what is intact to a new file. The damaged file is never changed."""

from __future__ import annotations

import sqlite3
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gemmsmith.errors import GemmsmithError, UsageError
from gemmsmith.store.database import Results
from gemmsmith.store.database_errors import ResultsError, ResultsWarning
from gemmsmith.store.database_file import chosen_path
from gemmsmith.store.salvage import Salvage, salvage


@dataclass(frozen=True)
class Repair:
    """``reasons`` say what is damaged; if nothing is, nothing was written and ``written`` is None."""

    path: Path
    reasons: tuple[str, ...]
    found: Salvage
    written: Path | None


def repair(path: Path | None, out: Path | None) -> Repair:
    """Check every page and row, and write what is intact to ``out`` if something is damaged."""
    where = chosen_path(path)
    if not where.exists():
        raise UsageError(f"there is no results database {where}", "name it with --db")
    reasons = damage_of(where)
    found = salvage(where)
    if not reasons:
        return Repair(where, (), found, None)
    if not found.runs:
        raise ResultsError(f"no intact run in {where} ({reasons[0]}); nothing was written", "is it the right file?")
    target = chosen_path(out or where.with_name(f"{where.stem}.repaired{where.suffix}"))
    if target.exists():
        raise UsageError(f"{target} exists; nothing was written", "name another file with --out")
    return Repair(where, reasons, found, _write(found, target))


def damage_of(path: Path) -> tuple[str, ...]:
    """Everything that is wrong with the file, as far as it can be read; empty if it is intact."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResultsWarning)
        try:
            with Results.open(path, read_only=True) as results:
                pages = results.page_errors()
                results.runs()
                return (*pages, *map(str, results.damage))
        except GemmsmithError as error:
            if error.exit_code == ResultsError.exit_code:
                return (error.message,)
            raise
        except sqlite3.Error as error:
            return (str(error),)


def _write(found: Salvage, target: Path) -> Path:
    try:
        with Results.open(target) as results:
            for run in found.runs:
                results.begin(run)
        with Results.open(target, read_only=True) as results:
            if len(results.ids()) != len(found.runs) or results.damage:
                raise ResultsError(f"{target} could not be read back", "is the disk damaged?")
    except BaseException:
        for name in (target, Path(f"{target}-wal"), Path(f"{target}-shm"), Path(f"{target}-journal")):
            with suppress(OSError):
                name.unlink()
        raise
    return target
