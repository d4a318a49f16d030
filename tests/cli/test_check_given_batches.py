"""gemmsmith check --grid with a batch: products along z of a kernel that no launch is known of."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

KERNEL = """
__global__ void bmm(float* out, const float* lhs, const float* rhs, int p, int q, int r) {
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z;
    if (i >= p || j >= r) return;
    float sum = 0.0f;
    for (int t = 0; t < q; ++t) sum += lhs[z * p * q + i * q + t] * rhs[z * q * r + t * r + j];
    out[z * p * r + i * r + j] = sum;
}
"""
WRONG = KERNEL.replace("rhs[z * q * r", "rhs[z * q")
BLOCK = ("--block", "16,16")


@pytest.mark.parametrize("name", ["batch", "BATCH"])
def test_a_batch_that_the_user_gives(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grid = ("--grid", f"ceil(N/16),ceil(M/16),{name}", *BLOCK, "--trial", "a batch of three")
    code, found = check(tmp_path, KERNEL, capsys, *grid)
    assert (code, found["ok"]) == (0, True), found
    code, found = check(tmp_path, WRONG, capsys, *grid)
    assert (code, found["status"]) == (1, "wrong"), found


def test_a_number_of_blocks_along_z_is_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, KERNEL, capsys, "--grid", "ceil(N/16),ceil(M/16),3", *BLOCK)
    assert code == 2, found
    assert "3 blocks along z" in found, found
    assert "batch' --block" in found, found


def test_without_a_grid_the_refusal_names_the_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, KERNEL, capsys)
    assert code == 2, found
    assert "--grid 'ceil(N/16),ceil(M/16),batch'" in found, found
