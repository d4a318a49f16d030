"""The exact mapping between records and rows: which field is in which column.

A field is named by its path from the table's record: 'machine.gpu' of a Run, 'rho.0' of a Measurement, '' for the
record itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gemmsmith.problem import Problem, stored_dtype
from gemmsmith.store.old_names import current_identity
from gemmsmith.store.results import Conditions, Machine, Measurement, Ratio, Run, Timing

Execute = Callable[[str, Sequence[Any]], Any]


@dataclass(frozen=True)
class Codec:
    """How a value is written to a column and read from it; NumPy scalars become Python scalars."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def _write_text(value: Any) -> str | bytes:
    """File names need not be valid Unicode; such a string is stored as bytes that restore it."""
    text = str(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="surrogatepass")
    return text


def _read_text(value: Any) -> str:
    return value.decode(errors="surrogatepass") if isinstance(value, bytes) else str(value)


def _read_config(value: Any) -> str:
    """The text of a configuration. Every configuration read from a database passes through here."""
    return _read_text(value)


TEXT = Codec(_write_text, _read_text)
CONFIG = Codec(_write_text, _read_config)
REAL = Codec(float, lambda value: math.nan if value is None else float(value))
INTEGER = Codec(int, int)
FLAG = Codec(lambda value: int(bool(value)), bool)
DTYPE = Codec(lambda dtype: dtype.name, stored_dtype)


@dataclass(frozen=True)
class Table:
    """A table: ``keys`` identify a row's owner, ``columns`` are (name, path, codec)."""

    name: str
    keys: tuple[str, ...]
    columns: tuple[tuple[str, str, Codec], ...]

    @property
    def insert(self) -> str:
        names = (*self.keys, *(column for column, _, _ in self.columns))
        return f"INSERT INTO {self.name} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"

    @property
    def selection(self) -> str:
        return ", ".join(f"{self.name}.{column}" for column, _, _ in self.columns)

    def values(self, record: Any) -> list[Any]:
        return [codec.write(at(record, path)) for _, path, codec in self.columns]

    def fields(self, row: Sequence[Any]) -> dict[str, dict[str, Any]]:
        """Values by record and field; the table's own record is ''."""
        result: dict[str, dict[str, Any]] = {"": {}}
        for (_, path, codec), value in zip(self.columns, row, strict=True):
            record, _, field = path.rpartition(".")
            result.setdefault(record, {})[field] = codec.read(value)
        return result


def at(record: Any, path: str) -> Any:
    """The field at a path."""
    for part in filter(None, path.split(".")):
        record = record[int(part)] if part.isdigit() else getattr(record, part)
    return record


def _named(prefix: str, codec: Codec, names: str) -> tuple[tuple[str, str, Codec], ...]:
    """Columns with the names of their fields."""
    return tuple((name, prefix + name, codec) for name in names.split())


RUN = Table("run", (), (
    *_named("", TEXT, "id started command gemmsmith"),
    *_named("machine.", TEXT, "host system cpu python gpu arch driver cuda compiler"),
))  # fmt: skip
PACKAGE = Table("package", ("run", "position"), (("name", "0", TEXT), ("version", "1", TEXT)))

MEASUREMENT = Table("measurement", ("run",), (
    ("contender", "identity.name", TEXT),
    *_named("identity.", TEXT, "kind"), *_named("identity.", CONFIG, "config"),
    *_named("identity.", TEXT, "precision version digest"),
    *_named("problem.", INTEGER, "m n k"),
    *_named("problem.", DTYPE, "dtype out_dtype"),
    *_named("problem.", REAL, "alpha beta"),
    *_named("problem.", INTEGER, "lda ldb ldc"),
    *_named("problem.", FLAG, "trans_a trans_b"),
    *_named("problem.", INTEGER, "batch stride_a stride_b stride_c"),
    *_named("problem.", TEXT, "bias activation"),
    *_named("", TEXT, "origin rejected"),
    *_named("", FLAG, "verified"),
    ("rho_before", "rho.0", REAL),
    ("rho_after", "rho.1", REAL),
    *_named("conditions.", REAL, "sm_mhz sm_mhz_min sm_mhz_max power_w power_w_max temperature_c"),
    ("condition_samples", "conditions.samples", INTEGER),
    *_named("", REAL, "overhead limit_tflops"),
))  # fmt: skip

_PART = ("measurement", "position")
TIMING = Table("timing", _PART, (
    *_named("", TEXT, "mode cache"), *_named("", REAL, "median low high spread"),
    *_named("", INTEGER, "samples launches"), *_named("", FLAG, "converged"),
))  # fmt: skip
RATIO = Table("ratio", _PART, (*_named("", TEXT, "baseline"), *_named("", REAL, "value low high")))
COUNTER = Table("counter", _PART, (("name", "0", TEXT), ("value", "1", REAL)))
THROTTLE = Table("throttle", _PART, (("reason", "", TEXT),))


def insert_run(execute: Execute, run: Run) -> int:
    """Write the run's row and its packages; returns the row number."""
    number = int(execute(RUN.insert, RUN.values(run)).lastrowid)
    _insert_parts(execute, PACKAGE, number, run.machine.packages)
    return number


def insert_measurement(execute: Execute, run: int, measurement: Measurement) -> None:
    """Write the measurement's row and its dependent rows."""
    number = int(execute(MEASUREMENT.insert, (run, *MEASUREMENT.values(measurement))).lastrowid)
    _insert_parts(execute, TIMING, number, measurement.timings)
    _insert_parts(execute, RATIO, number, measurement.ratios)
    _insert_parts(execute, COUNTER, number, measurement.counters)
    _insert_parts(execute, THROTTLE, number, measurement.conditions.throttled)


def _insert_parts(execute: Execute, table: Table, owner: int, parts: Iterable[Any]) -> None:
    for position, part in enumerate(parts):
        execute(table.insert, (owner, position, *table.values(part)))


def read_run(execute: Execute, number: int) -> Run:
    """The run without its measurements."""
    row = execute(f"SELECT {RUN.selection} FROM run WHERE number = ?", (number,)).fetchone()
    packages = execute(f"SELECT {PACKAGE.selection} FROM package WHERE run = ? ORDER BY position", (number,))
    fields = RUN.fields(row)
    machine = Machine(**fields["machine"], packages=tuple(_pair(PACKAGE, row) for row in packages))
    return Run(**fields[""], machine=machine)


def read_measurements(execute: Execute, run: int, condition: str, values: Sequence[Any]) -> tuple[Measurement, ...]:
    """The run's measurements that meet a condition on columns of ``measurement``, in insertion order."""

    def parts(table: Table, build: Callable[[Sequence[Any]], Any]) -> dict[int, tuple[Any, ...]]:
        rows = execute(
            f"SELECT {table.name}.measurement, {table.selection} FROM measurement JOIN {table.name} "
            f"ON {table.name}.measurement = measurement.number WHERE measurement.run = ? AND {condition} "
            f"ORDER BY {table.name}.measurement, {table.name}.position",
            (run, *values),
        )
        found: dict[int, list[Any]] = {}
        for number, *row in rows:
            found.setdefault(number, []).append(build(row))
        return {number: tuple(items) for number, items in found.items()}

    timings = parts(TIMING, lambda row: Timing(**TIMING.fields(row)[""]))
    ratios = parts(RATIO, lambda row: Ratio(**RATIO.fields(row)[""]))
    counters = parts(COUNTER, lambda row: _pair(COUNTER, row))
    throttled = parts(THROTTLE, lambda row: THROTTLE.fields(row)[""][""])
    rows = execute(
        f"SELECT measurement.number, {MEASUREMENT.selection} FROM measurement "
        f"WHERE measurement.run = ? AND {condition} ORDER BY measurement.number",
        (run, *values),
    )
    result = []
    for number, *row in rows:
        fields = MEASUREMENT.fields(row)
        result.append(Measurement(
            **fields[""],
            identity=current_identity(fields["identity"]),
            problem=Problem(**fields["problem"]),
            rho=(fields["rho"]["0"], fields["rho"]["1"]),
            timings=timings.get(number, ()),
            ratios=ratios.get(number, ()),
            conditions=Conditions(**fields["conditions"], throttled=throttled.get(number, ())),
            counters=counters.get(number, ()),
        ))  # fmt: skip
    return tuple(result)


def _pair(table: Table, row: Sequence[Any]) -> tuple[str, Any]:
    first, second = table.fields(row)[""].values()
    return first, second
