"""Kernels whose blocks take tiles from a counter: host code launches one number of blocks for every product."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.problem import Problem
from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel

KERNEL = """
__global__ void k(const float* A, const float* B, float* C, int* next, int M, int N, int K) {
    __shared__ int tile;
    for (;;) {
        if (threadIdx.x == 0) TAKE
        __syncthreads();
        if (tile >= M * N) return;
        C[tile] = A[0] * B[0] * K;
        __syncthreads();
    }
}
void run(const float* A, const float* B, float* C, int* next, int M, int N, int K) {
    k<<<12, 64>>>(A, B, C, next, M, N, K);
}
"""


@pytest.mark.parametrize(("take", "counts"), [
    ("tile = atomicAdd(next, 1);", True),
    ("tile = cuda::atomic_ref<int>(*next).fetch_add(1);", True),
    ("tile = *next;", False),
])  # fmt: skip
def test_one_number_of_blocks(tmp_path: Path, take: str, counts: bool) -> None:
    path = tmp_path / "k.cu"
    path.write_text(KERNEL.replace("TAKE", take))
    spec = user_kernel(path, UserOptions())
    launch = spec.geometry
    assert launch.sources(Problem(64, 96, 32)) == ("launch site", "launch site" if counts else "guessed")  # type: ignore[attr-defined]
    assert (launch(Problem(64, 96, 32), spec.config()).grid == (12, 1, 1)) is counts
