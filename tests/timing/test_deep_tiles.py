"""Kernels whose k-tile is deeper than the K that is usually executed: whole k-tiles are timed."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.explain.timing.predict import Predictor
from gemmsmith.gpus import gpu_named
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.user_kernel import user_kernel

DEEP = """
#define TK %d
__global__ void deep(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float as[8][TK];
  int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 8 + y, col = blockIdx.x * 8 + x;
  float s = 0.f;
  for (int k0 = 0; k0 < K; k0 += TK) {
    for (int k = x; k < TK; k += 8) as[y][k] = row < M && k0 + k < K ? A[row * K + k0 + k] : 0.f;
    __syncthreads();
    for (int k = 0; k < TK; k++) s += as[y][k] * (k0 + k < K && col < N ? B[(k0 + k) * N + col] : 0.f);
    __syncthreads();
  }
  if (row < M && col < N) C[row * N + col] = s;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
  deep<<<dim3((N + 7) / 8, (M + 7) / 8), dim3(8, 8)>>>(A, B, C, M, N, K);
}
"""


@pytest.mark.parametrize("depth", [32, 256])
def test_the_two_k_are_whole_k_tiles_apart(tmp_path: Path, depth: int) -> None:
    (tmp_path / "deep.cu").write_text(DEEP % depth)
    spec = user_kernel(tmp_path / "deep.cu", UserOptions())
    predictor = Predictor(spec, spec.config(), spec.problem(64, 64, 4096), gpu_named("H200"))
    low, high = predictor._depths()
    assert 0 < low < high <= 1024
    assert (high - low) % depth == 0
    assert (4096 - low) % depth == 0
