"""Advice for wmma tiles with bank conflicts, and for weights that neighbouring threads read by rows; floor grids."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gemmsmith.cli.main import run_command
from gemmsmith.explain.access_pattern import AccessPattern, Declaration
from gemmsmith.explain.pattern_words import staging_fix, with_longer_fragments

WMMA = """#include <mma.h>
using namespace nvcuda;
#define ROW 64
__global__ void tiles(const half* A, const half* B, float* C, int M, int N, int K) {
  __shared__ half left[16][ROW], right[ROW][16];
  int row = blockIdx.y * 16, col = blockIdx.x * 16;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.f);
  for (int k0 = 0; k0 < K; k0 += ROW) {
    for (int i = threadIdx.x; i < 16 * ROW; i += 32) {
      left[i / ROW][i % ROW] = A[(row + i / ROW) * K + k0 + i % ROW];
      right[i / 16][i % 16] = B[(k0 + i / 16) * N + col + i % 16];
    }
    __syncthreads();
    for (int k = 0; k < ROW; k += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
      wmma::load_matrix_sync(a, &left[0][k], ROW);
      wmma::load_matrix_sync(b, &right[k][0], 16);
      wmma::mma_sync(sum, a, b, sum);
    }
    __syncthreads();
  }
  wmma::store_matrix_sync(C + row * N + col, sum, N, wmma::mem_row_major);
}
void run(const half* A, const half* B, float* C, int M, int N, int K) {
  tiles<<<dim3(N / 16, M / 16), 32>>>(A, B, C, M, N, K);
}
"""
WEIGHTS = """
__global__ void layer(const float* x, const float* w, float* y, int M, int N, int K) {
  int n = blockIdx.x * blockDim.x + threadIdx.x, m = blockIdx.y;
  if (n >= N) return;
  float sum = 0;
  for (int k = 0; k < K; ++k) sum += x[m * K + k] * w[n * K + k];
  y[m * N + n] = sum;
}
void run(const float* x, const float* w, float* y, int M, int N, int K) {
  layer<<<dim3((N + 31) / 32, M), 32>>>(x, w, y, M, N, K);
}
"""


def explained(text: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    path = folder / "kernel.cu"
    path.write_text(text)
    assert run_command(["explain", str(path), "--m", "256", "--n", "256", "--k", "256", "--json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["findings"]
    return found


def test_a_wmma_tile_gets_longer_rows_and_their_leading_dimension(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (found,) = [each for each in explained(WMMA, tmp_path, capsys) if each["kind"] == "bank conflicts"]
    assert found["pattern"]["array"] == "left"
    assert found["where"].startswith("kernel.cu:18")
    assert "left[16][ROW + 8]" in found["fix"]
    assert "pass ROW + 8 as its leading dimension" in found["fix"]
    assert "the result is right" in found["tried"]
    assert "+      wmma::load_matrix_sync(a, &left[0][k], ROW + 8);" in found["diff"]


def test_weights_read_by_rows_are_staged_where_stores_are_coalesced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (found,) = [each for each in explained(WEIGHTS, tmp_path, capsys) if each["kind"] == "uncoalesced global loads"]
    assert found["pattern"]["array"] == "w"
    assert "Copy a tile of w into shared memory" in found["fix"]


@pytest.mark.parametrize(
    ("call", "changed"),
    [
        ("wmma::load_matrix_sync(a, &tile[r][k], T);", "wmma::load_matrix_sync(a, &tile[r][k], T + 8);"),
        ("wmma::store_matrix_sync(&tile[0][0], c, T, wmma::mem_row_major);",
         "wmma::store_matrix_sync(&tile[0][0], c, T + 8, wmma::mem_row_major);"),
        ("wmma::load_matrix_sync(a, &other[r][k], T);", ""),
        ("wmma::load_matrix_sync(a, &tile[r][k], LD);", ""),
    ],
)  # fmt: skip
def test_leading_dimensions_of_the_padded_array_alone_change(call: str, changed: str) -> None:
    declared = Declaration("half", "tile", ("16", "T"), "k.cu", 3)
    assert with_longer_fragments(call, declared, 8) == (changed or call)


def test_what_is_collected_before_it_is_stored() -> None:
    store = AccessPattern("global", True, 4, "C", "k.cu", 8, "", "", "", 100, 10, tuple(range(0, 4096, 128)))
    assert staging_fix(store).startswith("Collect the block's tile of C in shared memory")
    assert "tile of the matrix" in staging_fix(None)
