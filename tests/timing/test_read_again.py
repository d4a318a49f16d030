"""What L2 does not keep until it is read again comes from DRAM again; all blocks of a first round wait for DRAM."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.cli.options.kernel import KernelOptions, find_kernel
from gemmsmith.explain.timing.predict import Predictor
from gemmsmith.explain.timing.prediction import Changes
from gemmsmith.gpus import gpu_named

H200 = gpu_named("H200")
SMALL = """
__global__ void __launch_bounds__(256) hgemm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[16][64], b[16][64];
    int row = blockIdx.y * 64, column = blockIdx.x * 64, t = threadIdx.x;
    float sums[4][4] = {};
    for (int k = 0; k < K; k += 16) {
        for (int n = t; n < 1024; n += 256) {
            a[n % 16][n / 16] = A[(row + n / 16) * K + k + n % 16];
            b[n / 64][n % 64] = B[(k + n / 64) * N + column + n % 64];
        }
        __syncthreads();
        for (int s = 0; s < 16; ++s)
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j) sums[i][j] += a[s][t / 16 * 4 + i] * b[s][t % 16 * 4 + j];
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) C[(row + t / 16 * 4 + i) * N + column + t % 16 * 4 + j] = sums[i][j];
}
void launch(const float* A, const float* B, float* C, int M, int N, int K) {
    hgemm<<<dim3(N / 64, M / 64), 256>>>(A, B, C, M, N, K);
}
"""


def predictor(folder: Path, m: int, n: int, k: int) -> Predictor:
    file = folder / "small.cu"
    file.write_text(SMALL)
    spec, config = find_kernel(str(file), KernelOptions())
    return Predictor(spec, config, spec.problem(m, n, k), H200)


@pytest.mark.parametrize(("size", "again"), [(2048, False), (4096, False), (8192, True)])
def test_columns_are_read_again_once_l2_does_not_keep_them(tmp_path: Path, size: int, again: bool) -> None:
    """Measured with ncu: fp16 tiles of 64 x 64 at 8192 read 14.5 GB of 17.2 GB of columns from DRAM, at 5120 0.3 GB."""
    found = predictor(tmp_path, size, size, size)
    assert found.resident > 4
    columns = size * size * size // 64 * 4
    assert found.rates.evicted_bytes(found.resident) == (columns if again else 0)
    assert found._dram_bytes() == found.problem.compulsory_bytes + (columns if again else 0)
    assert found.rates.evicted_bytes(1) == 0, "blocks that run alone stay in step"


def test_a_first_round_of_several_is_as_slow_as_one_that_is_all(tmp_path: Path) -> None:
    """A column of tiles more, and there are two rounds: the first waits for DRAM as before."""
    held = predictor(tmp_path, 4096, 4096, 1024).resident
    whole = predictor(tmp_path, 64 * 33, 64 * 4 * held, 1024)
    assert whole.blocks == whole.sms * whole.resident
    more = predictor(tmp_path, 64 * 34, 64 * 4 * held, 1024)
    (_, one), (_, first) = whole._rounds(Changes())[0], more._rounds(Changes())[0]
    assert len(more._rounds(Changes())) == 2
    assert first.cycles == pytest.approx(one.cycles, rel=0.05)
    hot = whole._rounds(Changes(cold=False))[0][1]
    assert one.cycles > 1.04 * hot.cycles
