"""How commands print: tables of at most 100 columns, or one JSON object."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

WIDTH = 100


def console(stderr: bool = False) -> Console:
    """A console no wider than 100 columns."""
    probe = Console(stderr=stderr)
    return Console(stderr=stderr, width=min(WIDTH, probe.width) if probe.is_terminal else WIDTH, highlight=False)


def print_json(value: dict[str, Any]) -> None:
    """One object, with keys in the order given; NaN is not JSON and must not get here."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


def table(title: str, columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[str]]) -> Table:
    """A table; a column is (heading, 'left' or 'right')."""
    result = Table(title=title or None, title_justify="left", header_style="bold", pad_edge=False, box=None)
    for heading, side in columns:
        result.add_column(heading, justify="right" if side == "right" else "left", overflow="fold")
    for row in rows:
        result.add_row(*row)
    return result


def progress() -> Progress:
    """A progress bar on stderr that vanishes when done, so that stdout holds only results; none where nobody looks."""
    where = console(stderr=True)
    return Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        console=where, transient=True, disable=not where.is_terminal,
    )  # fmt: skip


def bytes_text(count: int) -> str:
    """A byte count for people."""
    if count >= 1024**2:
        return f"{count / 1024**2:.1f} MB"
    return f"{count / 1024:.1f} KB" if count >= 1024 else f"{count} B"
