"""gemmsmith check on wrong kernels whose names for M, N and K mean others: indices tell, so that the reason is true."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

from gemmsmith.kernel.extents_by_use import named_otherwise
from gemmsmith.kernel.signature import Argument, Signature

# Rows are n, columns k, and the sum goes up to m; the grid has a column of tiles for every eight rows.
KERNEL = """
__global__ void mul(const float* A, const float* B, float* C, int n, int m, int k) {
    __shared__ float a[8][8], b[8][8];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 8 + y, col = blockIdx.x * 8 + x;
    float sum = 0.f;
    int tiles { (m + 7) / 8 };
    for (int t = 0; t < tiles; ++t) {
        a[y][x] = row < n && t * 8 + x < m ? A[row * m + t * 8 + x] : 0.f;
        b[y][x] = col < k && t * 8 + y < m ? B[(t * 8 + y) * k + col] : 0.f;
        __syncthreads();
        for (int i = 0; i < 8; ++i) sum += a[y][i] * b[i][x];
        __syncthreads();
    }
    if (row < n && col < k) C[row * k + col] = sum;
}
void run(const float* A, const float* B, float* C, int n, int m, int k) {
    mul<<<dim3((n + 7) / 8, (n + 7) / 8), dim3(8, 8)>>>(A, B, C, n, m, k);
}
"""


def test_the_reason_names_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # as where time is short
    monkeypatch.setattr("gemmsmith.verify.meaning.settle.with_restricted_extents", lambda _: None)
    code, found = check(tmp_path, KERNEL, capsys)
    assert (code, found["status"]) == (1, "wrong")
    assert "never written" in str(found["trials"][-1])
    assert "out-of-bounds" not in str(found["trials"][-1])


def _signature(*names: str) -> Signature:
    pointers = (Argument("A", "A", "P"), Argument("B", "B", "P"), Argument("C", "C", "P"))
    return Signature("mul", (*pointers, *(Argument(name, name.upper(), "i") for name in names)))


def test_indices_against_names() -> None:
    found = named_otherwise(_signature("n", "m", "k"), KERNEL)
    assert found is not None
    assert {arg.name: arg.role for arg in found.arguments[3:]} == {"n": "M", "m": "K", "k": "N"}


@pytest.mark.parametrize(
    ("right", "wrong"), [("A[row * m", "A[row * k"), ("C[row * k", "C[row * m"), ("(m + 7)", "(k + 7)")]
)
def test_indices_that_do_not_agree_tell_nothing(right: str, wrong: str) -> None:
    assert named_otherwise(_signature("n", "m", "k"), KERNEL.replace(right, wrong)) is None


def test_names_that_fit_stay() -> None:
    usual = KERNEL.replace("n", "X").replace("m", "Y").replace("k", "n").replace("Y", "k").replace("X", "m")
    assert named_otherwise(_signature("m", "k", "n"), usual) is None
