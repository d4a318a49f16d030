"""Kernels of whole tiles whose grid is rounded down: shapes that host code launches no blocks for are not tried."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gemmsmith.cli.main import run_command

VECTORS = """
__global__ void whole(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float4 a[64][4], b[16][16];
    int t = threadIdx.x, row = blockIdx.y * 64, col = blockIdx.x * 64, y = t / 16 * 4, x = t % 16;
    float4 sums[4] = {};
    for (int k0 = 0; k0 < K; k0 += 16) {
        a[t / 4][t % 4] = *(const float4*)&A[(row + t / 4) * K + k0 + t % 4 * 4];
        b[t / 16][t % 16] = *(const float4*)&B[(k0 + t / 16) * N + col + t % 16 * 4];
        __syncthreads();
        for (int k = 0; k < 16; ++k)
            for (int i = 0; i < 4; ++i) {
                float left = ((const float*)a[y + i])[k];
                sums[i].x += left * b[k][x].x, sums[i].y += left * b[k][x].y;
                sums[i].z += left * b[k][x].z, sums[i].w += left * b[k][x].w;
            }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i) *(float4*)&C[(row + y + i) * N + col + x * 4] = sums[i];
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    whole<<<dim3(N / 64, M / 64), 256>>>(A, B, C, M, N, K);
}
"""


def test_a_kernel_of_whole_vectors_is_right_for_whole_tiles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "whole.cu").write_text(VECTORS)
    assert run_command(["check", str(tmp_path / "whole.cu"), "--cures", "0", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["status"] == "whole_tiles"
    assert found["multiples"] == {"m": 64, "n": 64, "k": 16}


GUARDED = """
#define TILE 16
SAID
__global__ void guarded(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    guarded<<<dim3(GRID), dim3(TILE, TILE)>>>(A, B, C, M, N, K);
}
MAIN
"""
DOWN, UP = "N / TILE, M / TILE", "(N + TILE - 1) / TILE, (M + TILE - 1) / TILE"
CALLED = "int main() { float *a, *b, *c; run(a, b, c, 512, 512, 512); }"


@pytest.mark.parametrize(
    ("grid", "said", "main", "status"),
    [
        (UP, "", "", "right"),
        (DOWN, "", "", "wrong"),  # a function for any M and N, a kernel that guards both
        (DOWN, "// M and N are multiples of 16", "", "whole_tiles"),
        (DOWN, "", CALLED, "whole_tiles"),  # the file's own sizes are multiples
        ("ceil(N / TILE), ceil(M / TILE)", "", CALLED, "wrong"),  # it is meant to round up
        ("ceil(N / (float)TILE), ceil(M / (float)TILE)", "", CALLED, "right"),
    ],
)
def test_a_grid_that_is_rounded_down_for_a_kernel_that_guards(
    grid: str, said: str, main: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = GUARDED.replace("GRID", grid).replace("SAID", said).replace("MAIN", main)
    (tmp_path / "guarded.cu").write_text(text)
    run_command(["check", str(tmp_path / "guarded.cu"), "--cures", "0", "--json"])
    assert json.loads(capsys.readouterr().out)["status"] == status
