"""Alpha and beta behind pointers, ``*alpha * sum + *beta * C[…]``; arrays of that name are none."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from checking import check

from gemmsmith.errors import GemmsmithError
from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel

PRODUCT = """
__global__ void product(int M, int N, int K, const float *alpha, const float *beta, const float *A, const float *B,
                        float *C) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = RESULT;
}
void run(int m, int n, int k, float *d_alpha, float *d_beta, float *a, float *b, float *c) {
    product<<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16)>>>(m, n, k, d_alpha, d_beta, a, b, c);
}
"""
SCALED = "*alpha * sum + beta[0] * C[row * N + col]"


def roles(folder: Path, result: str) -> dict[str, str]:
    path = folder / "product.cu"
    path.write_text(PRODUCT.replace("RESULT", result))
    return {arg.name: arg.role for arg in user_kernel(path, UserOptions()).signature.arguments}


@pytest.mark.parametrize("result", [SCALED, "sum * *alpha + *beta * C[row * N + col]",
                                    "sum*alpha[0] + C[row * N + col]*beta[0]"])  # fmt: skip
def test_they_are_scalars(tmp_path: Path, result: str) -> None:
    assert roles(tmp_path, result) == {"M": "M", "N": "N", "K": "K", "alpha": "alpha", "beta": "beta", "A": "A",
                                       "B": "B", "C": "C"}  # fmt: skip


@pytest.mark.parametrize("result", ["alpha[row] * sum + *beta", "*(alpha + col) * sum + *beta",
                                    "alpha[row] * sum + *beta * C[row * N + col]"])  # fmt: skip
def test_arrays_of_scales_are_none(tmp_path: Path, result: str) -> None:
    with contextlib.suppress(GemmsmithError):  # refused, for want of a meaning
        assert not {"alpha", "beta"} & set(roles(tmp_path, result).values())


@pytest.mark.parametrize(("result", "status"), [
    (SCALED, "right"),
    ("*beta * sum + *alpha * C[row * N + col]", "wrong"),
])  # fmt: skip
def test_they_are_tried(tmp_path: Path, capsys: pytest.CaptureFixture[str], result: str, status: str) -> None:
    _, found = check(tmp_path, PRODUCT.replace("RESULT", result), capsys)
    assert found["status"] == status
