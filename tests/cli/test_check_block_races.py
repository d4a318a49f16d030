"""Kernels that no rule for products understands: races within their blocks are found with made-up arguments."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

LOOKED_FOR = "no race within a block was found"

FUSED = """
__global__ void fused(const float* x, const float* W, const float* A, const float* B, float* y, int M, int N, int K,
                      int R, float s) {
    __shared__ float xs[16][17], ws[16][16], as[16][16];
    const int tx = threadIdx.x, ty = threadIdx.y, m = blockIdx.y * 16 + ty, n = blockIdx.x * 16 + tx;
    float base = 0.f, down = 0.f, low = 0.f;
    for (int k0 = 0; k0 < K; k0 += 16) {
        xs[ty][tx] = (m < M && k0 + tx < K) ? x[m * K + k0 + tx] : 0.f;
        ws[ty][tx] = (k0 + ty < K && n < N) ? W[(k0 + ty) * N + n] : 0.f;
        as[ty][tx] = (k0 + ty < K && tx < R) ? A[(k0 + ty) * R + tx] : 0.f;
        __syncthreads();
        for (int k = 0; k < 16; ++k) base += xs[ty][k] * ws[k][tx], down += xs[ty][k] * as[k][tx];
        __syncthreads();
    }
    xs[ty][tx] = down;
    ws[ty][tx] = (ty < R && n < N) ? B[ty * N + n] : 0.f;
    __syncthreads();
    for (int r = 0; r < R; ++r) low += xs[ty][r] * ws[r][tx];
    if (m < M && n < N) y[m * N + n] = base + s * low;
}
int launch(const float* x, const float* W, const float* A, const float* B, float* y, int M, int N, int K, int R,
           float s) {
    if (R > 16) return -1;
    fused<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(x, W, A, B, y, M, N, K, R, s);
    return 0;
}
"""
QUEUE = """
struct Item { int row, length; };
__global__ void __launch_bounds__(128) drain(const Item* items, int count, int* next, const float* x, float* y, int D) {
    __shared__ int slot;
    __shared__ float sums[4];
    for (;;) {
        if (threadIdx.x == 0) slot = atomicAdd(next, 1);
        __syncthreads();
        const int i = slot;
        __syncthreads();
        if (i >= count) break;
        const Item item = items[i];
        if (item.length == 0) continue;
        float s = 0.f;
        for (int d = threadIdx.x; d < D; d += 128) s += x[item.row * D + d];
        for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
        if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = s;
        __syncthreads();
        if (threadIdx.x == 0) y[item.row] = sums[0] + sums[1] + sums[2] + sums[3];
    }
}
"""
SEGMENTS = """
__global__ void segments(const float* x, const int* begin, float* y, int count, int D) {
    __shared__ float part[8][33];
    const int tx = threadIdx.x, ty = threadIdx.y;
    for (int b = 0; b < count; ++b) {
        const int row = begin[b] + blockIdx.x * 8 + ty;
        for (int d0 = 0; d0 < D; d0 += 32) {
            part[ty][tx] = row < begin[b + 1] ? x[row * D + d0 + tx] : 0.f;
            __syncthreads();
            if (row < begin[b + 1]) y[row * D + d0 + tx] = part[ty][31 - tx] + part[0][tx];
            __syncthreads();
        }
    }
}
// segments: block (32, 8), grid (ceil(longest / 8))
"""
NESTED = """
struct View { const float* data; int stride; };
struct Args { View a, b; float* c; float low, high; int M, N, K; };
__global__ void __launch_bounds__(256) clamped(const Args p) {
    __shared__ float a[16][17], b[16][17];
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16, m = blockIdx.y * 16 + ty, n = blockIdx.x * 16 + tx;
    float sum = 0.f;
    for (int k0 = 0; k0 < p.K; k0 += 16) {
        a[ty][tx] = p.a.data[m * p.a.stride + k0 + tx];
        b[ty][tx] = p.b.data[(k0 + ty) * p.b.stride + n];
        __syncthreads();
        for (int k = 0; k < 16; ++k) sum += a[ty][k] * b[k][tx];
        __syncthreads();
    }
    p.c[m * p.N + n] = fminf(fmaxf(sum, p.low), p.high);
}
"""
PIPELINE = """
#include <cuda_pipeline.h>
__global__ void __launch_bounds__(64) rows(const unsigned char* q, const float* table, float* y, int K) {
    __shared__ __align__(16) unsigned char s[4][64][16];
    const int t = threadIdx.x, tiles = K / 16;
    float sum = 0.f;
    for (int i = 0; i < 3; ++i) {
        if (i < tiles) __pipeline_memcpy_async(s[i][t], q + (blockIdx.x * 64 + t) * K + i * 16, 16);
        __pipeline_commit();
    }
    for (int i = 0; i < tiles; ++i) {
        __pipeline_wait_prior(2);
        __syncthreads();
        for (int j = 0; j < 16; ++j) sum += table[s[i % 4][63 - t][j]];
        if (i + 3 < tiles) __pipeline_memcpy_async(s[(i + 3) % 4][t], q + (blockIdx.x * 64 + t) * K + (i + 3) * 16, 16);
        __pipeline_commit();
    }
    y[blockIdx.x * 64 + 63 - t] = sum;
}
"""
RANK = """
__global__ void down(const float* x, const float* A, float* mid, const int* adapter, int K, int rank) {
    __shared__ float row[8][17];  // ranks are 16 at most
    const int lane = threadIdx.x, warp = threadIdx.y, m = blockIdx.x * 8 + warp;
    for (int r = 0; r < rank; ++r) {
        float s = 0.f;
        for (int k = lane; k < K; k += 32) s += x[m * K + k] * A[(adapter[m] * K + k) * rank + r];
        for (int o = 16; o; o >>= 1) s += __shfl_down_sync(~0u, s, o);
        if (lane == 0) row[warp][r] = s;
    }
    __syncwarp();
    for (int r = lane; r < rank; r += 32) mid[m * rank + r] = row[warp][r];
}
void launch(const float* x, const float* A, float* mid, const int* adapter, int rows, int K, int rank) {
    down<<<rows / 8, dim3(32, 8)>>>(x, A, mid, adapter, K, rank);
}
"""
PADDED = """
// The rows of each expert are padded to a multiple of 64.
__global__ void experts(const float* x, const float* w, float* y, const int* first, int K, int N) {
    __shared__ float xs[16][17], ws[16][17];
    const int tx = threadIdx.x, ty = threadIdx.y, e = blockIdx.z, n = blockIdx.x * 16 + tx;
    const int row = first[e] + blockIdx.y * 16 + ty;
    if (row < first[e + 1]) {
        float sum = 0.f;
        for (int k = 0; k < K; k += 16) {
            xs[ty][tx] = x[row * K + k + tx];
            ws[ty][tx] = w[(e * K + k + ty) * N + n];
            __syncthreads();
            for (int i = 0; i < 16; ++i) sum += xs[ty][i] * ws[i][tx];
            __syncthreads();
        }
        y[row * N + n] = sum;
    }
}
// block (16, 16), grid (N / 16, 4, experts)
"""
PROBLEMS = """
struct Problem { int m, n, k; const signed char* a; const float *b, *gate; float* c; };
__global__ void __launch_bounds__(256) grouped(const Problem* list) {
    __shared__ float a[16][17], b[16][17];
    const Problem p = list[blockIdx.z];
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16, m = blockIdx.y * 16 + ty, n = blockIdx.x * 16 + tx;
    if (blockIdx.y * 16 >= p.m || blockIdx.x * 16 >= p.n) return;
    float sum = 0.f;
    for (int k0 = 0; k0 < p.k; k0 += 16) {
        a[ty][tx] = m < p.m && k0 + tx < p.k ? (float)p.a[m * p.k + k0 + tx] : 0.f;
        b[ty][tx] = k0 + ty < p.k && n < p.n ? p.b[(k0 + ty) * p.n + n] : 0.f;
        __syncthreads();
        for (int k = 0; k < 16; ++k) sum += a[ty][k] * b[k][tx];
        __syncthreads();
    }
    if (m < p.m && n < p.n) p.c[m * p.n + n] = p.gate[m] > 0.f ? sum : p.gate[m];
}
"""


@pytest.mark.parametrize("source", [FUSED, QUEUE, SEGMENTS, NESTED, PIPELINE, RANK, PADDED, PROBLEMS])
def test_without_races_it_stays_refused(source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = check(tmp_path, source, capsys)
    assert code == 2
    assert LOOKED_FOR in said


@pytest.mark.parametrize(
    ("source", "written", "changed"),
    [
        (FUSED, "        __syncthreads();\n    }\n    xs", "        if (k0 + 16 < K) __syncthreads();\n    }\n    xs"),
        (QUEUE, "        __syncthreads();\n        if (i >=", "        if (i >="),
        (SEGMENTS, "part[0][tx];\n            __syncthreads();", "part[0][tx];"),
        (NESTED, "a[ty][k] * b[k][tx];\n        __syncthreads();", "a[ty][k] * b[k][tx];"),
        (PIPELINE, "__pipeline_wait_prior(2)", "__pipeline_wait_prior(3)"),
        (RANK, "    __syncwarp();\n", ""),
        (PADDED, "ws[i][tx];\n            __syncthreads();", "ws[i][tx];"),
        (PROBLEMS, "a[ty][k] * b[k][tx];\n        __syncthreads();", "a[ty][k] * b[k][tx];"),
    ],
)
def test_a_race_within_a_block(
    source: str, written: str, changed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert written in source
    code, report = check(tmp_path, source.replace(written, changed), capsys)
    assert code == 1
    assert report["status"] == "racy"
    assert report["trials"][0]["faults"][0]["rule"] == "race"
    assert report["note"].startswith("its result is not judged: ")


def test_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The launch that races, with its made-up sizes, and the lines of both accesses."""
    from gemmsmith.cli.main import run_command

    (tmp_path / "k.cu").write_text(QUEUE.replace("        __syncthreads();\n        if (i >=", "        if (i >="))
    assert run_command(["check", str(tmp_path / "k.cu")]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "drain races within a block, whatever it is meant to compute: made-up arguments with count = 8, D = 16" in said
    )
    assert "if (threadIdx.x == 0) slot = atomicAdd(next, 1);" in said
    assert "its result is not judged: " in said


def test_one_of_several_kernels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The kernel that is asked for is searched, not the one that may be a product."""
    racy = QUEUE.replace("        __syncthreads();\n        if (i >=", "        if (i >=")
    code, report = check(tmp_path, FUSED + racy, capsys, "--entry", "drain")
    assert code == 1
    assert report["entry"] == "drain"


def test_a_launch_that_nothing_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a block nothing is run, and nothing is said of races."""
    source = QUEUE.replace("__launch_bounds__(128) ", "").replace(
        "        __syncthreads();\n        if (i >=", "if (i >="
    )
    code, said = check(tmp_path, source, capsys)
    assert code == 2
    assert LOOKED_FOR not in said


def test_blocks_that_share_global_memory_are_not_accused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With made-up strides what blocks write may overlap."""
    source = NESTED.replace("p.c[m * p.N + n] =", "p.c[m * p.b.stride + n] +=")
    code, said = check(tmp_path, source, capsys)
    assert code == 2
    assert LOOKED_FOR in said
