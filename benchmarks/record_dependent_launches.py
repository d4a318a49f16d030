"""Record when the launches of a product begin, by the GPU's timer, with programmatic dependent launch (PDL) or without.

    python benchmarks/record_dependent_launches.py --output benchmarks/results/h200_dependent_launches.json
    python benchmarks/record_dependent_launches.py --compile        without a GPU: whether everything compiles

"micro": rows of micro/dependent_launches.cu. "products": products of rungs, all of whose launches read the timer as a
warp begins, behind griddepcontrol.wait, and as it ends. Two copies of each kernel take turns, so that two products in
a row can be read. ``pdl``: as the package launches them, or without the attribute; ``cold``: a graph of products with
operands in DRAM, or the same product over and over. ``us``: of a product; ``stamped_us``: with readings of the timer.

"launches" has, of each launch of a product, nanoseconds from the end of the last block of the product before, as means
over graphs: ``begin`` of the first, the median and the last warp, ``waited`` (the first and the last return of the
wait; none without one), ``end`` of the first, the median and the last warp.

Needs a GPU of sm_90 and nvcc; takes a minute.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from record_copy_rows import micro
from record_cycles import Clock, timed

Job = tuple[str, tuple[int, int, int]]
"""A rung, and M N K."""
JOBS: tuple[Job, ...] = tuple(
    (name, (n, n, n)) for n in (512, 1024)
    for name in ("fp32_tensor_fp16x3", "fp32_wgmma_registers", "fp32_wgmma_bf16x6", "fp32_wgmma_fp16x3",
                 "wgmma_stream_k", "wgmma_tma", "mma_pipelined")
)  # fmt: skip
COPIES = ("even", "odd")
SAMPLES, LEAST = 16, 12  # graphs that are read, and products of one
MOST_WARPS = 16384
MOST_SECONDS = 25  # of the micro-benchmark

HEAD = """\
#include "ptx/pdl.cuh"
__device__ unsigned launch_stamps[4 * MOST_WARPS];
__device__ __forceinline__ void launch_stamp(int which) {
    unsigned t;
    asm volatile("mov.u32 %0, %%globaltimer_lo;" : "=r"(t)::"memory");
    unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    unsigned warp = block * (blockDim.x / 32) + threadIdx.x / 32;
    if (warp < MOST_WARPS) launch_stamps[4 * warp + which] = t;
}
struct LaunchStamps {
    __device__ __forceinline__ LaunchStamps() { launch_stamp(0); }
    __device__ __forceinline__ ~LaunchStamps() { if (threadIdx.x % 32 == 0) launch_stamp(2); }
};
#define pdl_wait() (pdl_wait(), launch_stamp(1))
#define pdl_launch_and_wait() (pdl_launch_and_wait(), launch_stamp(1))
""".replace("MOST_WARPS", str(MOST_WARPS))


def stamped(text: str) -> str:
    """A kernel's text with readings of the timer: as a warp begins, behind its wait, and wherever it returns."""
    head, begin, body = text.partition('extern "C" __global__')
    signature, brace, body = body.partition("{\n")
    if not brace:
        raise ValueError("no kernel in this file")
    return f"{HEAD}\n{head}{begin}{signature}{brace}    LaunchStamps stamps;\n{body}"


def plan_of(job: Job, folder: Path | None = None, pdl: bool = True) -> Any:
    """The launches of a product; with readings of the timer if there is a folder for their texts."""
    from gemmsmith.call.binding import specialized_config
    from gemmsmith.call.launch_plan import plan_launches
    from gemmsmith.kernel.spec import Addresses
    from gemmsmith.ladder.registry import rung_named

    spec = rung_named(job[0])
    problem = spec.problem(*job[1])
    places = Addresses(1 << 20, 2 << 20, 3 << 20)  # aligned as allocations are
    config = specialized_config(spec, spec.config({}), problem, places)

    def changed(launch: Any) -> Any:
        if folder is not None:
            folder.mkdir(exist_ok=True)
            path = folder / launch.spec.source.name
            if not path.exists():
                path.write_text(stamped(launch.spec.source.read_text(encoding="utf-8")), encoding="utf-8")
            launch = replace(launch, spec=replace(launch.spec, source=path))
        return launch if pdl else replace(launch, geometry=replace(launch.geometry, pdl=False))

    plan = plan_launches(spec, config, problem, places)
    return replace(plan, prologue=tuple(map(changed, plan.prologue)), fallback=tuple(map(changed, plan.fallback)),
                   kernel=changed(plan.kernel))  # fmt: skip


def kernels(folder: Path) -> list[tuple[Job, int, bool]]:
    """(product, launch, whether it reads the timer) of every kernel that is compiled."""
    found: dict[Any, tuple[Job, int, bool]] = {}
    for job in JOBS:
        for n, each in enumerate(plan_of(job, folder / COPIES[0]).launches):
            for stamps in (False, True):
                found.setdefault((each.spec.name, str(each.config), each.problem.dtype, stamps), (job, n, stamps))
    return list(found.values())


def compiled(folder: Path, which: tuple[Job, int, bool]) -> str:
    """Compile in another process, into the cache."""
    from gemmsmith.compile.compiler import compile_for

    job, n, stamps = which
    each = plan_of(job, folder / COPIES[0] if stamps else None).launches[n]
    one = compile_for(each.spec, each.config, each.problem, "sm_90a" if each.spec.arch_specific == 90 else "sm_90")
    of = one.resources
    return f"{one.compiler}: {each.spec.name}, timer {stamps}, {of.registers} registers, {of.spill_stores} spilled"


def timeline(device: Any, earlier: Any, latest: Any) -> list[list[int]]:
    """Of each launch of the latest product: begin, waited and end, from the end of the product before."""

    def words(loaded: Any) -> Any:
        launch = loaded.geometry
        warps = min(MOST_WARPS, int(np.prod(launch.grid)) * (int(np.prod(launch.block)) // 32))
        address, nbytes = device.symbol(loaded.loaded, "launch_stamps")
        return device.read(address, nbytes).view(np.uint32).reshape(-1, 4)[:warps]

    zero = words(earlier.launches[-1])[:, 2]
    start = np.uint32(zero[0] + np.uint32(max(0, int((zero - zero[0]).astype(np.int32).max()))))
    found = []
    for each in latest.launches:
        made = words(each)
        begin, end = ((made[:, n] - start).astype(np.int32) for n in (0, 2))
        waited = (made[made[:, 1] > 0, 1] - start).astype(np.int32)
        row = [begin.min(), np.median(begin), begin.max(), end.min(), np.median(end), end.max()]
        found.append([int(n) for n in (*row, *((waited.min(), waited.max()) if len(waited) else ()))])
    return found


class Bench:
    def __init__(self, rig: Any, device: Any, folder: Path) -> None:
        self.rig, self.device, self.folder = rig, device, folder
        self.clock = Clock(device, rig.stopwatch.stream)

    def rows(self, job: Job) -> list[dict[str, Any]]:
        """Cold and hot, with PDL and without."""
        from gemmsmith.bench.rotation import Rotation
        from gemmsmith.fills import operands
        from gemmsmith.ladder.registry import rung_named

        problem = rung_named(job[0]).problem(*job[1])
        rotation = Rotation(self.rig.memory, problem, operands(problem, "normal", 0), self.rig.l2_bytes)
        try:
            return [self.row(job, rotation.sets[: 1 if hot else None], pdl) for hot in (0, 1) for pdl in (True, False)]
        finally:
            rotation.close()

    def row(self, job: Job, sets: Any, pdl: bool) -> dict[str, Any]:
        from gemmsmith.call.binding import load_plan
        from gemmsmith.kernel.spec import Addresses

        plans = [load_plan(self.device, plan_of(job, self.folder / copy, pdl)) for copy in COPIES]
        plain = load_plan(self.device, plan_of(job, None, pdl))
        most = max(each.plan.workspace_bytes for each in (plain, *plans))
        workspace = self.device.allocate(most) if most else 0
        places = [Addresses(each.a, each.b, each.c) for each in sets]
        watch = self.rig.stopwatch
        row: dict[str, Any] = {"kernel": job[0], "m": job[1][0], "n": job[1][1], "k": job[1][2], "pdl": pdl,
                               "cold": len(sets) > 1}  # fmt: skip
        once = self.device.launcher([plain.steps(each, workspace) for each in places], watch.stream)
        once(0)
        watch.synchronize()
        figures = timed(self.rig, self.clock, lambda n: once(n % len(sets)), len(sets))
        row |= {name: figures[name] for name in ("us", "mhz", "cycles")}
        count = max(LEAST, len(sets)) // 2 * 2
        steps = [plans[n % 2].steps(places[n % len(places)], workspace) for n in range(count)]
        start = self.device.launcher(steps, watch.stream)

        def all_of_them() -> None:
            for n in range(count):
                start(n)

        replay = watch.capture(all_of_them)
        seen, us = [], []
        for _ in range(SAMPLES + 4):
            us.append(watch.seconds(replay) / count * 1e6)
            watch.synchronize()
            seen.append(timeline(self.device, *plans))
        replay.close()
        means = [np.mean(of, axis=0) for of in zip(*seen[4:], strict=True)]
        row["stamped_us"] = round(float(np.median(us[4:])), 3)
        row["launches"] = [
            {"kernel": each.spec.name, "blocks": int(np.prod(loaded.geometry.grid)), "pdl": each.geometry.pdl,
             "begin": _rounded(of[:3]), "waited": _rounded(of[6:]), "end": _rounded(of[3:6])}
            for each, loaded, of in zip(plans[1].plan.launches, plans[1].launches, means, strict=True)
        ]  # fmt: skip
        if workspace:
            self.device.free(workspace)
        return row


def _rounded(values: Any) -> list[int]:
    return [round(float(each)) for each in values]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", default="")
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--compile", action="store_true", help="compile only, without a GPU")
    parser.add_argument("--seconds", type=float, default=70, help="no further product is begun after so long")
    given = parser.parse_args()
    began = time.perf_counter()
    head: dict[str, Any] = {
        "what": "when launches of a product begin, with and without programmatic dependent launch, by the GPU's timer",
        "date": datetime.now(UTC).date().isoformat(),
        "command": "python benchmarks/record_dependent_launches.py --output "
                   "benchmarks/results/h200_dependent_launches.json",
    }  # fmt: skip
    pairs: list[str] = []
    rows: list[str] = []

    def write() -> None:
        if given.output:
            both = (("micro", pairs), ("products", rows))
            lists = ",\n".join(f' "{name}": [\n  ' + ",\n  ".join(each) + "\n ]" for name, each in both)
            Path(given.output).write_text(f"{json.dumps(head, indent=1)[:-2]},\n{lists}\n}}\n", "utf-8")

    def told(what: str) -> None:
        print(f"{time.perf_counter() - began:.0f} s: {what}", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(1) as thread:
        folder = Path(name)
        program = thread.submit(micro, "dependent_launches", folder)
        with ProcessPoolExecutor(given.jobs) as pool:
            for line in pool.map(partial(compiled, folder), kernels(folder)):
                print(line, flush=True)
                head["compiler"] = f"nvcc (micro), {line.partition(':')[0]} (products)"
        built = program.result()
        if given.compile:
            return 0
        told("compiled")
        try:
            done = subprocess.run([str(built)], capture_output=True, text=True, timeout=MOST_SECONDS)
            pairs += done.stdout.splitlines()
            print(done.stderr, file=sys.stderr)
        except subprocess.TimeoutExpired as error:
            text = error.stdout or b""
            pairs += (text.decode() if isinstance(text, bytes) else text).splitlines()[:-1]
            print(error, file=sys.stderr)
        told(f"{len(pairs)} rows of the micro-benchmark")

        from gemmsmith.bench.rig import cuda_rig
        from gemmsmith.run.cuda import cuda_device

        device = cuda_device()
        head["gpu"] = device.name
        write()
        with cuda_rig(device) as rig, device.current():
            bench = Bench(rig, device, folder)
            for job in JOBS:
                if time.perf_counter() - began > given.seconds:
                    told(f"left out: {job}")
                    continue
                try:
                    made = bench.rows(job)
                except Exception as error:
                    made = [{"kernel": job[0], "m": job[1][0], "error": f"{type(error).__name__}: {error}"[:300]}]
                rows += map(json.dumps, made)
                told(rows[-1][:200])
                write()
    told("done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
