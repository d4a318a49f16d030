"""The exact mapping between records and rows: which field is in which column.

A field is named by its path from the table's record: 'machine.gpu' of a Run, 'rho.0' of a Measurement, '' for the
record itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gemmsmith.errors import GemmsmithError
from gemmsmith.problem import Problem, stored_dtype
from gemmsmith.store.checksums import Damage, DamagedRowError, checksum, row_name
from gemmsmith.store.old_names import current_identity
from gemmsmith.store.results import Conditions, Machine, Measurement, Ratio, Run, Timing


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
BLOB = Codec(bytes, bytes)
DTYPE = Codec(lambda dtype: dtype.name, stored_dtype)


@dataclass(frozen=True)
class Table:
    """A table: ``keys`` identify a row, ``more`` are further columns that are no field of a record.

    ``columns`` are (name, path, codec). The last column of each table is the row's checksum.
    """

    name: str
    keys: tuple[str, ...]
    columns: tuple[tuple[str, str, Codec], ...]
    more: tuple[str, ...] = ()

    @property
    def stored(self) -> tuple[str, ...]:
        """All columns in the order of ``row`` and ``opened``."""
        return (*self.keys, *self.more, *(column for column, _, _ in self.columns), "checksum")

    @property
    def insert(self) -> str:
        names = self.stored
        return f"INSERT INTO {self.name} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"

    @property
    def select(self) -> str:
        return f"SELECT {', '.join(self.stored)} FROM {self.name}"

    def values(self, record: Any) -> list[Any]:
        return [codec.write(at(record, path)) for _, path, codec in self.columns]

    def row(self, keys: Sequence[Any], values: Sequence[Any], parts: Sequence[str] = ()) -> list[Any]:
        """A row with its checksum; ``keys`` include those of ``more``."""
        return [*keys, *values, checksum(self.name, keys, values, parts)]

    def opened(self, row: Sequence[Any], parts: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
        """The fields of a row, by record; the table's own record is ''. Raises DamagedRowError."""
        self.proved(row, parts)
        try:
            return self.fields(row[len(self.keys) + len(self.more) : -1])
        except (TypeError, ValueError, OverflowError) as error:
            raise DamagedRowError(self.damage(row, f"a value cannot be read ({error})")) from None

    def proved(self, row: Sequence[Any], parts: Sequence[str] = ()) -> None:
        """Raises DamagedRowError for a row that differs from what was written."""
        many = len(self.keys) + len(self.more)
        keys, values, found = row[:many], row[many:-1], row[-1]
        if found != checksum(self.name, keys, values, parts):
            what = "its contents" if not parts else "its contents or its parts"
            raise DamagedRowError(self.damage(row, f"the checksum does not match {what}"))

    def damage(self, row: Sequence[Any], reason: str) -> Damage:
        return Damage(self.name, row_name(self.keys[-2:], row[: len(self.keys)][-2:]), reason)

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


RUN = Table("run", ("number",), (
    *_named("", TEXT, "id started command gemmsmith"),
    *_named("machine.", TEXT, "host system cpu python gpu arch driver cuda compiler"),
), ("measurements",))  # fmt: skip
PACKAGE = Table("package", ("run", "position"), (("name", "0", TEXT), ("version", "1", TEXT)))

MEASUREMENT = Table("measurement", ("number",), (
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
), ("run",))  # fmt: skip

_PART = ("measurement", "position")
TIMING = Table("timing", _PART, (
    *_named("", TEXT, "mode cache"), *_named("", REAL, "median low high spread"),
    *_named("", INTEGER, "samples launches"), *_named("", FLAG, "converged"),
))  # fmt: skip
RATIO = Table("ratio", _PART, (*_named("", TEXT, "baseline"), *_named("", REAL, "value low high")))
COUNTER = Table("counter", _PART, (("name", "0", TEXT), ("value", "1", REAL)))
THROTTLE = Table("throttle", _PART, (("reason", "", TEXT),))


PARTS = (TIMING, RATIO, COUNTER, THROTTLE)  # of a measurement; a run's parts are its packages
TABLES = (RUN, PACKAGE, MEASUREMENT, *PARTS)

# Of commands on several machines: see task_journal.py.
JOB = Table("job", ("number",), (
    *_named("", TEXT, "id digest started command gemmsmith place"), *_named("", INTEGER, "tasks")))  # fmt: skip
JOB_END = Table("job_end", ("job",), (*_named("", TEXT, "ended"), *_named("", INTEGER, "failed")))
TASK = Table("task", ("number",), (
    *_named("", TEXT, "digest kind label state"), *_named("", INTEGER, "tries"), *_named("", TEXT, "host gpu driver"),
    *_named("", REAL, "sm_mhz seconds"), *_named("", BLOB, "result"), *_named("", TEXT, "log"),
), ("job",))  # fmt: skip


def run_row(number: int, run: Run, count: int) -> tuple[list[Any], list[list[Any]]]:
    """The run's row, with the number of its measurements, and the rows of its packages."""
    packages = _part_rows(PACKAGE, number, run.machine.packages)
    return RUN.row((number, count), RUN.values(run), [row[-1] for row in packages]), packages


def measurement_rows(number: int, run: int, measurement: Measurement) -> tuple[list[Any], list[list[list[Any]]]]:
    """The measurement's row, and the rows of each of PARTS."""
    records = (measurement.timings, measurement.ratios, measurement.counters, measurement.conditions.throttled)
    parts = [_part_rows(table, number, items) for table, items in zip(PARTS, records, strict=True)]
    proofs = [row[-1] for rows in parts for row in rows]
    return MEASUREMENT.row((number, run), MEASUREMENT.values(measurement), proofs), parts


def _part_rows(table: Table, owner: int, records: Iterable[Any]) -> list[list[Any]]:
    return [table.row((owner, position), table.values(record)) for position, record in enumerate(records)]


def run_of(row: Sequence[Any], packages: Sequence[Sequence[Any]]) -> Run:
    """The run without its measurements, from its row and those of its packages. Raises DamagedRowError."""
    pairs = tuple(_pair(PACKAGE.opened(package)) for package in packages)
    fields = RUN.opened(row, [package[-1] for package in packages])
    return Run(**fields[""], machine=Machine(**fields["machine"], packages=pairs))


def measurement_of(row: Sequence[Any], parts: Sequence[Sequence[Sequence[Any]]]) -> Measurement:
    """The measurement, from its row and those of each of PARTS. Raises DamagedRowError."""
    timings, ratios, counters, throttled = (
        [table.opened(part) for part in rows] for table, rows in zip(PARTS, parts, strict=True)
    )
    fields = MEASUREMENT.opened(row, [part[-1] for rows in parts for part in rows])
    try:
        return Measurement(
            **fields[""],
            identity=current_identity(fields["identity"]),
            problem=Problem(**fields["problem"]),
            rho=(fields["rho"]["0"], fields["rho"]["1"]),
            timings=tuple(Timing(**found[""]) for found in timings),
            ratios=tuple(Ratio(**found[""]) for found in ratios),
            conditions=Conditions(**fields["conditions"], throttled=tuple(found[""][""] for found in throttled)),
            counters=tuple(_pair(found) for found in counters),
        )
    except (TypeError, ValueError, GemmsmithError) as error:
        raise DamagedRowError(MEASUREMENT.damage(row, f"not a measurement ({error})")) from None


def _pair(fields: dict[str, dict[str, Any]]) -> tuple[str, Any]:
    first, second = fields[""].values()
    return first, second
