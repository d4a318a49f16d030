"""Record what NVIDIA's cuda_occupancy.h answers for random kernels, as ground truth for gemmsmith's own arithmetic.

    python benchmarks/record_occupancy.py [tests/data/occupancy.csv.gz]        (needs a C++ compiler and no GPU)

A small program around the header reads one kernel per line and writes the header's answer. Each device is described
here a second time, as its driver reports it, so that a wrong line in gpus.toml is found too.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

SEED = 20251115
EACH = 1000  # configurations per GPU
KB = 1024
INPUTS = ("gpu", "threads", "registers", "static_smem", "dynamic_smem", "barriers")
ANSWERS = ("blocks", "by_warps", "by_slots", "by_registers", "by_smem", "by_barriers", "factors")
NO_LIMIT = 2**31 - 1  # the header's INT_MAX

# One GPU of each architecture at least: limits are the architecture's. Compute capability, SMs, threads and shared
# memory per SM, shared memory per block (opt-in), reserved shared memory per block: cudaDeviceProp of each.
DEVICES = {
    "RTX 3050": (8, 6, 20, 1536, 100 * KB, 99 * KB, KB),
    "RTX A6000": (8, 6, 84, 1536, 100 * KB, 99 * KB, KB),
    "RTX 4090": (8, 9, 128, 1536, 100 * KB, 99 * KB, KB),
    "A100": (8, 0, 108, 2048, 164 * KB, 163 * KB, KB),
    "H100": (9, 0, 132, 2048, 228 * KB, 227 * KB, KB),
    "H200": (9, 0, 132, 2048, 228 * KB, 227 * KB, KB),
    "B200": (10, 0, 148, 2048, 228 * KB, 227 * KB, KB),
    "T4": (7, 5, 40, 1024, 64 * KB, 64 * KB, 0),
    "B300": (10, 3, 148, 2048, 228 * KB, 227 * KB, KB),
    "RTX 5090": (12, 0, 170, 1536, 100 * KB, 99 * KB, KB),
}

PROGRAM = r"""
#include <cstdio>
#include "cuda_occupancy.h"

int main() {
    int major, minor, sms, threads_sm, smem_sm, smem_block, reserved, threads, registers, fixed, dynamic, barriers;
    while (std::scanf("%d %d %d %d %d %d %d %d %d %d %d %d", &major, &minor, &sms, &threads_sm, &smem_sm, &smem_block,
                      &reserved, &threads, &registers, &fixed, &dynamic, &barriers) == 12) {
        cudaOccDeviceProp device;
        device.computeMajor = major;
        device.computeMinor = minor;
        device.maxThreadsPerBlock = 1024;
        device.maxThreadsPerMultiprocessor = threads_sm;
        device.regsPerBlock = 65536;
        device.regsPerMultiprocessor = 65536;
        device.warpSize = 32;
        device.sharedMemPerBlock = 48 * 1024;
        device.sharedMemPerMultiprocessor = smem_sm;
        device.numSms = sms;
        device.sharedMemPerBlockOptin = smem_block;
        device.reservedSharedMemPerBlock = reserved;
        cudaOccFuncAttributes kernel;
        kernel.maxThreadsPerBlock = 1024;
        kernel.numRegs = registers;
        kernel.sharedSizeBytes = fixed;
        kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
        kernel.maxDynamicSharedSizeBytes = dynamic;
        kernel.numBlockBarriers = barriers;
        cudaOccDeviceState state;  // the default: the largest carve-out
        cudaOccResult result;
        if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, threads, dynamic) != 0) return 1;
        std::printf("%d %d %d %d %d %d %u\n", result.activeBlocksPerMultiprocessor, result.blockLimitWarps,
                    result.blockLimitBlocks, result.blockLimitRegs, result.blockLimitSharedMem,
                    result.blockLimitBarriers, result.limitingFactors);
    }
}
"""

Kernel = tuple[str, int, int, int, int, int]  # INPUTS


def compiler() -> str | None:
    """A C++ compiler, if there is one: CXX, c++, g++ or clang++."""
    names = (os.environ.get("CXX", ""), "c++", "g++", "clang++")
    return next((path for name in names if name and (path := shutil.which(name))), None)


def build(folder: Path, include: Path, cxx: str) -> Path:
    """Compile the program around the header in ``include``."""
    source, program = folder / "occupancy.cpp", folder / "occupancy"
    source.write_text(PROGRAM, encoding="utf-8")
    subprocess.run([cxx, "-O1", "-w", "-I", str(include), str(source), "-o", str(program)], check=True)
    return program


def ask(program: Path, kernels: Iterable[Kernel]) -> list[tuple[int, ...]]:
    """The header's answer, in the order of ANSWERS, for each kernel."""
    lines = [" ".join(map(str, (*DEVICES[gpu], *numbers))) for gpu, *numbers in kernels]
    done = subprocess.run([str(program)], input="\n".join(lines), capture_output=True, text=True, check=True)
    answers = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    if len(answers) != len(lines):
        raise RuntimeError(f"asked {len(lines)} times, answered {len(answers)} times")
    return answers


def random_kernel(rng: random.Random, gpu: str) -> Kernel:
    """A random kernel: often like a GEMM, often at the edge of a limit, sometimes too large."""
    *_, smem_sm, smem_block, _ = DEVICES[gpu]
    threads = rng.choice(
        (32 * rng.randint(1, 32), rng.choice((64, 128, 256, 512)), rng.randint(1, 1056), rng.randint(1, 128))
    )
    # 256 is left out: the header takes it, but no instruction can name a register above 254.
    registers = rng.choice((rng.randint(0, 255), 8 * rng.randint(2, 31), rng.randint(0, 64), rng.randint(16, 32)))
    if rng.random() < 0.02:
        registers = rng.randint(257, 300)
    static = rng.choice((0, 0, rng.randint(0, 4 * KB), rng.randint(0, 48 * KB), 128 * rng.randint(0, 384)))
    share = smem_sm // rng.randint(1, 32) - KB - static + rng.choice((-129, -128, -127, -1, 0, 1, 127, 128, 129))
    dynamic = rng.choice((0, 0, rng.randint(0, smem_block + 2 * KB), rng.randint(0, 16 * KB), max(0, share)))
    return gpu, threads, registers, static, dynamic, rng.choice((0, 1, 1, 1, 2, 3, rng.randint(0, 16)))


def main() -> None:
    from gemmsmith.compile.toolchain import find_toolchain

    target = Path(sys.argv[1] if len(sys.argv) > 1 else "tests/data/occupancy.csv.gz")
    cxx = compiler()
    if cxx is None:
        sys.exit("a C++ compiler is needed: install g++ or set CXX")
    rng = random.Random(SEED)
    kernels = [random_kernel(rng, gpu) for gpu in DEVICES for _ in range(EACH)]
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        answers = ask(build(Path(folder), find_toolchain().include, cxx), kernels)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(INPUTS + ANSWERS)
    writer.writerows(kernel + answer for kernel, answer in zip(kernels, answers, strict=True))
    target.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))
    print(f"{target}: {len(kernels)} configurations, {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
