"""gemmsmith check on kernels that multiply element by element: they are no products, whatever their parameters."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

FLAT = "int i = blockIdx.x * 128 + threadIdx.x;"
CELL = "int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x; if (row >= M || col >= N) return;"
FLAT_LAUNCH = "<<<(M * N + 127) / 128, 128>>>"
CELL_LAUNCH = "<<<dim3((N + 7) / 8, (M + 7) / 8), dim3(8, 8)>>>"
NO_PRODUCT = {
    "all three sizes": ("scaled", "const float* x, const float* w, const float* r, float* y", "x, w, r, y",
                        f"{FLAT} if (i < M * N * K) y[i] = x[i] * w[i] + r[i];",
                        "<<<(M * N * K + 127) / 128, 128>>>"),
    "one weight a column": ("gated", "const float* x, const float* w, float* y", "x, w, y",
                            f"{CELL} y[row * N + col] = x[row * N + col] * w[col];", CELL_LAUNCH),
    "it adds": ("blend", "const float* A, const float* B, float* C", "A, B, C",
                f"{FLAT} if (i < M * N) C[i] += 0.5f * A[i] * B[i];", FLAT_LAUNCH),
    "grid stride": ("mul_all", "const float* A, const float* B, float* C", "A, B, C",
                    f"{FLAT} for (; i < M * K; i += gridDim.x * 128) C[i] = A[i] * B[i];", "<<<4, 128>>>"),
    "outer product": ("rank_one", "const float* x, const float* y, float* out", "x, y, out",
                      f"{CELL} out[row * N + col] = x[row] * y[col];", CELL_LAUNCH),
    "rows with rows": ("row_dots", "const float* A, const float* B, float* C", "A, B, C",
                       f"{FLAT} if (i >= M) return; float sum = 0; "
                       "for (int j = 0; j < N; ++j) sum += A[i * N + j] * B[i * N + j]; C[i] = sum;",
                       "<<<(M + 127) / 128, 128>>>"),
    "its name": ("matmul_elementwise", "const float* A, const float* B, float* C", "A, B, C",
                 f"{CELL} C[row * N + col] = A[row * N + col] * B[row * N + col];", CELL_LAUNCH),
}  # fmt: skip
WRONG = {
    "no loop": ("product", f"{CELL} C[row * N + col] = A[row * K] * B[col];"),
    "the last term alone": ("product", f"{CELL} float sum = 0; for (int k = 0; k < K; ++k) "
                            "sum = A[row * K + k] * B[k * N + col]; C[row * N + col] = sum;"),
    "the first row and column alone": ("product", f"{CELL} C[row * N + col] = A[row * N] * B[col];"),
    "a guard by another size": ("product", f"{CELL} float sum = 0; for (int k = 0; k < N; ++k) "
                                "sum += A[row * N + k] * B[k * N + col]; C[row * N + col] = sum;"),
    "its name says product": ("matmul", f"{CELL} C[row * N + col] = A[row * N + col] * B[row * N + col];"),
}  # fmt: skip


def source(name: str, parameters: str, arguments: str, body: str, launch: str) -> str:
    return (f"__global__ void {name}({parameters}, int M, int N, int K) {{ {body} }}\n"
            f"void run({parameters}, int M, int N, int K) {{ {name}{launch}({arguments}, M, N, K); }}\n")  # fmt: skip


@pytest.mark.parametrize("given", NO_PRODUCT.values(), ids=NO_PRODUCT)
def test_it_is_no_product(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: tuple[str, str, str, str, str]
) -> None:
    code, found = check(tmp_path, source(*given), capsys)
    assert code == 2
    assert f"{given[0]} is not a matrix product" in found
    assert "gemmsmith.launch" in found
    assert "--expect" in found


@pytest.mark.parametrize(("name", "body"), WRONG.values(), ids=WRONG)
def test_a_product_without_a_sum_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, body: str
) -> None:
    parameters = "const float* A, const float* B, float* C"
    code, found = check(tmp_path, source(name, parameters, "A, B, C", body, CELL_LAUNCH), capsys)
    assert (code, found["status"]) == (1, "wrong")
