"""How fast the simulator is: every simulated rung at 256×256×256 on one core.

    python benchmarks/simulator_speed.py [OUTPUT.json] [--size 256] [--rung NAME …]

Times what one product of each rung takes on random data: reading its PTX, lowering it, and the launches. Compiling and
verifying are excluded.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from gemmsmith import __version__
from gemmsmith.call.binding import bind, workspace_bytes
from gemmsmith.fills import operands
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.ladder.registry import simulated_rungs
from gemmsmith.problem import Problem
from gemmsmith.run.memory import upload
from gemmsmith.sim.device import SimDevice


def seconds(spec: KernelSpec, size: int) -> float:
    """Wall time of one product, bundling of its first wave included."""
    problem, config = Problem(size, size, size, dtype=spec.dtypes[0]), spec.config()
    device, data = SimDevice(), operands(problem, "normal", 0)
    addresses = Addresses(*(upload(device, values) for values in (data.a, data.b, data.c)))
    workspace = device.allocate(workspace_bytes(spec, config, problem, addresses))
    bind(device, spec, config, problem, addresses, workspace)  # fills the compile cache
    started = time.perf_counter()
    for step in bind(device, spec, config, problem, addresses, workspace):
        device.launch(step.loaded, step.launch)
    return time.perf_counter() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", nargs="?", type=Path, help="JSON file to write")
    parser.add_argument("--size", type=int, default=256, help="M, N and K")
    parser.add_argument("--rung", action="append", default=[], help="only this rung; may be repeated")
    asked = parser.parse_args()
    rungs = [spec for spec in simulated_rungs() if not asked.rung or spec.name in asked.rung]
    if unknown := set(asked.rung) - {spec.name for spec in rungs}:
        parser.error(f"no simulated rung {', '.join(sorted(unknown))}")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    size = asked.size
    times = {spec.name: round(seconds(spec, size), 3) for spec in rungs}
    record: dict[str, Any] = {
        "what": f"seconds to simulate each rung at {size}x{size}x{size} on one core", "origin": "measured",
        "machine": platform.machine(), "python": platform.python_version(), "numpy": np.__version__,
        "gemmsmith": __version__, "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": "python benchmarks/simulator_speed.py", "size": size, "seconds": times,
        "total": round(sum(times.values()), 2),
    }  # fmt: skip
    for name, value in times.items():
        print(f"{name:20} {value:6.2f} s")
    print(f"{'all':20} {record['total']:6.2f} s")
    if asked.output is not None:
        asked.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
