"""What check judges beside its trials can be repeated alone: `repeat:` names it, and `--trial` takes that name."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from checking import check

BATCH = """
__global__ void several(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    A += (size_t)blockIdx.z * M * K;
    B += (size_t)blockIdx.z * FIRST * N;
    C += (size_t)blockIdx.z * M * N;
    float sum = 0.f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K, int count) {
    several<<<dim3((N + 15) / 16, (M + 15) / 16, count), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""


def test_several_products_are_repeated_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, BATCH.replace("FIRST", "M"), capsys, "--trial", "several products")
    assert (code, found["status"]) == (1, "wrong"), found
    failed = next(trial for trial in found["trials"] if not trial["ok"])
    assert shlex.split(failed["repeat"])[-2:] == ["--trial", "several products"]
    assert len(found["trials"]) == 2, "the first trial, and this one"
    code, found = check(tmp_path, BATCH.replace("FIRST", "K"), capsys, "--trial", "several products")
    assert (code, found["status"]) == (0, "right"), found
    assert len(found["trials"]) == 2, "the first, and a batch"
