"""Time every rung alone, with the exact clock that it ran at: what the time model is compared with.

    python benchmarks/record_cycles.py --output benchmarks/results/h200_cycles.json [--rungs NAMES] [--sizes 512,1024]

`bench` lets contenders take turns, so that under a power cap they share a clock, which NVML reads fifty times a second.
Here a kernel runs alone until its clock has settled, and each sample of cold graph launches stands between two reads of
every SM's cycle counter and the GPU's timer. So a launch has a time, a mean clock, and their product, its cycles.

Needs a GPU and nvcc. ``SHAPES`` has shapes that rungs are made for, beside cubes.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from timed_sources import file_of

HERE = Path(__file__).parent
SIZES = (512, 1024, 2048, 4096, 8192)
# What a rung is made for, with the rung that its file names.
SHAPES = {
    "wgmma_split_k": ((256, 256, 16384), (512, 512, 16384)),
    "wgmma_specialized": ((256, 256, 16384), (512, 512, 16384)),
    "wgmma_stream_k": ((3072, 2304, 4096), (4608, 2304, 8192), (8448, 2048, 4096)),
    "wgmma_cluster": ((3072, 2304, 4096), (4608, 2304, 8192), (8448, 2048, 4096)),
}
DEEP = ((4096, 4096, 8192),)  # of all rungs: the difference to 4096³ is the cost of k-tiles alone
SLOW = ("naive", "coalesced", "shared_tile")
PROBES = (  # defines of micro/outer_product.cu
    {}, {"BARRIERS": 1}, {"BARRIERS": 1, "COPIES": 1},
    {"BARRIERS": 1, "COPIES": 1, "FETCHES": 1}, {"BARRIERS": 1, "COPIES": 1, "PAD": 4},
)  # fmt: skip
_SETTLE, _SAMPLE, _TIMED = 0.12, 8e-3, 0.1  # seconds


def jobs(names: list[str], sizes: tuple[int, ...]) -> list[tuple[str, tuple[int, int, int], dict[str, int]]]:
    """(kernel, M N K, defines) of everything to time; what shares operands stands together."""
    from gemmsmith.ladder.registry import rung_named

    found = []
    for name in names:
        shapes = [(n, n, n) for n in sizes]
        if len(sizes) == len(SIZES):
            shapes += [*SHAPES.get(name, ()), *(() if name in SLOW else DEEP)]
        found += [(name, shape, {}) for shape in shapes]
    found.sort(key=lambda job: (rung_named(job[0]).dtypes[0].name, job[1]))
    probes = [("outer_product.cu", (2048, 2048, k), one) for k in (2048, 4096) for one in PROBES]
    return [*(probes if len(sizes) == len(SIZES) else ()), *found]


def kernel(name: str, defines: dict[str, int]) -> tuple[Any, Any]:
    from gemmsmith.cli.options.kernel import KernelOptions, find_kernel

    if name.endswith(".cu"):
        return find_kernel(str(file_of(name)), KernelOptions(define=[f"{k}={v}" for k, v in defines.items()]))
    return find_kernel(name)


def compiled(job: tuple[str, tuple[int, int, int], dict[str, int]]) -> str:
    """Compile in another process, into the cache."""
    from gemmsmith.call.launch_plan import plan_launches
    from gemmsmith.compile.compiler import compile_for
    from gemmsmith.kernel.spec import Addresses

    name, shape, defines = job
    spec, config = kernel(name, defines)
    plan = plan_launches(spec, config, spec.problem(*shape), Addresses(1 << 20, 2 << 20, 3 << 20))
    for each in (*plan.prologue, *plan.fallback, plan.kernel):
        with suppress(Exception):
            compile_for(each.spec, each.config, each.problem, "sm_90a" if each.spec.arch_specific == 90 else "sm_90")
    return name


class Clock:
    """The cycle counters of all SMs beside the GPU's timer."""

    def __init__(self, device: Any, stream: int) -> None:
        from gemmsmith.run.cuda import checked, driver_bindings

        self.device, self.stream, self.cu, self.checked = device, stream, driver_bindings(), checked
        with tempfile.TemporaryDirectory() as folder:
            cubin = Path(folder) / "clock.cubin"
            source = str(HERE / "micro" / "clock_of_sms.cu")
            subprocess.run(["nvcc", "-cubin", "-arch=sm_90a", source, "-o", str(cubin)], check=True)
            image = cubin.read_bytes()
        with device.current():
            self.module = checked(self.cu.cuModuleLoadData(image), "loading the clock")
            self.function = checked(self.cu.cuModuleGetFunction(self.module, b"clock_of_sms"), "finding the clock")
        self.places = [device.allocate(16 * device.sms) for _ in range(2)]

    def read(self, which: int) -> None:
        import ctypes

        given = ((self.places[which],), (ctypes.c_void_p,))
        self.checked(self.cu.cuLaunchKernel(self.function, self.device.sms, 1, 1, 32, 1, 1, 0, self.stream, given, 0),
                     "reading the clock")  # fmt: skip

    def mhz(self) -> float:
        import numpy as np

        one, other = (
            self.device.read(place, 16 * self.device.sms).view(np.uint64).reshape(-1, 2) for place in self.places
        )
        seen = (one[:, 0] > 0) & (other[:, 0] > one[:, 0])
        return float(np.median((other[seen, 0] - one[seen, 0]) / (other[seen, 1] - one[seen, 1]) * 1e3))


def timed(rig: Any, clock: Clock, enqueue: Any, sets: int) -> dict[str, float]:
    """A kernel alone, until its clock has settled, then in samples; medians, and their spread."""
    watch = rig.stopwatch
    once = min(watch.seconds(lambda n=n: enqueue(n)) for n in range(2))
    count = max(1, math.ceil(_SAMPLE / once))
    count = min(2000, max(count, min(sets, math.ceil(0.05 / once))))

    def several() -> None:
        for n in range(count):
            enqueue(n % sets)

    replay = watch.capture(several)
    began = time.perf_counter()
    watts = math.nan
    while time.perf_counter() - began < _SETTLE and once < 1:
        replay(), replay()
        watts = rig.probe.read().power_w
        watch.synchronize()
    us, mhz = [], []
    began = time.perf_counter()
    while not us or (time.perf_counter() - began < _TIMED and len(us) < 15):
        if once < 0.02:
            replay()  # keeps the GPU busy while the sample is enqueued
        clock.read(0)
        us.append(watch.seconds(replay) / count * 1e6)
        clock.read(1)
        watch.synchronize()
        mhz.append(clock.mhz())
    replay.close()
    cycles = [a * b for a, b in zip(us, mhz, strict=True)]
    return {"us": round(median(us), 3), "mhz": round(median(mhz), 1), "cycles": round(median(cycles)),
            "spread": round((max(cycles) - min(cycles)) / median(cycles), 4), "launches": count, "samples": len(us),
            "watts": round(watts, 1)}  # fmt: skip


def measured(chosen: list[Any], output: str) -> None:
    from gemmsmith.bench.kernel_contender import KernelContender
    from gemmsmith.bench.rig import cuda_rig
    from gemmsmith.bench.rotation import Rotation
    from gemmsmith.compile.compiler import compile_for
    from gemmsmith.fills import operands
    from gemmsmith.run.cuda import cuda_device

    device = cuda_device()
    head: dict[str, Any] = {
        "what": "cold graph launches of single kernels, each alone, with the exact mean clock",
        "gpu": device.name, "date": datetime.now(UTC).date().isoformat(),
        "command": "python benchmarks/record_cycles.py --output benchmarks/results/h200_cycles.json",
    }  # fmt: skip
    spec, config = kernel("naive", {})
    head["compiler"] = compile_for(spec, config, spec.problem(512, 512, 512), device.arch).compiler
    rows: list[dict[str, Any]] = []
    held: tuple[Any, Any] | None = None
    with cuda_rig(device) as rig, device.current():
        clock = Clock(device, rig.stopwatch.stream)
        for name, shape, defines in chosen:
            spec, config = kernel(name, defines)
            problem = spec.problem(*shape)
            row = {"kernel": name, "m": shape[0], "n": shape[1], "k": shape[2], "dtype": str(problem.dtype)}
            row |= {"defines": defines} if defines else {}
            try:
                if held is None or held[0] != problem:
                    if held is not None:
                        held[1].close()
                        held = None
                    held = problem, Rotation(rig.memory, problem, operands(problem, "normal", 0), rig.l2_bytes)
                sets = held[1].sets
                contender = KernelContender(spec, config, device, compile_for)
                enqueue = contender.prepare(problem, sets, rig.stopwatch.stream)
                row |= {"config": contender.identity.config, "digest": contender.identity.digest}
                row |= timed(rig, clock, enqueue, len(sets))
                if row["us"] < 1000:
                    row["hot"] = timed(rig, clock, lambda _, go=enqueue: go(0), 1)
                contender.close()
            except Exception as error:
                row["error"] = f"{type(error).__name__}: {error}"[:200]
            rows.append(row)
            print(json.dumps(row), flush=True)
            if output:
                lines = ",\n".join("  " + json.dumps(each) for each in rows)
                Path(output).write_text(f'{json.dumps(head, indent=1)[:-2]},\n "rows": [\n{lines}\n ]\n}}\n', "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", default="")
    parser.add_argument("--rungs", default="")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--jobs", type=int, default=12)
    given = parser.parse_args()
    from gemmsmith.ladder.registry import rungs

    names = given.rungs.split(",") if given.rungs else [spec.name for spec in rungs()]
    chosen = jobs(names, tuple(int(n) for n in given.sizes.split(",")))
    first = {(job[0], str(job[2]), len(set(job[1]))): job for job in chosen}
    with ProcessPoolExecutor(given.jobs) as pool:
        for _ in pool.map(compiled, first.values()):
            pass
    print("compiled", file=sys.stderr, flush=True)
    measured(chosen, given.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
