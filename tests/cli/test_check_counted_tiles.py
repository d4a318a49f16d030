"""Kernels that count whole tiles themselves (``tile < M / 16``), with more blocks than they need."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

# A warp has a tile. The grid is guessed, of blocks with 32 x 32 outputs: most of its warps find nothing to do.
COUNTS = """
__global__ void tiles(const float* A, const float* B, float* C, int M, int N, int K) {
    int lane = threadIdx.x % 32;
    for (long ty = blockIdx.y * blockDim.y + threadIdx.y; ty < M / 16; ty += gridDim.y * blockDim.y)
        for (long tx = (blockIdx.x * blockDim.x + threadIdx.x) / 32; tx < N / 16; tx += gridDim.x * blockDim.x / 32)
            for (int each = lane; each < 256; each += 32) {
                long row = ty * 16 + each / 16, col = tx * 16 + each % 16;
                float sum = 0.f;
                for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[(long)k * N + col];
                C[row * N + col] = sum;
            }
}
"""


def test_no_block_has_to_write_a_tile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, found = check(tmp_path, COUNTS, capsys)
    assert found["status"] == "whole_tiles"
    assert not any("2³¹" in trial["label"] for trial in found["trials"])


def test_a_guard_beside_the_count_was_meant_for_any_extent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    guarded = COUNTS.replace("float sum", "if (row >= M) continue;\n                float sum")
    _, found = check(tmp_path, guarded, capsys)
    assert found["status"] == "wrong"


# Rows of B and C are read in vectors of 16 bytes; a grid that is rounded down has no block for less than a tile.
ROUNDS_DOWN = """
__global__ void tile(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 128 + threadIdx.x, col = blockIdx.x * 64;
    for (int c = 0; c < 64; c += 4) {
        float4 sum = {0, 0, 0, 0};
        for (int k = 0; k < K; ++k) {
            float a = A[row * K + k];
            float4 b = *reinterpret_cast<const float4*>(&B[k * N + col + c]);
            sum.x += a * b.x, sum.y += a * b.y, sum.z += a * b.z, sum.w += a * b.w;
        }
        *reinterpret_cast<float4*>(&C[row * N + col + c]) = sum;
    }
}
int main() {
    const int M = 8192, N = 8192, K = 8192;
    float *a, *b, *c;
    tile<<<dim3(N / 64, M / 128), 128>>>(a, b, c, M, N, K);
}
"""


def test_a_shape_for_which_host_code_launches_no_block(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, found = check(tmp_path, ROUNDS_DOWN, capsys)
    assert found["status"] == "whole_tiles"
