"""Nsight Systems: run the program under ``nsys profile`` and read the events from its SQLite export."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from gemmsmith.errors import LaunchError, MissingDeviceError
from gemmsmith.trace.kernel_names import api_name, demangled
from gemmsmith.trace.timeline import API, COPY, KERNEL, SET, Event
from gemmsmith.trace.tools.copy_names import MEMSET, copy_name

_REPORT = "report"
_EXPORT_TIMEOUT_S = 600
# A globalTid holds the thread in its low 24 bits and the process in the 24 above.
_ID_BITS = 24
_ID_MASK = (1 << _ID_BITS) - 1


def find_nsys() -> str:
    """The path of nsys; raises with install instructions if it is missing."""
    program = shutil.which("nsys")
    if program is None:
        raise MissingDeviceError(
            "Nsight Systems' nsys is not on PATH",
            "install Nsight Systems and add it to PATH; or pip install cupti-python, or torch, and use --tool auto",
        )
    return program


def nsys_command(folder: Path) -> list[str]:
    """The command prefix that traces a program with nsys; graph kernels are recorded individually."""
    return [find_nsys(), "profile", "--trace=cuda", "--sample=none", "--cpuctxsw=none", "--cuda-graph-trace=node",
            "--force-overwrite=true", f"--output={folder / _REPORT}"]  # fmt: skip


def read_nsys(folder: Path) -> tuple[Event, ...]:
    """Export the report and read its events."""
    report, database = folder / f"{_REPORT}.nsys-rep", folder / f"{_REPORT}.sqlite"
    if not report.exists():
        raise LaunchError("nsys wrote no report", "run nsys profile by hand to see why; or use --tool cupti or torch")
    command = [find_nsys(), "export", "--type=sqlite", "--force-overwrite=true", f"--output={database}", str(report)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_EXPORT_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise LaunchError(f"nsys export did not finish in {_EXPORT_TIMEOUT_S} s", "trace a shorter run") from None
    if done.returncode != 0 or not database.exists():
        raise LaunchError(f"nsys export failed (exit code {done.returncode})", (done.stderr or done.stdout)[-300:])
    return read_nsys_database(database)


def read_nsys_database(path: Path) -> tuple[Event, ...]:
    """The events of an exported database; nsys creates only tables that have rows."""
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            return tuple(_events(database))
    except sqlite3.DatabaseError as error:
        raise LaunchError(f"cannot read the nsys export: {error}", "use --tool cupti or torch") from None


def _events(database: sqlite3.Connection) -> Iterator[Event]:
    present = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "CUPTI_ACTIVITY_KIND_RUNTIME" in present:  # this table also holds driver API calls
        for name, start, end, correlation, thread in database.execute(
            "SELECT s.value, r.start, r.end, r.correlationId, r.globalTid "
            "FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON s.id = r.nameId"
        ):
            yield Event(API, api_name(name), start, end - start, correlation=correlation or 0,
                        thread=thread & _ID_MASK, process=thread >> _ID_BITS & _ID_MASK)  # fmt: skip
    if "CUPTI_ACTIVITY_KIND_KERNEL" in present:
        for name, start, end, device, stream, correlation, registers, *extents in database.execute(
            "SELECT s.value, k.start, k.end, k.deviceId, k.streamId, k.correlationId, k.registersPerThread, "
            "k.gridX, k.gridY, k.gridZ, k.blockX, k.blockY, k.blockZ "
            "FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.demangledName"
        ):
            gx, gy, gz, bx, by, bz = extents
            yield Event(KERNEL, demangled(name), start, end - start, grid=(gx, gy, gz), block=(bx, by, bz),
                        registers=registers or 0, device=device, stream=stream,
                        correlation=correlation or 0)  # fmt: skip
    kinds: dict[int, str] = {}
    if "ENUM_CUDA_MEMCPY_OPER" in present:
        kinds = dict(database.execute("SELECT id, label FROM ENUM_CUDA_MEMCPY_OPER"))
    for table, kind, column in (("CUPTI_ACTIVITY_KIND_MEMCPY", COPY, "copyKind"),
                                ("CUPTI_ACTIVITY_KIND_MEMSET", SET, "0")):  # fmt: skip
        if table not in present:
            continue
        for copied, start, end, device, stream, correlation, nbytes in database.execute(
            f"SELECT {column}, start, end, deviceId, streamId, correlationId, bytes FROM {table}"
        ):
            name = MEMSET if kind == SET else copy_name(kinds.get(copied, f"kind {copied}"))
            yield Event(kind, name, start, end - start, nbytes, device=device, stream=stream,
                        correlation=correlation or 0)  # fmt: skip
