"""A kernel that adds to C: the verdict says so, and a note where host code never sets C."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gemmsmith.cli.app import app

FILE = """__global__ void add(const float* A, const float* B, float* C, int M, int N, int K) {
  int j = blockIdx.x * 8 + threadIdx.x, i = blockIdx.y * 8 + threadIdx.y;
  if (i >= M || j >= N) return;
  float s = 0.f;
  for (int k = 0; k < K; ++k) s += A[i * K + k] * B[k * N + j];
  C[i * N + j] += s;
}
int main() {
  int M = 64, N = 32, K = 16;
  float *A, *B, *C, *h = new float[M * N];
  cudaMalloc(&A, M * K * 4);
  cudaMalloc(&B, K * N * 4);
  cudaMalloc(&C, M * N * 4);
  SET
  add<<<dim3((N + 7) / 8, (M + 7) / 8), dim3(8, 8)>>>(A, B, C, M, N, K);
  cudaMemcpy(h, C, M * N * 4, cudaMemcpyDeviceToHost);
  cudaFree(C);
}
"""


@pytest.mark.parametrize(
    ("sets", "is_noted"),
    [
        ("", True),
        ("cudaMemset(C, 0, M * N * 4);", False),
        ("cudaMemcpy(C, h, M * N * 4, cudaMemcpyHostToDevice);", False),
        ("fill(C, M * N);", False),
    ],
)
def test_an_output_that_nothing_sets_is_noted(tmp_path: Path, sets: str, is_noted: bool) -> None:
    (tmp_path / "add.cu").write_text(FILE.replace("SET", sets))
    words = ["check", str(tmp_path / "add.cu"), "--m", "16", "--n", "24", "--k", "8", "--json"]
    found = json.loads(CliRunner().invoke(app, words).output)
    assert found["status"] == "right"
    assert "is right, as C + A·B" in found["verdict"]
    assert any("never sets `C`" in note for note in found["notes"]) == is_noted


APART = """
__global__ void apart(const float* A, const float* B, const float* C, float* D, int M, int N, int K) {
  int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
  if (row >= M || col >= N) return;
  float sum = 0;
  for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[PLACE];
  D[row * N + col] = sum + C[row * N + col];
}
int main() {
  const int M = 64, N = 64, K = 64;
  float *A, *B, *C, *D;
  cudaMalloc(&A, M * K * 4); cudaMalloc(&B, K * N * 4); cudaMalloc(&C, M * N * 4); cudaMalloc(&D, M * N * 4);
  apart<<<dim3((N + 7) / 8, (M + 7) / 8), dim3(8, 8)>>>(A, B, C, D, M, N, K);
}
"""


@pytest.mark.parametrize(("place", "status"), [("k * N + col", "right"), ("k * N + k", "wrong")])
def test_an_addend_beside_the_output(tmp_path: Path, place: str, status: str) -> None:
    """D = A·B + C: C may be read, in a wrong kernel too, and D need not be set."""
    (tmp_path / "apart.cu").write_text(APART.replace("PLACE", place))
    words = ["check", str(tmp_path / "apart.cu"), "--m", "16", "--n", "24", "--k", "8", "--cures", "0", "--json"]
    found = json.loads(CliRunner().invoke(app, words).output)
    assert found["status"] == status
    assert not any("never sets" in note for note in found["notes"])
    assert "must not be read" not in json.dumps(found)
