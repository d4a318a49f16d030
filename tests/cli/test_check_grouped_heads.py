"""gemmsmith check on attention in which several heads share keys: the kernel is told how many heads these have."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

SIZES = ("--m", "16", "--n", "16", "--k", "8")
KERNEL = """
__global__ void scores(const float* q, const float* k, float* s, COUNTERS int T, int D, int H, int kvH) {
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= T || col >= T) return;
    HEADS
    float sum = 0.0f;
    for (int i = 0; i < D; ++i) sum += q[(z * T + row) * D + i] * k[(group * T + col) * D + i];
    s[(z * T + row) * T + col] = sum;
}
void run(const float* q, const float* k, float* s, COUNTERS int T, int D, int H, int kvH) {
    scores<<<dim3((T + 15) / 16, (T + 15) / 16, GRID), dim3(16, 16)>>>(q, k, s, PASSED T, D, H, kvH);
}
"""
STYLES = {
    "ratio": "int z = blockIdx.z, group = z / (H / kvH);",
    "scaled": "int z = blockIdx.z, group = z * kvH / H;",
    "size": "int z = blockIdx.z, group = z / kvH;",
    "batch": "int z = blockIdx.z, h = z % H, b = z / H; int group = b * kvH + h / (H / kvH);",
}


def _source(style: str) -> str:
    batch = style == "batch"
    text = KERNEL.replace("HEADS", STYLES[style]).replace("COUNTERS", "int B," if batch else "")
    text = text.replace("GRID", "B * H" if batch else "H").replace("PASSED", "B," if batch else "")
    return text.replace("kvH", "rep") if style == "size" else text


@pytest.mark.parametrize("style", STYLES)
def test_heads_that_share_keys(style: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, _source(style), capsys, *SIZES)
    assert (code, found["ok"]) == (0, True), found
    assert "consecutive ones share one matrix of k" in str(found["found"]), found["found"]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("k[(group * T", "k[(group * D"),
        ("k[(group * T", "k[(z * T"),
        ("group = z / (H / kvH)", "group = z / (H / kvH) + z % 2"),
        ("group = z / (H / kvH)", "group = z / (H / kvH); group = z % kvH"),
        ("s[(z * T", "s[(group * T"),
    ],
)
def test_wrong_groups_are_never_right(
    right: str, wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = _source("ratio")
    assert right in source
    code, found = check(tmp_path, source.replace(right, wrong), capsys, *SIZES)
    if wrong == "k[(z * T":  # a plain batch: then nothing groups the heads
        assert code != 0 or "share" not in str(found["found"]), found
        return
    assert code != 0, found
