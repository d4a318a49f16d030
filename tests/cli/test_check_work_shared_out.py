"""gemmsmith check on kernels whose host code divides the work by a number of blocks that its caller chooses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from checking import check

TWO_PASSES = """
#define T 16
__device__ __host__ inline int up(int a, int b) { return (a + b - 1) / b; }
__global__ void work(const float* A, const float* B, float* C, float* ws, int M, int N, int K, int share) {
    int tn = up(N, T), steps = up(K, T), total = up(M, T) * tn * steps, begin = blockIdx.x * share;
    int end = min(begin + share, total), x = threadIdx.x, y = threadIdx.y;
    for (int it = begin; it < end;) {
        int tile = it / steps, k0 = it % steps, k1 = min(steps, k0 + end - it);
        int m = tile / tn * T + y, n = tile % tn * T + x;
        float sum = 0.0f;
        if (m < M && n < N)
            for (int k = k0 * T; k < min(K, k1 * T); ++k) sum += A[m * K + k] * B[k * N + n];
        if (k1 - k0 < steps) ws[(2 * blockIdx.x + (it > begin)) * T * T + y * T + x] = sum;
        else if (m < M && n < N) C[m * N + n] = sum;
        it += k1 - k0;
    }
}
__global__ void fixup(float* C, const float* ws, int M, int N, int K, int share) {
    int tn = up(N, T), steps = up(K, T), tile = blockIdx.x, x = threadIdx.x, y = threadIdx.y;
    int first = tile * steps / share, last = ((tile + 1) * steps - 1) / share;
    int m = tile / tn * T + y, n = tile % tn * T + x;
    if (first == last || m >= M || n >= N) return;
    float sum = ws[(2 * first + (first * share < tile * steps)) * T * T + y * T + x];
    for (int w = FIRST; w <= last; ++w) sum += ws[2 * w * T * T + y * T + x];
    C[m * N + n] = sum;
}
void run(const float* A, const float* B, float* C, float* ws, int M, int N, int K, int workers) {
    const int tiles = up(M, T) * up(N, T), share = up(tiles * up(K, T), workers);
    work<<<workers, dim3(T, T)>>>(A, B, C, ws, M, N, K, share);
    fixup<<<tiles, dim3(T, T)>>>(C, ws, M, N, K, share);
}
"""


@pytest.mark.parametrize(("first", "expected"), [("first + 1", 0), ("last", 1)])
def test_two_passes_over_a_workspace(
    first: str, expected: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second pass may add to what the first one stored. Where K is 0 there is no work, and no launch."""
    code, found = check(tmp_path, TWO_PASSES.replace("FIRST", first), capsys, "--entry", "work")
    assert code == expected, found
    assert found["entry"] == "work_then_fixup"


SLICES = """
#include <cstdlib>
__global__ void part(const float* A, const float* B, float* ws, int M, int N, int K, int slices) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    int length = LENGTH, begin = blockIdx.z * length, end = min(K, begin + length);
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = begin; k < end; ++k) sum += A[row * K + k] * B[k * N + col];
    ws[(blockIdx.z * M + row) * N + col] = sum;
}
__global__ void add(const float* ws, float* C, int count, int slices) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= count) return;
    float sum = 0.0f;
    for (int z = 0; z < slices; ++z) sum += ws[z * count + i];
    C[i] = sum;
}
int main(int argc, char** argv) {
    int M = 64, N = 48, K = 4096, slices = argc > 1 ? atoi(argv[1]) : 8;
    float *A, *B, *C, *ws;
    cudaMalloc(&A, 4 * M * K); cudaMalloc(&B, 4 * K * N); cudaMalloc(&C, 4 * M * N);
    cudaMalloc(&ws, 4 * slices * M * N);
    part<<<dim3((N + 15) / 16, (M + 15) / 16, slices), dim3(16, 16)>>>(A, B, ws, M, N, K, slices);
    add<<<(M * N + 255) / 256, 256>>>(ws, C, M * N, slices);
}
"""


@pytest.mark.parametrize(("length", "expected"), [("(K + slices - 1) / slices", 0), ("K / slices", 1)])
def test_slices_from_the_command_line(
    length: str, expected: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = check(tmp_path, SLICES.replace("LENGTH", length), capsys, "--entry", "part")
    assert code == expected, found


STRUCT = "struct Args { const float *A, *B; float *C, *ws; int M, N, K, share; };\n"
MEMBERS = ("    const float *A = g.A, *B = g.B;\n    float *C = g.C, *ws = g.ws;\n"
           "    int M = g.M, N = g.N, K = g.K, share = g.share;")  # fmt: skip


def in_a_struct(text: str) -> str:
    """Both kernels take one struct that holds all of their arguments."""
    kernels, run, host = text.partition("void run")
    kernels = re.sub(r"(?s)(__global__ void \w+)\(.*?\) \{", rf"\1(Args g) {{\n{MEMBERS}", kernels)
    host = host.replace("    const int tiles", "    Args g{A, B, C, ws, M, N, K};\n    const int tiles")
    host = host.replace(", share = up(tiles * up(K, T), workers);", ";\n    g.share = up(tiles * up(K, T), workers);")
    return STRUCT + kernels + run + re.sub(r">>>\([^)]*\)", ">>>(g)", host)


@pytest.mark.parametrize(("first", "expected"), [("first + 1", 0), ("last", 1)])
def test_two_passes_that_take_one_struct(
    first: str, expected: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = in_a_struct(TWO_PASSES.replace("FIRST", first))
    code, found = check(tmp_path, text, capsys, "--entry", "work")
    assert code == expected, found
    assert found["entry"] == "work_then_fixup"
