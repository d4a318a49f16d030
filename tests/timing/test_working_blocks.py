"""Grids with more blocks than tiles: blocks without a tile take no time, and others the time of what they do."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from gemmsmith.cli.options.kernel import KernelOptions, find_kernel
from gemmsmith.explain.timing.predict import Predictor
from gemmsmith.explain.timing.working_blocks import kinds_of_blocks
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


ROWS = """
// Four rows of threads, each a column of tiles; the grid has one block for each of the columns, four times too many.
__global__ void sgemm(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.x * 32 + threadIdx.x, tile = blockIdx.y * 4 + threadIdx.y;
    float sums[16] = {};
    for (int k = 0; k < K; ++k) {
        float a = A[row * K + k];
        if (tile * 16 < N)
            for (int n = 0; n < 16; ++n) sums[n] += a * B[k * N + tile * 16 + n];
        else
            sums[0] += a;
    }
    if (tile * 16 < N)
        for (int n = 0; n < 16; ++n) C[row * N + tile * 16 + n] = sums[n];
}
void launch(const float* A, const float* B, float* C, int M, int N, int K) {
    dim3 grid(M / 32, N / 16 / SHARE), block(32, 4);
    sgemm<<<grid, block>>>(A, B, C, M, N, K);
}
"""


def rows_of_threads(folder: Path, share: int, size: int) -> Predictor:
    file = folder / f"rows_{share}.cu"
    file.write_text(ROWS)
    spec, config = find_kernel(str(file), KernelOptions(define=[f"SHARE={share}"]))
    return Predictor(spec, config, spec.problem(size, size, size), H200)


@pytest.mark.parametrize("size", [512, 2048])  # all blocks are looked at, and a share of them
def test_blocks_that_do_less_are_timed_by_what_they_do(tmp_path: Path, size: int) -> None:
    whole, right = rows_of_threads(tmp_path, 1, size), rows_of_threads(tmp_path, 4, size)
    blocks = whole.plan.kernel.geometry.blocks
    assert not right.others
    assert right.blocks == blocks // 4
    (less,) = whole.others
    assert whole.blocks == pytest.approx(blocks / 4, rel=0.15)
    assert whole.blocks + less.blocks == pytest.approx(blocks, abs=1)
    rows = size // 32
    assert all(block // rows < size // 64 for block in whole.chosen)
    assert all(block // rows >= size // 64 for block in less.chosen)
    found = whole.predict().main
    assert found.blocks == pytest.approx(blocks, abs=1)
    cycles = [round(each.cycles) for _, each in found.rounds]
    assert min(cycles) < 0.8 * max(cycles)


def kinds(steps: list[int], held: int = 2, sms: int = 4) -> list[tuple[int, list[int]]]:
    """The kinds of a grid whose blocks take these steps, and the blocks that stand for those of one SM."""
    subject = SimpleNamespace(
        launch=SimpleNamespace(geometry=SimpleNamespace(blocks=len(steps))),
        held=SimpleNamespace(blocks_per_sm=held),
        steps=lambda _, blocks: np.array([steps[block] for block in blocks]),
    )
    return [(each.blocks, each.on_one_sm(sms, held)) for each in kinds_of_blocks(subject, H200, sms)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ([100] * 64, []),
        ([100] * 60 + [50] * 4, []),  # the edge of C: blocks of the last row alone
        ([100] * 48 + [3] * 16, [(48, [0, 4])]),
        ([100] * 16 + [50] * 48, [(16, [0, 4]), (48, [16, 20])]),
        ([100] * 16 + [50] * 32 + [4] * 16, [(16, [0, 4]), (32, [16, 20])]),
        ([100] * 2 + [80] * 30 + [50] * 32, [(32, [0, 4]), (32, [32, 36])]),  # two are too few for a kind
        ([100] * 1024 + [50] * 3072, [(1024, [516, 520]), (3072, [2560, 2564])]),
    ],
)
def test_kinds_are_told_by_steps(steps: list[int], found: list[tuple[int, list[int]]]) -> None:
    taken = kinds(steps)
    assert [count for count, _ in taken] == pytest.approx([count for count, _ in found], rel=0.1)
    if len(steps) <= 1024:
        assert taken == found
    for (_, few), (_, expected) in zip(taken, found, strict=True):
        assert {steps[block] for block in few} == {steps[block] for block in expected}
        assert few[1] - few[0] == 4
