"""Record what a GPU's matrix instructions compute, and what its profiler counts for them.

    PYTHONPATH=src python benchmarks/record_tensor_cores.py [--out FOLDER]
    PYTHONPATH=src python benchmarks/record_tensor_cores.py --add          only forms that tests/data does not have yet
    PYTHONPATH=src python benchmarks/record_tensor_cores.py --compare      the files against the simulator; needs no GPU

Values: single mma.sync, wmma, ldmatrix, stmatrix and cvt to TF32 (tensor_cores.npz, and tensor_cores_more.npz for what
--add recorded); the kernels and their operands are those of tests/sim. The operands are not stored: they are generated
again, and a digest shows that they are the same. Results that are equal to those of another form are stored once.
Patterns: requests, wavefronts and bank conflicts of ldmatrix, stmatrix and wmma loads and stores, and the tensor
instructions of each form, counted by ncu (ldmatrix_patterns.json). A form that fails is reported and left out; the
others are kept.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "sim"))

import tensor_core_kernels as kernels
import tensor_core_recording as recording
import tensor_core_warps as warps
from tensor_core_cases import underflow_operands
from tensor_core_kernels import CONVERSIONS, FLOAT_FORMS, INTEGER_FORMS, MATRIX_FORMS, MORE_FORMS
from tensor_core_patterns import launch_all, launches
from tensor_core_warps import DUMPS, MORE_DUMPS, MORE_WARP_FORMS, WARP_FORMS

from gemmsmith.run.device import Device

CHILD = "GEMMSMITH_TENSOR_CORE_CHILD"
METRICS = (
    "smsp__sass_inst_executed_op_shared_ld.sum", "smsp__sass_inst_executed_op_shared_st.sum",
    "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
)  # fmt: skip
# Not every ncu and every chip has these metrics; those refused are left out.
OPTIONAL = (
    "smsp__inst_executed_op_ldsm.sum", "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldsm.sum",
    "smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldsm.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "sm__inst_executed_pipe_tensor.sum", "sm__inst_executed_pipe_tensor_op_hmma.sum",
    "sm__inst_executed_pipe_tensor_op_imma.sum",
)  # fmt: skip
_NAME = re.compile(r"\w+__\w+(?:\.\w+)+")


# -- values -------------------------------------------------------------------------------------------


def values(device: Device, arch: str, known: Collection[str] = ()) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    """(results by name, digests of operands, failures), without the forms that are ``known``."""
    arrays: dict[str, Any] = {}
    digests: dict[str, str] = {}
    failures: list[str] = []

    def attempt(name: str, compute: Callable[..., Any], *arguments: Any) -> None:
        if name in known:
            return
        try:
            arrays[name] = compute(device, *arguments, arch)
        except Exception as error:  # a form that fails must not lose the others
            failures.append(f"{name}: {type(error).__name__}: {error}")

    for form in (*FLOAT_FORMS, *INTEGER_FORMS, *MORE_FORMS):
        operands = form.operands()
        digests[form.opcode] = operands.digest
        attempt(form.opcode, kernels.run_mma, form, operands)
        if form in FLOAT_FORMS:
            small = underflow_operands(form.a, form.k)
            digests[f"{form.opcode} (underflow)"] = small.digest
            attempt(f"{form.opcode} (underflow)", kernels.run_mma, form, small)
    for warp in (*WARP_FORMS, *MORE_WARP_FORMS):
        digests[warp.mma] = warps.warp_operands(warp).digest
        attempt(warp.mma, warps.run_warp, warp)
    for matrices in MATRIX_FORMS:
        attempt(matrices.opcode, kernels.run_matrix, matrices)
    for tile, which, layout in (*DUMPS, *MORE_DUMPS):
        attempt(tile.load(which, layout), warps.run_dump, tile, which, layout)
    for opcode in CONVERSIONS:
        attempt(opcode, kernels.run_conversion, opcode, kernels.conversion_inputs())
        attempt(f"{opcode} (edges)", kernels.run_conversion, opcode, kernels.conversion_edges())
    return arrays, digests, failures


def save_values(out: Path, device: Device, arch: str, driver: str, add: bool) -> int:
    """Record every form, or with ``add`` those that tests/data does not have, which go to the second file."""
    start = time.perf_counter()
    made, digests, failures = values(device, arch, recording.load().arrays if add else ())
    path = out / (recording.MORE if add else recording.FIRST).name
    arrays, same = recording.distinct(made)
    used = {name: digest for name, digest in digests.items() if name in made}
    metadata = {"gpu": device.name, "arch": arch, "driver": driver, "date": f"{datetime.now(UTC):%Y-%m-%d}",
                "command": "benchmarks/record_tensor_cores.py", "digests": used, "same": same}  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, metadata=np.frombuffer(json.dumps(metadata).encode(), np.uint8), **arrays)
    print(f"{len(made)} forms in {time.perf_counter() - start:.1f} s; {path.name}: {path.stat().st_size:,} bytes")
    for line in failures:
        print("FAILED", line)
    return 1 if failures else 0


def compare() -> int:
    """How many recorded forms the simulator does not reproduce bit for bit; prints each."""
    from gemmsmith.sim.device import SimDevice

    recorded = recording.load()
    arch = recorded.metadata[0]["arch"]
    found, digests, failures = values(SimDevice(arch), arch)
    for line in failures:
        print("FAILED", line)
    wrong = len(failures)
    for name in sorted({*found} - {*recorded.arrays}):
        print(f"{name}: not recorded")
    for name, expected in recorded.arrays.items():
        if name not in found:
            print(f"{name}: not simulated")
            wrong += 1
            continue
        if digests.get(name, "") != recorded.digests.get(name, ""):
            print(f"{name}: its operands are not those that were recorded")
        count = int(np.count_nonzero(found[name] != expected)) if found[name].shape == expected.shape else -1
        if count:
            wrong += 1
            print(f"{name}: {count} of {expected.size} words differ")
    print(f"{wrong} of {len(recorded.arrays)} forms differ from {recorded.metadata[0]['gpu']}")
    return wrong


# -- counts -------------------------------------------------------------------------------------------


def _known(earlier: dict[str, Any]) -> set[tuple[str, str]]:
    """Names of the launches in a file of counts."""
    return {(p["form"], p["pattern"]) for p in earlier["patterns"]}


def run_ncu(ncu: str, metrics: tuple[str, ...], old: Path | None) -> tuple[str, tuple[str, ...]]:
    """ncu's table and its metrics; names that ncu refuses are dropped, and it runs again.

    The child launches everything, or what the file ``old`` does not have.
    """
    child = {CHILD: "all" if old is None else str(old)}
    for _ in range(6):
        command = [ncu, "--clock-control", "none", "--cache-control", "none", "--csv", "--print-units", "base",
                   "--metrics", ",".join(metrics), sys.executable, __file__]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **child})
        start = done.stdout.find('"ID"')
        if start >= 0:
            return done.stdout[start:], metrics
        text = done.stdout + done.stderr
        complaints = " ".join(line for line in text.splitlines() if "==ERROR==" in line or "==WARNING==" in line)
        refused = set(_NAME.findall(complaints)) & set(OPTIONAL)
        if not refused:
            print(text[-3000:], file=sys.stderr)
            refused = set(metrics) & set(OPTIONAL)
            if not refused:
                break
        print("ncu does not have", ", ".join(sorted(refused)))
        metrics = tuple(name for name in metrics if name not in refused)
    return "", metrics


def save_counts(path: Path, gpu: str, driver: str, old: Path | None) -> int:
    ncu = shutil.which("ncu")
    if ncu is None:
        print("ncu is not on PATH: no patterns", file=sys.stderr)
        return 3
    start = time.perf_counter()
    earlier = json.loads(old.read_text(encoding="utf-8")) if old is not None else {"patterns": []}
    known = _known(earlier)
    table, metrics = run_ncu(ncu, tuple(earlier.get("metrics", (*METRICS, *OPTIONAL))), old)
    if not table:
        return 1
    counted: dict[int, dict[str, float]] = {}
    names: dict[int, str] = {}
    for row in csv.DictReader(io.StringIO(table)):
        number = int(row["ID"])
        names[number] = row["Kernel Name"]
        text = row["Metric Value"].replace(",", "")
        counted.setdefault(number, {})[row["Metric Name"]] = float(text) if re.fullmatch(r"[\d.e+-]+", text) else -1
    expected = [item for item in launches() if item.name not in known]
    record, wrong = [], 0
    for number, item in zip(sorted(counted), expected, strict=False):
        if not names[number].startswith(item.entry):
            wrong += 1
            continue
        record.append({**item.about, "counts": [int(counted[number].get(metric, -1)) for metric in metrics]})
    version = subprocess.run([ncu, "--version"], capture_output=True, text=True, check=False).stdout.splitlines()[-1]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({
        "what": "hardware counts of single matrix instructions", "origin": "measured", "gpu": gpu, "driver": driver,
        "ncu": version, "date": f"{datetime.now(UTC):%Y-%m-%d}", "command": "benchmarks/record_tensor_cores.py",
        "metrics": metrics, "patterns": [*earlier["patterns"], *record],
    }, separators=(",", ":")) + "\n", encoding="utf-8")  # fmt: skip
    print(f"{len(record)} of {len(expected)} patterns, {len(metrics)} metrics in {time.perf_counter() - start:.1f} s; "
          f"{wrong} launches out of order")  # fmt: skip
    return 0 if len(record) == len(expected) else 1


def driver_release() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.split()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        return "unknown"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=recording.DATA, help="folder for the files (default: %(default)s)")
    parser.add_argument("--add", action="store_true", help="keep what tests/data has, and record the other forms")
    parser.add_argument("--compare", action="store_true", help="compare the recorded values with the simulator")
    child = os.environ.get(CHILD)
    options = parser.parse_args([] if child else None)
    if options.compare:
        return 1 if compare() else 0
    from gemmsmith.run.cuda import CudaDevice

    device = CudaDevice()
    if child:
        known = set() if child == "all" else _known(json.loads(Path(child).read_text(encoding="utf-8")))
        launch_all(device, device.arch, known=known)
        return 0
    driver = driver_release()
    failed = save_values(options.out, device, device.arch, driver, options.add)
    old = recording.COUNTS if options.add else None
    return save_counts(options.out / recording.COUNTS.name, device.name, driver, old) or failed


if __name__ == "__main__":
    sys.exit(main())
