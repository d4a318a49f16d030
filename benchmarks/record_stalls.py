"""Record ncu's stall reasons of every rung at 4096³, to compare with the time model's.

    python benchmarks/record_stalls.py --output benchmarks/results/h200_stalls.json [--rungs NAMES] [--size 4096]

Needs a GPU and ncu. For each rung the ratio of warps that are stalled for a reason to cycles with an issue: cycles that
a warp waits for each instruction that is issued, which is what the time model gives under the same names.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

REASONS = ("barrier", "dispatch_stall", "drain", "gmma", "imc_miss", "lg_throttle", "long_scoreboard",
           "math_pipe_throttle", "membar", "mio_throttle", "misc", "no_instruction", "not_selected", "selected",
           "short_scoreboard", "sleeping", "tex_throttle", "wait")  # fmt: skip
METRIC = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"


def launch_all(names: list[str], size: int) -> None:
    """The program that ncu profiles: every rung once, each after ``clock_of_sms``, which tells them apart."""
    from record_cycles import Clock

    from gemmsmith.bench.kernel_contender import KernelContender
    from gemmsmith.bench.rotation import Rotation
    from gemmsmith.bench.stopwatch import CudaStopwatch
    from gemmsmith.compile.compiler import compile_for
    from gemmsmith.fills import operands
    from gemmsmith.ladder.registry import rung_named
    from gemmsmith.run.cuda import cuda_device

    device = cuda_device()
    watch = CudaStopwatch(device)
    held: dict[str, Rotation] = {}
    with device.current():
        clock = Clock(device, watch.stream)
        for name in names:
            spec = rung_named(name)
            problem = spec.problem(size, size, size)
            if problem.dtype.name not in held:
                held[problem.dtype.name] = Rotation(device, problem, operands(problem), 1)
            sets = held[problem.dtype.name].sets
            enqueue = KernelContender(spec, spec.config(), device, compile_for).prepare(problem, sets, watch.stream)
            clock.read(0)
            enqueue(0)
            watch.synchronize()


def _version(ncu: str) -> str:
    told = subprocess.run([ncu, "--version"], capture_output=True, text=True, check=False).stdout
    return next((line for line in told.splitlines() if line.startswith("Version")), "unknown version")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", default="")
    parser.add_argument("--rungs", default="")
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--launch", action="store_true")
    given = parser.parse_args()
    from gemmsmith.explain.ncu import find_ncu, run_ncu, with_known_metrics
    from gemmsmith.ladder.registry import rungs

    names = given.rungs.split(",") if given.rungs else [spec.name for spec in rungs()]
    if given.launch:
        launch_all(names, given.size)
        return 0
    head: dict[str, Any] = {
        "what": "cycles that a warp waits for each issued instruction, by stall reason, from ncu", "size": given.size,
        "date": datetime.now(UTC).date().isoformat(),
        "ncu": _version(find_ncu()),
        "command": "python benchmarks/record_stalls.py --output benchmarks/results/h200_stalls.json",
        "former": [],  # rungs whose kernels have become others since
        "rungs": {},
    }  # fmt: skip
    child = [sys.executable, __file__, "--launch", "--rungs", ",".join(names), "--size", str(given.size)]
    asked = [METRIC.format(reason) for reason in REASONS]
    found = with_known_metrics(lambda metrics: run_ncu(child, metrics), asked, [])
    marks = [n for n, (kernel, _) in enumerate(found) if "clock_of_sms" in kernel]
    for name, begin, end in zip(names, marks, [*marks[1:], len(found)], strict=True):
        head["rungs"][name] = [
            {
                "kernel": kernel[:120],
                "stalls": {r: values[METRIC.format(r)] for r in REASONS if METRIC.format(r) in values},
            }
            for kernel, values in found[begin + 1 : end]
        ]
        print(name, [kernel[:60] for kernel, _ in found[begin + 1 : end]], flush=True)
    if given.output:
        Path(given.output).write_text(json.dumps(head, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
