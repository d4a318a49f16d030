"""Grids that are rounded up: blocks without a tile take no time and no energy."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.cli.options.kernel import KernelOptions, find_kernel
from gemmsmith.explain.timing.predict import Predictor
from gemmsmith.gpus import gpu_named

H200 = gpu_named("H200")
BANDS = """
constexpr int T = 16, BAND = 8;  // columns of tiles in a band
__global__ void sgemm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[T][T], b[T][T];
    int column = blockIdx.z * BAND + blockIdx.x;
    if (RETURNS && column * T >= N) return;
    column = column * T >= N ? 0 : column;
    int row = blockIdx.y * T + threadIdx.y, col = column * T + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < K; k += T) {
        a[threadIdx.y][threadIdx.x] = A[row * K + k + threadIdx.x];
        b[threadIdx.y][threadIdx.x] = B[(k + threadIdx.y) * N + col];
        __syncthreads();
        for (int n = 0; n < T; ++n) sum += a[threadIdx.y][n] * b[n][threadIdx.x];
        __syncthreads();
    }
    C[row * N + col] = sum;
}
void launch(const float* A, const float* B, float* C, int M, int N, int K) {
    dim3 grid(BAND, M / T, (N / T + BAND - 1) / BAND), block(T, T);
    sgemm<<<grid, block>>>(A, B, C, M, N, K);
}
"""


def predictor(folder: Path, returns: int, size: int) -> Predictor:
    file = folder / "bands.cu"
    file.write_text(BANDS)
    spec, config = find_kernel(str(file), KernelOptions(define=[f"RETURNS={returns}"]))
    return Predictor(spec, config, spec.problem(size, size, size), H200)


@pytest.mark.parametrize(("size", "launched", "working"), [(160, 160, 100), (256, 256, 256)])
def test_blocks_beyond_the_last_column_are_not_counted(tmp_path: Path, size: int, launched: int, working: int) -> None:
    found = predictor(tmp_path, 1, size)
    assert (found.plan.kernel.geometry.blocks, found.blocks) == (launched, working)
    assert found.rates._tiles()[1] == size // 16


def test_blocks_that_work_twice_are_all_counted(tmp_path: Path) -> None:
    assert predictor(tmp_path, 0, 160).blocks == 160


def test_of_a_large_grid_a_share_is_executed(tmp_path: Path) -> None:
    """41 of 48 columns have tiles, and the blocks that stand for an SM are of these."""
    found = predictor(tmp_path, 1, 656)
    assert found.plan.kernel.geometry.blocks == 41 * 48
    assert found.blocks == pytest.approx(41 * 41, rel=0.03)
    assert all(block % 8 + block // (8 * 41) * 8 < 41 for block in found.chosen)
