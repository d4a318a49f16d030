"""Split-K whose kernels are passed the number of parts, which is the grid's last extent, too: it counts no products."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

SPLIT = """
__global__ void part(const float* A, const float* B, float* ws, int M, int N, int K, int splits) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x, s = blockIdx.z;
    if (row >= M || col >= N) return;
    int size = (K + splits - 1) / splits, end = min(K, (s + 1) * size);
    float sum = 0.0f;
    for (int k = s * size; k < end; ++k) sum += A[row * K + k] * B[k * N + col];
    ws[(size_t)s * M * N + row * N + col] = sum;
}
__global__ void reduce(const float* ws, float* C, int M, int N, int splits) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= M * N) return;
    float sum = 0.0f;
    for (int s = 0; s < LAST; ++s) sum += ws[(size_t)s * M * N + i];
    C[i] = sum;
}
void run(const float* A, const float* B, float* C, float* ws, int M, int N, int K) {
    int splits = 5;
    part<<<dim3((N + 7) / 8, (M + 7) / 8, splits), dim3(8, 8)>>>(A, B, ws, M, N, K, splits);
    reduce<<<(M * N + 255) / 256, 256>>>(ws, C, M, N, splits);
}
"""


@pytest.mark.parametrize(("last", "status"), [("splits", "right"), ("splits / 2 * 2", "wrong")])
def test_the_number_of_parts(last: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, found = check(tmp_path, SPLIT.replace("LAST", last), capsys, "--trial", "random data")
    assert found["status"] == status, found


ENDS = """
__global__ void part(const float* A, const float* B, float* C, int M, int N, int K, int parts) {
    __shared__ float As[8][8], Bs[8][8];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 8 + y, col = blockIdx.x * 8 + x;
    int size = SIZE, first = blockIdx.z * size, end = min(first + size, K);
    float sum = 0.0f;
    for (int k = first; k < end; k += 8) {
        As[y][x] = row < M && INSIDE(k + x) ? A[row * K + k + x] : 0.0f;
        Bs[y][x] = col < N && INSIDE(k + y) ? B[(k + y) * N + col] : 0.0f;
        __syncthreads();
        for (int i = 0; i < 8; ++i) sum += As[y][i] * Bs[i][x];
        __syncthreads();
    }
    if (row < M && col < N) atomicAdd(&C[row * N + col], sum);
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    int parts = 4;
    cudaMemset(C, 0, M * N * sizeof(float));
    part<<<dim3((N + 7) / 8, (M + 7) / 8, parts), dim3(8, 8)>>>(A, B, C, M, N, K, parts);
}
"""


@pytest.mark.parametrize(("size", "inside", "status"), [
    ("(K + parts - 1) / parts", "(at) < end", "right"),
    ("K / (2 * parts) * 2", "(at) < end", "wrong"),
    ("K / (8 * parts) * 8", "true", "wrong"),
    ("(K / 8 + parts - 1) / parts * 8", "true", "whole_tiles"),
], ids=["rounded up", "pairs", "k-tiles rounded down", "for whole k-tiles"])  # fmt: skip
def test_a_last_part_that_ends_at_k(
    size: str, inside: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who ends a part at K means to take all of it, unless whole k-tiles are all that is asked for."""
    source = f"#define INSIDE(at) ({inside})\n{ENDS.replace('SIZE', size)}"
    _, found = check(tmp_path, source, capsys)
    assert found["status"] == status, found


CLAMPED = """
#include <algorithm>
struct Plan { int splits = 1; };
__global__ void part(const float* A, const float* B, float* C, int M, int N, int K, int size) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    int end = min(K, (int)(blockIdx.z + 1) * size);
    for (int k = blockIdx.z * size; k < end; ++k) sum += A[row * K + k] * B[k * N + col];
    atomicAdd(&C[row * N + col], sum);
}
void run(const float* A, const float* B, float* C, int M, int N, int K, GIVEN) {
    CLAMP
    const int size = SIZE;
    part<<<dim3((N + 7) / 8, (M + 7) / 8, PARTS), dim3(8, 8)>>>(A, B, C, M, N, K, size);
}
"""


@pytest.mark.parametrize(("given", "clamp", "parts"), [
    ("int parts", "parts = std::min(parts, std::max(K, 1));", "parts"),
    ("int parts = 0", "if (parts <= 0) parts = 8; parts = std::min(parts, std::max(K, 1));", "parts"),
    ("const Plan& p", "", "p.splits"),
    ("int wanted_splits", "", "wanted_splits"),
], ids=["clamped", "chosen and clamped", "of a struct", "wanted"])  # fmt: skip
@pytest.mark.parametrize(("size", "status"), [("(K + PARTS - 1) / PARTS", "right"), ("K / PARTS", "wrong")])
def test_numbers_of_parts_that_callers_choose(
    given: str, clamp: str, parts: str, size: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = CLAMPED.replace("SIZE", size).replace("PARTS", parts).replace("GIVEN", given).replace("CLAMP", clamp)
    _, found = check(tmp_path, text, capsys)
    assert isinstance(found, dict), found
    assert found["status"] == status, found["verdict"]


INSIDE = "namespace gemm {" + SPLIT.replace("void run", "}\nvoid run").replace(
    "    part<<<", "    gemm::part<<<"
).replace("    reduce<<<", "    gemm::reduce<<<")


def test_two_kernels_of_a_namespace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, found = check(
        tmp_path, INSIDE.replace("LAST", "splits"), capsys, "--entry", "gemm::part", "--trial", "random data"
    )
    assert isinstance(found, dict), found
    assert found["status"] == "right", found
