"""Reading a record, and the words that several tables share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"


def load(name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((RESULTS / name).read_text(encoding="utf-8"))
    return data


def table(columns: list[str], sides: str, rows: list[list[str]]) -> list[str]:
    """A Markdown table; ``sides`` has one letter per column, l or r."""
    rule = [{"l": "---", "r": "---:"}[side] for side in sides]
    return [f"| {' | '.join(cells)} |" for cells in (columns, rule, *rows)]


def recorded_by(record: dict[str, Any]) -> str:
    """Where and how a record of ``record_hopper.py`` was made."""
    return (
        f"Measured on {record['gpu']} (driver {record['driver']}, torch {record['torch']}, {record['date'][:10]}) by "
        f"`{record['command']}`: contenders take turns in random order; medians; normal data; inputs rotate over twice "
        "the L2."
    )
