"""Record what copies by rows cost, and how blocks begin and end: micro-benchmarks, and beside them rungs over K.

    python benchmarks/record_copy_rows.py --output benchmarks/results/h200_copy_rows.json [--jobs 12]
    python benchmarks/record_copy_rows.py --set short --output benchmarks/results/h200_store_shapes.json
    python benchmarks/record_copy_rows.py --compile        without a GPU: whether everything compiles

Set "rows": micro/copy_rows.cu, and rungs that copy by cp.async, at K from 256 to 4096. Set "short":
micro/store_shapes.cu, rungs at K = 64 and 128, and products that have launches before their kernel.

"micro": rows of the micro-benchmark. "rungs": cycles of cold and hot launches, each kernel alone, as record_cycles.py
times them; "apart": the same of each launch of a product by itself, and of all but the last ("before"). A ``stamped``
rung reads the clock at its start, before each wait for copies, after each barrier, before its outputs and at its end;
"cold_clocks" and "hot_clocks" have the mean over warps of each reading, from the start of the block's first warp;
``spread``, between the first and the last warp of a block; ``sm_ns``, from the start of the first block to the end of
the last by the GPU's timer.

Needs a GPU of sm_90 and nvcc; takes two minutes.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from record_cycles import Clock, timed

HERE = Path(__file__).parent
ARCH = "90a"
K = (256, 512, 1024, 2048, 4096)
SHORT = ("mma_pipelined", "mma_swizzled", "wmma", "async_copy", "padded", "wgmma_tma", "wgmma_specialized",
         "wgmma_persistent")  # fmt: skip
SPLIT = ("fp32_tensor_fp16x3", "fp32_wgmma_bf16x6", "fp32_wgmma_fp16x3", "fp32_wgmma_registers")
MOST_SECONDS = 40  # of the micro-benchmark
OVER_K = ("async_copy", "mma_pipelined", "wgmma_tma", "mma_swizzled", "fp32_tensor_fp16x3")
MOST_K = 1024  # up to which the launches of a product are timed by themselves
Job = tuple[str, dict[str, int], tuple[int, int, int], bool]
"""A rung, its configuration, M N K, and whether it is stamped."""

STAMPS = r"""
constexpr int MOST_STAMPS = 256;
__device__ unsigned stamps_of_warps[MOST_STAMPS * 4096];
struct Stamps {
    unsigned* at;
    unsigned count;
    unsigned long long began;
    __device__ __forceinline__ Stamps() : count(4) {
        unsigned block = blockIdx.y * gridDim.x + blockIdx.x;
        at = stamps_of_warps + MOST_STAMPS * (block * (blockDim.x / 32) + threadIdx.x / 32);
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(began)::"memory");
        (*this)();
    }
    __device__ __forceinline__ void operator()() {
        unsigned t;
        asm volatile("mov.u32 %0, %%clock;" : "=r"(t)::"memory");
        if (threadIdx.x % 32 == 0 && count < MOST_STAMPS) at[count] = t;
        ++count;
    }
    __device__ __forceinline__ void end() {
        (*this)();
        unsigned long long ended;
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ended)::"memory");
        if (threadIdx.x % 32 == 0) at[0] = count, at[1] = unsigned(began), at[2] = unsigned(ended);
    }
};
"""
BEFORE = (r"cp_async_wait<", r"const auto epilogue = epilogue_at", r"if \(vectors_fit<VEC>\(C, ldc\) && c\.holds",
          r"unscale_warp_tile\(acc, exponents_at")  # fmt: skip
AFTER = (r"__syncthreads\(\);", r"!fp16_accepted\(workspace\)\) return;")


def stamped(text: str) -> str:
    """A rung's text with readings of the clock."""
    head, begin, body = text.partition('extern "C" __global__')
    signature, brace, body = body.partition("{\n")
    for place in BEFORE:
        body = re.sub(rf"(?m)^(\s*)({place})", r"\1stamp(); \2", body)
    for place in AFTER:
        body = re.sub(rf"({place})", r"\1 stamp();", body)
    inside, last, _ = body.rpartition("}")
    return f"{head}{STAMPS}\n{begin}{signature}{brace}    Stamps stamp;\n{inside}    stamp.end();\n{last}\n"


def short_jobs() -> list[Job]:
    """Products of which the beginning and the end take most of the time, and products with launches before them."""
    made: list[Job] = []
    for m, n in ((128, 256), (512, 512), (1024, 1024), (2048, 2048)):
        made += [(name, {}, (m, n, k), False) for k in (64, 128) for name in SHORT]
    made += [(name, {}, (n, n, k), False) for n, k in ((512, 512), (1024, 512), (1024, 1024), (2048, 1024))
             for name in SPLIT]  # fmt: skip
    return sorted(made, key=_operands)


def jobs() -> list[Job]:
    """What is timed; products that share operands stand together."""
    made: list[Job] = []
    made += [(name, {}, (n, n, k), False) for n in (512, 1024) for k in K for name in OVER_K]
    for k in (512, 1024, 2048):
        n = 512
        made += [("async_copy", {"STAGES": 3}, (n, n, k), False), ("async_copy", {"BK": 32}, (n, n, k), False),
                 ("mma_pipelined", {"STAGES": 3}, (n, n, k), False),
                 ("mma_pipelined", {"BK_BYTES": 128}, (n, n, k), False)]  # fmt: skip
    made += [("fp32_wgmma_registers", {}, (n, n, k), False) for n in (512, 1024) for k in (512, 1024)]
    made += [("fp32_tensor_bf16x6", {}, (512, 512, k), False) for k in (512, 1024)]
    made += [(name, {}, (n, n, k), False) for n, k in ((512, 512), (1024, 1024), (2048, 1024), (2048, 2048))
             for name in ("padded", "rectangular")]  # fmt: skip
    made += [(name, {}, (n, n, k), True) for n, k in ((512, 512), (512, 1024), (1024, 512), (1024, 1024))
             for name in ("async_copy", "mma_pipelined", "fp32_tensor_fp16x3")]  # fmt: skip
    made += [(name, {}, (n, n, 256), True) for n in (512, 2048) for name in ("padded", "rectangular")]
    return sorted(made, key=lambda job: (job[3], _operands(job)))


def _operands(job: Job) -> tuple[Any, ...]:
    from gemmsmith.ladder.registry import rung_named

    return rung_named(job[0]).dtypes[0].name, job[2]


def kernel(job: Job, folder: Path) -> tuple[Any, Any]:
    from gemmsmith.ladder.registry import rung_named

    name, config, _, with_stamps = job
    spec = rung_named(name)
    if with_stamps:
        path = folder / spec.source.name
        path.write_text(stamped(spec.source.read_text(encoding="utf-8")), encoding="utf-8")
        spec = replace(spec, source=path)
    return spec, spec.config(config)


def compiled(job: Job, folder: Path) -> str:
    """Compile in another process, into the cache."""
    from gemmsmith.call.launch_plan import plan_launches
    from gemmsmith.compile.compiler import compile_for
    from gemmsmith.kernel.spec import Addresses

    spec, config = kernel(job, folder)
    plan = plan_launches(spec, config, spec.problem(*job[2]), Addresses(1 << 20, 2 << 20, 3 << 20))
    made = ""
    for each in (*plan.prologue, *plan.fallback, plan.kernel):
        arch = "sm_90a" if each.spec.arch_specific == 90 else "sm_90"
        one = compile_for(each.spec, each.config, each.problem, arch)
        made = f"{one.compiler}: {job}, {one.resources.registers} registers, {one.resources.spill_stores} spilled"
    return made


def micro(name: str, folder: Path) -> Path:
    program = folder / name
    code = f"arch=compute_{ARCH},code=sm_{ARCH}"
    source = str(HERE / "micro" / f"{name}.cu")
    subprocess.run(["nvcc", "-O3", "-std=c++17", "-gencode", code, source, "-o", str(program)], check=True)
    return program


def stamps(device: Any, loaded: Any, warps: int) -> dict[str, Any]:
    """What the warps of the latest launch wrote; ``warps`` of a block."""
    address, nbytes = device.symbol(loaded, "stamps_of_warps")
    words = device.read(address, nbytes).view(np.uint32).reshape(-1, 256)
    used = words[words[:, 0] > 0]
    count = min(int(used[0, 0]), 256)
    clocks = used[:, 4:count].reshape(-1, warps, count - 4)
    apart = (clocks - clocks[:, :1, :1]).astype(np.int32)  # from the start of each block's first warp
    timer = used[:, 1:3].astype(np.int64)
    return {
        "blocks": len(apart), "stamps": np.round(apart.mean(axis=(0, 1)), 1).tolist(),
        "spread": np.round(np.ptp(apart, axis=1).mean(axis=0), 1).tolist(),
        "sm_ns": int(timer[:, 1].max() - timer[:, 0].min()),
        "starts_ns": np.percentile(timer[:, 0] - timer[:, 0].min(), (50, 100)).astype(int).tolist(),
        "ends_ns": np.percentile(timer[:, 1] - timer[:, 0].min(), (0, 50, 100)).astype(int).tolist(),
    }  # fmt: skip


class Bench:
    """Times products with the operands that the last one had, if they are the same."""

    def __init__(self, rig: Any, device: Any, folder: Path) -> None:
        self.rig, self.device, self.folder = rig, device, folder
        self.clock = Clock(device, rig.stopwatch.stream)
        self.held: tuple[Any, Any] | None = None

    def operands(self, problem: Any) -> Any:
        from gemmsmith.bench.rotation import Rotation
        from gemmsmith.fills import operands

        if self.held is None or self.held[0] != problem:
            if self.held is not None:
                self.held[1].close()
            self.held = problem, Rotation(self.rig.memory, problem, operands(problem, "normal", 0), self.rig.l2_bytes)
        return self.held[1].sets

    def row(self, job: Job) -> dict[str, Any]:
        from gemmsmith.bench.kernel_contender import KernelContender
        from gemmsmith.call.binding import load_plan, specialized_config
        from gemmsmith.call.launch_plan import plan_launches
        from gemmsmith.compile.compiler import compile_for
        from gemmsmith.kernel.spec import Addresses

        spec, config = kernel(job, self.folder)
        problem = spec.problem(*job[2])
        sets = self.operands(problem)
        contender = KernelContender(spec, config, self.device, compile_for)
        enqueue = contender.prepare(problem, sets, self.rig.stopwatch.stream)
        row: dict[str, Any] = {"config": contender.identity.config, "digest": contender.identity.digest}
        row |= timed(self.rig, self.clock, enqueue, len(sets))
        row["hot"] = timed(self.rig, self.clock, lambda _: enqueue(0), 1)
        contender.close()
        places = [Addresses(each.a, each.b, each.c) for each in sets]
        config = specialized_config(spec, config, problem, places[0])
        plan = plan_launches(spec, config, problem, places[0])
        workspace = self.device.allocate(plan.workspace_bytes) if plan.workspace_bytes else 0
        loaded = load_plan(self.device, plan, compile_for)
        products = [loaded.steps(each, workspace) for each in places]
        whole = self.device.launcher(products, self.rig.stopwatch.stream)
        whole(0)
        self.rig.stopwatch.synchronize()
        names = [each.spec.name for each in plan.launches]
        if len(names) > 1 and not job[3] and problem.k <= MOST_K:
            row["apart"] = []
            parts = [(name, slice(n, n + 1)) for n, name in enumerate(names)] + [("before", slice(0, -1))]
            for name, part in parts:
                some = self.device.launcher([each[part] for each in products], self.rig.stopwatch.stream)
                figures = timed(self.rig, self.clock, some, len(sets))
                row["apart"].append({"kernel": name, "us": figures["us"], "cycles": figures["cycles"]})
            whole(0)
        if job[3]:
            warps = products[0][-1].launch.geometry.threads // 32
            for name, order in (("cold_clocks", range(len(sets) - 1, -1, -1)), ("hot_clocks", (0, 0, 0))):
                address, nbytes = self.device.symbol(products[0][-1].loaded, "stamps_of_warps")
                self.device.write(address, np.zeros(nbytes, np.uint8))
                for n in order:
                    whole(n)
                self.rig.stopwatch.synchronize()
                row[name] = stamps(self.device, products[0][-1].loaded, warps)
        if workspace:
            self.device.free(workspace)
        return row


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", default="")
    parser.add_argument("--set", default="rows", choices=("rows", "short"))
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--compile", action="store_true", help="compile only, without a GPU")
    parser.add_argument("--seconds", type=float, default=110, help="no further product is begun after so long")
    given = parser.parse_args()
    began = time.perf_counter()
    short = given.set == "short"
    source = "store_shapes" if short else "copy_rows"
    head: dict[str, Any] = {
        "what": "how fast an SM stores, by the shape of its stores, and rungs at a short K" if short else
                "copies by cp.async of rows of 32 to 256 bytes, and rungs that copy by cp.async, over K",
        "date": datetime.now(UTC).date().isoformat(),
        "command": f"python benchmarks/record_copy_rows.py --set {given.set} --output "
                   f"benchmarks/results/h200_{source}.json",
    }  # fmt: skip
    copies: list[str] = []
    rows: list[str] = []

    def write() -> None:
        if given.output:
            both = (("micro", copies), ("rungs", rows))
            lists = ",\n".join(f' "{name}": [\n  ' + ",\n  ".join(each) + "\n ]" for name, each in both)
            Path(given.output).write_text(f"{json.dumps(head, indent=1)[:-2]},\n{lists}\n}}\n", "utf-8")

    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(1) as thread:
        folder = Path(name)
        program = thread.submit(micro, source, folder)
        chosen = short_jobs() if short else jobs()
        first = {(job[0], str(job[1]), job[3]): job for job in chosen}
        with ProcessPoolExecutor(given.jobs) as pool:
            for line in pool.map(compiled, first.values(), [folder] * len(first)):
                print(line, flush=True)
                head["compiler"] = f"nvcc (micro), {line.partition(':')[0]} (rungs)"
        if given.compile:
            program.result()
            return 0
        try:
            done = subprocess.run([str(program.result())], capture_output=True, text=True, timeout=MOST_SECONDS)
            copies += done.stdout.splitlines()
            print(done.stderr, file=sys.stderr)
        except subprocess.SubprocessError as error:
            print(error, file=sys.stderr)
        print(
            f"{len(copies)} rows of the micro-benchmark after {time.perf_counter() - began:.0f} s",
            file=sys.stderr,
            flush=True,
        )

        from gemmsmith.bench.rig import cuda_rig
        from gemmsmith.run.cuda import cuda_device

        device = cuda_device()
        head["gpu"] = device.name
        write()
        with cuda_rig(device) as rig, device.current():
            bench = Bench(rig, device, folder)
            for job in sorted(chosen, key=lambda job: not job[3]):
                if time.perf_counter() - began > given.seconds:
                    print(f"left out: {job}", file=sys.stderr, flush=True)
                    continue
                row = {"kernel": job[0], "m": job[2][0], "n": job[2][1], "k": job[2][2], "defines": job[1],
                       "stamped": job[3]}  # fmt: skip
                try:
                    row |= bench.row(job)
                except Exception as error:
                    row["error"] = f"{type(error).__name__}: {error}"[:300]
                rows.append(json.dumps(row))
                print(rows[-1][:200], flush=True)
                write()
    print(f"{time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
