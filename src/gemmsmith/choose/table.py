"""A table of tuned shapes as a file: shipped with the package, or written by ``gemmsmith tune --export``.

One JSON object with one entry per line, sorted by shape, so that two tables can be compared with diff.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from gemmsmith.choose.constants import CONSTANTS, Constants
from gemmsmith.choose.fit import Fitted
from gemmsmith.choose.key import ShapeKey
from gemmsmith.choose.networks import Networks, networks_from_fields
from gemmsmith.choose.trees import Trees, trees_from_fields
from gemmsmith.errors import UsageError
from gemmsmith.kernel.renamed import current_values

FORMAT = 1
_KEY = ("kind", "out_bytes", "layout", "m", "n", "k", "batch")
_CORRECTIONS = ("_trees.json", "_networks.json")  # of file names that are no tables
_Found = TypeVar("_Found")


@dataclass(frozen=True)
class Entry:
    """The best kernel for a shape, with its measured time and cuBLAS's, in µs; NaN where unknown."""

    kernel: str
    config: tuple[tuple[str, int], ...]
    us: float
    cublas_us: float = math.nan


@dataclass(frozen=True)
class Table:
    """What was tuned on one GPU: when, with which versions, by which command; and the fitted cost model."""

    gpu: str
    date: str
    versions: Mapping[str, str]
    command: str
    model: Fitted
    entries: Mapping[ShapeKey, Entry] = field(default_factory=dict)


def table_text(table: Table) -> str:
    """The file's text; the same table gives the same text."""
    head = {
        "format": FORMAT,
        "gpu": table.gpu,
        "date": table.date,
        "command": table.command,
        "versions": dict(sorted(table.versions.items())),
        "model": {
            "constants": {name: getattr(table.model.constants, name) for name in CONSTANTS},
            "samples": table.model.samples,
            "error": number_or_null(table.model.error),
        },
    }
    rows = [json.dumps(entry_fields(key, entry)) for key, entry in sorted(table.entries.items())]
    text = json.dumps(head, indent=2)[:-2] + ',\n  "entries": ['
    return text + "".join(f"\n    {row}," for row in rows).rstrip(",") + ("\n  ]\n}\n" if rows else "]\n}\n")


def table_from_text(text: str, where: str = "the table") -> Table:
    """Reads what ``table_text`` wrote; raises ``UsageError`` for anything else."""
    try:
        data = json.loads(text)
        if data["format"] != FORMAT:
            raise UsageError(f"{where} has format {data['format']}; this gemmsmith reads {FORMAT}")
        model = data["model"]
        fitted = Fitted(_constants(model["constants"]), int(model["samples"]),
                        number_or_nan(model["error"]))  # fmt: skip
        versions = {str(name): str(version) for name, version in data["versions"].items()}
        entries = dict(entry_from_fields(row) for row in data["entries"])
        return Table(str(data["gpu"]), str(data["date"]), versions, str(data["command"]), fitted, entries)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"{where} is not a table of tuned shapes: {error!r}") from None


def entry_fields(key: ShapeKey, entry: Entry) -> dict[str, Any]:
    """An entry as plain JSON."""
    return {
        **asdict(key), "kernel": entry.kernel, "config": dict(entry.config), "us": round(entry.us, 4),
        "cublas_us": number_or_null(round(entry.cublas_us, 4)),
    }  # fmt: skip


def entry_from_fields(row: Mapping[str, Any]) -> tuple[ShapeKey, Entry]:
    """The reverse; raises KeyError, TypeError, ValueError or AttributeError where the row is not an entry."""
    return key_from_fields(row), Entry(str(row["kernel"]), config_from_fields(row), _positive(row["us"]),
                                       number_or_nan(row["cublas_us"]))  # fmt: skip


def key_from_fields(row: Mapping[str, Any]) -> ShapeKey:
    kind, out_bytes, layout, *extents = (row[name] for name in _KEY)
    if not isinstance(kind, str) or layout not in ("NN", "NT", "TN", "TT"):
        raise ValueError(f"kind {kind!r}, layout {layout!r}")
    return ShapeKey(kind, _count(out_bytes), layout, *map(_count, extents))


def config_from_fields(row: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    """The configuration of a row; parameter names of earlier versions become today's."""
    return tuple(current_values({str(name): _integer(value) for name, value in row["config"].items()}).items())


def write_whole(path: Path, text: str) -> None:
    """Write atomically: readers see the whole file or none."""
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is not a regular file", "name another file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, 0o644)
            os.replace(name, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", "name another file") from None


@cache
def shipped_tables() -> tuple[Table, ...]:
    """The tables shipped with the package."""
    folder = files("gemmsmith.choose").joinpath("tables")
    if not folder.is_dir():
        return ()
    found = sorted(
        (file for file in folder.iterdir() if file.name.endswith(".json") and not file.name.endswith(_CORRECTIONS)),
        key=lambda file: file.name,
    )
    return tuple(table_from_text(file.read_text(encoding="utf-8"), file.name) for file in found)


@cache
def shipped_trees(gpu: str) -> tuple[Constants, Trees] | None:
    """The corrections of a GPU's cost model, and the constants they were fitted with: tables/h200_trees.json."""
    return _shipped(gpu, "trees", trees_from_fields)


@cache
def shipped_networks(gpu: str) -> tuple[Constants, Networks] | None:
    """The same of tables/h200_networks.json."""
    return _shipped(gpu, "networks", networks_from_fields)


@cache
def shipped_few_networks(gpu: str) -> tuple[Constants, Networks] | None:
    """The same of tables/h200_few_networks.json: for few rows or columns."""
    return _shipped(gpu, "few_networks", networks_from_fields)


def _shipped(gpu: str, what: str, read: Callable[[Mapping[str, Any]], _Found]) -> tuple[Constants, _Found] | None:
    file = files("gemmsmith.choose").joinpath("tables", f"{gpu.lower()}_{what}.json")
    if not file.is_file():
        return None
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        return _constants(data["constants"]), read(data)
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{file.name} has no {what}: {error!r}") from None


def _constants(row: Mapping[str, Any]) -> Constants:
    values: dict[str, Any] = {name: _positive(value) for name, value in row.items()}
    return Constants(**values)


def _integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{value!r} is not an integer")
    return value


def _count(value: object) -> int:
    if _integer(value) < 1:
        raise ValueError(f"{value!r} is not 1 or more")
    return _integer(value)


def _positive(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise ValueError(f"{value!r} is not a positive number")
    return float(value)


def number_or_nan(value: object) -> float:
    """A positive number, or NaN for null."""
    return math.nan if value is None else _positive(value)


def number_or_null(value: float) -> float | None:
    """The reverse: JSON has no NaN."""
    return value if math.isfinite(value) else None
