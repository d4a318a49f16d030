"""Record what Nsight Compute counts for the Hopper rungs (tests/data/hopper_counts.json).

    PYTHONPATH=src python benchmarks/record_hopper_counts.py OUTPUT.json [--rungs NAME,…]

Needs an sm_90 GPU and ncu. Each rung runs with its default configuration; the launches of its prologue are left out.
``tests/explain/test_hopper_counts.py`` compares the simulator's counts with the record.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gemmsmith.call.binding import bind, workspace_bytes
from gemmsmith.call.launch_plan import plan_launches
from gemmsmith.compile.compiler import compile_for
from gemmsmith.explain.metrics import METRICS
from gemmsmith.explain.ncu import find_ncu, run_ncu
from gemmsmith.fills import operands
from gemmsmith.kernel.spec import Addresses
from gemmsmith.ladder.registry import rung_named, rungs
from gemmsmith.problem import DTYPES, Problem
from gemmsmith.run.cuda import cuda_device
from gemmsmith.run.memory import upload

# Shape, layout and type of C; rungs with an fp32 A have an fp32 C.
SHAPES = (
    ((256, 256, 256), "NN", "fp32"), ((256, 256, 256), "NT", "fp16"), ((512, 384, 320), "TN", "fp16"),
    ((1000, 136, 520), "NN", "fp32"), ((2048, 2304, 128), "NT", "fp16"),
)  # fmt: skip
NAMES = [metric.name for metric in METRICS if not metric.hardware_only]
Case = tuple[str, Problem]


def cases(names: str) -> list[Case]:
    chosen = names.split(",") if names else [spec.name for spec in rungs() if spec.arch_specific]
    found = []
    for name in chosen:
        kind = rung_named(name).dtypes[0]
        for shape, layout, out in SHAPES:
            c = kind if kind.name == "fp32" else DTYPES[out]
            found.append((name, Problem(*shape, dtype=kind, out_dtype=c, trans_a=layout[0] == "T",
                                        trans_b=layout[1] == "T")))  # fmt: skip
    return found


def compile_case(case: Case) -> None:
    spec = rung_named(case[0])
    plan = plan_launches(spec, spec.config(), case[1], Addresses(256, 256, 256))
    for each in (*plan.prologue, *plan.fallback, plan.kernel):
        compile_for(each.spec, each.config, each.problem, "sm_90")


def launch_all(found: list[Case]) -> list[bool]:
    """Every launch in order: the program that ncu profiles. Returns which launches are the rungs themselves."""
    device, own = cuda_device(), []
    for name, problem in found:
        spec = rung_named(name)
        data = operands(problem, "integers" if spec.prologue is not None else "normal", seed=0)
        addresses = [upload(device, values) for values in (data.a, data.b, data.c)]
        places = Addresses(*addresses)
        workspace = device.allocate(max(256, workspace_bytes(spec, spec.config(), problem, places)))
        plan = plan_launches(spec, spec.config(), problem, places)
        steps = bind(device, spec, spec.config(), problem, places, workspace)
        for planned, step in zip((*plan.prologue, *plan.fallback, plan.kernel), steps, strict=True):
            device.launch(step.loaded, step.launch)
            own.append(planned is plan.kernel)
        device.synchronize()
        for address in (*addresses, workspace):
            device.free(address)
    return own


def row(case: Case, measured: dict[str, float]) -> dict[str, Any]:
    name, problem = case
    return {"rung": name, "shape": [problem.m, problem.n, problem.k], "layout": problem.layout,
            "out": problem.out_dtype.name, "metrics": {n: int(v) for n, v in measured.items() if v},
            "known": len(measured)}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--rungs", default="", help="names, separated by commas; default: all Hopper rungs")
    options = parser.parse_args()
    found = cases(options.rungs)
    if os.environ.get("GEMMSMITH_NCU_CHILD"):
        launch_all(found)
        return 0
    with ProcessPoolExecutor(8) as pool:
        list(pool.map(compile_case, found))
    own = launch_all(found)
    command = [sys.executable, __file__, *sys.argv[1:]]
    measured = run_ncu(command, NAMES, environment={**os.environ, "GEMMSMITH_NCU_CHILD": "1"})
    kernels = [values for mine, (_, values) in zip(own, measured, strict=True) if mine]
    told = subprocess.run([find_ncu(), "--version"], capture_output=True, text=True, check=False).stdout
    record = {
        "what": "counts of the Hopper rungs by Nsight Compute; metrics that are not named are 0", "origin": "measured",
        "gpu": cuda_device().name, "ncu": told.splitlines()[-1].split()[1],
        "date": datetime.now(UTC).date().isoformat(),
        "command": "python benchmarks/record_hopper_counts.py OUTPUT.json",
        "rows": [row(case, values) for case, values in zip(found, kernels, strict=True)],
    }  # fmt: skip
    options.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"{len(found)} launches; {options.output.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
