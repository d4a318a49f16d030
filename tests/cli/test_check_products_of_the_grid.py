"""gemmsmith check on batches that only the grid tells, with extents whose names tell nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

KERNEL = """
__global__ void mix(const float* w, const float* x, float* y, int OC, int IC, int HW) {
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y, n = blockIdx.z;
    if (i >= OC || j >= HW) return;
    float sum = 0.0f;
    for (int c = 0; c < IC; ++c) sum += w[i * IC + c] * x[(n * IC + c) * HW + j];
    y[(n * OC + i) * HW + j] = sum;
}
void run(const float* w, const float* x, float* y, int COUNT, int OC, int IC, int HW) {
    dim3 block(16, 16), grid((HW + 15) / 16, (OC + 15) / 16, COUNT);
    mix<<<grid, block>>>(w, x, y, OC, IC, HW);
}
"""
OWN = ("w[i * IC + c]", "w[(n * OC + i) * IC + c]")  # each product has a matrix of its own


@pytest.mark.parametrize("count", ["images", "batch", "samples"])
def test_the_grid_tells_the_batch(count: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = KERNEL.replace("COUNT", count)
    for each in (source, source.replace(*OWN)):
        code, found = check(tmp_path, each, capsys, "--trial", "a batch of three")
        assert (code, found["ok"]) == (0, True), found


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("x[(n * IC + c)", "x[(n * OC + c)"),
        ("y[(n * OC + i)", "y[(n * IC + i)"),
        ("y[(n * OC + i)", "y[i"),
        ("n = blockIdx.z", "n = blockIdx.z / 2"),
    ],
)
def test_wrong_offsets_are_never_right(
    right: str, wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert right in KERNEL
    code, found = check(tmp_path, KERNEL.replace("COUNT", "images").replace(right, wrong), capsys)
    assert code != 0, found
