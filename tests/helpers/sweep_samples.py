"""Points, workbenches and measurements for tests of sweeps."""

from __future__ import annotations

from collections.abc import Sequence

from gemmsmith.cli.compiler import Compiler
from gemmsmith.gpus import gpu_named
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem
from gemmsmith.run.contender import Identity
from gemmsmith.shapes import Shape
from gemmsmith.store.results import Measurement, Ratio, Timing
from gemmsmith.sweep.axes import parse_axis
from gemmsmith.sweep.families import FileFamily, RungFamily
from gemmsmith.sweep.grid import Point, grid
from gemmsmith.sweep.workbench import Workbench

CUBE = ((64, 64, 64),)
# Correct for TILE = 8 and 16 and whole tiles. For 4 it does not compile, for 12 it does not multiply by B.
FILE = """
#ifndef TILE
#define TILE 16
#endif
#if TILE == 4
#error tiles of 4 are too small
#endif
__global__ void mine(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float tile[TILE][TILE];
    const int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < K; k += TILE) {
        tile[threadIdx.y][threadIdx.x] = A[row * K + k + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < TILE; ++i) sum += tile[threadIdx.y][i] * (TILE == 12 ? 1.0f : B[(k + i) * N + col]);
        __syncthreads();
    }
    C[row * N + col] = sum;
}
"""


def rung(name: str, fixed: str = "", preset: str = "") -> RungFamily:
    values = tuple((k, v) for k, _, v in (part.partition("=") for part in fixed.split(",") if part))
    return RungFamily(rung_named(name), values, preset)


def points(family: RungFamily | FileFamily, *vary: str, shapes: Sequence[Shape] = CUBE) -> tuple[Point, ...]:
    return grid(family, [parse_axis(text) for text in vary], shapes)


def bench(gpu: str = "H200") -> Workbench:
    chosen = gpu_named(gpu)
    return Workbench(chosen, f"sm_{chosen.arch}", Compiler())


def measurement(
    name: str, problem: Problem, seconds: float = 1e-3, rejected: str = "", kind: str = "rung"
) -> Measurement:
    timing = Timing("graph", "cold", seconds, seconds, seconds, 0.01, 9, 1, True)
    return Measurement(Identity(name, kind), problem, "measured", True, rejected, timings=(timing,),
                       ratios=(Ratio("cublas", 0.5, 0.4, 0.6),))  # fmt: skip
