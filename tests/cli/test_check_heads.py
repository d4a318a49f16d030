"""gemmsmith check on products of attention: one for each head of each sequence, whose numbers the grid multiplies."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

BATCH = ("--trial", "a batch of three")
SCORES = """
__global__ void scores(const float* q, const float* k, float* s, int B, int H, int T, int D) {
    int b = blockIdx.z / H, h = blockIdx.z % H;
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= T || col >= T) return;
    float sum = 0.0f;
    for (int i = FIRST; i < D; ++i) sum += q[((b * H + h) * T + row) * D + i] * k[((b * H + h) * T + col) * D + i];
    s[((b * H + h) * T + row) * T + col] = sum;
}
void run(const float* q, const float* k, float* s, int B, int H, int T, int D) {
    dim3 grid((T + 15) / 16, (T + 15) / 16, B * H);
    scores<<<grid, dim3(16, 16)>>>(q, k, s, B, H, T, D);
}
"""


def test_one_product_for_each_head(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, SCORES.replace("FIRST", "0"), capsys, *BATCH)
    assert (code, found["status"]) == (0, "right"), found
    code, found = check(tmp_path, SCORES.replace("FIRST", "1"), capsys, "--trial", "integers, bit for bit")
    assert (code, found["status"]) == (1, "wrong"), found


def test_heads_beside_one_another_are_not_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    beside = SCORES.replace("FIRST", "0").replace("(b * H + h) * T + row) * D", "(b * T + row) * H + h) * D")
    beside = beside.replace("(b * H + h) * T + col) * D", "(b * T + col) * H + h) * D")
    code, found = check(tmp_path, beside, capsys)
    assert code == 2, found
    assert "makes B * H products" in found, found
