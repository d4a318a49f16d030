"""Record what a GPU computes for every instruction form that the simulator's tests exercise.

    PYTHONPATH=src python benchmarks/record_instructions.py             writes tests/data/instructions.npz
    PYTHONPATH=src python benchmarks/record_instructions.py --compare   and prints where the simulator differs
    PYTHONPATH=src python benchmarks/record_instructions.py --recorded  compares with the file; needs no GPU
    PYTHONPATH=src python benchmarks/record_instructions.py --scalar    writes tests/data/scalar_instructions.npz

The forms, their operands and the PTX around them are those of tests/sim; the driver compiles the PTX for its GPU.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "sim"))

from instruction_forms import Form, all_forms
from instruction_inputs import ROWS
from instruction_kernel import header, kernel, run_on, simulate
from instruction_recording import FILE, Recording, differences, fresh, load, save
from scalar_forms import scalar_forms
from scalar_recording import FILE as SCALAR_FILE
from scalar_recording import ROWS as SCALAR_ROWS

from gemmsmith.errors import GemmsmithError
from gemmsmith.run.cuda import CudaDevice, LoadedCubin
from gemmsmith.run.driver_calls import checked


def driver_release() -> str:
    """The driver's version, such as 580.82.07, from nvidia-smi; empty without it."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.split()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        return "unknown"


def describe(device: CudaDevice) -> dict[str, Any]:
    return {
        "gpu": device.name, "arch": device.arch, "driver": driver_release(), "cuda": device.driver_version,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"), "command": "benchmarks/record_instructions.py",
    }  # fmt: skip


def load_forms(device: CudaDevice, forms: tuple[Form, ...]) -> dict[str, LoadedCubin]:
    """One module per target with every form as an entry; the driver compiles the PTX."""
    loaded = {}
    for target in sorted({form.target for form in forms}):
        mine = [form for form in forms if form.target == target]
        text = header(target) + "".join(kernel(form, f"form_{i}") for i, form in enumerate(mine))
        with device.current():
            module = checked(
                device._cu.cuModuleLoadData(text.encode() + b"\0"), f"compiling {len(mine)} forms, {target}"
            )
            for i, form in enumerate(mine):
                function = checked(device._cu.cuModuleGetFunction(module, f"form_{i}".encode()), f"finding {form.name}")
                loaded[form.name] = LoadedCubin(function, module, 0)
    return loaded


def record(device: CudaDevice, forms: tuple[Form, ...], rows: dict[str, int]) -> Recording:
    recording = fresh(forms, describe(device), rows)
    loaded = load_forms(device, forms)
    for form in forms:
        results = run_on(device, loaded[form.name], form, recording.arguments(form))  # type: ignore[arg-type]
        for i, (result, kind) in enumerate(zip(results, form.results, strict=True)):
            recording.arrays[f"out/{form.name}/{i}"] = result.astype(np.uint8) if kind == "pred" else result
    return recording


def compare(recording: Recording, forms: tuple[Form, ...]) -> int:
    """Print every difference between the simulator and a recording; returns how many forms differ."""
    differing = 0
    for form in forms:
        if f"out/{form.name}/0" not in recording.arrays:
            print(f"{form.name}: not recorded")
            differing += 1
            continue
        try:
            lines = differences(form, recording, simulate(form, recording.arguments(form)))
        except Exception as error:  # one broken form must not hide the others
            lines = [f"{form.name}: the simulator raised {type(error).__name__}: {error}"]
        differing += bool(lines)
        for line in lines:
            print(line)
    where = f"{recording.metadata['gpu']}, driver {recording.metadata['driver']}, {recording.metadata['date']}"
    print(f"{differing} of {len(forms)} forms differ between the simulator and {where}")
    return differing


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help=f"where to write the recording (default: {FILE} or {SCALAR_FILE})")
    parser.add_argument("--scalar", action="store_true", help="record the second list of forms")
    parser.add_argument("--compare", action="store_true", help="also run the simulator and print the differences")
    parser.add_argument("--recorded", action="store_true", help="compare with the file instead of a GPU")
    options = parser.parse_args()
    forms, file = (scalar_forms(), SCALAR_FILE) if options.scalar else (all_forms(), FILE)
    path = options.out or file
    if options.recorded:
        return 1 if compare(load(path), forms) else 0
    start = time.perf_counter()
    recording = record(CudaDevice(), forms, SCALAR_ROWS if options.scalar else ROWS)
    save(recording, path)
    cases = sum(len(recording.arguments(form)[0]) for form in forms)
    print(f"{len(forms)} forms, {cases:,} cases in {time.perf_counter() - start:.1f} s; "
          f"{path} has {path.stat().st_size:,} bytes")  # fmt: skip
    return 1 if options.compare and compare(recording, forms) else 0


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except GemmsmithError as error:
        print(error, file=sys.stderr)
        raise SystemExit(error.exit_code) from None
