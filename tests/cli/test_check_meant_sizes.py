"""Kernels that show by their code, their host code or another size that more than whole tiles was meant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gemmsmith.cli.main import run_command

ROWS = """
__global__ void pairs(const float* A, const float* B, float* C, int M, int N, int K) {
    int i = blockIdx.y * 2, col = blockIdx.x * 32 + threadIdx.x;
    if (col >= N) return;
    float low = 0.0f, high = 0.0f;
    for (int k = 0; k < K; ++k) {
        low += A[i * K + k] * B[k * N + col];
        if (i + 1 < M) high += A[(i + 1) * K + k] * B[k * N + col];
    }
    C[i * N + col] = low;
    if (i + 1 < M) C[(i + 1) * N + col] = high;
}
void product(const float* A, const float* B, float* C, int M, int N, int K) {
    pairs<<<dim3((N + 31) / 32, GROUPS), 32>>>(A, B, C, M, N, K);
}
"""
PITCH = """
__global__ void pairs_of_k(const float* A, const float* B, float* C, int M, int N, int K, int lda, int ldb, int ldc) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    int k = 0;
    if (lda % 2 == 0)
        for (; k + 1 < K; k += 2) {
            float2 a = *reinterpret_cast<const float2*>(A + (size_t)row * lda + k);
            sum += a.x * B[(size_t)k * ldb + col] + a.y * B[(size_t)(k + 1) * ldb + col];
        }
    for (; k < K; ++k) sum += A[(size_t)row * ODD_PITCH + k] * B[(size_t)k * ldb + col];
    C[(size_t)row * ldc + col] = sum;
}
void product(const float* A, const float* B, float* C, int M, int N, int K, int lda, int ldb, int ldc) {
    pairs_of_k<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K, lda, ldb, ldc);
}
"""
BYTE = """
__global__ void drawn(const float* A, const float* B, float* C, int M, int N, int K) {
    int across = (N + 15) / 16, tiles = across * ((M + 15) / 16);
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        COUNTER down = tile / across;
        int row = down * 16 + threadIdx.y, col = tile % across * 16 + threadIdx.x;
        float sum = 0.0f;
        if (row >= M || col >= N) continue;
        for (int k = 0; k < K; ++k) sum += A[(size_t)row * K + k] * B[(size_t)k * N + col];
        C[(size_t)row * N + col] = sum;
    }
}
void product(const float* A, const float* B, float* C, int M, int N, int K) {
    drawn<<<8, dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""


def status_of(source: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    path = folder / "mine.cu"
    path.write_text(source, encoding="utf-8")
    run_command(["check", str(path), "--json", "--cures", "0"])
    found = json.loads(capsys.readouterr().out)
    return found["status"], found["verdict"]


@pytest.mark.parametrize(("groups", "status"), [
    ("M / 2", "wrong"), ("(M + 1) / 2", "right"), ("M > 32 ? M / 2 : (M + 1) / 2", "wrong"),
], ids=["rounded down", "any", "any up to 32"])  # fmt: skip
def test_who_takes_an_odd_number_of_rows_takes_all(
    groups: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(ROWS.replace("GROUPS", groups), tmp_path, capsys)[0] == status


@pytest.mark.parametrize(("pitch", "status"), [("lda", "right"), ("(lda % 2 ? lda + 1 : lda)", "wrong")],
                         ids=["right", "wrong"])  # fmt: skip
def test_code_for_odd_rows_must_be_right(
    pitch: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(PITCH.replace("ODD_PITCH", pitch), tmp_path, capsys)[0] == status


@pytest.mark.parametrize(("counter", "status"), [("int", "right"), ("unsigned char", "wrong")], ids=["int", "byte"])
def test_more_tiles_than_a_byte_counts_are_tried(
    counter: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, verdict = status_of(BYTE.replace("COUNTER", counter), tmp_path, capsys)
    assert found == status, verdict
