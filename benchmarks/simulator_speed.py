"""How fast the simulator is: every simulated rung at 256×256×256 on one core.

    python benchmarks/simulator_speed.py [OUTPUT.json]

Times one launch of each rung (compiling and verifying excluded) on random data.
"""

from __future__ import annotations

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
from gemmsmith.call.binding import bind
from gemmsmith.compile.compiler import compile_for
from gemmsmith.fills import operands
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.ladder.registry import simulated_rungs
from gemmsmith.problem import Problem
from gemmsmith.run.memory import upload
from gemmsmith.sim.device import SimDevice

SIZE = 256


def seconds(spec: KernelSpec) -> float:
    """Wall time of one launch, bundling of its first wave included."""
    problem = Problem(SIZE, SIZE, SIZE, dtype=spec.dtypes[0])
    device, data = SimDevice(), operands(problem, "normal", 0)
    addresses = [upload(device, values) for values in (data.a, data.b, data.c)]
    compile_for(spec, spec.config(), problem, device.arch)
    started = time.perf_counter()
    for step in bind(device, spec, spec.config(), problem, Addresses(*addresses)):
        device.launch(step.loaded, step.launch)
    return time.perf_counter() - started


def main() -> int:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    times = {spec.name: round(seconds(spec), 3) for spec in simulated_rungs()}
    record: dict[str, Any] = {
        "what": f"seconds to simulate each rung at {SIZE}x{SIZE}x{SIZE} on one core", "origin": "measured",
        "machine": platform.machine(), "python": platform.python_version(), "numpy": np.__version__,
        "gemmsmith": __version__, "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": "python benchmarks/simulator_speed.py", "size": SIZE, "seconds": times,
        "total": round(sum(times.values()), 2),
    }  # fmt: skip
    for name, value in times.items():
        print(f"{name:16} {value:6.2f} s")
    print(f"{'all':16} {record['total']:6.2f} s")
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
