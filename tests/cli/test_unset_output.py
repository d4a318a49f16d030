"""A kernel that adds to C: the verdict says so, and is wrong where host code never sets the C that it hands out."""

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
    ("sets", "copied", "status", "is_noted"),
    [
        ("", True, "wrong", False),
        ("", False, "right", True),  # who only measures needs no values
        ("cudaMemset(C, 0, M * N * 4);", True, "right", False),
        ("cudaMemcpy(C, h, M * N * 4, cudaMemcpyHostToDevice);", True, "right", False),
        ("fill(C, M * N);", True, "right", False),
    ],
)
def test_an_output_that_nothing_sets(tmp_path: Path, sets: str, copied: bool, status: str, is_noted: bool) -> None:
    text = FILE.replace("SET", sets)
    (tmp_path / "add.cu").write_text(text if copied else text.replace("cudaMemcpy(h, C", "//"))
    words = ["check", str(tmp_path / "add.cu"), "--m", "16", "--n", "24", "--k", "8", "--json"]
    found = json.loads(CliRunner().invoke(app, words).output)
    assert found["status"] == status
    assert any("never sets `C`" in note for note in found["notes"]) == is_noted


TENSORS = """
#include <torch/extension.h>
__global__ void add(const float* a, const float* b, float* c, int M, int N, int K) {
  int j = blockIdx.x * 8 + threadIdx.x, i = blockIdx.y * 8 + threadIdx.y;
  if (i >= M || j >= N) return;
  float s = 0.f;
  for (int k = blockIdx.z; k < K; k += gridDim.z) s += a[i * K + k] * b[k * N + j];
  atomicAdd(c + i * N + j, s);
}
torch::Tensor run(torch::Tensor a, torch::Tensor b) {
  int M = a.size(0), K = a.size(1), N = b.size(1);
  torch::Tensor c = torch::MADE({M, N}, a.options());
  SET
  add<<<dim3((N + 7) / 8, (M + 7) / 8, 2), dim3(8, 8)>>>(a.data_ptr<float>(), b.data_ptr<float>(),
                                                         c.data_ptr<float>(), M, N, K);
  return c;
}
"""


@pytest.mark.parametrize(
    ("made", "sets", "status"),
    [
        ("empty", "", "wrong"),
        ("zeros", "", "right"),
        ("empty", "c.zero_();", "right"),
        ("empty", "c.fill_(0);", "right"),
    ],
)
def test_a_tensor_that_nothing_sets(tmp_path: Path, made: str, sets: str, status: str) -> None:
    (tmp_path / "add.cu").write_text(TENSORS.replace("MADE", made).replace("SET", sets))
    words = ["check", str(tmp_path / "add.cu"), "--m", "16", "--n", "24", "--k", "8", "--json"]
    assert json.loads(CliRunner().invoke(app, words).output)["status"] == status


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
