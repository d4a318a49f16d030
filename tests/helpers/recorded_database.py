"""Invented runs in a database."""

from __future__ import annotations

from pathlib import Path

from gemmsmith.store.database import Results
from gemmsmith.store.results import Run


def record(db: Path, *runs: Run) -> None:
    with Results.open(db) as results:
        for each in runs:
            results.begin(each)
