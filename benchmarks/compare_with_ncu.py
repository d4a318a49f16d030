"""Compare simulated counters with Nsight Compute's, for simulated rungs and their presets: the agreement table.

    python benchmarks/compare_with_ncu.py OUTPUT.json [--rungs mma_pipelined,…] [--shapes 512x512x512,…]

Needs a GPU and ncu. Both sides use the same compilation: the simulator its PTX, the GPU its cubin. Without ``--rungs``
the rungs on CUDA cores are compared. Rungs with several types and layouts run in each type, NN and NT.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import product, repeat
from pathlib import Path
from typing import Any

from gemmsmith import __version__
from gemmsmith.call.binding import bind, specialized_config
from gemmsmith.compile.compiler import compile_for
from gemmsmith.explain.metrics import METRICS
from gemmsmith.explain.ncu import find_ncu, run_ncu
from gemmsmith.explain.simulated_profile import simulate
from gemmsmith.fills import operands
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.ladder.registry import rung_named, simulated_rungs
from gemmsmith.problem import OUTPUTS, Problem
from gemmsmith.run.cuda import cuda_device
from gemmsmith.run.memory import upload

SHAPES = "512x512x512,1024x1024x1024,509x391x277,1000x130x515"
COMPARED = [m.name for m in METRICS if not m.hardware_only]
ALIGNED = Addresses(0, 0, 0)  # all memory here is aligned
Case = tuple[KernelSpec, Config, Problem]


def cases(names: str, shapes: str) -> list[Case]:
    sizes = [tuple(map(int, shape.split("x"))) for shape in shapes.split(",")]
    plain = [spec.name for spec in simulated_rungs() if not spec.tensor_cores and spec.workspace is None]
    found: list[Case] = []
    for spec in map(rung_named, names.split(",") if names else plain):
        if spec.workspace is not None or spec.prologue is not None:
            sys.exit(f"{spec.name} needs a workspace or launches before it: not compared here")
        for config in dict.fromkeys([spec.config(), *(p.config for p in spec.presets)]):
            for shape, dtype, layout in product(sizes, spec.dtypes, [x for x in ("NN", "NT") if x in spec.layouts]):
                problem = Problem(*shape, dtype=dtype, out_dtype=OUTPUTS[dtype][0], trans_b=layout == "NT")
                found.append((spec, specialized_config(spec, config, problem, ALIGNED), problem))
    return found


def launch_all(names: str, shapes: str) -> None:
    """The program that ncu profiles: every case in order, one launch each."""
    device = cuda_device()
    for spec, config, problem in cases(names, shapes):
        data = operands(problem, "normal", seed=0)
        addresses = [upload(device, values) for values in (data.a, data.b, data.c)]
        for step in bind(device, spec, config, problem, Addresses(*addresses)):
            device.launch(step.loaded, step.launch)
        device.synchronize()
        for address in addresses:
            device.free(address)


def simulate_case(names: str, shapes: str, number: int) -> dict[str, Any]:
    spec, config, problem = cases(names, shapes)[number]
    profile = simulate(spec, config, problem, compile_for(spec, config, problem, "sm_90"))
    checks = [f"{c.opcode}.{8 * c.width}: {c.simulated} in PTX, {c.machine} in SASS ({c.state})"
              for c in profile.checks if c.state != "equal"]  # fmt: skip
    return {"metrics": {name: int(profile.value(name)) for name in COMPARED}, "cross_check": checks}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--rungs", default="", help="names, separated by commas; default: those on CUDA cores")
    parser.add_argument("--shapes", default=SHAPES, help="MxNxK, separated by commas")
    options = parser.parse_args()
    if os.environ.get("GEMMSMITH_NCU_CHILD"):
        launch_all(options.rungs, options.shapes)
        return 0
    compared = cases(options.rungs, options.shapes)
    with ProcessPoolExecutor(14) as pool:
        command = [sys.executable, __file__, *sys.argv[1:]]
        launches = run_ncu(command, COMPARED, "gemm", {**os.environ, "GEMMSMITH_NCU_CHILD": "1"})
        mine = list(pool.map(simulate_case, repeat(options.rungs), repeat(options.shapes), range(len(compared))))
    device = cuda_device()
    rows, equal, different = [], 0, 0
    for (spec, config, problem), (_, measured), ours in zip(compared, launches, mine, strict=True):
        unequal = {n: [ours["metrics"][n], int(measured[n])] for n in COMPARED
                   if n in measured and ours["metrics"][n] != int(measured[n])}  # fmt: skip
        equal += sum(n in measured for n in COMPARED) - len(unequal)
        different += len(unequal)
        rows.append({"kernel": spec.name, "config": str(config), "dtype": problem.dtype.name,
                     "layout": problem.layout, "m": problem.m, "n": problem.n, "k": problem.k,
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
        "command": "python benchmarks/compare_with_ncu.py OUTPUT.json "
                   f"--rungs '{options.rungs}' --shapes {options.shapes}",
        "compared": COMPARED, "equal": equal,
        "different": different, "rows": rows,
    }  # fmt: skip
    options.output.write_text(json.dumps(record, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{equal} of {equal + different} counters equal over {len(rows)} launches")
    return 0


if __name__ == "__main__":
    sys.exit(main())
