"""Record micro-benchmarks: parameters of the time model.

    python benchmarks/record_micro_benchmarks.py OUTPUT.json [NAME [PROGRAM]]

NAME is latency_and_throughput, or another of ``WHAT``; the file of that name in benchmarks/micro/ says what is
measured, and how. PROGRAM: that file, compiled before. Needs a GPU of sm_90 and nvcc.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

MICRO = Path(__file__).parent / "micro"
ARCH = "90a"
WHAT = {
    "latency_and_throughput": "latency and throughput of single instructions on one SM, in cycles of its clock",
    "memory_and_power": "bandwidths, launches, wgmma and power of the whole GPU",
    "turns": "whether two warps of a sub-core take turns",
    "fills": "cycles of the data stage of L1 and shared memory that a load and a copy take",
    "fetch_bursts": "how long a block waits for a burst of loads",
    "l2_sharing": "L2 to SMs that share what they read; one thread that waits and issues limits the rows by TMA",
    "wgmma_registers": "cycles of instructions beside wgmma, and of wgmma beside them, A in shared memory or registers",
    "code_fetch": "cycles of straight-line code that runs for the first time in a launch, and for the second",
    "wgmma_columns": "cycles of instructions beside wgmma at full rate, by its columns and the registers they read",
    "code_loops": "cycles of loops by the length of their code, and of branches that are taken",
    "cold_code": "code that an SM runs for the first time since another kernel ran, straight on or with jumps",
    "launch_gap": "microseconds of a launch in a graph beyond what its blocks do",
    "dependent_launches": "when the second of two kernels starts, with and without programmatic dependent launch",
    "l1_sets": "cycles of loads from lines that lie a power of two apart, until L1 cannot hold them all",
    "tma_boxes": "how fast TMA loads and stores boxes",
    "shared_panels": "steps of blocks that share rows and columns of operands, from DRAM and from L2",
    "copy_patterns": "what cp.async costs shared memory, by where its bytes lie; and accesses without an active lane",
    "hmma_registers": "cycles of mma.sync by the registers it reads, and of instructions beside it",
    "generic_loads": "loads of shared memory by generic addresses, and of local memory: latency and rate",
    "dmma": "latency and rate of products of doubles on tensor cores",
    "memory_queue": "accesses that wait for the SM's memory unit before issue stops",
    "block_phases": "steps of two blocks on an SM that wait for memory and compute: in step, or in turn",
    "load_mix": "loads that L1 has and stores to shared memory, alone and between loads of shared memory",
    "pending_loads": "bursts of loads and copies from L2, by how much is on its way at a time",
    "lds_beside_ffma": "loads of shared memory while other warps of the sub-core multiply",
    "lds_then_ffma": "loads of shared memory while their own warp multiplies or does logic",
    "tma_latency": "how long a block waits for boxes of TMA, one step at a time, from L2 and from DRAM",
    "l2_under_load": "how long a load from L2 takes while all SMs load at a given rate",
    "bulk_copies": "bulk copies of 16 bytes to 4 KB, issued by one thread or by several",
    "half_products": "products of pairs of 16-bit numbers, and FFMA beside them, by what their operands are",
    "loads_beside": "loads from L2 and shared memory while other warps read shared memory and multiply",
    "copy_rows": "how long copies of rows of 32 to 256 bytes take to arrive, and k-tiles of them",
    "store_shapes": "how fast an SM stores, by the shape of its stores",
    "copy_waits": "what waiting for copies costs a block beside the time of the copies",
    "block_places": "on which SMs and sub-cores the blocks of a launch run, and products of blocks of one warp",
    "tensor_power": "clock and watts of products by mma.sync, by where their operands come from",
    "tile_traffic": "how fast the tiles of a large product come from L2 and DRAM",
    "wgmma_turns": "two warpgroups that multiply and then add, over and over: in turn, or in step",
}


def measured(name: str, given: str) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        program = Path(given) if given else Path(folder) / "micro"
        code = f"arch=compute_{ARCH},code=sm_{ARCH}"
        source = str(MICRO / f"{name}.cu")
        if not given:
            subprocess.run(["nvcc", "-O3", "-std=c++17", "-gencode", code, source, "-o", str(program), "-lcuda"],
                           check=True)  # fmt: skip
        text = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in text.splitlines()]


def gpu() -> dict[str, str]:
    fields = "name,driver_version,clocks.max.sm"
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]
    values = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[0].split(", ")
    return dict(zip(("gpu", "driver", "clock_mhz"), values, strict=True))


def main() -> int:
    output, name = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "latency_and_throughput"
    program = sys.argv[3] if len(sys.argv) > 3 else ""
    version = subprocess.run(["nvcc", "--version"], check=True, capture_output=True, text=True).stdout.splitlines()[-2]
    head = {
        "what": WHAT[name],
        **gpu(),
        "compiler": version,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": f"python benchmarks/record_micro_benchmarks.py OUTPUT.json {name}",
    }
    rows = ",\n".join("  " + json.dumps(row) for row in measured(name, program))
    output.write_text(f'{json.dumps(head, indent=1)[:-2]},\n "rows": [\n{rows}\n ]\n}}\n', encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
