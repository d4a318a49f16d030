"""Kernels that are right for some problems only: M = N, whole tiles, aligned rows, large tiles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gemmsmith.cli.main import run_command

LOOP = "float s = 0; for (int k = 0; k < K; ++k) s += A[row * {lda} + k] * B[k * {ldb} + col];"
ROW = "int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;"
HOST = "void run(int M, int N, int K, float* a, float* b, float* c) {{ k<<<dim3({grid}), dim3({block})>>>({args}); }}"


def check(folder: Path, kernel: str, host: str, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, Any]:
    (folder / "k.cu").write_text(f"{kernel}\n{host}\n", encoding="utf-8")
    code = run_command(["check", str(folder / "k.cu"), "--json", *more])
    return code, json.loads(capsys.readouterr().out)


SWAPPED = f"""__global__ void k(int M, int N, int K, const float* A, const float* B, float* C) {{ {ROW}
    {LOOP.format(lda="K", ldb="N")} C[row * N + col] = s; }}"""


def test_a_grid_with_x_and_y_swapped_is_right_for_m_equal_to_n(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host = """void run(float* a, float* b, float* c) {
        const int M = 512, N = 512, K = 256; k<<<dim3(M / 16, N / 16), dim3(16, 16)>>>(M, N, K, a, b, c); }"""
    code, found = check(tmp_path, SWAPPED, host, capsys, "--cures", "0", "--m", "64", "--n", "64", "--k", "64")
    assert (code, found["status"], found["ok"]) == (0, "square_only", True)
    assert "M = N" in found["verdict"]


def test_host_code_that_takes_both_m_and_n_makes_that_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    host = HOST.format(grid="M / 16, N / 16", block="16, 16", args="M, N, K, a, b, c")
    code, found = check(tmp_path, SWAPPED, host, capsys, "--cures", "0")
    assert (code, found["status"]) == (1, "wrong")
    assert "right for M = N only" in found["verdict"]


VECTOR = """
__global__ void k(int M, int N, int K, const float* A, int lda, const float* B, int ldb, float* C, int ldc) {
    int row = blockIdx.y * 16 + threadIdx.y, col = 4 * (blockIdx.x * 16 + threadIdx.x);
    if (row >= M || col >= N) return;
    float s[4] = {};
    for (int k = 0; k < K; ++k)
        for (int i = 0; i < 4; ++i) s[i] += A[row * lda + k] * B[k * ldb + min(col + i, N - 1)];
    BODY
}"""
WIDE = "*reinterpret_cast<float4*>(C + row * ldc + col) = make_float4(s[0], s[1], s[2], s[3]);"
NARROW = "for (int i = 0; i < 4 && col + i < N; ++i) C[row * ldc + col + i] = s[i];"


@pytest.mark.parametrize(("body", "status"), [(NARROW, "right"), (WIDE, "aligned_rows")])
def test_vector_stores_need_aligned_rows(
    body: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host = HOST.format(grid="(N + 63) / 64, (M + 15) / 16", block="16, 16", args="M, N, K, a, K, b, N, c, N")
    code, found = check(tmp_path, VECTOR.replace("BODY", body), host, capsys)
    assert (code, found["status"]) == (0, status)
    odd = next(trial for trial in found["trials"] if "multiple of 16 bytes" in trial["label"])
    padded = next(trial for trial in found["trials"] if trial["label"] == "padded rows")
    assert padded["ok"]
    assert odd["ok"] == (status == "right")
    assert ("multiples of 16 bytes" in found["verdict"]) == (status != "right")


def test_a_tile_that_the_grid_does_not_show_is_found_by_larger_shapes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Columns are covered by eight blocks, of which each knows whether it has work; a block has 128 columns."""
    kernel = """__global__ void k(int M, int N, int K, const float* A, const float* B, float* C) {
        int row = blockIdx.y * 8 + threadIdx.y, first = blockIdx.x * 128;
        if (first >= N) return;
        for (int col = first + threadIdx.x; col < first + 128; col += 32) {
            float s = 0;
            for (int k = 0; k < K; ++k) s += A[row * K + k] * B[k * N + col];
            C[row * N + col] = s;
        } }"""
    host = HOST.format(grid="8 * ((N + 1023) / 1024), (M + 7) / 8", block="32, 8", args="M, N, K, a, b, c")
    code, found = check(tmp_path, kernel, host, capsys)
    assert (code, found["status"]) == (0, "whole_tiles")


def test_a_guard_that_lets_threads_write_the_next_row_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The grid covers every shape; threads past the end of a row write the beginning of the next one."""
    kernel = f"""__global__ void k(int M, int N, int K, const float* A, const float* B, float* C) {{ {ROW}
        if (row >= M || row * N + col >= M * N) return;
        float s = 0; for (int k = 0; k < K; ++k) s += A[row * K + k] * B[min(k * N + col, K * N - 1)];
        C[row * N + col] = s; }}"""
    host = HOST.format(grid="(N + 15) / 16, (M + 15) / 16", block="16, 16", args="M, N, K, a, b, c")
    code, found = check(tmp_path, kernel, host, capsys)
    assert (code, found["status"]) == (1, "wrong")


def test_a_bulk_copy_onto_a_barrier_is_simulated_as_sm_90_has_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """cuda::memcpy_async onto a barrier is a bulk copy on sm_90."""
    kernel = """#include <cuda/barrier>
        __global__ void k(int M, int N, int K, const float* A, const float* B, float* C) {
            __shared__ alignas(16) float a[16][16];
            __shared__ cuda::barrier<cuda::thread_scope_block> bar;
            int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
            if (x == 0 && y == 0) init(&bar, 256);
            __syncthreads();
            float s = 0;
            for (int t = 0; t < K; t += 16) {
                if (x == 0) cuda::memcpy_async(a[y], A + row * K + t, cuda::aligned_size_t<16>(64), bar);
                bar.arrive_and_wait();
                for (int i = 0; i < 16; ++i) s += a[y][i] * B[(t + i) * N + col];
                __syncthreads();
            }
            C[row * N + col] = s;
        }"""
    host = HOST.format(grid="N / 16, M / 16", block="16, 16", args="M, N, K, a, b, c")
    code, found = check(tmp_path, kernel, host, capsys)
    assert (code, found["status"], found["arch"]) == (0, "whole_tiles", "sm_90")


def test_a_kernel_with_one_extent_is_right_for_multiples_of_its_tile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not of 64 alone, the shape that is tried first."""
    kernel = """__global__ void k(const float* A, const float* B, float* C, int N) {
        __shared__ float as[16][16], bs[16][16];
        int y = threadIdx.y, x = threadIdx.x, row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
        float s = 0;
        for (int t = 0; t < N / 16; ++t) {
            as[y][x] = A[row * N + t * 16 + x];
            bs[y][x] = B[(t * 16 + y) * N + col];
            __syncthreads();
            for (int k = 0; k < 16; ++k) s += as[y][k] * bs[k][x];
            __syncthreads();
        }
        C[row * N + col] = s;
    }
    void run(float* a, float* b, float* c, int n) { k<<<dim3(n / 16, n / 16), dim3(16, 16)>>>(a, b, c, n); }
    """
    code, found = check(tmp_path, kernel, "", capsys)
    assert (code, found["status"]) == (0, "whole_tiles")
    assert [found["multiples"][extent] for extent in "mnk"] == [16, 16, 16]


def test_a_mask_for_a_last_k_tile_that_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A guard on k shows that the kernel is meant for any K. Without it, the kernel is right for whole k-tiles."""
    masked = """__global__ void k(int M, int N, int K, const float* A, const float* B, float* C) {
        __shared__ float as[16][16], bs[16][16];
        int y = threadIdx.y, x = threadIdx.x, row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
        float s = 0;
        for (int t = 0; t < K / 16; ++t) {
            as[y][x] = row < M && t * 16 + x < K ? A[row * K + t * 16 + x] : 0.0f;
            bs[y][x] = col < N && t * 16 + y < K ? B[(t * 16 + y) * N + col] : 0.0f;
            __syncthreads();
            for (int k = 0; k < 16; ++k) s += as[y][k] * bs[k][x];
            __syncthreads();
        }
        if (row < M && col < N) C[row * N + col] = s;
    }"""
    host = HOST.format(grid="(N + 15) / 16, (M + 15) / 16", block="16, 16", args="M, N, K, a, b, c")
    assert check(tmp_path, masked, host, capsys, "--cures", "0")[1]["status"] == "wrong"
    whole = masked.replace(" && t * 16 + x < K", "").replace(" && t * 16 + y < K", "")
    assert check(tmp_path, whole, host, capsys)[1]["status"] == "whole_tiles"
