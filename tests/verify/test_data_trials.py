"""Special data reach every part of K: a block that leaves out the NaN of one part must be seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.compile.compiler import compile_for
from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel
from gemmsmith.verify.code.kernel_edges import kernel_edges
from gemmsmith.verify.trials.check_shapes import check_shapes, tile_of_grid
from gemmsmith.verify.trials.data_trials import data_trials
from gemmsmith.verify.trials.trial_subject import Subject

SOURCE = """
__global__ void parts(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k0 = blockIdx.z * 8; k0 < K; k0 += gridDim.z * 8)
        for (int k = k0; k < min(k0 + 8, K); ++k) sum += A[row * K + k] * B[k * N + col];
    atomicAdd(&C[row * N + col], sum);
}
// gemmsmith: block=16,16 grid=ceil(N/16),ceil(M/16),PARTS
"""


@pytest.mark.parametrize("parts", [1, 6])
def test_every_part_of_k_has_its_nan(parts: int, tmp_path: Path) -> None:
    path = tmp_path / "mine.cu"
    path.write_text(SOURCE.replace("PARTS", str(parts)), encoding="utf-8")
    spec = user_kernel(path, UserOptions())
    config = spec.config()
    base = spec.problem(*check_shapes(spec, config).base)
    edges = kernel_edges(spec, config, compile_for(spec, config, base, "sm_90"), base)
    subject = Subject(spec, config, base, tile_of_grid(spec, config), edges)
    first = next(data_trials(subject))
    assert first.fill == "nonfinite"
    assert first.problem.k >= max(2, parts) * 8
