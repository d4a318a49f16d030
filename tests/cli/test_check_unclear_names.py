"""gemmsmith check on kernels whose parameters' names tell nothing: their indices tell what was meant."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import QUICK, check

from gemmsmith.kernel.extents_by_use import extents_by_use
from gemmsmith.kernel.role_evidence import KernelText
from gemmsmith.kernel.roles import recognise

KERNEL = """
__global__ void mul(const float* a, const float* b, float* c, int p, int q, int r) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= p || col >= r) return;
    float s = 0;
    for (int k = FIRST; k < q; ++k) s += a[row * q + k] * b[k * r + col];
    c[row * r + col] = STORED;
}
void run(const float* a, const float* b, float* c, int p, int q, int r) {
    mul<<<dim3((r + 15) / 16, (p + 15) / 16), dim3(16, 16)>>>(a, b, c, p, q, r);
}
"""
SQUARE = KERNEL.replace(", int r)", ")").replace(" r)", " q)").replace(", r)", ")").replace("* r", "* q")
SQUARE = SQUARE.replace("((r +", "((q +")


@pytest.mark.parametrize("source", [KERNEL, SQUARE])
def test_a_wrong_product_is_called_wrong(source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = source.replace("FIRST", "1").replace("STORED", "s")
    code, found = check(tmp_path, wrong, capsys, "--trial", "integers, bit for bit")
    assert (code, found["status"]) == (1, "wrong"), found
    assert "by what it reads and writes, p is M" in found["found"][0]


def test_what_does_more_than_a_product_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = KERNEL.replace("FIRST", "0").replace("STORED", "s > 3 ? 3 : s")
    code, found = check(tmp_path, other, capsys, *QUICK)
    assert code == 2, found


def roles(body: str, numbers: str = "pqr") -> dict[str, str] | None:
    parameters = [("const float*", "a"), ("const float*", "b"), ("float*", "c"), *(("int", name) for name in numbers)]
    found = extents_by_use(recognise("mul", parameters, KernelText(body)), body)
    return {arg.name: arg.role for arg in found.arguments if arg.code == "i"} if found is not None else None


def test_roles_by_indices() -> None:
    right = "for (int k = 0; k < q; ++k) s += a[i * q + k] * b[k * r + j]; c[i * r + j] = s;"
    assert roles(right) == {"p": "M", "q": "K", "r": "N"}
    assert roles(right.replace("b[k * r + j]", "b[j * q + k]")) == {"p": "M", "q": "K", "r": "N"}
    assert roles(right.replace("r", "q"), "pq") == {"p": "M", "q": "N"}
    assert roles(right.replace("b[k * r + j]", "b[k * p + j]")) is None
    assert roles(right.replace("c[i * r + j] = s", "c[i * r + j] = s / 2")) is None
    assert roles(right.replace("+= a[i * q + k] *", "= a[i * q + k] -")) is None


def test_a_column_major_operand_names_a_row_major_kernel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = KERNEL.replace("FIRST", "0").replace("STORED", "s").replace("b[k * r + col]", "b[col * q + k]")
    source = source.replace("mul", "mulColMajor")
    code, found = check(tmp_path, source, capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found
    assert any("B transposed (NT): b is column-major" in line for line in found["found"]), found["found"]
