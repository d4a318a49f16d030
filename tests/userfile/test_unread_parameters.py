"""Parameters that a kernel never reads: alpha and beta for which the launch has 1 and 0, numbers of no meaning."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.kernel.signature import Signature
from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel

PRODUCT = """
#define WEIGHT(x) (alpha * (x))
__global__ void product(const float* A, const float* B, float* C, int M, int N, int K, float alpha, float beta) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = RESULT;
}
void run(const float* a, const float* b, float* c, int m, int n, int k, float alpha, float beta) {
    product<<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16)>>>(a, b, c, m, n, k, PASSED);
}
"""


def signature(folder: Path, result: str, passed: str) -> Signature:
    path = folder / "product.cu"
    path.write_text(PRODUCT.replace("RESULT", result).replace("PASSED", passed))
    return user_kernel(path, UserOptions()).signature


@pytest.mark.parametrize(("result", "passed", "alpha", "beta"), [
    ("sum", "1.0f, 0.0f", "1", "0"),
    ("sum", "alpha, beta", "alpha", "beta"),  # the caller's alpha is ignored: wrong
    ("sum", "2.0f, 0.0f", "alpha", "0"),
    ("alpha * sum", "1.0f, 0.0f", "alpha", "beta"),  # one of the two is read: the other was forgotten
    ("WEIGHT(sum)", "1.0f, 0.0f", "alpha", "beta"),  # read by a macro
])  # fmt: skip
def test_scalars(tmp_path: Path, result: str, passed: str, alpha: str, beta: str) -> None:
    roles = {arg.name: arg.role for arg in signature(tmp_path, result, passed).arguments}
    assert (roles["alpha"], roles["beta"]) == (alpha, beta)


@pytest.mark.parametrize(("launch", "beta"), [
    ("add<<<m, n>>>(c, d, beta);", "0"),  # it goes on with the result
    ("other<<<m, n>>>(a, b, c, m, n, k, alpha, beta);", "beta"),  # another version of the product
    ("other<<<m, n>>>(a, b, d, m, n, k, alpha, beta);", "beta"),
    ("if (m > 8) return; add<<<m, n>>>(c, d, beta);", "0"),
])  # fmt: skip
def test_a_scalar_for_the_kernel_that_goes_on(tmp_path: Path, launch: str, beta: str) -> None:
    path = tmp_path / "product.cu"
    text = PRODUCT.replace("RESULT", "alpha * sum").replace("PASSED", "alpha, beta")
    path.write_text(text.replace("alpha, beta);\n}", f"alpha, beta);\n    {launch}\n}}"))
    assert launch in path.read_text()
    roles = {arg.name: arg.role for arg in user_kernel(path, UserOptions()).signature.arguments}
    assert (roles["alpha"], roles["beta"]) == ("alpha", beta)


SQUARE = """
#define N 1024
__global__ void product(const float* A, const float* B, float* C, int n) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.f;
    for (int k = 0; k < n; ++k) sum += A[row * n + k] * B[k * PITCH + col];
    C[row * n + col] = sum;
}
void run(const float* a, const float* b, float* c) { product<<<dim3(N / 16, N / 16), dim3(16, 16)>>>(a, b, c, N); }
"""


@pytest.mark.parametrize(("pitch", "fixed"), [("N", True), ("n", False)])
def test_a_square_kernel_that_is_written_with_the_size_it_is_passed(tmp_path: Path, pitch: str, fixed: bool) -> None:
    path = tmp_path / "square.cu"
    path.write_text(SQUARE.replace("PITCH", pitch))
    assert dict(user_kernel(path, UserOptions()).signature.fixed) == (dict.fromkeys("MNK", 1024) if fixed else {})


UNGUARDED = """
__global__ void product(const float* A, const float* B, float* C, PARAMETERS) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.f;
    for (int i = 0; i < INNER; ++i) sum += A[row * INNER + i] * B[i * COLUMNS + col];
    C[row * COLUMNS + col] = sum;
}
"""


@pytest.mark.parametrize(("parameters", "inner", "columns", "name", "role"), [
    ("int M, int N, int K, int version", "K", "N", "version", "0"),  # a number that means nothing
    ("int M, int N, int K", "K", "N", "M", "M"),  # rows, of which the grid has as many as there are
    ("int n, int m, int p", "m", "p", "n", ""),  # the same, under names that do not tell
])  # fmt: skip
def test_numbers(tmp_path: Path, parameters: str, inner: str, columns: str, name: str, role: str) -> None:
    path = tmp_path / "product.cu"
    path.write_text(UNGUARDED.replace("PARAMETERS", parameters).replace("INNER", inner).replace("COLUMNS", columns))
    roles = {arg.name: arg.role for arg in user_kernel(path, UserOptions()).signature.arguments}
    assert roles[name] == role


@pytest.mark.parametrize("around", [
    "if (alpha == 0.0f) { add<<<m, n>>>(c, d, beta); } else { LAUNCH }",
    "if (alpha == 0.0f) { add<<<m, n>>>(c, d, beta); return; } LAUNCH",
    "if (alpha != 0.0f) LAUNCH else add<<<m, n>>>(c, d, beta);",
])  # fmt: skip
def test_a_kernel_in_another_branch_does_not_go_on(tmp_path: Path, around: str) -> None:
    path = tmp_path / "product.cu"
    text = PRODUCT.replace("RESULT", "alpha * sum").replace("PASSED", "alpha, beta")
    launch = next(line for line in text.splitlines() if "<<<" in line)
    path.write_text(text.replace(launch, around.replace("LAUNCH", launch)))
    roles = {arg.name: arg.role for arg in user_kernel(path, UserOptions()).signature.arguments}
    assert (roles["alpha"], roles["beta"]) == ("alpha", "beta")
