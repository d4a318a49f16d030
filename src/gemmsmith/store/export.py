"""Export results as a flat table: CSV, JSON or Parquet, with the same columns.

One row per timing, and one for a measurement without timings. Non-finite numbers are empty. Columns with a dot depend
on the records: 'package.torch', 'ratio.cublas' with 'ratio.cublas.low' and '.high', 'counter.registers'.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemmsmith.errors import MissingDeviceError, UsageError
from gemmsmith.store.database import Record
from gemmsmith.store.database_errors import ResultsError
from gemmsmith.store.database_rows import FLAG, INTEGER, MEASUREMENT, REAL, RUN, TIMING, Codec, at
from gemmsmith.store.results import Timing

Value = str | int | float | bool | None
_KINDS: tuple[tuple[Codec, type], ...] = ((REAL, float), (INTEGER, int), (FLAG, bool))  # everything else is text


@dataclass(frozen=True)
class FlatTable:
    """Columns with their Python types, and rows of values; None means unknown."""

    columns: tuple[tuple[str, type], ...]
    rows: tuple[tuple[Value, ...], ...]


def flat_table(records: Sequence[Record]) -> FlatTable:
    """The records as rows, with the union of their columns."""
    columns: dict[str, type] = {
        name if (name, table.name) != ("id", "run") else "run": dict(_KINDS).get(codec, str)
        for table in (RUN, MEASUREMENT, TIMING)
        for name, _, codec in table.columns
    }
    columns |= {"layout": str, "throttled": str, "tflops": float, "gbs": float, "of_limit": float}
    found = [_row(record, timing) for record in records for timing in record.measurement.timings or (None,)]
    varying: dict[str, type] = {
        name: str if name.startswith("package.") else float for row in found for name in row if "." in name
    }
    columns |= dict(sorted(varying.items()))
    rows = tuple(tuple(_clean(row.get(name), kind) for name, kind in columns.items()) for row in found)
    return FlatTable(tuple(columns.items()), rows)


def write_table(table: FlatTable, kind: str, path: Path, *, overwrite: bool = False) -> None:
    """Write ``path`` atomically; an existing file is replaced only with ``overwrite``."""
    if kind not in FORMATS:
        raise UsageError(f"unknown format {kind!r}", f"use one of {', '.join(FORMATS)}")
    if not os.path.isdir(path.parent):
        raise UsageError(f"there is no folder {path.parent}", "create it, or choose another path with --out")
    if os.path.isdir(path):
        raise UsageError(f"{path} is a folder, not a file", "name a file with --out")
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is a device or a pipe, not a file", "name a file with --out")
    if path.exists() and not overwrite:
        raise _exists(path)
    data = FORMATS[kind](table)
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}.tmp")
    try:
        _write_through(temporary, data)
        if overwrite:
            os.replace(temporary, path)
        else:
            _publish(temporary, path)
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        raise ResultsError(f"cannot write {path}: {error.strerror}", "choose another path with --out") from None
    finally:
        with suppress(OSError):
            temporary.unlink()


def _row(record: Record, timing: Timing | None) -> dict[str, Any]:
    run, measurement = record.run, record.measurement
    row = {name: at(run, path) for name, path, _ in RUN.columns}
    row["run"] = row.pop("id")
    row |= {name: at(measurement, path) for name, path, _ in MEASUREMENT.columns}
    row |= {"layout": measurement.problem.layout, "throttled": "; ".join(measurement.conditions.throttled)}
    if timing is not None:
        row |= {name: at(timing, path) for name, path, _ in TIMING.columns}
        if timing.median > 0:
            row["tflops"] = measurement.problem.flops / timing.median / 1e12
            row["gbs"] = measurement.problem.compulsory_bytes / timing.median / 1e9
            if measurement.limit_tflops > 0:
                row["of_limit"] = row["tflops"] / measurement.limit_tflops
    row |= {f"package.{name}": version for name, version in run.machine.packages}
    for ratio in measurement.ratios:
        row[f"ratio.{ratio.baseline}"] = ratio.value
        row[f"ratio.{ratio.baseline}.low"], row[f"ratio.{ratio.baseline}.high"] = ratio.low, ratio.high
    return row | {f"counter.{name}": value for name, value in measurement.counters}


def _clean(value: Any, kind: type) -> Value:
    if value is None:
        return None
    if kind is float:
        return float(value) if math.isfinite(value) else None
    if kind is str:  # file names need not be valid Unicode, but the output must be
        return str(value).encode(errors="backslashreplace").decode()
    return int(value) if kind is int else bool(value)


def _csv(table: FlatTable) -> bytes:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow([name for name, _ in table.columns])
    for row in table.rows:
        rows.writerow([str(value).lower() if isinstance(value, bool) else value for value in row])
    return text.getvalue().encode()


def _json(table: FlatTable) -> bytes:
    names = [name for name, _ in table.columns]
    rows = [dict(zip(names, row, strict=True)) for row in table.rows]
    return (json.dumps({"columns": names, "rows": rows}, indent=1, allow_nan=False) + "\n").encode()


def _parquet(table: FlatTable) -> bytes:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingDeviceError(
            "Parquet needs pyarrow, which is not installed",
            "pip install '.[parquet]' in gemmsmith's folder, or use csv or json",
        ) from None
    types = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64(), bool: pyarrow.bool_()}
    columns = list(zip(*table.rows, strict=True)) or [()] * len(table.columns)
    arrays = [pyarrow.array(v, types[kind]) for v, (_, kind) in zip(columns, table.columns, strict=True)]
    target = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_arrays(arrays, names=[name for name, _ in table.columns]), target)
    return target.getvalue()


FORMATS: dict[str, Callable[[FlatTable], bytes]] = {"csv": _csv, "json": _json, "parquet": _parquet}


def _exists(path: Path) -> UsageError:
    return UsageError(f"{path} already exists", "choose another name, or overwrite it with --force")


def _write_through(path: Path, data: bytes) -> None:
    """Create a file with the user's default permissions; durable when this returns."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _publish(temporary: Path, path: Path) -> None:
    """Give the file its final name unless it exists; by a hard link, since a rename would replace it."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if path.exists():
            raise FileExistsError(path) from None
        os.replace(temporary, path)
