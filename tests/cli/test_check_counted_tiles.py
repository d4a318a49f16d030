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
