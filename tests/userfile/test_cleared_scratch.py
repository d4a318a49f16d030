"""How much of an array that blocks share host code sets to zero."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.problem import Problem
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.user_kernel import user_kernel
from gemmsmith.userfile.launches.user_launch import UserLaunch

_TICKETS = """__global__ void mine(const float* A, const float* B, float* C, unsigned* tickets, int M, int N, int K) {
    float s = 0.f;
    for (int k = 0; k < K; ++k) s += A[threadIdx.x * K + k] * B[k * N + blockIdx.x];
    if (threadIdx.x == 0) atomicAdd(&tickets[blockIdx.x], 1u);
    C[threadIdx.x * N + blockIdx.x] = s;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    unsigned* tickets;
    cudaMalloc(&tickets, N * sizeof(unsigned));
    MEMSET
    mine<<<N, M>>>(A, B, C, tickets, M, N, K);
    cudaFree(tickets);
}
"""


@pytest.mark.parametrize(
    ("memset", "zeroed"),
    [
        ("cudaMemset(tickets, 0, N * sizeof(unsigned));", 4 * 48),
        ("cudaMemset(tickets, 0, N);", 48),  # bytes, not elements
        ("cudaMemset(tickets, 0, 2 * N * sizeof(unsigned));", 4 * 48),  # more than there are
        ("cudaMemset(tickets, 0, of_another_file(N));", 4 * 48),  # not understood: all
        ("", 0),
    ],
)
def test_as_much_is_zero_as_host_code_sets(memset: str, zeroed: int, tmp_path: Path) -> None:
    file = tmp_path / "mine.cu"
    file.write_text(_TICKETS.replace("MEMSET", memset))
    launch = user_kernel(file, UserOptions()).geometry
    assert isinstance(launch, UserLaunch)
    (found,) = launch.scratch(Problem(32, 48, 64))
    assert (found.name, found.nbytes, found.zeroed) == ("tickets", 4 * 48, zeroed)
