"""gemmsmith check where host code chooses another launch from some size on, and that launch alone errs."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

PARTS = """
HEADERS
__global__ void mm(const TYPE* A, const TYPE* B, MORE float* C, int M, int N, int K, int part) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = FIRST;
    for (int k = blockIdx.z * part; k < min(K, (int)(blockIdx.z + 1) * part); ++k)
        sum += (float)A[row * K + k] * (float)B[k * N + col];
    atomicAdd(&C[row * N + col], SUM);
}
void run(const TYPE* A, const TYPE* B, MORE float* C, int M, int N, int K) {
    int parts = 1;
    while (parts < 8 && K >= 1024 * parts) parts *= 2;
    int part = ROUNDED;
    cudaMemsetAsync(C, 0, sizeof(float) * M * N);
    mm<<<dim3((N + 15) / 16, (M + 15) / 16, parts), dim3(16, 16)>>>(A, B, PASSED C, M, N, K, part);
}
"""
KINDS = {
    "a plain product": {"TYPE": "float", "MORE": "", "FIRST": "0.0f", "SUM": "sum", "PASSED": ""},
    "with an addend and a factor": {"TYPE": "float", "MORE": "const float* R, float scale,", "PASSED": "R, scale,",
                                    "FIRST": "blockIdx.z == 0 ? scale * R[row * N + col] : 0.0f", "SUM": "sum"},
    "with scales": {"TYPE": "int8_t", "MORE": "const float* scale_a, const float* scale_b,", "FIRST": "0.0f",
                    "SUM": "sum * scale_a[row] * scale_b[col]", "PASSED": "scale_a, scale_b,"},
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rounded", "status"), [("(K + parts - 1) / parts", "right"), ("K / parts", "wrong")])
def test_parts_of_k(kind: str, rounded: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = {**KINDS[kind], "ROUNDED": rounded, "HEADERS": "#include <cstdint>"}
    text = PARTS
    for word, meant in words.items():
        text = text.replace(word, meant)
    code, found = check(tmp_path, text, capsys)
    assert (code, found["status"]) == (status == "wrong", status), found
