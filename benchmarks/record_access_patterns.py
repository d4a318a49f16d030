"""Record what the hardware counts for known access patterns, as ground truth for the simulator's counters.

    python benchmarks/record_access_patterns.py OUTPUT.json        (needs a GPU and Nsight Compute's ncu)

Each pattern is one warp that makes one access of 4, 8 or 16 bytes per lane at given offsets. ncu counts requests,
sectors, wavefronts and bank conflicts of each launch; the file holds offsets and counts side by side.
"""

from __future__ import annotations

import csv
import datetime
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

SOURCE = r"""
#define KERNELS(NAME, TYPE)                                                                          \
    extern "C" __global__ void lds_##NAME(const int* at, TYPE* out, TYPE*) {                         \
        extern __shared__ float4 memory[];                                                           \
        out[threadIdx.x] = *(volatile_##NAME*)((char*)memory + at[threadIdx.x]);                     \
    }                                                                                                \
    extern "C" __global__ void sts_##NAME(const int* at, TYPE* out, TYPE* data) {                    \
        extern __shared__ float4 memory[];                                                           \
        *(TYPE*)((char*)memory + at[threadIdx.x]) = data[threadIdx.x];                               \
        __syncthreads();                                                                             \
        if (at[0] < 0) out[threadIdx.x] = *(TYPE*)((char*)memory + (at[threadIdx.x] ^ 16));          \
    }                                                                                                \
    extern "C" __global__ void ldg_##NAME(const int* at, TYPE* out, TYPE* data) {                    \
        out[threadIdx.x] = *(TYPE*)((char*)data + at[threadIdx.x]);                                  \
    }                                                                                                \
    extern "C" __global__ void stg_##NAME(const int* at, TYPE* out, TYPE* data) {                    \
        *(TYPE*)((char*)data + at[threadIdx.x]) = out[threadIdx.x];                                  \
    }
typedef float volatile_4;
typedef float2 volatile_8;
typedef float4 volatile_16;
KERNELS(4, float)
KERNELS(8, float2)
KERNELS(16, float4)

// An asynchronous copy with its own source offsets and sizes (0: fill with zeros).
#define COPY(NAME, WIDTH, CACHE)                                                                     \
    extern "C" __global__ void NAME##_##WIDTH(const int* at, float*, char* data, const int* from, const int* size) { \
        extern __shared__ float4 memory[];                                                           \
        unsigned to = (unsigned)__cvta_generic_to_shared((char*)memory + at[threadIdx.x]);           \
        asm volatile("cp.async." CACHE ".shared.global [%0], [%1], %2, %3;"                          \
                     :: "r"(to), "l"(data + from[threadIdx.x]), "n"(WIDTH), "r"(size[threadIdx.x]) : "memory"); \
        asm volatile("cp.async.wait_all;" ::: "memory");                                             \
    }
COPY(cpa, 4, "ca")
COPY(cpa, 8, "ca")
COPY(cpa, 16, "ca")
COPY(cpg, 16, "cg")
"""
FORMS = (*((kind, width) for kind in ("lds", "sts", "ldg", "stg") for width in (4, 8, 16)),
         ("cpa", 4), ("cpa", 8), ("cpa", 16), ("cpg", 16))  # fmt: skip
METRICS = (
    "smsp__sass_inst_executed_op_shared_ld.sum", "smsp__sass_inst_executed_op_shared_st.sum",
    "smsp__inst_executed_op_ldgsts.sum",
    "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum",
    "smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_st.sum",
    "smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts.sum",
)  # fmt: skip


def patterns(width: int) -> list[tuple[str, int, list[int]]]:
    """(name, active lanes, byte offsets): regular patterns as in kernels, and random ones."""
    lane = np.arange(32)
    slots = 4096 // width
    named = {
        "consecutive": lane, "same": 0 * lane, "pairs": lane // 2, "quads": lane // 4, "eights": lane // 8,
        "sixteens": lane // 16, "modulo 2": lane % 2, "modulo 4": lane % 4, "modulo 8": lane % 8,
        "modulo 16": lane % 16, "reversed": 31 - lane, "shifted": lane + 1,
        **{f"stride {s}": lane * s for s in (2, 3, 4, 5, 8, 16, 17, 31, 32, 33) if s * 32 < slots},
        "8x4 columns": lane % 8 * 32 // max(1, width // 4) + lane // 8, "halves far": lane % 16 + lane // 16 * 64,
        "quarters far": lane % 8 + lane // 8 * 64,
    }  # fmt: skip
    result = [(name, 32, list(map(int, at % slots * width))) for name, at in named.items()]
    rng = np.random.default_rng(width)
    for i in range(24):
        span = (8, 16, 32, 64, 128, slots)[i % 6]
        result.append((f"random in {span} ({i})", 32, list(map(int, rng.integers(0, min(span, slots), 32) * width))))
    for active in (1, 7, 8, 16, 20, 31):
        result.append((f"consecutive, {active} lanes", active, list(map(int, lane * width))))
    return result


Copy = tuple[str, int, list[int], list[int], list[int]]


def copies(width: int) -> list[Copy]:
    """(name, active lanes, shared offsets, global offsets, sizes) of asynchronous copies."""
    lane = np.arange(32)
    full, lines = np.full(32, width), 128 // width

    def tile(columns: int, pitch: int) -> np.ndarray[Any, Any]:
        """Rows of ``columns`` elements, ``pitch`` bytes apart."""
        return lane // columns * pitch + lane % columns * width

    targets = {name: np.array(at) for name, active, at in patterns(width) if active == 32 and "random" not in name}
    result = [(f"to {name}", 32, at, lane * width, full) for name, at in targets.items()]
    for columns in (2, 4, 8, 16, 32):
        for pad in (0, 16, 32, 64):
            pitch = columns * width + pad
            result.append((f"tile of {columns}, rows {pad} apart", 32, tile(columns, pitch), tile(columns, 4096), full))
            result.append(
                (f"from rows of {columns}, {pad}", 32, lane * width, tile(columns, columns * width + pad), full)
            )
    rng = np.random.default_rng(width)
    for i in range(24):
        at, start = (rng.permutation(256)[:32] * width for _ in range(2))
        result.append((f"random ({i})", 32, at if i % 3 else lane * width, start if i % 3 != 1 else lane * width, full))
    for i in range(24):
        keep = (lane < i * 4 // 3) if i % 2 else rng.random(32) < 0.5
        rows = tile((4, 8, 16, 32)[i % 4], 1024)
        result.append((f"zeros ({i})", 32, lane * width, rows, np.where(keep, width, 0)))
        result.append((f"zeros, padded ({i})", 32, tile((4, 8, 16, 32)[i % 4], 16 * lines + 16), rows,
                       np.where(keep, width, 0)))  # fmt: skip
    result += [(f"{n} lanes", n, lane * width, lane * width, full) for n in (1, 7, 8, 16, 20, 31)]
    return [(name, n, *(list(map(int, x)) for x in (at, start, size))) for name, n, at, start, size in result]


def launch_all() -> None:
    """The program that ncu profiles: every pattern in order, one launch each."""
    import cupy

    module = cupy.RawModule(code=SOURCE, options=("-std=c++17",))
    data = cupy.zeros(1 << 18, cupy.float32)
    out = cupy.zeros(1 << 12, cupy.float32)
    for kind, width in FORMS:
        kernel = module.get_function(f"{kind}_{width}")
        if kind.startswith("cp"):
            for _, active, *offsets in copies(width):
                at, start, size = (cupy.asarray(np.array(x, np.int32)) for x in offsets)
                kernel((1,), (active,), (at, out, data, start, size), shared_mem=16384)
        else:
            for _, active, at in patterns(width):
                kernel((1,), (active,), (cupy.asarray(np.array(at, np.int32)), out, data), shared_mem=8192)
    cupy.cuda.runtime.deviceSynchronize()


def main() -> int:
    if os.environ.get("GEMMSMITH_PATTERN_CHILD"):
        launch_all()
        return 0
    output = Path(sys.argv[1])
    ncu = shutil.which("ncu")
    if ncu is None:
        print("ncu is not on PATH", file=sys.stderr)
        return 3
    command = [ncu, "--clock-control", "none", "--csv", "--print-units", "base", "--metrics", ",".join(METRICS),
               "--kernel-name", "regex:^(lds|sts|ldg|stg|cpa|cpg)_", sys.executable, __file__]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          env={**os.environ, "GEMMSMITH_PATTERN_CHILD": "1"})  # fmt: skip
    start = done.stdout.find('"ID"')
    if start < 0:
        print(done.stdout[-3000:], done.stderr[-3000:], file=sys.stderr)
        return 1
    counted: dict[int, dict[str, float]] = {}
    kernels: dict[int, str] = {}
    for row in csv.DictReader(io.StringIO(done.stdout[start:])):
        number = int(row["ID"])
        kernels[number] = row["Kernel Name"]
        counted.setdefault(number, {})[row["Metric Name"]] = float(row["Metric Value"].replace(",", "") or "nan")
    record: list[dict[str, Any]] = []
    numbers = iter(sorted(counted))
    for kind, width in FORMS:
        for name, active, at, *more in copies(width) if kind.startswith("cp") else patterns(width):
            number = next(numbers)
            assert kernels[number].startswith(f"{kind}_{width}"), (kernels[number], kind, width)
            values = [int(counted[number].get(metric, 0)) for metric in METRICS]
            record.append({"kind": kind, "width": width, "pattern": name, "active": active, "offsets": at,
                           "sources": more[0] if more else [], "sizes": more[1] if more else [],
                           "counts": values})  # fmt: skip
    gpu = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                         capture_output=True, text=True, check=False).stdout.strip()  # fmt: skip
    version = subprocess.run([ncu, "--version"], capture_output=True, text=True, check=False).stdout.splitlines()[-1]
    output.write_text(json.dumps({
        "what": "hardware counts of single-warp access patterns", "origin": "measured", "gpu": gpu, "ncu": version,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(), "metrics": METRICS, "patterns": record,
    }, separators=(",", ":")) + "\n", encoding="utf-8")  # fmt: skip
    print(f"{len(record)} patterns, {len(METRICS)} metrics")
    return 0


if __name__ == "__main__":
    sys.exit(main())
