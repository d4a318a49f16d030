"""gemmsmith check of kernels that host code launches for some products alone, or that leave out alpha and beta."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import QUICK, check

FLAGS = """
template <bool UNIT, bool NO_C>
__global__ void gemm(const float* A, const float* B, float* C, int M, int N, int K, float alpha, float beta) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    float value = UNIT ? sum : alpha * sum;
    if (!NO_C) value += beta * C[row * N + col];
    C[row * N + col] = value;
}
"""
TAKEN = "const float* A, const float* B, float* C, int M, int N, int K, float alpha, float beta"
HOW = "<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K, alpha, beta);"
SCALED = ("--trial", "alpha and beta")


def host(body: str) -> str:
    for word, values in (("PLAIN", "true, true"), ("ADDS", "true, false"), ("ANY", "false, false")):
        body = body.replace(word, f"gemm<{values}>{HOW}")
    return f"#include <cassert>\nvoid run({TAKEN}) {{ {body} }}\n"


def test_an_instance_for_alpha_1_and_beta_0_is_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, FLAGS + host("if (alpha == 1.0f && beta == 0.0f) PLAIN else ANY"), capsys)
    assert (code, found["status"]) == (0, "right"), found
    assert found["entry"] == "gemm<true, true>"
    assert found["verdict"].endswith("as its host code launches it: alpha = 1 (k.cu:13), beta = 0 (k.cu:13)")


def test_a_scalar_that_host_code_leaves_open_is_tried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = FLAGS.replace("if (!NO_C)", "if (NO_C)") + host("if (alpha == 1.0f) ADDS else ANY")
    code, found = check(tmp_path, wrong, capsys, *SCALED)
    assert (code, found["status"]) == (1, "wrong"), found


def test_flags_of_a_template_leave_scalars_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, FLAGS + host("PLAIN"), capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found
    assert "with UNIT=true it never reads alpha, so that is 1 in every trial" in found["found"]
    assert "with NO_C=true it never reads beta, so that is 0 in every trial" in found["found"]


def test_a_scalar_that_no_flag_leaves_out_must_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    forgets = FLAGS.replace("UNIT ? sum : alpha * sum", "sum; alpha = 0.0f") + host("PLAIN")
    code, found = check(tmp_path, forgets, capsys, *SCALED)
    assert (code, found["status"]) == (1, "wrong"), found


THIN = """
__global__ void thin(const float* A, const float* B, float* C, int M, int N, int K) {
    int col = blockIdx.x * 32 + threadIdx.x;
    if (col >= N) return;
    for (int row = threadIdx.y; row < M && row < 64; row += 8) {
        float sum = 0.0f;
        for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
        C[row * N + col] = sum;
    }
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    CONDITION thin<<<(N + 31) / 32, dim3(32, 8)>>>(A, B, C, M, N, K);
}
"""


def test_shapes_that_host_code_rules_out_do_not_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, THIN.replace("CONDITION", "if (M > 64) return;"), capsys)
    assert (code, found["status"]) == (0, "right"), found
    assert "as its host code launches it: " in found["verdict"]


def test_shapes_that_host_code_asks_for_are_tried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, THIN.replace("CONDITION", "if (M > 64)"), capsys, "--trial", "random data")
    assert (code, found["status"]) == (1, "wrong"), found


def test_a_failure_under_a_condition_that_is_not_understood_is_no_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = check(tmp_path, THIN.replace("CONDITION", "if (is_thin(M))"), capsys)
    assert code == 2
    assert "its host code launches it only if `is_thin(M)` (k.cu:12), which is not understood" in found


PAIRS = """
__global__ void pairs(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[2][8][8], b[2][8][8];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 8 + y, col = blockIdx.x * 8 + x;
    float sum = 0.0f;
    auto load = [&](int stage, int k) {
        a[stage][y][x] = row < M ? A[row * K + k + x] : 0.0f;
        b[stage][y][x] = col < N ? B[(k + y) * N + col] : 0.0f;
    };
    auto step = [&](int stage) { for (int k = 0; k < 8; ++k) sum += a[stage][y][k] * b[stage][k][x]; };
    int tiles = K / 8;
    load(0, 0);
    __syncthreads();
    for (int tile = 0; tile < tiles; tile += 2) {
        if (tile + 1 < tiles) load(1, (tile + 1) * 8);
        step(0);
        __syncthreads();
        if (tile + 2 < tiles) load(0, (tile + 2) * 8);
        step(1);
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    pairs<<<dim3((N + 7) / 8, (M + 7) / 8), dim3(8, 8)>>>(A, B, C, M, N, K);
}
"""


def test_two_k_tiles_a_round_are_for_whole_rounds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, PAIRS, capsys)
    assert (code, found["status"]) == (0, "whole_tiles"), found
    assert found["multiples"] == {"m": 1, "n": 1, "k": 16}


IDLE = """
#define DIV_UP(a, b) (a + b - 1) / b
__global__ void tall(const float* A, const float* B, float* C, int M, int N, int K) {
    int col = blockIdx.x * 32 + threadIdx.x;
    for (int i = 0; i < 6; ++i) {
        int row = (blockIdx.y * 6 + i) * 32 + threadIdx.y;
        float sum = 0.0f;
        for (int k = 0; k < K; ++k) sum += row < M && col < N ? A[row * K + k] * B[k * N + col] : 0.0f;
        if (row < M && col < N) C[row * N + col] = sum;
    }
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    tall<<<dim3(DIV_UP(N, 32), DIV_UP(M, 6 * 32)), dim3(32, 32)>>>(A, B, C, M, N, K);
}
"""


def test_a_grid_of_idle_blocks_is_refused_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, IDLE, capsys)
    assert code == 2
    assert "blocks of 1,024 threads for the 4,096 outputs" in found
    assert "--grid" in found


TWO_BLOCKS = """
constexpr int SMALL = 8, WIDE = 16;
template <int EDGE>
__global__ void blocks(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * EDGE + threadIdx.y, col = blockIdx.x * EDGE + threadIdx.x;
    if (row >= M || col >= N || (EDGE == 16 && row >= 64)) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    if (M > 64) blocks<SMALL><<<dim3((N + 7) / 8, (M + 7) / 8), dim3(8, 8)>>>(A, B, C, M, N, K);
    else blocks<WIDE><<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""


def test_a_launch_of_another_instance_tells_nothing_of_the_given_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With EDGE = 16 it is right up to 64 rows, and host code launches larger products with SMALL, which is 8."""
    code, found = check(tmp_path, TWO_BLOCKS, capsys, "-D", "EDGE=16")
    assert (code, found["status"]) == (0, "right"), found
    assert "as its host code launches it: " in found["verdict"]
