"""Integers that a kernel only compares with numbers are flags: 0 and 1 are tried for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.cli.main import run_command
from gemmsmith.verify.code.mode_values import mode_values

KERNEL = """
__global__ void product(const float* A, const float* B, float* C, int height, int depth, int width, int how) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= height || col >= width) return;
    float sum = 0;
    for (int k = 0; k < depth; ++k) sum += A[row * depth + k] * B[k * width + col];
    C[row * width + col] = ASKED ? sum : 0.5f * sum;
}
void run(const float* A, const float* B, float* C, int height, int depth, int width, int how) {
    dim3 block(16, 16), grid((width + 15) / 16, (height + 15) / 16);
    product<<<grid, block>>>(A, B, C, height, depth, width, how);
}
"""


@pytest.mark.parametrize(
    ("asked", "value"), [("how == 0", "0"), ("how == 1", "1"), ("how == 2", "2"), ("how * 2 == 4", "")]
)
def test_the_value_that_gives_a_product_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], asked: str, value: str
) -> None:
    (tmp_path / "k.cu").write_text(KERNEL.replace("ASKED", asked), encoding="utf-8")
    code = run_command(["check", str(tmp_path / "k.cu"), "--trial", "random data", "--cures", "0"])
    said = capsys.readouterr()
    assert code == (0 if value else 2), said
    assert (f"how is {value}" if value else "what how means is not clear") in said.out + said.err


@pytest.mark.parametrize(
    ("body", "flag"),
    [
        ("if (n != 2) p += 1; q = n == 1;", True),
        ("if (n) p += 1; return !n ? 1 : 0;", True),
        ("q = n ? 1 : 0;", True),
        ("if (i >= n || j >= m) return;", False),
        ("q = i < n ? 1 : 0;", False),
        ("if (n && !m) return;", True),
        ("if (i < n) p += 1;", False),
        ("if (n == 1) p += n;", False),
        ("f(m, n);", False),
        ("", False),
    ],
)
def test_what_is_only_asked_for(body: str, flag: bool) -> None:
    assert bool(mode_values("n", body)) is flag
