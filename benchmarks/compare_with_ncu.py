"""Simulated counters against Nsight Compute's, for every rung that the simulator runs and its published
configurations: the agreement table.

    python benchmarks/compare_with_ncu.py OUTPUT.json          (needs a GPU and ncu)

Both sides use the same compilation: the simulator its PTX, the GPU its cubin.
"""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from gemmsmith import __version__
from gemmsmith.compile.compiler import compile_kernel
from gemmsmith.explain.metrics import METRICS
from gemmsmith.explain.ncu import find_ncu, run_ncu
from gemmsmith.explain.profile import simulate
from gemmsmith.fills import operands
from gemmsmith.kernels.registry import simulated_rungs
from gemmsmith.kernels.spec import Config, KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.run.binding import Addresses, bind, fitted_config
from gemmsmith.run.cuda import cuda_device
from gemmsmith.run.memory import upload

SHAPES = ((512, 512, 512), (1024, 1024, 1024), (509, 391, 277), (1000, 130, 515))
COMPARED = [m.name for m in METRICS if not m.hardware_only]
ALIGNED = Addresses(0, 0, 0)  # as all memory here begins
Case = tuple[KernelSpec, Config, Problem]


def cases() -> list[Case]:
    found: list[Case] = []
    for spec in simulated_rungs():
        for config in dict.fromkeys([spec.config(), *(p.config for p in spec.presets)]):
            for shape in SHAPES:
                problem = Problem(*shape, dtype=spec.dtypes[0])
                found.append((spec, fitted_config(spec, config, problem, ALIGNED), problem))
    return found


def launch_all() -> None:
    """The program that ncu watches: every case in order, one launch each."""
    device = cuda_device()
    for spec, config, problem in cases():
        data = operands(problem, "normal", seed=0)
        addresses = [upload(device, values) for values in (data.a, data.b, data.c)]
        for step in bind(device, spec, config, problem, Addresses(*addresses)):
            device.launch(step.loaded, step.launch)
        device.synchronize()
        for address in addresses:
            device.free(address)


def simulate_case(number: int) -> dict[str, Any]:
    spec, config, problem = cases()[number]
    profile = simulate(spec, config, problem, compile_kernel(spec, config, dtype=problem.dtype, arch="sm_90"))
    checks = [f"{c.opcode}.{8 * c.width}: {c.simulated} in PTX, {c.machine} in SASS ({c.state})"
              for c in profile.checks if c.state != "equal"]  # fmt: skip
    return {"metrics": {name: int(profile.value(name)) for name in COMPARED}, "cross_check": checks}


def main() -> int:
    if os.environ.get("GEMMSMITH_NCU_CHILD"):
        launch_all()
        return 0
    with ProcessPoolExecutor(14) as pool:
        launches = run_ncu([sys.executable, __file__], COMPARED, "gemm", {**os.environ, "GEMMSMITH_NCU_CHILD": "1"})
        mine = list(pool.map(simulate_case, range(len(cases()))))
    device = cuda_device()
    rows, equal, different = [], 0, 0
    for (spec, config, problem), (_, measured), ours in zip(cases(), launches, mine, strict=True):
        unequal = {n: [ours["metrics"][n], int(measured[n])] for n in COMPARED
                   if n in measured and ours["metrics"][n] != int(measured[n])}  # fmt: skip
        equal += sum(n in measured for n in COMPARED) - len(unequal)
        different += len(unequal)
        rows.append({"kernel": spec.name, "config": str(config), "m": problem.m, "n": problem.n, "k": problem.k,
                     "simulated": ours["metrics"], "measured": {n: int(v) for n, v in measured.items()},
                     "different": unequal, "cross_check": ours["cross_check"]})  # fmt: skip
        if unequal:
            print(spec.name, config, problem, ours["cross_check"])
            for name, (a, b) in unequal.items():
                print(f"    {name}: simulated {a}, measured {b}")
    told = subprocess.run([find_ncu(), "--version"], capture_output=True, text=True, check=False).stdout
    record = {
        "what": "simulated counters against Nsight Compute", "gpu": device.name, "driver_cuda": device.driver_version,
        "ncu": told.splitlines()[-1], "gemmsmith": __version__,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": "python benchmarks/compare_with_ncu.py", "compared": COMPARED, "equal": equal,
        "different": different, "rows": rows,
    }  # fmt: skip
    Path(sys.argv[1]).write_text(json.dumps(record, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{equal} of {equal + different} counters equal over {len(rows)} launches")
    return 0


if __name__ == "__main__":
    sys.exit(main())
