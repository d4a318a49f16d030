"""Rows that are a constant apart, in kernels that take M, N and K."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.errors import SignatureError
from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel

PRODUCT = """
#define LD 512
#define ROW(i) ((i) * LD)
constexpr int PITCH = 512;
__global__ void product(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.f;
    for (int k = 0; k < K; ++k) sum += A[OF_A + k] * B[OF_B + col];
    C[OF_C + col] = sum;
}
void run(const float* a, const float* b, float* c, int m, int n, int k) {
    product<<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16)>>>(a, b, c, m, n, k);
}
"""


@pytest.mark.parametrize(("a", "b", "c", "fixed"), [
    ("row * LD", "k * LD", "row * LD", True),
    ("ROW(row)", "PITCH * k", "LD * row", True),
    ("row * 512", "k * 512", "row * 512", True),
    ("row * K", "k * N", "row * LD", False),  # a mistake in C, more likely
    ("row * LD", "k * LD", "row * N", False),
    ("row * K", "k * N", "row * N", False),
])  # fmt: skip
def test_pitches(tmp_path: Path, a: str, b: str, c: str, fixed: bool) -> None:
    path = tmp_path / "product.cu"
    path.write_text(PRODUCT.replace("OF_A", a).replace("OF_B", b).replace("OF_C", c))
    found = user_kernel(path, UserOptions()).signature.fixed
    assert dict(found) == (dict.fromkeys("MNK", 512) if fixed else {})


def test_rows_that_would_overlap(tmp_path: Path) -> None:
    path = tmp_path / "product.cu"
    source = PRODUCT.replace("OF_A", "row * LD").replace("OF_B", "k * LD").replace("OF_C", "row * LD")
    for columns, fixed in ((512, True), (600, False)):
        path.write_text(source.replace("(a, b, c, m, n, k);", f"(a, b, c, 300, {columns}, 200);"))
        assert bool(user_kernel(path, UserOptions()).signature.fixed) == fixed


ROWS = """
#define SIDE 256
__global__ void product(ARRAYS, int n) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= n || col >= n) return;
    float sum = 0.f;
    for (int k = 0; k < n; ++k) sum += A[row][k] * B[k][col];
    C[row][col] = sum;
}
void run(float (*a)[SIDE], float (*b)[SIDE], float (*c)[SIDE], int n) {
    product<<<dim3((n + 15) / 16, (n + 15) / 16), dim3(16, 16)>>>(a, b, c, n);
}
"""


@pytest.mark.parametrize("arrays", [
    "float A[][SIDE], float B[][SIDE], float C[][SIDE]",
    "const float (*A)[SIDE], const float (*B)[SIDE], float (*C)[SIDE]",
    "float A[SIDE][SIDE], float B[SIDE][SIDE], float C[SIDE][256]",
])  # fmt: skip
def test_rows_as_types(tmp_path: Path, arrays: str) -> None:
    path = tmp_path / "product.cu"
    path.write_text(ROWS.replace("ARRAYS", arrays))
    signature = user_kernel(path, UserOptions()).signature
    assert dict(signature.fixed) == dict.fromkeys("MNK", 256)
    assert not signature.takes_table("A")


def test_arrays_of_pointers_have_no_constant_rows(tmp_path: Path) -> None:
    path = tmp_path / "product.cu"
    path.write_text(ROWS.replace("ARRAYS", "float** A, float** B, float** C"))
    with pytest.raises(SignatureError, match="a pointer to each row"):
        user_kernel(path, UserOptions())


def test_macros_behind_the_kernel_are_not_its_parameters(tmp_path: Path) -> None:
    """Host code below it has ``#define N 512``; the kernel's N is a parameter."""
    path = tmp_path / "product.cu"
    source = PRODUCT.replace("OF_A", "row * K").replace("OF_B", "k * N").replace("OF_C", "row * N")
    behind = "#define M 512\n#define N 512\n#define K 512\nvoid run("
    path.write_text(source.replace("void run(", behind).replace("(a, b, c, m, n, k);", "(a, b, c, M, N, K);"))
    assert not user_kernel(path, UserOptions()).signature.fixed
