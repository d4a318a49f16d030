"""gemmsmith check on batches with a bias: one for all products, or one for each."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

BATCH = ("--trial", "a batch of three")
KERNEL = """
__global__ void layers(const float* x, const float* w, const float* bias, float* y, int batch, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x, z = blockIdx.z;
    if (row >= M || col >= N) return;
    float sum = bias[OFFSET];
    for (int k = 0; k < K; ++k) sum += x[(z * M + row) * K + k] * w[(z * K + k) * N + col];
    y[(z * M + row) * N + col] = sum;
}
void run(const float* x, const float* w, const float* b, float* y, int batch, int M, int N, int K) {
    layers<<<dim3((N + 15) / 16, (M + 15) / 16, batch), dim3(16, 16)>>>(x, w, b, y, batch, M, N, K);
}
"""
ALLOCATED = """
int main() {
    int batch = 5, M = 100, N = 120, K = 64;
    float *x, *w, *b, *y;
    cudaMalloc(&x, sizeof(float) * batch * M * K);
    cudaMalloc(&w, sizeof(float) * batch * K * N);
    cudaMalloc(&b, sizeof(float) * SIZE);
    cudaMalloc(&y, sizeof(float) * batch * M * N);
    run(x, w, b, y, batch, M, N, K);
}
"""


def _source(offset: str) -> str:
    return KERNEL.replace("OFFSET", offset)


@pytest.mark.parametrize("offset", ["col", "z * N + col", "z * M + row", "blockIdx.z * size_t(N) + col"])
def test_a_bias_for_all_or_for_each(offset: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, _source(offset), capsys, *BATCH)
    assert (code, found["status"]) == (0, "right"), found
    assert ("each product of the batch has a bias of its own" in str(found["found"])) == (offset != "col"), found


@pytest.mark.parametrize("offset", ["z * N + col + 1", "(z + 1) * N + col", "2 * z * N + col", "z * K + col"])
def test_a_bias_at_a_wrong_place(offset: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, _source(offset), capsys, "--m", "16", "--n", "32", "--k", "24")
    assert (code, found["status"]) == (1, "wrong"), found


def test_what_host_code_allocates_decides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = _source("z * N + col") + ALLOCATED
    code, found = check(tmp_path, source.replace("SIZE", "batch * N"), capsys, *BATCH)
    assert (code, found["status"]) == (0, "right"), found
    code, found = check(tmp_path, source.replace("SIZE", "N"), capsys, *BATCH)
    assert (code, found["status"]) == (1, "wrong"), found


def test_heads_that_share_their_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = _source("z * N + col").replace("x[(z * M + row) * K", "x[row * K")
    code, found = check(tmp_path, source, capsys, *BATCH)
    assert (code, found["status"]) == (0, "right"), found
    assert "one x is used for all products of the batch" in str(found["found"]), found
