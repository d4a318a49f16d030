"""Record what a GPU's TMA copies do (tests/data/tma.npz).

    PYTHONPATH=src python benchmarks/record_tma.py [--out FOLDER]
    PYTHONPATH=src python benchmarks/record_tma.py --compare      the file against the simulator; needs no GPU

The kernels and cases are those of tests/sim/tma_kernels.py, tma_cases.py and tma_bulk.py. A fault of the GPU ends the
process in which it happens, so cases run in many processes.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "sim"))

from record_tensor_cores import driver_release
from tma_bulk import bulk_groups
from tma_cases import groups
from tma_recording import build, packed, parts_of, run_any, simulated, unpacked

FILE = Path(__file__).parents[1] / "tests" / "data" / "tma.npz"
ARCH = "sm_90a"
PROCESSES = 8  # at once


def every() -> dict[str, Any]:
    return {group.name: group for group in (*groups(), *bulk_groups())}


@dataclass(frozen=True)
class Task:
    """Some cases of a group, which one process runs."""

    group: str
    cases: tuple[int, ...]


def child(path: Path, group: Any, cases: tuple[int, ...]) -> None:
    """Run cases on the GPU; a fault ends the process."""
    from gemmsmith.run.cuda import CudaDevice

    try:
        device = CudaDevice()
        found = run_any(device, group, ARCH, cases)
    except Exception as error:
        path.with_suffix(".txt").write_text(f"{type(error).__name__}: {error}")
        os._exit(1)
    np.savez(path, name=np.frombuffer(device.name.encode(), np.uint8), **found)
    os._exit(0)


def recorded(folder: Path, seconds: float) -> tuple[dict[str, Any], str]:
    """What every case did. Cases that fault together are run again in halves, until those that fault are known."""
    known = every()
    for group in known.values():
        build(group, ARCH)
    tasks = [Task(name, tuple(part)) for name, group in known.items() for part in parts_of(group)]
    running: list[tuple[Task, Path, Any]] = []
    found: dict[str, Any] = {}
    start, number, name = time.monotonic(), 0, ""
    context = multiprocessing.get_context("fork")
    while running or (tasks and time.monotonic() - start < seconds):
        while tasks and len(running) < PROCESSES and time.monotonic() - start < seconds:
            task, number = tasks.pop(0), number + 1
            path = folder / f"{number}.npz"
            process = context.Process(target=child, args=(path, known[task.group], task.cases))
            process.start()
            running.append((task, path, process))
        time.sleep(0.02)
        for entry in [e for e in running if not e[2].is_alive()]:
            running.remove(entry)
            task, path, process = entry
            if process.exitcode == 0:
                with np.load(path, allow_pickle=False) as file:
                    name = file["name"].tobytes().decode()
                    merge(found, task, {part: file[part] for part in file.files if part != "name"})
            elif len(task.cases) > 1:
                half = len(task.cases) // 2
                tasks += [Task(task.group, task.cases[:half]), Task(task.group, task.cases[half:])]
            else:
                note = path.with_suffix(".txt")
                said = note.read_text() if note.exists() else f"ended with {process.exitcode}"
                print(f"{task.group} {task.cases[0]}: {said[:120]}", flush=True)
                merge(found, task, {"fault": said})
    print(f"{number} processes, {time.monotonic() - start:.0f} s; not run: {len(tasks)} tasks")
    return found, name


def merge(found: dict[str, Any], task: Task, new: dict[str, Any]) -> None:
    """``ran`` says which cases ran without a fault, ``fault`` what the GPU reported for others."""
    if "fault" in new:
        faults = found.setdefault(f"{task.group}/fault", np.zeros(len(every()[task.group].cases), "U64"))
        faults[list(task.cases)] = next((w for w in new["fault"].replace(":", " ").split() if "CUDA" in w), "fault")
        return
    size = len(new["accepted"])
    chosen = list(task.cases) if size == len(every()[task.group].cases) else list(range(size))
    ran = found.setdefault(f"{task.group}/ran", np.zeros(size, bool))
    ran[chosen] = True
    for part, array in new.items():
        whole = found.setdefault(f"{task.group}/{part}", np.zeros_like(array))
        whole[chosen] = array[chosen]


def compare(path: Path, only: list[str]) -> int:
    from gemmsmith.sim.device import SimDevice

    with np.load(path, allow_pickle=False) as file:
        known = unpacked(file)
    wrong = 0
    for name, group in every().items():
        if f"{name}/ran" not in known or (only and name not in only):
            continue
        ran = known[f"{name}/ran"]
        chosen = simulated(group, ran)
        found = run_any(SimDevice(ARCH), group, ARCH, chosen)
        for part in ("accepted", "image", "counted"):
            expected = known[f"{name}/{part}"]
            different = [
                n for n in range(len(expected)) if n in chosen and not np.array_equal(found[part][n], expected[n])
            ]
            wrong += bool(different)
            if different:
                print(f"{name}: {part} of {len(different)} of {len(expected)} cases differ: {different[:12]}")
    print(f"{wrong} differ")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=FILE.parent, help="folder for the file (default: %(default)s)")
    parser.add_argument("--compare", nargs="*", metavar="GROUP", help="compare the recording with the simulator")
    parser.add_argument("--seconds", type=float, default=60, help="on the GPU, compiling not counted")
    options = parser.parse_args()
    if options.compare is not None:
        return 1 if compare(options.out / FILE.name, options.compare) else 0
    with tempfile.TemporaryDirectory() as folder:
        found, gpu = recorded(Path(folder), options.seconds)
    metadata = {"gpu": gpu, "arch": ARCH, "driver": driver_release(), "date": f"{datetime.now(UTC):%Y-%m-%d}",
                "command": "benchmarks/record_tma.py"}  # fmt: skip
    text = np.frombuffer(json.dumps(metadata).encode(), np.uint8)
    np.savez_compressed(options.out / FILE.name, allow_pickle=False, metadata=text, **packed(found))
    print(f"{len(found)} arrays, {(options.out / FILE.name).stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
